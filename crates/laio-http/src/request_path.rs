//! The path of a request, parsed once.
//!
//! The guard, the choice of the upstream, the file name, the path for an upstream and the variables
//! of a CGI program must all mean the same resource. They all derive from a [`RequestPath`], and
//! none of them uses the target. A path that two readers could take for different resources is
//! refused first.

use crate::Rejection;
use crate::path::{self, Normal, byte_of};
use crate::readings::{self, is_ordinary};
use std::borrow::Cow;
use std::fmt;

/// A path in canonical form (RFC 3986, section 6.2.2), which is the same for all equivalent
/// spellings.
///
/// - It begins with exactly one slash. Repeated slashes further on stay.
/// - `.` and `..` are resolved, also percent-encoded ones.
/// - Escapes of letters, digits, `-`, `.`, `_` and `~` are decoded; all other escapes are in
///   capitals. Backslashes, controls and what is not ASCII are escaped.
///
/// ```
/// use laio_http::{Rejection, RequestPath};
///
/// // Some readers decode the slash first, and then the two dots take away less.
/// let refused = RequestPath::new("/api/a%2fb/../c");
/// assert_eq!(refused, Err(Rejection::PathAmbiguous));
/// let path = RequestPath::new("//%61pi/./x/../a%2fb/")?;
/// assert_eq!(path.as_str(), "/api/a%2Fb/");
/// # Ok::<(), Rejection>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPath<'t> {
    text: Cow<'t, str>,
}

impl<'t> RequestPath<'t> {
    /// Parses the path of a target. `*`, which stands for the whole server, stays as it is.
    ///
    /// # Errors
    ///
    /// [`Rejection::PathAmbiguous`] if readers interpret the path differently: a dot segment that
    /// only some of them see (after an encoded slash, a backslash, before a parameter, encoded
    /// twice, in overlong UTF-8), or one that removes a segment which others take for none or for
    /// several. [`Rejection::PathNul`], [`Rejection::PathEscape`], [`Rejection::PathAboveRoot`],
    /// and [`Rejection::Target`] without a leading slash.
    pub fn new(path: &'t str) -> Result<RequestPath<'t>, Rejection> {
        if is_simple(path) || path == "*" {
            return Ok(RequestPath { text: path.into() });
        }
        let rest = path.strip_prefix('/').ok_or(Rejection::Target)?;
        let text = canonical(rest)?;
        readings::refuse_hidden_dots(&text)?;
        let text = if text == path {
            path.into()
        } else {
            text.into()
        };
        Ok(RequestPath { text })
    }

    /// Returns the canonical path, percent-encoded, or `*`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the target is the whole server (`*`).
    #[must_use]
    pub fn is_whole_server(&self) -> bool {
        self.text == "*"
    }

    /// Whether a path names this file below the root. None does if the name looks like an escape that another reader
    /// would decode to a slash, a backslash, NUL or a dot segment (`a%2Fb`), because [`RequestPath::new`] refuses that
    /// path.
    #[must_use]
    pub fn can_name(relative: &[u8]) -> bool {
        let mut address = Vec::new();
        path::encode(relative, false, None, &mut address);
        let path = std::str::from_utf8(&address).map_err(|_| Rejection::Target);
        let mut named = Vec::new();
        let found = path
            .and_then(RequestPath::new)
            .and_then(|path| path.file_name(&mut named));
        found.is_ok() && named == relative
    }

    /// Writes the file name below the root to `out`, as [`path::normalize`] does.
    ///
    /// # Errors
    ///
    /// [`Rejection::PathEncodedSlash`], because no file name can contain a slash.
    /// [`Rejection::Target`] for `*`.
    pub fn file_name(&self, out: &mut Vec<u8>) -> Result<Normal, Rejection> {
        path::normalize(&self.text, out)
    }
}

impl fmt::Display for RequestPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a check of each byte shows that the path is canonical already: most are.
fn is_simple(path: &str) -> bool {
    let mut before = 0;
    for byte in path.bytes() {
        let fits = match byte {
            b'/' | b'.' => before != b'/',
            byte => byte.is_ascii_alphanumeric() || b"-_~!$&'()*,=@".contains(&byte),
        };
        if !fits || (before == 0 && byte != b'/') {
            return false;
        }
        before = byte;
    }
    before != 0
}

/// Returns the canonical form of the text after the first slash.
fn canonical(rest: &str) -> Result<String, Rejection> {
    let mut text = String::with_capacity(rest.len() + 1);
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        let (start, last) = (text.len(), segments.peek().is_none());
        text.push('/');
        push_canonical(segment, &mut text)?;
        match &text[start + 1..] {
            // Merge leading slashes: with two, some readers would take the next segment for a host.
            "" if start == 0 => text.clear(),
            "." => {
                text.truncate(start);
                if last {
                    text.push('/');
                }
            }
            ".." => {
                text.truncate(start);
                let parent = text.rfind('/').ok_or(Rejection::PathAboveRoot)?;
                if !is_ordinary(&text[parent + 1..]) {
                    return Err(Rejection::PathAmbiguous);
                }
                text.truncate(parent);
                if last {
                    text.push('/');
                }
            }
            _ => {}
        }
    }
    if text.is_empty() {
        text.push('/');
    }
    Ok(text)
}

