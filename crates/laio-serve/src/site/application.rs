//! A site in which programs answer beside files: what may answer a path, and which files are scripts.

use crate::options::{Candidate, Site as Description};
use laio_http::ScriptNames;
use std::io;

/// The compiled candidates and script names of a site.
pub(crate) struct Application {
    pub(crate) candidates: Vec<Candidate>,
    /// The names of scripts, if a program executes them.
    pub(crate) scripts: Option<ScriptNames>,
    /// Upstreams answer only as a candidate.
    pub(crate) asks_upstreams: bool,
}

impl Application {
    /// Returns the application of a site, if it has scripts or candidates.
    ///
    /// # Errors
    /// When candidates could never be reached, or a script would have to be sent as text.
    pub(crate) fn from_site(site: &Description) -> io::Result<Option<Application>> {
        let php = site.upstreams.php.is_some();
        if !php && site.candidates.is_empty() {
            return Ok(None);
        }
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let mut candidates = site.candidates.clone();
        if candidates.is_empty() {
            let path = |path: &str| Candidate::File {
                path: path.to_owned(),
                query: None,
            };
            candidates = vec![path(Candidate::PATH), path("{path}/")];
        }
        let before_last = &candidates[..candidates.len() - 1];
        if before_last
            .iter()
            .any(|candidate| matches!(candidate, Candidate::Status(_)))
        {
            return Err(invalid(
                "a status of --try must be the last candidate".to_owned(),
            ));
        }
        let asks_upstreams = candidates.contains(&Candidate::Upstream);
        if asks_upstreams && site.upstreams.all().next().is_none() {
            return Err(invalid(
                "@upstream of --try needs an upstream: --proxy or --fastcgi".to_owned(),
            ));
        }
        let extensions = site.upstreams.php_extensions.iter().map(String::as_str);
        let scripts = php.then(|| ScriptNames::new(extensions)).transpose();
        let scripts = scripts.map_err(|error| invalid(error.to_string()))?;
        if let Some(scripts) = &scripts {
            let pages = site.error_pages.iter().map(|page| page.file.as_str());
            let mut files = pages.chain(site.fallback.as_deref());
            if let Some(file) = files.find(|file| scripts.hides(file.as_bytes())) {
                return Err(invalid(format!(
                    "{file} may be a script, which cannot be an error page or a fallback page; a script answers \
                     for missing pages with --try '{{path}},{{path}}/,/{file}'"
                )));
            }
        }
        Ok(Some(Application {
            candidates,
            scripts,
            asks_upstreams,
        }))
    }

    /// Returns the names of index files: a script is the first one, unless the site names a script.
    pub(crate) fn index(&self, names: &[String]) -> Vec<String> {
        let mut names = names.to_vec();
        if let Some(scripts) = &self.scripts
            && !names.iter().any(|name| scripts.is_script(name.as_bytes()))
        {
            names.insert(0, "index.php".to_owned());
        }
        names
    }

    pub(crate) fn is_script(&self, name: &[u8]) -> bool {
        let scripts = self.scripts.as_ref();
        scripts.is_some_and(|scripts| scripts.is_script(name))
    }

    /// Whether a file must not be sent, because it may contain the text of a script.
    pub(crate) fn hides(&self, name: &[u8]) -> bool {
        let scripts = self.scripts.as_ref();
        scripts.is_some_and(|scripts| scripts.hides(name))
    }

    /// Whether a cached file of the request path may answer without a look at other candidates.
    pub(crate) fn allows_cached(&self, name: &[u8]) -> bool {
        let first = self.candidates.first();
        first.is_some_and(Candidate::is_request_path) && !self.hides(name)
    }
}

/// Writes the name that a template means to `out`, without slashes at its ends. `asked` is the name of
/// the request path; `directory` tells whether that ends in a slash. Returns whether the name must be a
/// directory, or none if the template does not apply.
pub(crate) fn expand(
    template: &str,
    asked: Option<&[u8]>,
    directory: bool,
    out: &mut Vec<u8>,
) -> Option<bool> {
    out.clear();
    let mut pieces = template.split(Candidate::PATH);
    out.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
    for piece in pieces {
        let asked = asked?;
        let ends = piece.is_empty() || piece.starts_with('/');
        if asked.is_empty() && !ends {
            return None; // the root has no name that could be extended
        }
        out.push(b'/');
        out.extend_from_slice(asked);
        if directory && ends {
            out.push(b'/');
        }
        out.extend_from_slice(piece.as_bytes());
    }
    out.dedup_by(|next, before| *next == b'/' && *before == b'/');
    let is_directory = out.last().is_none_or(|&byte| byte == b'/');
    if is_directory {
        out.pop();
    }
    if out.first() == Some(&b'/') {
        out.remove(0);
    }
    Some(is_directory)
}

/// Returns the query that a template means. The path keeps its escapes, and gets escapes for what
/// separates parameters.
pub(crate) fn expand_query(template: &str, path: &str, query: Option<&str>) -> String {
    let mut escaped = String::with_capacity(path.len());
    for letter in path.chars() {
        match letter {
            '&' => escaped.push_str("%26"),
            '+' => escaped.push_str("%2B"),
            ';' => escaped.push_str("%3B"),
            '=' => escaped.push_str("%3D"),
            letter => escaped.push(letter),
        }
    }
    // The query comes last, so that a {path} in it stays as it is.
    let pieces = template.split(Candidate::QUERY);
    let pieces: Vec<_> = pieces
        .map(|piece| piece.replace(Candidate::PATH, &escaped))
        .collect();
    pieces.join(query.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_candidates() {
        let of = |template: &str, asked: Option<&str>, directory| {
            let mut out = b"old".to_vec();
            let is_directory = expand(template, asked.map(str::as_bytes), directory, &mut out)?;
            Some((String::from_utf8(out).unwrap(), is_directory))
        };
        let file = |name: &str| Some((name.to_owned(), false));
        let directory = |name: &str| Some((name.to_owned(), true));
        assert_eq!(of("{path}", Some("a/b"), false), file("a/b"));
        assert_eq!(of("{path}", Some("a"), true), directory("a"));
        assert_eq!(of("{path}", Some(""), true), directory(""));
        assert_eq!(of("{path}/", Some("a"), false), directory("a"));
        assert_eq!(of("{path}/", Some("a"), true), directory("a"));
        assert_eq!(of("{path}.html", Some("a"), false), file("a.html"));
        assert_eq!(of("{path}.html", Some("a"), true), file("a.html"));
        assert_eq!(of("{path}.html", Some(""), true), None);
        assert_eq!(of("/x{path}/y", Some("a"), false), file("x/a/y"));
        assert_eq!(of("/index.php", None, false), file("index.php"));
        assert_eq!(of("{path}", None, false), None);
        assert_eq!(of("/", None, false), directory(""));
    }

    #[test]
    fn queries_of_candidates() {
        let of = |template: &str| expand_query(template, "/a&b=%20", Some("x=1&p={path}"));
        assert_eq!(of("{query}"), "x=1&p={path}");
        assert_eq!(of("q={path}&{query}"), "q=/a%26b%3D%20&x=1&p={path}");
        assert_eq!(expand_query("q={path}&{query}", "/a", None), "q=/a&");
    }
}
