//! The syntax of listen addresses: `127.0.0.1:80`, `[::]:80`, `unix:/run/laio.sock,mode=660`,
//! `systemd`, `systemd:NAME`; the prefix `tls:` encrypts the connections, and `proxy:` before it makes them begin with
//! the header of a proxy.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// An address to listen on, with or without TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address.
    pub address: ListenAddress,
    /// Whether connections are encrypted.
    pub tls: bool,
    /// Whether connections begin with a header of the PROXY protocol, which names the client.
    pub proxy_header: bool,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// An internet address. With port 0 the kernel chooses a free port.
    Inet(SocketAddr),
    /// A Unix socket.
    Unix {
        /// The path. One that begins with `@` is an abstract name, which is not in any file system.
        path: PathBuf,
        /// The permissions, of which only writing matters; `None` is what the process's umask
        /// leaves.
        mode: Option<u32>,
    },
    /// Inherited listening sockets: those with this name, or all.
    Inherited(Option<String>),
}

impl Listen {
    /// Returns the default addresses: the inherited sockets if there are any, or else port 8080 of
    /// the loopback interface.
    pub fn usual() -> Vec<Listen> {
        if crate::inherited::any() {
            let address = ListenAddress::Inherited(None);
            return vec![Listen {
                address,
                tls: false,
                proxy_header: false,
            }];
        }
        vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)).into()]
    }

    /// Like [`Listen::usual`], with TLS.
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

    /// Like [`Listen::usual`], for names that the server gets certificates for: the inherited sockets with the names
    /// `https` and `http`; or the ports 443 and 80 of all interfaces; or if `local` is set, 8443 and 8080 of the
    /// loopback interface.
    pub fn usual_https(local: bool) -> Vec<Listen> {
        // Those of a server that passes its sockets on are found by their addresses.
        if crate::inherited::any() && !crate::inherited::from_server() {
            let named = [("https", true), ("http", false)].map(|(name, tls)| {
                let address = ListenAddress::Inherited(Some(name.to_owned()));
                crate::inherited::has(name).then_some(Listen {
                    address,
                    tls,
                    proxy_header: false,
                })
            });
            let named: Vec<_> = named.into_iter().flatten().collect();
            return if named.is_empty() {
                Listen::usual_tls()
            } else {
                named
            };
        }
        let (ip, https, http) = if local {
            (IpAddr::V4(Ipv4Addr::LOCALHOST), 8443, 8080)
        } else if !has_ipv6() {
            // A machine may have no IPv6.
            (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 443, 80)
        } else {
            (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 443, 80)
        };
        let [mut encrypted, plain] =
            [https, http].map(|port| Listen::from(SocketAddr::from((ip, port))));
        encrypted.tls = true;
        vec![encrypted, plain]
    }

    /// Returns the internet address, if it is one.
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
            proxy_header: false,
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        let (rest, proxy_header) = match text.strip_prefix("proxy:") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (rest, tls) = match rest.strip_prefix("tls:") {
            Some(rest) => (rest, true),
            None => (rest, false),
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
        Ok(Listen {
            address,
            tls,
            proxy_header,
        })
    }
}

fn unix(text: &str) -> Result<ListenAddress, String> {
    let (path, mode) = match text.rsplit_once(",mode=") {
        Some((path, digits)) => {
            let mode = u32::from_str_radix(digits, 8).ok();
            let mode = mode.filter(|mode| *mode <= 0o777);
            (
                path,
                Some(mode.ok_or("the mode must be octal, such as 660")?),
            )
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
    let hint = if text.starts_with("proxy:") {
        "; proxy: goes before tls:"
    } else if text.contains("://") {
        "; for TLS write tls: before the address"
    } else if text.parse::<u16>().is_ok() {
        "; a port alone does not select an interface: use 127.0.0.1 for this machine only, [::] for all"
    } else {
        ""
    };
    format!(
        "write ADDRESS:PORT with a numeric address, unix:PATH, systemd or systemd:NAME, and tls: before it for TLS, and proxy: before that for the PROXY protocol{hint}"
    )
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.proxy_header {
            f.write_str("proxy:")?;
        }
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

fn has_ipv6() -> bool {
    UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}

/// Returns the name of an abstract socket, if the path is one.
pub(crate) fn abstract_name(path: &Path) -> Option<&[u8]> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().strip_prefix(b"@")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_formatting_and_parsing() {
        for text in [
            "127.0.0.1:80",
            "[::1]:0",
            "tls:[::]:443",
            "unix:/run/a b.sock",
            "tls:unix:x,mode=660",
            "unix:@name",
            "systemd",
            "tls:systemd:https",
            "proxy:127.0.0.1:80",
            "proxy:tls:[::]:443",
            "proxy:tls:unix:x,mode=660",
        ] {
            let listen: Listen = text.parse().unwrap();
            assert_eq!(listen.to_string(), text);
            assert_eq!(listen.tls, text.contains("tls:"));
            assert_eq!(listen.proxy_header, text.starts_with("proxy:"));
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
            ("tls:proxy:[::]:1", "before tls:"),
        ] {
            let error = text.parse::<Listen>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