/// Appends one segment in canonical form.
fn push_canonical(segment: &str, text: &mut String) -> Result<(), Rejection> {
    let mut rest = segment;
    let is_special = |c: char| c == '%' || c == '\\' || c.is_ascii_control() || !c.is_ascii();
    while let Some(at) = rest.find(is_special) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(behind) = rest.strip_prefix('%') {
            let (digits, behind) = behind.split_at_checked(2).ok_or(Rejection::PathEscape)?;
            rest = behind;
            push_byte(
                byte_of(digits.as_bytes()).ok_or(Rejection::PathEscape)?,
                text,
            )?;
        } else {
            let end = rest.find(|c| !is_special(c) || c == '%');
            let (special, behind) = rest.split_at(end.unwrap_or(rest.len()));
            rest = behind;
            special.bytes().try_for_each(|byte| push_byte(byte, text))?;
        }
    }
    text.push_str(rest);
    Ok(())
}

/// Appends a byte, escaped unless it is unreserved.
fn push_byte(byte: u8, text: &mut String) -> Result<(), Rejection> {
    match byte {
        0 => return Err(Rejection::PathNul),
        byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
            text.push(char::from(byte));
        }
        byte => push_escape(byte, text),
    }
    Ok(())
}

fn push_escape(byte: u8, text: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |number: u8| char::from(DIGITS[usize::from(number)]);
    text.extend(['%', digit(byte >> 4), digit(byte & 15)]);
}

