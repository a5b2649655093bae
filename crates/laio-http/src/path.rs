//! From the path of a target to a path below a directory, and back (RFC 3986, sections 2.1 and
//! 5.2.4).

use crate::Rejection;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Decodes and normalises the path of a target into `out`, as a path relative to the site's root.
///
/// `out` is cleared first and allocates only when its capacity is too small. It receives the
/// components with one slash between them: none at the beginning or the end, no empty component, no
/// `.` or `..`, no NUL. For the root itself it stays empty.
///
/// - Duplicate slashes are merged, before dot segments are looked at.
/// - `.` and `..` are resolved, percent-encoded ones as well; to go above the root is 400.
/// - `%2F` is 404: the escaped slash is part of a name, and no file name can contain one. Treating
///   it as a separator would let `..%2F` bypass checks of the raw path.
/// - `%00` and `%` without two hexadecimal digits are 400.
///
/// Every other byte may be in a file name and is left as it is, valid UTF-8 or not.
///
/// ```
/// use laio_http::path;
///
/// let mut relative = Vec::new();
/// let normal = path::normalize("/a//b/../%63%20d/", &mut relative)?;
/// assert_eq!(relative, b"a/c d");
/// assert!(normal.trailing_slash && !normal.hidden);
/// # Ok::<(), laio_http::Rejection>(())
/// ```
///
/// # Errors
///
/// The four path rejections above, and [`Rejection::Target`] for a path without leading slash.
pub fn normalize(path: &str, out: &mut Vec<u8>) -> Result<Normal, Rejection> {
    out.clear();
    let path = path
        .as_bytes()
        .strip_prefix(b"/")
        .ok_or(Rejection::Target)?;
    if path.contains(&0) {
        return Err(Rejection::PathNul); // impossible in requests, but possible in other paths
    }
    let mut trailing_slash = true;
    for segment in path.split(|&byte| byte == b'/') {
        let start = out.len();
        if start > 0 {
            out.push(b'/');
        }
        let name_start = out.len();
        decode(segment, out)?;
        trailing_slash = true;
        match &out[name_start..] {
            b"" | b"." => out.truncate(start),
            b".." => {
                if start == 0 {
                    return Err(Rejection::PathAboveRoot);
                }
                let parent = out[..start]
                    .iter()
                    .rposition(|&byte| byte == b'/')
                    .unwrap_or(0);
                out.truncate(parent);
            }
            _ => trailing_slash = false,
        }
    }
    Ok(Normal {
        trailing_slash,
        hidden: is_hidden(out),
    })
}

/// Properties of a normalised path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Normal {
    /// Whether the path ended in a slash, or in a dot segment, so that it names a directory.
    pub trailing_slash: bool,
    /// Whether a component begins with a dot, except `.well-known` in the root (RFC 8615).
    pub hidden: bool,
}

/// Encodes a path for a `Location` field: `/`, the encoded path, another `/` when `directory`, and
/// the query.
///
/// The path comes from [`normalize`], so the result cannot begin with `//`, which would name
/// another host.
///
/// ```
/// let mut location = Vec::new();
/// laio_http::path::encode(b"a b/\xc3\xa9", true, Some("q=1"), &mut location);
/// assert_eq!(location, b"/a%20b/%C3%A9/?q=1");
/// ```
pub fn encode(relative: &[u8], directory: bool, query: Option<&str>, out: &mut Vec<u8>) {
    out.push(b'/');
    push_encoded(relative, PATH, out);
    if directory && !relative.is_empty() {
        out.push(b'/');
    }
    if let Some(query) = query {
        out.push(b'?');
        push_encoded(query.as_bytes(), QUERY, out);
    }
}

/// `pchar` and the slash are not encoded (RFC 3986, section 3.3).
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@')
    .remove(b'/');

/// Existing escapes of the client stay (RFC 3986, section 3.4).
const QUERY: &AsciiSet = &PATH.remove(b'?').remove(b'%');

fn push_encoded(bytes: &[u8], set: &'static AsciiSet, out: &mut Vec<u8>) {
    percent_encode(bytes, set).for_each(|piece| out.extend_from_slice(piece.as_bytes()));
}

