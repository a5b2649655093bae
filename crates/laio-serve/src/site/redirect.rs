//! Redirects by path.

use crate::options::Redirect;
use laio_http::{Status, path};
use std::io;

/// The redirects of a site.
pub(crate) struct Redirects(Vec<Redirect>);

impl Redirects {
    /// Compiles the redirects.
    ///
    /// # Errors
    /// When a redirect is malformed.
    pub(crate) fn new(redirects: &[Redirect]) -> io::Result<Redirects> {
        for Redirect { from, to, status } in redirects {
            let wrong = if !matches!(status.code(), 301 | 302 | 307 | 308) {
                "the status must be 301, 302, 307 or 308"
            } else if !from.starts_with('/') {
                "the path must begin with a slash"
            } else if from.find('*').is_some_and(|star| star + 1 != from.len()) {
                "a * may only end the path"
            } else if to.contains('*') && !from.contains('*') {
                "the target has a * but the path has none"
            } else if to.is_empty() || to.bytes().any(|byte| !byte.is_ascii_graphic()) {
                "the target must be a percent-encoded address"
            } else {
                continue;
            };
            let text = format!("cannot redirect {from} to {to}: {wrong}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Redirects(redirects.to_vec()))
    }

    /// Returns the redirect for a path. `relative` is the path as [`path::normalize`] returns it.
    pub(crate) fn of(
        &self,
        relative: &[u8],
        directory: bool,
        query: Option<&str>,
    ) -> Option<(Status, Vec<u8>)> {
        if self.0.is_empty() {
            return None;
        }
        let mut asked = vec![b'/'];
        asked.extend_from_slice(relative);
        if directory && !relative.is_empty() {
            asked.push(b'/');
        }
        self.0.iter().find_map(|redirect| {
            let rest = match redirect.from.strip_suffix('*') {
                Some(prefix) => asked.strip_prefix(prefix.as_bytes())?,
                None => (asked == redirect.from.as_bytes()).then_some(&b""[..])?,
            };
            Some((redirect.status, location(&redirect.to, rest, query)))
        })
    }
}

fn location(to: &str, rest: &[u8], query: Option<&str>) -> Vec<u8> {
    let mut location = Vec::new();
    match to.split_once('*') {
        Some((before, after)) => {
            location.extend_from_slice(before.as_bytes());
            // Without its leading slash, so that the matched text cannot name another host.
            let mut encoded = Vec::new();
            let rest = rest.strip_prefix(b"/").unwrap_or(rest);
            path::encode(rest, false, None, &mut encoded);
            location.extend_from_slice(&encoded[1..]);
            location.extend_from_slice(after.as_bytes());
        }
        None => location.extend_from_slice(to.as_bytes()),
    }
    if let Some(query) = query
        && !to.contains('?')
    {
        let mut encoded = Vec::new();
        path::encode(b"", false, Some(query), &mut encoded);
        location.extend_from_slice(&encoded[1..]);
    }
    location
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirects(rules: &[(&str, &str)]) -> io::Result<Redirects> {
        let rule = |&(from, to): &(&str, &str)| Redirect {
            from: from.to_owned(),
            to: to.to_owned(),
            status: Status::PERMANENT_REDIRECT,
        };
        Redirects::new(&rules.iter().map(rule).collect::<Vec<_>>())
    }

    fn moved(rules: &[(&str, &str)], relative: &str, query: Option<&str>) -> Option<String> {
        let found = redirects(rules)
            .unwrap()
            .of(relative.as_bytes(), false, query);
        found.map(|(_, location)| String::from_utf8(location).unwrap())
    }

    #[test]
    fn the_first_that_fits() {
        let rules = [
            ("/old", "/new"),
            ("/blog/*", "https://blog.example.org/*"),
            ("/b*", "/c*.html"),
        ];
        let moved = |relative, query| moved(&rules, relative, query);
        assert_eq!(moved("old", None).as_deref(), Some("/new"));
        assert_eq!(moved("old", Some("q=1")).as_deref(), Some("/new?q=1"));
        assert_eq!(
            moved("blog/a b/c", None).as_deref(),
            Some("https://blog.example.org/a%20b/c")
        );
        assert_eq!(moved("bcd", None).as_deref(), Some("/ccd.html"));
        assert_eq!(moved("old/x", None), None);
        assert_eq!(moved("", None), None);
    }

    #[test]
    fn nonsense_is_refused() {
        for rule in [
            ("old", "/new"),
            ("/a*b", "/new"),
            ("/a", "/new/*"),
            ("/a", ""),
            ("/a", "/b\r\nX: y"),
        ] {
            assert!(redirects(&[rule]).is_err(), "{rule:?}");
        }
    }
}
