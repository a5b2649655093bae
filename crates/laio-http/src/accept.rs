//! Media types that a client accepts (RFC 9110, section 12.5.1).

use crate::Headers;
use crate::encoding::quality;
use crate::text::list_members;

/// Whether the client rates the media type `wanted` above `other`, by its `Accept` fields.
///
/// ```
/// use laio_http::{Limits, Parsed, parse, prefers};
///
/// let head = b"GET / HTTP/1.0\r\nAccept: text/html;q=0.5, application/json\r\n\r\n";
/// let Parsed::Complete { request, .. } = parse(head, &Limits::DEFAULT)? else { panic!() };
/// assert!(prefers(&request.headers, "application/json", "text/html"));
/// assert!(!prefers(&request.headers, "text/html", "application/json"));
/// # Ok::<(), laio_http::Rejection>(())
/// ```
#[must_use]
pub fn prefers(headers: &Headers<'_>, wanted: &str, other: &str) -> bool {
    weight(headers, wanted) > weight(headers, other)
}

/// Returns the weight, in thousandths, of the most specific range that contains the type. Without
/// an `Accept` field, all types have the same weight.
fn weight(headers: &Headers<'_>, media_type: &str) -> u16 {
    let mut best = (0, 0);
    let kind = media_type.split('/').next().unwrap_or_default();
    for member in headers.all("Accept").flat_map(list_members) {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let Some(range) = parts.next() else { continue };
        let specific = match range.split_last_chunk::<2>() {
            _ if range.eq_ignore_ascii_case(media_type.as_bytes()) => 3,
            Some((of, b"/*")) if of.eq_ignore_ascii_case(kind.as_bytes()) => 2,
            Some((b"*", b"/*")) => 1,
            _ => continue,
        };
        if specific > best.0 {
            best = (specific, quality(parts));
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Parsed, parse};

    fn json(accept: &str) -> bool {
        let head = format!("GET / HTTP/1.0\r\n{accept}\r\n");
        match parse(head.as_bytes(), &Limits::DEFAULT) {
            Ok(Parsed::Complete { request, .. }) => {
                prefers(&request.headers, "application/json", "text/html")
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_more_specific_range_counts() {
        assert!(json("Accept: application/json\r\n"));
        assert!(json("Accept: text/html;q=0.9, application/*\r\n"));
        assert!(json("Accept: text/html;q=0.1\r\nAccept: */*;q=0.2\r\n"));
        assert!(json("Accept: */*, text/html;q=0\r\n"));
        assert!(!json("Accept: text/html, */*;q=0.8\r\n"));
        assert!(!json("Accept: */*\r\n"));
        assert!(!json("Accept: application/json;q=x, text/*\r\n"));
        assert!(!json(""));
    }
}