fn decode(segment: &[u8], out: &mut Vec<u8>) -> Result<(), Rejection> {
    let mut rest = segment;
    while let Some(escape) = rest.iter().position(|&byte| byte == b'%') {
        out.extend_from_slice(&rest[..escape]);
        match byte_of(&rest[escape + 1..]).ok_or(Rejection::PathEscape)? {
            0 => return Err(Rejection::PathNul),
            b'/' => return Err(Rejection::PathEncodedSlash),
            byte => out.push(byte),
        }
        rest = &rest[escape + 3..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Parses the two hexadecimal digits at the start of a text.
pub(crate) fn byte_of(digits: &[u8]) -> Option<u8> {
    let digit = |place: usize| char::from(*digits.get(place)?).to_digit(16);
    Some((digit(0)? * 16 + digit(1)?) as u8) // 255 at most
}

fn is_hidden(relative: &[u8]) -> bool {
    relative
        .split(|&byte| byte == b'/')
        .enumerate()
        .any(|(depth, name)| name.starts_with(b".") && !(depth == 0 && name == b".well-known"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(path: &str) -> Result<(String, bool), Rejection> {
        let mut out = b"old".to_vec();
        let normal = normalize(path, &mut out)?;
        Ok((String::from_utf8(out).unwrap(), normal.trailing_slash))
    }

    #[test]
    fn paths() {
        for (path, relative, trailing_slash) in [
            ("/", "", true),
            ("//", "", true),
            ("/a", "a", false),
            ("/a/", "a", true),
            ("/a//b///c", "a/b/c", false),
            ("/./a/./b/.", "a/b", true),
            ("/a/b/..", "a", true),
            ("/a/..", "", true),
            ("/a/../b", "b", false),
            ("/a/b/../../c", "c", false),
            ("/a//../b", "b", false),
            ("/a/%2e%2E/b", "b", false),
            ("/a/.%2e/", "", true),
            ("/...", "...", false),
            ("/..a/b..", "..a/b..", false),
            ("/a%20b", "a b", false),
            ("/%C3%A9/é", "é/é", false),
            ("/a\\..\\b", "a\\..\\b", false),
            ("/%25", "%", false),
            ("/%252e%252e", "%2e%2e", false),
            ("/a+b", "a+b", false),
        ] {
            assert_eq!(
                normal(path),
                Ok((relative.to_owned(), trailing_slash)),
                "{path}"
            );
        }
    }

    #[test]
    fn refused_paths() {
        for (path, rejection) in [
            ("", Rejection::Target),
            ("*", Rejection::Target),
            ("a/b", Rejection::Target),
            ("/..", Rejection::PathAboveRoot),
            ("/a/../..", Rejection::PathAboveRoot),
            ("/%2e%2e/a", Rejection::PathAboveRoot),
            ("//../a", Rejection::PathAboveRoot),
            ("/a/../../a", Rejection::PathAboveRoot),
            ("/%00", Rejection::PathNul),
            ("/a.html%00.png", Rejection::PathNul),
            ("/a\0", Rejection::PathNul),
            ("/a%2Fb", Rejection::PathEncodedSlash),
            ("/..%2f..%2fetc", Rejection::PathEncodedSlash),
            ("/%", Rejection::PathEscape),
            ("/%4", Rejection::PathEscape),
            ("/%zz", Rejection::PathEscape),
            ("/%4/1", Rejection::PathEscape),
            ("/%+1", Rejection::PathEscape),
        ] {
            assert_eq!(normal(path), Err(rejection), "{path}");
        }
    }

    #[test]
    fn hidden_components() {
        let hidden = |path| normalize(path, &mut Vec::new()).unwrap().hidden;
        assert!(hidden("/.git/config") && hidden("/a/.b") && hidden("/%2egit"));
        assert!(hidden("/a/.well-known/x") && hidden("/.well-known/.x"));
        assert!(!hidden("/.well-known/x") && !hidden("/a.b/c.") && !hidden("/a/./b"));
    }

    #[test]
    fn nothing_is_allocated_within_the_capacity() {
        let mut out = Vec::with_capacity(64);
        let before = out.as_ptr();
        normalize("/some/where/../there", &mut out).unwrap();
        assert_eq!((out.as_ptr(), out.capacity()), (before, 64));
    }

    #[test]
    fn encoding_is_undone_by_normalising() {
        let relative: Vec<u8> = (1..=255).filter(|&byte| byte != b'/').collect();
        let mut location = Vec::new();
        encode(&relative, false, None, &mut location);
        let location = String::from_utf8(location).unwrap();
        assert!(location.bytes().all(|byte| byte.is_ascii_graphic()));
        let mut back = Vec::new();
        normalize(&location, &mut back).unwrap();
        assert_eq!(back, relative);
    }

    #[test]
    fn locations() {
        let location = |relative: &str, directory, query| {
            let mut out = Vec::new();
            encode(relative.as_bytes(), directory, query, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(location("", true, None), "/");
        assert_eq!(location("a/b", true, None), "/a/b/");
        assert_eq!(
            location("a?b#c%", false, Some("x=%20&y=é\"")),
            "/a%3Fb%23c%25?x=%20&y=%C3%A9%22"
        );
    }
}
