//! Patterns of request paths, and targets that contain what a pattern matched.

use laio_http::path;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use regex::bytes::{Captures, Regex, RegexBuilder};

/// What a redirect or a rewrite applies to, and where it leads.
pub(crate) struct PathRule {
    pattern: Pattern,
    target: Vec<Piece>,
    /// Whether the target begins with one slash, so that it must not become two, which would name another host.
    is_path: bool,
    /// Whether the target has a query.
    pub(crate) has_query: bool,
}

enum Pattern {
    Exact(String),
    Prefix(String),
    Expression(Regex),
}

/// A piece of a target.
enum Piece {
    Text(String),
    /// What this group has matched; 0 is the whole match, or the rest after a prefix.
    Matched(usize, Within),
}

/// The part of an address that a piece is in, which decides what is escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Path,
    /// The query or the fragment.
    Query,
}

/// The most memory of a compiled expression, and of the states that a thread keeps while it matches one.
const EXPRESSION_BYTES: usize = 1 << 20;

/// Everything that could end a parameter or be an escape is escaped.
const PARAMETER: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b':');

impl PathRule {
    /// Compiles a rule.
    ///
    /// # Errors
    /// Says what is wrong with the pattern or the target.
    pub(crate) fn new(from: &str, to: &str) -> Result<PathRule, String> {
        let pattern = Pattern::new(from)?;
        if to.is_empty() || to.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err("the target must be a percent-encoded address".to_owned());
        }
        let target = match &pattern {
            Pattern::Exact(_) if to.contains('*') => {
                return Err("the target has a * but the path has no *".to_owned());
            }
            Pattern::Exact(_) => vec![Piece::Text(to.to_owned())],
            Pattern::Prefix(_) => with_rest(to),
            Pattern::Expression(expression) => with_groups(to, expression)?,
        };
        if let [first, _, ..] | [first @ Piece::Matched(..)] = &target[..]
            && !matches!(first, Piece::Text(text) if names_its_host(text))
        {
            return Err(
                "the path would choose the host: before what it inserts, the target needs a /, or \
                 https://, a host and a /"
                    .to_owned(),
            );
        }
        Ok(PathRule {
            pattern,
            target,
            is_path: to.starts_with('/') && !to.starts_with("//"),
            has_query: to.contains('?'),
        })
    }

    /// Returns the target for a decoded path, if it matches.
    pub(crate) fn target(&self, path: &[u8]) -> Option<Vec<u8>> {
        let groups = match &self.pattern {
            Pattern::Exact(own) if path == own.as_bytes() => Groups::Rest(b""),
            Pattern::Exact(_) => return None,
            Pattern::Prefix(prefix) => {
                let rest = path.strip_prefix(prefix.as_bytes())?;
                // Without its leading slash, so that the matched text cannot name another host.
                Groups::Rest(rest.strip_prefix(b"/").unwrap_or(rest))
            }
            Pattern::Expression(expression) => Groups::Of(expression.captures(path)?),
        };
        let mut target = Vec::new();
        for piece in &self.target {
            match piece {
                Piece::Text(text) => target.extend_from_slice(text.as_bytes()),
                Piece::Matched(number, within) => {
                    push_escaped(groups.get(*number), *within, &mut target);
                }
            }
        }
        if self.is_path {
            let slashes = target.iter().take_while(|&&byte| byte == b'/').count();
            target.drain(..slashes.saturating_sub(1));
        }
        Some(target)
    }

    /// Whether the target is the same for all paths.
    pub(crate) fn has_fixed_target(&self) -> bool {
        matches!(self.target[..], [Piece::Text(_)])
    }
}

impl Pattern {
    fn new(from: &str) -> Result<Pattern, String> {
        if let Some(expression) = from.strip_prefix('~') {
            return Ok(Pattern::Expression(compile(expression)?));
        }
        if !from.starts_with('/') {
            return Err(
                "the path must begin with a slash, or with a ~ before an expression".to_owned(),
            );
        }
        match from.find('*') {
            None => Ok(Pattern::Exact(from.to_owned())),
            Some(star) if star + 1 == from.len() => Ok(Pattern::Prefix(from[..star].to_owned())),
            Some(_) => Err("a * may only end the path".to_owned()),
        }
    }
}

