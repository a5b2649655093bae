//! The static table of QPACK (RFC 9204, appendix A).

/// Fields by index: names and values.
#[rustfmt::skip]
pub(super) const FIELDS: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

/// The indices of the fields, ordered by the lengths of their names.
struct ByLength {
    indices: [u8; FIELDS.len()],
    /// Where the names of each length start in `indices`.
    starts: [u8; LONGEST_NAME + 2],
}

/// The length of the longest name.
const LONGEST_NAME: usize = "access-control-allow-credentials".len();

static BY_LENGTH: ByLength = by_length();

const fn by_length() -> ByLength {
    let mut sorted = ByLength {
        indices: [0; FIELDS.len()],
        starts: [0; LONGEST_NAME + 2],
    };
    let (mut length, mut count) = (0, 0);
    while length <= LONGEST_NAME {
        sorted.starts[length] = count as u8;
        let mut index = 0;
        while index < FIELDS.len() {
            if FIELDS[index].0.len() == length {
                sorted.indices[count] = index as u8;
                count += 1;
            }
            index += 1;
        }
        length += 1;
    }
    sorted.starts[length] = count as u8;
    assert!(count == FIELDS.len(), "a name is longer than the longest");
    sorted
}

/// What the table has of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The index of the field.
    Field(usize),
    /// The index of a field with the same name.
    Name(usize),
    Nothing,
}

/// Returns what the table has of a field, whose name is in lower case.
pub(super) fn find(name: &[u8], value: &[u8]) -> Found {
    let mut found = Found::Nothing;
    let of_length = match BY_LENGTH.starts.get(name.len()..name.len() + 2) {
        Some(&[start, end]) => &BY_LENGTH.indices[usize::from(start)..usize::from(end)],
        _ => return found,
    };
    for index in of_length.iter().map(|&index| usize::from(index)) {
        let (own, own_value) = FIELDS[index];
        if own.as_bytes() != name {
            continue;
        }
        if own_value.as_bytes() == value {
            return Found::Field(index);
        }
        if found == Found::Nothing {
            found = Found::Name(index);
        }
    }
    found
}
