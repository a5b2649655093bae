//! Properties of what the cache of responses reads from upstreams and clients.

use super::policy::{age_on_arrival, elements, freshness, is_known_to_client};
use crate::proxy::upstream_head::Field;

/// The longest lifetime that RFC 9111 suggests.
const LONGEST: u64 = 1 << 31;
/// Seconds since 1970.
const NOW: i64 = 1_800_000_000;

/// Fields of a response, a line each: times have a limit, and a response that forbids it is never stored. The first line
/// is the `If-None-Match` of a client.
pub fn response_cache(bytes: &[u8]) {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let tags = lines.next().unwrap_or_default();
    let mut fields: Vec<Field> = lines.map(field).collect();

    let stored = freshness(200, &fields, NOW);
    if let Some(stored) = stored {
        let times = [stored.lifetime, stored.while_revalidate, stored.if_error];
        assert!(times.iter().all(|time| *time <= LONGEST));
    }
    age_on_arrival(&fields, NOW);
    is_known_to_client(Some(tags.to_vec()), Some(tags), &fields);
    assert!(elements(tags).all(|part| !part.is_empty() && part == part.trim_ascii()));

    let forbidding = [
        (&b"cache-control"[..], &b"No-Store"[..]),
        (b"Cache-Control", b"public , private=\"x\""),
        (b"SET-COOKIE", b""),
        (b"vary", b"a, *"),
    ];
    for (name, value) in forbidding {
        fields.push((name.into(), value.into()));
        assert_eq!(freshness(200, &fields, NOW), None);
        fields.pop();
    }
    assert_eq!(freshness(200, &fields, NOW), stored);
    assert_eq!(freshness(206, &fields, NOW), None);
}

/// The first byte chooses the name.
fn field(line: &[u8]) -> Field {
    const NAMES: [&str; 7] = [
        "Cache-Control",
        "Expires",
        "Date",
        "Age",
        "Vary",
        "ETag",
        "Last-Modified",
    ];
    let (&choice, value) = line.split_first().unwrap_or((&0, b""));
    let name = NAMES[usize::from(choice) % NAMES.len()];
    (name.as_bytes().into(), value.into())
}
