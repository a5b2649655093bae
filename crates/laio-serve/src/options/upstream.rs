//! Servers and programs behind this one.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A server or program that answers for the paths below a prefix.
///
/// ```
/// use laio_serve::{Protocol, Upstream, UpstreamAddress};
///
/// let api = Upstream::http("/api=http://127.0.0.1:9000/v1")?;
/// assert_eq!(api.prefix, "/api");
/// assert_eq!(api.protocol, Protocol::Http { path: Some("/v1".to_owned()) });
/// let app = Upstream::fastcgi("/app=unix:/run/app.sock")?;
/// assert_eq!(app.address, UpstreamAddress::Unix("/run/app.sock".into()));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Paths that begin with these segments; the longest prefix that fits wins.
    pub prefix: String,
    /// What it speaks.
    pub protocol: Protocol,
    /// Where it is.
    pub address: UpstreamAddress,
    /// Whom to trust, if it is spoken to over TLS.
    pub tls: Option<Trust>,
}

/// Who may sign the certificate of an upstream. It must be for the host that the address names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those that the system trusts.
    #[default]
    System,
    /// Those of a PEM file only.
    File(PathBuf),
}

/// What an upstream speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http {
        /// What takes the place of the prefix; none leaves the path as it is.
        path: Option<String>,
    },
    /// FastCGI, in the role of a responder.
    FastCgi,
}

/// Where an upstream is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamAddress {
    /// A host, by name or number, and a port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Upstream {
    /// From `PREFIX=http://HOST:PORT[/PATH]`, the same with `https`, or `PREFIX=http+unix:SOCKET[:/PATH]`.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn http(text: &str) -> Result<Upstream, String> {
        let (prefix, to) = split(text)?;
        let tls = to.starts_with("https://");
        let (address, path) = if let Some(rest) = to.strip_prefix("http+unix:") {
            let (socket, path) = match rest.split_once(':') {
                Some((socket, path)) => (socket, Some(path)),
                None => (rest, None),
            };
            (unix(socket)?, path)
        } else if let Some(rest) = to
            .strip_prefix("http://")
            .or_else(|| to.strip_prefix("https://"))
        {
            let slash = rest.find('/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at(slash);
            let port = if tls { 443 } else { 80 };
            (tcp(authority, Some(port))?, Some(path))
        } else {
            return Err("write http://HOST:PORT, https://HOST:PORT or http+unix:SOCKET".to_owned());
        };
        let path = path.filter(|path| !path.is_empty()).map(str::to_owned);
        if let Some(path) = &path {
            check_path(path)?;
        }
        Ok(Upstream {
            prefix,
            protocol: Protocol::Http { path },
            address,
            tls: tls.then(Trust::default),
        })
    }

    /// From `PREFIX=HOST:PORT` or `PREFIX=unix:SOCKET`.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn fastcgi(text: &str) -> Result<Upstream, String> {
        let (prefix, to) = split(text)?;
        let address = match to.strip_prefix("unix:") {
            Some(socket) => unix(socket)?,
            None => tcp(to, None)?,
        };
        Ok(Upstream {
            prefix,
            protocol: Protocol::FastCgi,
            address,
            tls: None,
        })
    }
}

fn split(text: &str) -> Result<(String, &str), String> {
    let wrong = || "write PREFIX=ADDRESS, such as /api=127.0.0.1:9000".to_owned();
    let (prefix, to) = text.split_once('=').ok_or_else(wrong)?;
    check_path(prefix)?;
    Ok((prefix.to_owned(), to))
}

fn check_path(path: &str) -> Result<(), String> {
    let strange = |byte: u8| !byte.is_ascii_graphic() || matches!(byte, b'?' | b'#');
    match path.starts_with('/') && !path.bytes().any(strange) {
        true => Ok(()),
        false => Err(format!(
            "{path:?} is no path: it begins with a slash and has no query, and what is not plain is \
             percent-encoded"
        )),
    }
}

fn unix(socket: &str) -> Result<UpstreamAddress, String> {
    match socket.starts_with('/') {
        true => Ok(UpstreamAddress::Unix(socket.into())),
        false => Err(format!("{socket:?} is no absolute path of a socket")),
    }
}

fn tcp(authority: &str, port: Option<u16>) -> Result<UpstreamAddress, String> {
    let wrong = || format!("{authority:?} is no host and port");
    let colon = authority
        .rfind(':')
        .filter(|&colon| !authority[colon..].contains(']'));
    let (host, port) = match colon {
        Some(colon) => {
            let port = authority[colon + 1..].parse().map_err(|_| wrong())?;
            (&authority[..colon], port)
        }
        None => (authority, port.ok_or_else(wrong)?),
    };
    let host = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(host) => host,
        None if host.contains(':') => return Err(format!("{} (brackets?)", wrong())),
        None => host,
    };
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    if host.is_empty() || port == 0 || !host.bytes().all(good) {
        return Err(wrong());
    }
    Ok(UpstreamAddress::Tcp(host.to_owned(), port))
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamAddress::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            UpstreamAddress::Tcp(host, port) => write!(f, "{host}:{port}"),
            UpstreamAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The named limits of what goes to and comes from upstreams. Those that are counts hold for each worker and
/// upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamLimits {
    /// Connections; further requests wait.
    pub connections: usize,
    /// Connections kept open for the next request.
    pub idle: usize,
    /// Requests that wait for a connection; more are 503.
    pub queue: usize,
    /// Connections that were upgraded and are tunnels now (WebSocket); more are 503.
    pub tunnels: usize,
    /// Bytes of a request body; more is 413.
    pub body_bytes: u64,
    /// For a request to wait for a connection that is free; then 503.
    pub queue_time: Duration,
    /// For a connection to be made; then 504.
    pub connect_time: Duration,
    /// From the end of the request to the head of the answer; then 504.
    pub first_byte_time: Duration,
    /// Between two pieces of a request or an answer; then the answer breaks off.
    pub between_time: Duration,
    /// For the whole exchange; then the answer breaks off. `None` is no such limit.
    pub whole_time: Option<Duration>,
    /// For a connection kept open to stay unused.
    pub idle_time: Duration,
    /// For a tunnel to be quiet.
    pub tunnel_time: Duration,
    /// Whether what clients say about themselves (`X-Forwarded-For`, …) is believed and passed on: for a server
    /// that only other proxies can reach.
    pub trust_forwarded: bool,
    /// The directory in which bodies without a length wait until they are whole, in files without a name, where they
    /// are for a FastCGI program and longer than [`UpstreamLimits::PIECE`]. None: in memory.
    pub spool: Option<PathBuf>,
}

impl UpstreamLimits {
    /// Bytes of the head of an answer; more is 502.
    pub const HEAD: laio_http::Limits = laio_http::Limits {
        head_bytes: 32 * 1024,
        target_bytes: 0,
        headers: laio_http::Limits::HEADERS_MAX,
    };
    /// Bytes of a body held at a time, in either direction.
    pub const PIECE: usize = 64 * 1024;
    /// Bytes of bodies that wait in memory, without a directory to wait in, for each worker and upstream. A body
    /// that is longer is 413, one that finds no room 503.
    pub const SPOOLED: u64 = 64 << 20;
    /// Interim answers (1xx) passed over before an answer.
    pub const INTERIM: usize = 8;
    /// Bytes that a program may say to the log about one request.
    pub const STDERR: usize = 4 * 1024;
    /// How often a client that waits is looked after: if it has gone, the upstream need not go on.
    pub const LOOK: Duration = Duration::from_secs(1);
    /// How often names of upstreams are looked up.
    pub const LOOK_UP: Duration = Duration::from_secs(30);
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        UpstreamLimits {
            connections: 128,
            idle: 32,
            queue: 512,
            tunnels: 1024,
            body_bytes: 1 << 30,
            queue_time: Duration::from_secs(10),
            connect_time: Duration::from_secs(5),
            first_byte_time: Duration::from_secs(60),
            between_time: Duration::from_secs(60),
            whole_time: None,
            idle_time: Duration::from_secs(30),
            tunnel_time: Duration::from_secs(300),
            trust_forwarded: false,
            spool: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let http = |text: &str| Upstream::http(text).map(|to| (to.address, to.protocol));
        let path = |path: Option<&str>| Protocol::Http {
            path: path.map(str::to_owned),
        };
        let tcp = |host: &str, port| UpstreamAddress::Tcp(host.to_owned(), port);
        let unix = |socket: &str| UpstreamAddress::Unix(socket.into());
        for (text, expected) in [
            ("/=http://a.b:9", (tcp("a.b", 9), path(None))),
            ("/x=http://a", (tcp("a", 80), path(None))),
            ("/x=https://a/b", (tcp("a", 443), path(Some("/b")))),
            ("/x=http://[::1]:9/", (tcp("::1", 9), path(Some("/")))),
            ("/x=http+unix:/a/b", (unix("/a/b"), path(None))),
            ("/x=http+unix:/a:/p/q", (unix("/a"), path(Some("/p/q")))),
        ] {
            assert_eq!(http(text), Ok(expected), "{text}");
        }
        for bad in [
            "http://a",
            "x=http://a",
            "/x=https:a",
            "/x=https://",
            "/x=a:9",
            "/x=http://",
            "/x=http://::1:9",
            "/x=http://a:0",
            "/x=http://a:b",
            "/x=http://a/?q",
            "/x y=http://a",
            "/x=http+unix:a",
        ] {
            assert!(http(bad).is_err(), "{bad}");
        }
        let fastcgi = |text: &str| Upstream::fastcgi(text).map(|to| to.address.to_string());
        assert_eq!(fastcgi("/a=[::1]:9"), Ok("[::1]:9".to_owned()));
        assert_eq!(fastcgi("/a=unix:/s"), Ok("unix:/s".to_owned()));
        assert!(fastcgi("/a=host").is_err() && fastcgi("/a=unix:s").is_err());
    }
}
