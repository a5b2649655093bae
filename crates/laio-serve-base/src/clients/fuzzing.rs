//! What clients can forge in the fields of trusted proxies.

use super::{Client, TrustedProxies};
use crate::options::Clients;
use laio_http::{Limits, Parsed, parse};
use std::net::IpAddr;

/// Whatever the client has sent, it is the address that the proxy has appended, in the same line or in a line of its
/// own. The first byte chooses the field and the address.
pub fn trusted_proxies(bytes: &[u8]) {
    let Some((&choice, forged)) = bytes.split_first() else {
        return;
    };
    let (field, appended) = match choice % 4 {
        0 => ("X-Forwarded-For", "203.0.113.7"),
        1 => ("X-Forwarded-For", "2001:db8::7"),
        2 => ("Forwarded", "for=203.0.113.7;proto=https"),
        _ => ("Forwarded", "by=_x; For=\"[2001:db8::7]:80\""),
    };
    let client: IpAddr = match choice % 2 {
        0 => [203, 0, 113, 7].into(),
        _ => [0x2001, 0xdb8, 0, 0, 0, 0, 0, 7].into(),
    };
    let proxies = ["10.0.0.0/8", "::1", "unix"].map(|text| text.parse().expect("networks"));
    let trusted = TrustedProxies::new(&Clients {
        proxies: proxies.to_vec(),
        field: field.to_owned(),
    });
    let trusted = trusted.expect("the name of a field");
    // Without what the proxy appends, any client may come out.
    client_of(&trusted, field, &[forged]);
    let line = [forged, b", ", appended.as_bytes()].concat();
    for lines in [&[&line[..]][..], &[forged, appended.as_bytes()]] {
        if let Some(found) = client_of(&trusted, field, lines) {
            assert_eq!(found.address, Some(client));
        }
    }
}

/// Returns the client of a request with these lines, or none if no request can have them.
fn client_of(trusted: &TrustedProxies, field: &str, lines: &[&[u8]]) -> Option<Client> {
    let mut head = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
    for line in lines {
        // It would be another line.
        if line.iter().any(|byte| b"\r\n".contains(byte)) {
            return None;
        }
        head.extend_from_slice(field.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(line);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    match parse(&head, &Limits::DEFAULT) {
        Ok(Parsed::Complete { request, .. }) => {
            let peer = trusted.peer(Some([10, 0, 0, 1].into()));
            Some(trusted.client(&request, &peer))
        }
        _ => None,
    }
}
