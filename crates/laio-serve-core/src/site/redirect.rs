//! Redirects by path.

use super::path_pattern::PathRule;
use laio_http::{Status, path};
use laio_serve_base::options::Redirect;
use std::io;

/// The redirects of a site.
pub struct Redirects(Vec<(PathRule, Status)>);

impl Redirects {
    /// Compiles the redirects.
    ///
    /// # Errors
    /// When a redirect is malformed.
    pub(crate) fn new(redirects: &[Redirect]) -> io::Result<Redirects> {
        let compiled = redirects.iter().map(|Redirect { from, to, status }| {
            let rule = match status.code() {
                301 | 302 | 307 | 308 => PathRule::new(from, to),
                _ => Err("the status must be 301, 302, 307 or 308".to_owned()),
            };
            let rule = rule.map_err(|wrong| {
                let text = format!("cannot redirect {from} to {to}: {wrong}");
                io::Error::new(io::ErrorKind::InvalidInput, text)
            })?;
            Ok((rule, *status))
        });
        Ok(Redirects(compiled.collect::<io::Result<_>>()?))
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
        self.0.iter().find_map(|(rule, status)| {
            let mut location = rule.target(&asked)?;
            if let Some(query) = query
                && !rule.has_query
            {
                let mut encoded = Vec::new();
                path::encode(b"", false, Some(query), &mut encoded);
                location.extend_from_slice(&encoded[1..]);
            }
            Some((*status, location))
        })
    }
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
