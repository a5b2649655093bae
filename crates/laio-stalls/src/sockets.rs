//! Names the peers of sockets: from an address in memory, or from the tables in `/proc/PID/net`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// The largest table of sockets that is searched, in bytes.
const MAX_TABLE: usize = 1 << 20;

/// The text of a `struct sockaddr`.
pub(crate) fn address(bytes: &[u8]) -> Option<String> {
    let family = u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]);
    let port = || Some(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
    match i32::from(family) {
        1 => {
            let path = bytes.get(2..)?;
            let end = path.iter().skip(1).position(|byte| *byte == 0);
            let path = &path[..end.map_or(path.len(), |end| end + 1)];
            Some(String::from_utf8_lossy(path).replace('\0', "@"))
        }
        2 => {
            let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(SocketAddr::from((Ipv4Addr::from(octets), port()?)).to_string())
        }
        10 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(SocketAddr::from((Ipv6Addr::from(octets), port()?)).to_string())
        }
        _ => None,
    }
}

/// The peer of a socket, by the number of its inode.
pub(crate) fn peer(pid: u32, inode: &str) -> Option<String> {
    let kinds = ["tcp", "udp", "tcp6", "udp6"];
    kinds.iter().find_map(|kind| {
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{kind}")).ok()?;
        let remote = remote(table.get(..table.len().min(MAX_TABLE))?, inode)?;
        Some(format!("{} socket to {remote}", &kind[..3]))
    })
}

fn remote(table: &str, inode: &str) -> Option<String> {
    const REMOTE: usize = 2;
    const INODE: usize = 9;
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        (words.get(INODE) == Some(&inode))
            .then(|| words.get(REMOTE).and_then(|word| parse(word)))?
    })
}

/// Parses `0100007F:0050`: words of the address in the order of the processor, then the port.
fn parse(word: &str) -> Option<String> {
    let (digits, port) = word.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut octets = Vec::new();
    for at in (0..digits.len()).step_by(8) {
        octets.extend(
            u32::from_str_radix(digits.get(at..at + 8)?, 16)
                .ok()?
                .to_ne_bytes(),
        );
    }
    let address = match octets.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).into(),
        _ => Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).into(),
    };
    Some(SocketAddr::new(address, port).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let internet = [2, 0, 0, 80, 127, 0, 0, 1, 0, 0];
        assert_eq!(address(&internet).unwrap(), "127.0.0.1:80");
        assert_eq!(address(b"\x01\0/run/a\0\0").unwrap(), "/run/a");
        assert_eq!(address(b"\x01\0\0name\0").unwrap(), "@name");
        assert_eq!(address(&[2, 0, 1]), None);
        assert_eq!(address(&[]), None);
    }

    #[test]
    fn a_line_of_the_table() {
        let table = "head\n 0: 0100007F:9C40 0100007F:0050 01 0:0 0:0 0 0 0 4711 1\n";
        assert_eq!(remote(table, "4711").unwrap(), "127.0.0.1:80");
        assert_eq!(remote(table, "4"), None);
    }
}
