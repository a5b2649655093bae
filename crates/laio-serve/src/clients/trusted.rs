//! The clients that trusted proxies name, in `X-Forwarded-For`, `Forwarded` (RFC 7239) or a field of the same form.

use super::networks::Networks;
use super::{Client, Peer};
use crate::options::{Clients, Limits, Options};
use laio_http::Request;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// The proxies that the server believes.
#[derive(Debug)]
pub(crate) struct TrustedProxies {
    networks: Networks<()>,
    field: String,
}

impl TrustedProxies {
    /// # Errors
    /// Like [`TrustedProxies::new`], and when connections begin with the header of a proxy, but no proxy is trusted.
    pub(crate) fn from_options(options: &Options) -> io::Result<TrustedProxies> {
        let mut named = options.listen.iter().filter(|listen| listen.proxy_header);
        if let Some(listen) = named.next().filter(|_| options.clients.proxies.is_empty()) {
            let text = format!(
                "--listen {listen} expects connections of a proxy, but no proxy is trusted to name its clients: add \
                 --trust-proxy with the network of the proxy, such as 10.0.0.0/8, or unix for a Unix socket"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        TrustedProxies::new(&options.clients)
    }

    /// # Errors
    /// When the field has no valid name.
    pub(crate) fn new(clients: &Clients) -> io::Result<TrustedProxies> {
        let field = clients.field.clone();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if field.is_empty() || !field.bytes().all(is_name) {
            let text = format!("{field:?} is not the name of a header field: try X-Forwarded-For");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let networks = clients.proxies.iter().map(|&network| (network, ()));
        Ok(TrustedProxies {
            networks: Networks::new(networks),
            field,
        })
    }

    /// Returns the peer of a connection with this address, or of a Unix socket.
    pub(crate) fn peer(&self, address: Option<IpAddr>) -> Peer {
        Peer {
            client: Client::new(address.map(|address| address.to_canonical())),
            is_trusted: self.networks.of(address).is_some(),
            is_at_socket: true,
        }
    }

    /// Returns the peer of a connection for which a trusted proxy has named this client in a header of the PROXY
    /// protocol.
    pub(crate) fn named(&self, address: IpAddr) -> Peer {
        Peer {
            is_at_socket: false,
            ..self.peer(Some(address))
        }
    }

    /// Returns the client of a request: the peer unless it is trusted, or else the last address of the field
    /// that is not itself a trusted proxy's.
    ///
    /// What stands before that address comes from the client and may be forged. So it ends at the first
    /// entry from the end that is not an address (`unknown`, a name): then the client is the proxy that
    /// has appended the entry.
    pub(crate) fn client(&self, request: &Request<'_>, peer: &Peer) -> Client {
        if !peer.is_trusted {
            return peer.client.clone();
        }
        let lines: Vec<&[u8]> = request.headers.all(&self.field).collect();
        let is_forwarded = self.field.eq_ignore_ascii_case("Forwarded");
        let entries = lines
            .iter()
            .rev()
            .flat_map(|line| entries(line, is_forwarded));
        let mut client = None;
        for entry in entries.take(Limits::PROXIES) {
            let entry = if is_forwarded {
                node(entry)
            } else {
                Some(entry)
            };
            let Some(address) = entry.and_then(address) else {
                break;
            };
            client = Some(address);
            if self.networks.of(client).is_none() {
                break;
            }
        }
        match client {
            Some(address) => Client::new(Some(address)),
            None => peer.client.clone(),
        }
    }
}

/// Returns the entries of a list, the last one first. In `Forwarded`, an entry may have quoted strings. They are looked
/// for from the end, because a client could begin one that hides what a proxy has appended.
fn entries(line: &[u8], is_forwarded: bool) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    let entries = line.rsplit(move |&byte| {
        quoted ^= is_forwarded && byte == b'"';
        byte == b',' && !quoted
    });
    entries.map(<[u8]>::trim_ascii)
}

/// Returns the value of `for` in an element of `Forwarded`, without quotes.
fn node(element: &[u8]) -> Option<&[u8]> {
    let pairs = element.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    let mut values = pairs.filter_map(|pair| {
        let (name, value) = pair.split_at_checked(4)?;
        name.eq_ignore_ascii_case(b"for=").then_some(value)
    });
    let value = values.next()?;
    match value {
        [b'"', inner @ .., b'"'] => Some(inner),
        value => Some(value),
    }
}

/// Parses an address, which may have a port; an IPv6 address then has brackets.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let without_brackets = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = without_brackets.unwrap_or(text).parse().ok();
    let address = address.or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()))?;
    Some(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_http::{Limits as HeadLimits, Parsed, parse};

    fn client(field: &str, peer: &str, lines: &[&str]) -> String {
        let proxies = ["10.0.0.0/8", "::1", "unix"].map(|text| text.parse().unwrap());
        let trusted = TrustedProxies::new(&Clients {
            proxies: proxies.to_vec(),
            field: field.to_owned(),
        })
        .unwrap();
        let mut head = "GET / HTTP/1.1\r\nHost: a\r\n".to_owned();
        for line in lines {
            head += &format!("{field}: {line}\r\n");
        }
        head += "\r\n";
        let peer = trusted.peer(peer.parse().ok());
        match parse(head.as_bytes(), &HeadLimits::DEFAULT).unwrap() {
            Parsed::Complete { request, .. } => trusted.client(&request, &peer).name.to_string(),
            Parsed::Partial => panic!("the head is incomplete"),
        }
    }

    #[test]
    fn lists_of_addresses() {
        let of = |peer: &str, lines: &[&str]| client("X-Forwarded-For", peer, lines);
        assert_eq!(of("192.0.2.1", &["198.51.100.1"]), "192.0.2.1");
        for (lines, expected) in [
            (&["198.51.100.1"][..], "198.51.100.1"),
            (&["6.6.6.6, 198.51.100.1"], "198.51.100.1"),
            (&["6.6.6.6, 198.51.100.1, 10.1.1.1"], "198.51.100.1"),
            (&["6.6.6.6", "198.51.100.1", "10.1.1.1"], "198.51.100.1"),
            (&["6.6.6.6,::ffff:198.51.100.1"], "198.51.100.1"),
            (&["198.51.100.1:1234"], "198.51.100.1"),
            (&["[2001:db8::1]:9"], "2001:db8::1"),
            (&["2001:db8::1"], "2001:db8::1"),
            (&["10.2.2.2,10.3.3.3"], "10.2.2.2"),
            (&["6.6.6.6, unknown"], "10.0.0.1"),
            (&["6.6.6.6, , 10.3.3.3"], "10.3.3.3"),
            (&["6.6.6.6, x, 10.3.3.3"], "10.3.3.3"),
            (&["\"6.6.6.6, 198.51.100.1"], "198.51.100.1"),
            (&[""], "10.0.0.1"),
            (&[], "10.0.0.1"),
        ] {
            assert_eq!(of("10.0.0.1", lines), expected, "{lines:?}");
        }
        assert_eq!(of("-", &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(of("-", &[]), "-");
        let many = "10.0.0.1,".repeat(Limits::PROXIES);
        assert_eq!(of("::1", &[&format!("6.6.6.6,{many}10.0.0.9")]), "10.0.0.1");
    }

    #[test]
    fn forwarded_elements() {
        let of = |lines: &[&str]| client("Forwarded", "10.0.0.1", lines);
        for (line, expected) in [
            ("for=198.51.100.1;proto=http;by=10.0.0.1", "198.51.100.1"),
            ("by=1.1.1.1; For=\"[2001:db8::1]:99\"", "2001:db8::1"),
            ("for=6.6.6.6, for=198.51.100.1", "198.51.100.1"),
            ("for=198.51.100.1;host=\"a,for=6.6.6.6\"", "198.51.100.1"),
            (
                "for=198.51.100.1;host=\"a\\\",for=6.6.6.6\"",
                "198.51.100.1",
            ),
            ("host=\", for=198.51.100.1;host=\"a\"", "198.51.100.1"),
            ("for=6.6.6.6, for=_hidden", "10.0.0.1"),
            ("for=6.6.6.6, proto=https", "10.0.0.1"),
            ("for=6.6.6.6, for=\"", "10.0.0.1"),
        ] {
            assert_eq!(of(&[line]), expected, "{line}");
        }
    }

    #[test]
    fn names_of_fields() {
        for bad in ["", "A B", "A:", "É"] {
            let clients = Clients {
                field: bad.to_owned(),
                ..Clients::default()
            };
            assert!(TrustedProxies::new(&clients).is_err(), "{bad}");
        }
    }
}