/// Compiles an expression; one after a `*` ignores case.
fn compile(text: &str) -> Result<Regex, String> {
    let (text, ignores_case) = match text.strip_prefix('*') {
        Some(text) => (text, true),
        None => (text, false),
    };
    // Paths are bytes, of which some are no UTF-8; and none of them may hide behind a line feed.
    RegexBuilder::new(text)
        .unicode(false)
        .dot_matches_new_line(true)
        .case_insensitive(ignores_case)
        .size_limit(EXPRESSION_BYTES)
        .dfa_size_limit(EXPRESSION_BYTES)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(limit) => {
                format!("the compiled expression would need more than {limit} bytes")
            }
            error => error.to_string(),
        })
}

/// Returns the pieces of a target with a `*`.
fn with_rest(to: &str) -> Vec<Piece> {
    let Some((before, after)) = to.split_once('*') else {
        return vec![Piece::Text(to.to_owned())];
    };
    let texts = [before, after].map(|text| Piece::Text(text.to_owned()));
    let [before, after] = texts;
    let rest = Piece::Matched(0, Within::from_target(to, to.find('*').unwrap_or_default()));
    vec![before, rest, after]
}

/// Returns the pieces of a target with `$1`, `${12}` and `${name}`.
fn with_groups(to: &str, expression: &Regex) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = to;
    while let Some(at) = rest.find('$') {
        if at > 0 {
            pieces.push(Piece::Text(rest[..at].to_owned()));
        }
        let within = Within::from_target(to, to.len() - rest.len() + at);
        let behind = &rest[at + 1..];
        let (name, behind) = match behind.strip_prefix('{') {
            Some(name) => name.split_once('}').ok_or("a } is missing after ${")?,
            None => behind.split_at(behind.bytes().take_while(u8::is_ascii_digit).count().min(1)),
        };
        if name.is_empty() {
            return Err(
                "after a $ there must be a digit or {NAME}; %24 is the character".to_owned(),
            );
        }
        let known = |number: &usize| *number < expression.captures_len();
        let number = match name.parse::<usize>() {
            Ok(number) => Some(number).filter(known),
            Err(_) => expression.capture_names().position(|own| own == Some(name)),
        };
        let number = number.ok_or_else(|| {
            format!("the target inserts the group {name}, which the expression does not have")
        })?;
        pieces.push(Piece::Matched(number, within));
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

/// Whether the start of a target contains all of its host, or is that of a path.
fn names_its_host(text: &str) -> bool {
    let host = match text.strip_prefix("//") {
        Some(host) => host,
        None if text.starts_with('/') => return true,
        None => match text.split_once("://") {
            Some((_, host)) => host,
            None => return false,
        },
    };
    host.find(['/', '?', '#']).is_some_and(|end| end > 0)
}

impl Within {
    /// Returns what the place at `at` of a target is in.
    fn from_target(target: &str, at: usize) -> Within {
        if target[..at].contains(['?', '#']) {
            Within::Query
        } else {
            Within::Path
        }
    }
}

/// What a pattern has matched.
enum Groups<'p> {
    Rest(&'p [u8]),
    Of(Captures<'p>),
}

impl Groups<'_> {
    fn get(&self, number: usize) -> &[u8] {
        match self {
            Groups::Rest(rest) => rest,
            Groups::Of(captures) => captures.get(number).map_or(b"", |group| group.as_bytes()),
        }
    }
}

fn push_escaped(text: &[u8], within: Within, out: &mut Vec<u8>) {
    let mut escaped = Vec::with_capacity(text.len() + 1);
    // The escaped slash of `decode` stays what it is.
    for (number, piece) in split(text, ESCAPED_SLASH).enumerate() {
        if number > 0 {
            out.extend_from_slice(ESCAPED_SLASH);
        }
        match within {
            Within::Path => {
                escaped.clear();
                path::encode(piece, false, None, &mut escaped);
                out.extend_from_slice(&escaped[1..]);
            }
            Within::Query => {
                let pieces = percent_encode(piece, PARAMETER);
                pieces.for_each(|it| out.extend_from_slice(it.as_bytes()));
            }
        }
    }
}

const ESCAPED_SLASH: &[u8] = b"%2F";

fn split<'t>(text: &'t [u8], separator: &'static [u8]) -> impl Iterator<Item = &'t [u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let at = text
            .windows(separator.len())
            .position(|window| window == separator);
        rest = at.map(|at| &text[at + separator.len()..]);
        Some(&text[..at.unwrap_or(text.len())])
    })
}

