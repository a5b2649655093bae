//! Where a server listens, as it is written: `127.0.0.1:80`, `[::]:80`, `unix:/run/laio.sock,mode=660`,
//! `systemd`, `systemd:NAME`; with `tls:` before it, the connections are encrypted.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One of the places where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where.
    pub address: ListenAddress,
    /// Whether connections are encrypted.
    pub tls: bool,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// Internet. Port 0 takes a free one.
    Inet(SocketAddr),
    /// A Unix socket.
    Unix {
        /// Its path; one that begins with `@` is a name of the abstract kind, which is in no file system.
        path: PathBuf,
        /// The permissions it gets, of which writing is the one that counts; without, what the process's mask
        /// leaves.
        mode: Option<u32>,
    },
    /// Sockets that listen already, which the process was started with: those of this name, or all.
    Inherited(Option<String>),
}

impl Listen {
    /// Where a server listens that is told nothing: on the sockets that it was started with, if there are
    /// any, and else for this machine only.
    pub fn usual() -> Vec<Listen> {
        if crate::inherited::any() {
            let address = ListenAddress::Inherited(None);
            return vec![Listen {
                address,
                tls: false,
            }];
        }
        vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)).into()]
    }

    /// As [`Listen::usual`], for a server that was given a certificate.
    pub fn usual_tls() -> Vec<Listen> {
        let mut usual = Listen::usual();
        for listen in &mut usual {
            listen.tls = true;
            if let ListenAddress::Inet(address) = &mut listen.address {
                address.set_port(8443);
            }
        }
        usual
    }

    /// The address, if it is one of the internet.
    pub fn inet(&self) -> Option<SocketAddr> {
        match self.address {
            ListenAddress::Inet(address) => Some(address),
            _ => None,
        }
    }
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Listen {
        Listen {
            address: ListenAddress::Inet(address),
            tls: false,
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        let (rest, tls) = match text.strip_prefix("tls:") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let address = if let Some(rest) = rest.strip_prefix("unix:") {
            unix(rest)?
        } else if rest == "systemd" {
            ListenAddress::Inherited(None)
        } else if let Some(name) = rest.strip_prefix("systemd:") {
            ListenAddress::Inherited(Some(name.to_owned()))
        } else {
            ListenAddress::Inet(rest.parse().map_err(|_| explain(rest))?)
        };
        Ok(Listen { address, tls })
    }
}

fn unix(text: &str) -> Result<ListenAddress, String> {
    let (path, mode) = match text.rsplit_once(",mode=") {
        Some((path, digits)) => {
            let mode = u32::from_str_radix(digits, 8).ok();
            let mode = mode.filter(|mode| *mode <= 0o777);
            (path, Some(mode.ok_or("a mode is written like 660")?))
        }
        None => (text, None),
    };
    if path.is_empty() || path == "@" {
        return Err("the path of the Unix socket is missing".to_owned());
    }
    let path = PathBuf::from(path);
    Ok(ListenAddress::Unix { path, mode })
}

fn explain(text: &str) -> String {
    let hint = if text.contains("://") {
        "; for TLS write tls: before the address"
    } else if text.parse::<u16>().is_ok() {
        "; a port alone does not say who may connect: 127.0.0.1 is this machine, [::] is everybody"
    } else {
        ""
    };
    format!(
        "write ADDRESS:PORT with a numeric address, unix:PATH, systemd or systemd:NAME, and tls: before it for TLS{hint}"
    )
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tls {
            f.write_str("tls:")?;
        }
        match &self.address {
            ListenAddress::Inet(address) => address.fmt(f),
            ListenAddress::Unix { path, mode } => {
                write!(f, "unix:{}", path.display())?;
                mode.map_or(Ok(()), |mode| write!(f, ",mode={mode:o}"))
            }
            ListenAddress::Inherited(None) => f.write_str("systemd"),
            ListenAddress::Inherited(Some(name)) => write!(f, "systemd:{name}"),
        }
    }
}

/// The name of an abstract socket, if the path is for one.
pub(crate) fn abstract_name(path: &Path) -> Option<&[u8]> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().strip_prefix(b"@")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_comes_back() {
        for text in [
            "127.0.0.1:80",
            "[::1]:0",
            "tls:[::]:443",
            "unix:/run/a b.sock",
            "tls:unix:x,mode=660",
            "unix:@name",
            "systemd",
            "tls:systemd:https",
        ] {
            let listen: Listen = text.parse().unwrap();
            assert_eq!(listen.to_string(), text);
            assert_eq!(listen.tls, text.starts_with("tls:"));
        }
    }

    #[test]
    fn nonsense_is_explained() {
        for (text, word) in [
            ("8080", "[::]"),
            ("https://a", "tls:"),
            ("localhost:80", "numeric"),
            ("unix:", "path"),
            ("unix:/a,mode=9", "mode"),
            ("unix:/a,mode=1777", "mode"),
            ("tls:tls:[::]:1", "ADDRESS"),
        ] {
            let error = text.parse::<Listen>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