/// Returns a query whose bytes above 0x7F are escaped. RFC 3986 allows only ASCII, and other servers read the rest in
/// different ways.
#[must_use]
pub fn ascii_query(query: &str) -> Cow<'_, str> {
    if query.is_ascii() {
        return query.into();
    }
    let mut text = String::with_capacity(query.len() * 2);
    for byte in query.bytes() {
        if byte.is_ascii() {
            text.push(char::from(byte))
        } else {
            push_escape(byte, &mut text)
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Result<String, Rejection> {
        RequestPath::new(path).map(|path| path.as_str().to_owned())
    }

    #[test]
    fn the_canonical_form() {
        for (path, expected) in [
            ("*", "*"),
            ("/", "/"),
            ("//", "/"),
            ("//a", "/a"),
            ("/.//a", "/a"),
            ("/a//b/", "/a//b/"),
            ("/%61pi/x", "/api/x"),
            ("/a/./b/../c", "/a/c"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/.%2e/", "/"),
            ("/a/..", "/"),
            ("/a/b/.", "/a/b/"),
            ("/a%2fb%c3", "/a%2Fb%C3"),
            ("/a\\b", "/a%5Cb"),
            ("/é/%C3%a9", "/%C3%A9/%C3%A9"),
            ("/a日本%41é", "/a%E6%97%A5%E6%9C%ACA%C3%A9"),
            ("/..a/b..", "/..a/b.."),
            ("/a;x/../b;y", "/b;y"),
            ("/%25", "/%25"),
            ("/a%2561", "/a%2561"),
            ("/a.b/.well-known/x", "/a.b/.well-known/x"),
        ] {
            assert_eq!(read(path).as_deref(), Ok(expected), "{path}");
            assert_eq!(read(expected).as_deref(), Ok(expected), "{path}, again");
        }
        let simple = RequestPath::new("/a/b.txt").unwrap();
        assert!(matches!(simple.text, Cow::Borrowed(_)));
    }

    #[test]
    fn queries_are_ascii() {
        assert!(matches!(ascii_query("a=%C3&b"), Cow::Borrowed("a=%C3&b")));
        assert_eq!(ascii_query("q=é%20日"), "q=%C3%A9%20%E6%97%A5");
    }

    #[test]
    fn names_that_no_path_has() {
        let names: [&[u8]; 12] = [
            b"a b",
            b"a/b",
            b"a:b",
            b"%41",
            b"100%",
            b"a+b;c=d",
            b"[x]",
            b"..a",
            b"a?b#c",
            b"\xff\xfe",
            b"con",
            b"-",
        ];
        for name in names {
            assert!(RequestPath::can_name(name), "{}", name.escape_ascii());
        }
        for name in [
            &b"a%2Fb"[..],
            b"a%2fb",
            b"%2e%2e",
            b"a%00b",
            b"a%5Cb",
            b"..",
            b"a//b",
            b"a\0b",
        ] {
            assert!(!RequestPath::can_name(name), "{}", name.escape_ascii());
        }
    }

    #[test]
    fn ambiguous_paths_are_refused() {
        use Rejection::{PathAboveRoot, PathAmbiguous, PathEscape, PathNul, Target};
        for (path, rejection) in [
            ("", Target),
            ("a", Target),
            ("/..", PathAboveRoot),
            ("//../a", PathAboveRoot),
            ("/a/../..", PathAboveRoot),
            ("/%", PathEscape),
            ("/%1", PathEscape),
            ("/%+1", PathEscape),
            ("/%é", PathEscape),
            ("/%00", PathNul),
            ("/%2500", PathNul),
            ("/..%2fx", PathAmbiguous),
            ("/admin/a.php/..%2f..%2fx", PathAmbiguous),
            ("/app/admin/users%2f..%2f..%2fx", PathAmbiguous),
            ("/a%2f./b", PathAmbiguous),
            ("/a%2f%2e%2e/b", PathAmbiguous),
            ("/a%2fb/../c", PathAmbiguous),
            ("/a%5cb/../c", PathAmbiguous),
            ("/a\\..\\b", PathAmbiguous),
            ("/..%5cb", PathAmbiguous),
            ("/a//../b", PathAmbiguous),
            ("/x/..;/admin", PathAmbiguous),
            ("/x/..;a=b/admin", PathAmbiguous),
            ("/x/..%3b/admin", PathAmbiguous),
            ("/x/.;/admin", PathAmbiguous),
            ("/;/../admin", PathAmbiguous),
            ("/.../admin", PathAmbiguous),
            ("/x/.. /admin", PathAmbiguous),
            ("/x/..%20/admin", PathAmbiguous),
            ("/x/..%0a/admin", PathAmbiguous),
            ("/x/.%09./admin", PathAmbiguous),
            ("/x/..%3fy", PathAmbiguous),
            ("/x/..%23y", PathAmbiguous),
            ("/x/..::$INDEX_ALLOCATION/y", PathAmbiguous),
            ("/x/%252e%252e/admin", PathAmbiguous),
            ("/x/..%252fadmin", PathAmbiguous),
            ("/x%252fadmin", PathAmbiguous),
            ("/x%255cadmin", PathAmbiguous),
            ("/x%25252fadmin", PathAmbiguous),
            ("/x%25%32%66admin", PathAmbiguous),
            ("/%2525252525252561", PathAmbiguous),
            ("/x/%c0%ae%c0%ae/admin", PathAmbiguous),
            ("/x%c0%afadmin", PathAmbiguous),
            ("/x%e0%80%afadmin", PathAmbiguous),
            ("/x%f0%80%80%afadmin", PathAmbiguous),
            ("/x%25c0%25afadmin", PathAmbiguous),
            ("/x/．．/admin", PathAmbiguous),
            ("/x/%EF%BC%8E%EF%BC%8E/admin", PathAmbiguous),
            ("/x/..%C2%AD/admin", PathAmbiguous),
            ("/x/‥/admin", PathAmbiguous),
        ] {
            assert_eq!(read(path), Err(rejection), "{path}");
        }
    }

    #[test]
    fn names_of_files() {
        let mut name = Vec::new();
        let normal = RequestPath::new("/a//%20b/").unwrap().file_name(&mut name);
        assert!(normal.unwrap().trailing_slash);
        assert_eq!(name, b"a/ b");
        let refused = RequestPath::new("/a%2Fb").unwrap().file_name(&mut name);
        assert_eq!(refused, Err(Rejection::PathEncodedSlash));
        let refused = RequestPath::new("*").unwrap().file_name(&mut name);
        assert_eq!(refused, Err(Rejection::Target));
    }
}