/// Decodes a canonical path for patterns. Only `%2F` stays: decoded, it would be taken for a separator. It cannot be
/// confused with the text `%2F`, because [`laio_http::RequestPath`] refuses `%252F`.
pub(crate) fn decode(canonical: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(canonical.len());
    for (number, piece) in split(canonical.as_bytes(), ESCAPED_SLASH).enumerate() {
        if number > 0 {
            decoded.extend_from_slice(ESCAPED_SLASH);
        }
        decoded.extend(percent_encoding::percent_decode(piece));
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(from: &str, to: &str, path: &str) -> Option<String> {
        let found = PathRule::new(from, to).unwrap().target(&decode(path));
        found.map(|target| String::from_utf8(target).unwrap())
    }

    #[test]
    fn targets_with_groups() {
        #[rustfmt::skip]
        let cases = [
            (
                r"~^/blog/(\d{4})/(.+)$",
                "/archive/$1-$2",
                "/blog/2024/a%20b",
                Some("/archive/2024-a%20b"),
            ),
            (
                r"~^/blog/(\d{4})/(.+)$",
                "/archive/$1-$2",
                "/blog/24/a",
                None,
            ),
            ("~^/u/(?<who>[^/]+)$", "/user?name=${who}", "/u/a&b=%25é", Some("/user?name=a%26b%3D%25%C3%A9")),
            ("~^/a(b)?/(c)", "/$1/$2", "/a/c", Some("/c")),
            ("~*^/OLD/(.*)$", "/new/${1}", "/old/X", Some("/new/X")),
            ("~^/OLD/(.*)$", "/new/$1", "/old/X", None),
            ("~png$", "https://img.example/$0", "/a.png", Some("https://img.example/png")),
            // A line feed hides nothing, and bytes need not be UTF-8.
            ("~^/a/(.*)$", "/b/$1", "/a/x%0Ay%FF", Some("/b/x%0Ay%FF")),
            (
                "~^/go/(.*)$",
                "/$1",
                "/go//evil.example/x",
                Some("/evil.example/x"),
            ),
            ("~^/a/(.*)$", "/b/$1", "/a/x%2Fy", Some("/b/x%2Fy")),
            ("~^/a/(.*)$", "/b?p=$1", "/a/x?y", Some("/b?p=x%3Fy")),
            ("~^/a/(.*)$", "/b?p=$1", "/a/x%2Fy", Some("/b?p=x%2Fy")),
            ("/s/*", "/search?q=*", "/s/a&b", Some("/search?q=a%26b")),
            ("/s*", "/t/*", "/s/a", Some("/t/a")),
        ];
        for (from, to, path, expected) in cases {
            assert_eq!(
                target(from, to, path).as_deref(),
                expected,
                "{from} {to} {path}"
            );
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for (from, to, why) in [
            ("old", "/new", "slash"),
            ("/a*b", "/new", "end the path"),
            ("/a", "/new/*", "has no *"),
            ("/a", "", "percent-encoded"),
            ("/a", "/b\r\nX: y", "percent-encoded"),
            ("~^/a(", "/b", "unclosed group"),
            ("~^/a", "/b$1", "group 1"),
            ("~^/(a)", "/b${x}", "group x"),
            ("~^/(a)", "/b$x", "digit"),
            ("~^/(a)", "/b${1", "}"),
            ("~^/(.*)", "$1", "host"),
            ("~^/(.*)", "https://$1/", "host"),
            ("~^/(.*)", "https://a.example$1", "host"),
            ("~^/(.*)", "//$1/", "host"),
            ("/*", "https://a.example*", "host"),
            (r"~(?:a{1000}){1000}", "/b", "bytes"),
            (r"~(a)\1", "/b", "backreferences"),
        ] {
            let error = PathRule::new(from, to).err().unwrap_or_default();
            assert!(error.contains(why), "{from} {to}: {error}");
        }
    }
}
