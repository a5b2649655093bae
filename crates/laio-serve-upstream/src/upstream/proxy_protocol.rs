//! The header that tells an upstream the addresses of the client's connection (the PROXY protocol,
//! `doc/proxy-protocol.txt` of HAProxy, sections 2.1 and 2.2).

use laio_serve_base::options::ProxyProtocol;
use std::net::{IpAddr, SocketAddr};

/// The first bytes of a header of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, and the command: the connection is the proxy's own, or a client's.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
/// Address families, all with streams.
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;

/// Returns the header for a client's connection. `ends` are the server's and the client's address; clients
/// of Unix sockets have none.
pub fn header(version: ProxyProtocol, ends: [Option<SocketAddr>; 2]) -> Vec<u8> {
    let [Some(own), Some(client)] = ends else {
        return of_the_server(version);
    };
    let ips = [client, own].map(|end| end.ip().to_canonical());
    let [source, destination] = match ips {
        [IpAddr::V4(_), IpAddr::V4(_)] | [IpAddr::V6(_), IpAddr::V6(_)] => ips,
        // Both must be of one family.
        _ => ips.map(|ip| match ip {
            IpAddr::V4(ip) => IpAddr::V6(ip.to_ipv6_mapped()),
            ip => ip,
        }),
    };
    let ports = [client.port(), own.port()];
    match version {
        ProxyProtocol::V1 => {
            let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            let [from, to] = ports;
            format!("PROXY {family} {source} {destination} {from} {to}\r\n").into_bytes()
        }
        ProxyProtocol::V2 => {
            let (family, length) = match source {
                IpAddr::V4(_) => (TCP_OVER_IPV4, 12),
                IpAddr::V6(_) => (TCP_OVER_IPV6, 36),
            };
            let mut out = second(PROXY, family, length);
            for ip in [source, destination] {
                match ip {
                    IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
                    IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
                }
            }
            ports
                .iter()
                .for_each(|port| out.extend_from_slice(&port.to_be_bytes()));
            out
        }
    }
}

/// Returns the header for a connection without a client that has an address, such as that of a check.
pub(crate) fn of_the_server(version: ProxyProtocol) -> Vec<u8> {
    match version {
        ProxyProtocol::V1 => b"PROXY UNKNOWN\r\n".to_vec(),
        ProxyProtocol::V2 => second(LOCAL, 0, 0),
    }
}

/// Returns the beginning of a header of version 2.
fn second(command: u8, family: u8, length: u16) -> Vec<u8> {
    let mut out = SIGNATURE.to_vec();
    out.extend([command, family]);
    out.extend(length.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(own: &str, client: &str) -> [Option<SocketAddr>; 2] {
        [own, client].map(|end| Some(end.parse().unwrap()))
    }

    fn v1(own: &str, client: &str) -> String {
        String::from_utf8(header(ProxyProtocol::V1, ends(own, client))).unwrap()
    }

    #[test]
    fn version_1() {
        // The example of section 2.1.
        assert_eq!(
            v1("192.168.0.11:443", "192.168.0.1:56324"),
            "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n"
        );
        assert_eq!(
            v1("[::1]:80", "[fe80::1]:9"),
            "PROXY TCP6 fe80::1 ::1 9 80\r\n"
        );
        assert_eq!(
            v1("[::ffff:10.0.0.1]:80", "[::ffff:10.0.0.2]:9"),
            "PROXY TCP4 10.0.0.2 10.0.0.1 9 80\r\n"
        );
        assert_eq!(
            v1("[2001:db8::1]:80", "10.0.0.2:9"),
            "PROXY TCP6 ::ffff:10.0.0.2 2001:db8::1 9 80\r\n"
        );
        assert_eq!(header(ProxyProtocol::V1, [None; 2]), b"PROXY UNKNOWN\r\n");
    }

    #[test]
    fn version_2() {
        let four = header(ProxyProtocol::V2, ends("10.0.0.1:443", "10.0.0.2:258"));
        let expected =
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\0\0\x02\x0a\0\0\x01\x01\x02\x01\xbb";
        assert_eq!(four, expected);
        let six = header(ProxyProtocol::V2, ends("[::1]:80", "[::2]:9"));
        assert_eq!((six.len(), &six[12..16]), (16 + 36, &b"\x21\x21\0\x24"[..]));
        let own = header(ProxyProtocol::V2, [None; 2]);
        assert_eq!(own, b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
    }
}
