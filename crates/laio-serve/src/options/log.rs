//! The access log: where it goes, and what it says of which requests.

use super::declare::options;
use laio_http::LogField;
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

/// The destination of the access log.
///
/// ```
/// use laio_serve::{LogTarget, SyslogAddress};
///
/// assert_eq!("-".parse(), Ok(LogTarget::Stdout));
/// let remote = SyslogAddress::Tcp("logs.example".to_owned(), 514);
/// assert_eq!("syslog:tcp://logs.example".parse(), Ok(LogTarget::Syslog(remote)));
/// assert_eq!("./journald".parse(), Ok(LogTarget::File("./journald".into())));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// No log.
    Off,
    /// Standard output.
    Stdout,
    /// A file, created if necessary and appended to.
    File(PathBuf),
    /// A syslog (RFC 5424).
    Syslog(SyslogAddress),
    /// The journal of systemd, at this socket.
    Journald(PathBuf),
}

/// The address of a syslog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyslogAddress {
    /// A Unix socket on this machine.
    Local(PathBuf),
    /// A host and a port; each message is a datagram.
    Udp(String, u16),
    /// A host and a port; each message follows its length (RFC 6587).
    Tcp(String, u16),
}

/// The socket of this machine's syslog.
const SYSLOG: &str = "/dev/log";
/// The socket of the journal.
const JOURNAL: &str = "/run/systemd/journal/socket";
/// The port of syslog.
const PORT: u16 = 514;

impl FromStr for LogTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<LogTarget, String> {
        Ok(match text {
            "" => return Err("the name of the file is missing".to_owned()),
            "-" => LogTarget::Stdout,
            "off" => LogTarget::Off,
            "syslog" => LogTarget::Syslog(SyslogAddress::Local(SYSLOG.into())),
            "journald" => LogTarget::Journald(JOURNAL.into()),
            _ => match (text.strip_prefix("syslog:"), text.strip_prefix("journald:")) {
                (Some(address), _) => LogTarget::Syslog(address.parse()?),
                (_, Some(path)) if path.starts_with('/') => LogTarget::Journald(path.into()),
                (_, Some(path)) => {
                    return Err(format!("{path:?} is not an absolute path of a socket"));
                }
                (None, None) => LogTarget::File(text.into()),
            },
        })
    }
}

/// Parses `/PATH`, `udp://HOST[:PORT]` or `tcp://HOST[:PORT]`.
impl FromStr for SyslogAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<SyslogAddress, String> {
        if text.starts_with('/') {
            return Ok(SyslogAddress::Local(text.into()));
        }
        let wrong = || {
            format!(
                "{text:?} is no address of a syslog: write /PATH, udp://HOST:PORT or tcp://HOST:PORT"
            )
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let colon = rest
            .rfind(':')
            .filter(|&colon| !rest[colon..].contains(']'));
        let (host, port) = match colon {
            Some(colon) => (
                &rest[..colon],
                rest[colon + 1..].parse().map_err(|_| wrong())?,
            ),
            None => (rest, PORT),
        };
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let good = |byte: u8| {
            byte.is_ascii_alphanumeric()
                || b".-_".contains(&byte)
                || (byte == b':' && inner.is_some())
        };
        let host = inner.unwrap_or(host);
        if host.is_empty() || port == 0 || !host.bytes().all(good) {
            return Err(wrong());
        }
        match scheme {
            "udp" => Ok(SyslogAddress::Udp(host.to_owned(), port)),
            "tcp" => Ok(SyslogAddress::Tcp(host.to_owned(), port)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for SyslogAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host, port) = match self {
            SyslogAddress::Local(path) => return write!(f, "syslog:{}", path.display()),
            SyslogAddress::Udp(host, port) => ("udp", host, port),
            SyslogAddress::Tcp(host, port) => ("tcp", host, port),
        };
        if host.contains(':') {
            write!(f, "syslog:{scheme}://[{host}]:{port}")
        } else {
            write!(f, "syslog:{scheme}://{host}:{port}")
        }
    }
}

options! {
    /// What the access log says, and of which requests.
    pub struct LogOptions {
        /// Fields of a line in this order, with --log-format json or logfmt: time, remote, method, target, path,
        /// query, host, status, bytes, duration, duration_us, referer, user_agent, version, tls_version,
        /// tls_cipher, early_data, upstream, req:NAME, resp:NAME [default: the fields of json]
        ///
        /// Several fields are separated by commas. `req:NAME` and `resp:NAME` are header fields of the request and of
        /// the response. `duration` is in seconds, `duration_us` in microseconds. For journald they are the fields
        /// of an entry, whatever the format of its message is.
        #[arg(long = "log-fields", value_name = "FIELDS", value_delimiter = ',')]
        pub fields: Vec<LogField> = Vec::new(),
        /// Log one of N successful responses [default: all]
        ///
        /// Responses with a status of 400 or more are always logged. Each worker counts for itself.
        #[arg(long = "log-sample", value_name = "N")]
        pub sample: Option<NonZeroU32> = None,
        /// Do not log requests for paths that match this glob, as a request writes them; may be repeated.
        ///
        /// A glob with a slash matches whole paths (`/health/**`), one without matches names in every directory.
        #[arg(long = "log-skip", value_name = "GLOB")]
        pub skip: Vec<String> = Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let syslog = |address| Ok(LogTarget::Syslog(address));
        for (text, expected) in [
            ("off", Ok(LogTarget::Off)),
            ("a.log", Ok(LogTarget::File("a.log".into()))),
            ("syslog", syslog(SyslogAddress::Local("/dev/log".into()))),
            ("syslog:/x", syslog(SyslogAddress::Local("/x".into()))),
            (
                "syslog:udp://a.b",
                syslog(SyslogAddress::Udp("a.b".to_owned(), 514)),
            ),
            (
                "syslog:tcp://[::1]:6514",
                syslog(SyslogAddress::Tcp("::1".to_owned(), 6514)),
            ),
            ("journald:/x", Ok(LogTarget::Journald("/x".into()))),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
        }
        for bad in [
            "",
            "syslog:",
            "syslog:x",
            "syslog:tls://a",
            "syslog:udp://",
            "syslog:udp://a:0",
            "syslog:udp://a:b",
            "syslog:udp://a b",
            "syslog:tcp://::1",
            "journald:x",
        ] {
            assert!(bad.parse::<LogTarget>().is_err(), "{bad}");
        }
        let shown = |text: &str| text.parse::<SyslogAddress>().unwrap().to_string();
        assert_eq!(shown("tcp://[::1]:9"), "syslog:tcp://[::1]:9");
        assert_eq!(shown("/x"), "syslog:/x");
    }
}
