//! What may answer a request path: the candidates of `--try`.

use laio_http::Status;
use std::str::FromStr;

/// One of the things that may answer a request path, in the order in which they are tried.
///
/// ```
/// # use laio_serve_base::options as laio_serve;
/// use laio_serve::Candidate;
///
/// let page: Candidate = "{path}.html".parse()?;
/// let program: Candidate = "/index.php?q={path}&{query}".parse()?;
/// assert!(matches!(program, Candidate::File { query: Some(_), .. }));
/// assert_eq!("@upstream".parse(), Ok(Candidate::Upstream));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// A file below the root, or with a slash at the end a directory with an index file.
    File {
        /// The path, which may contain `{path}`, the decoded path of the request.
        path: String,
        /// The query for a script, which may contain `{path}` and `{query}`; `None` is that of the request.
        query: Option<String>,
    },
    /// The upstream whose prefix the path has.
    Upstream,
    /// An error.
    Status(Status),
}

impl Candidate {
    /// Stands for the path of the request.
    #[doc(hidden)]
    pub const PATH: &str = "{path}";
    /// Stands for the query of the request.
    #[doc(hidden)]
    pub const QUERY: &str = "{query}";

    /// Whether the candidate is the file of the request path.
    #[doc(hidden)]
    pub fn is_request_path(&self) -> bool {
        matches!(self, Candidate::File { path, .. } if path == Candidate::PATH)
    }
}

/// Parses a path below the root, `@upstream`, or `=STATUS`.
impl FromStr for Candidate {
    type Err = String;

    fn from_str(text: &str) -> Result<Candidate, String> {
        if text == "@upstream" {
            return Ok(Candidate::Upstream);
        }
        if let Some(digits) = text.strip_prefix('=') {
            let status = digits.parse().ok().and_then(Status::from_code);
            let status = status.filter(|status| status.is_error());
            let wrong = || format!("{digits} is not the status of an error with a page");
            return status.map(Candidate::Status).ok_or_else(wrong);
        }
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (text, None),
        };
        let begins = path.starts_with('/') || path.starts_with(Candidate::PATH);
        let literal = path.replace(Candidate::PATH, "");
        let dots = literal
            .split('/')
            .any(|segment| matches!(segment, "." | ".."));
        if !begins || dots || literal.contains(['{', '}', '\0']) {
            return Err(format!(
                "{text:?} is no candidate: write {{path}}, {{path}}/, a path such as /index.php?{{query}}, \
                 @upstream or =404"
            ));
        }
        Ok(Candidate::File {
            path: path.to_owned(),
            query,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates() {
        let file = |path: &str, query: Option<&str>| Candidate::File {
            path: path.to_owned(),
            query: query.map(str::to_owned),
        };
        for (text, expected) in [
            ("{path}", file("{path}", None)),
            ("{path}/", file("{path}/", None)),
            ("/cache{path}.html", file("/cache{path}.html", None)),
            ("/index.php?{query}", file("/index.php", Some("{query}"))),
            ("=404", Candidate::Status(Status::NOT_FOUND)),
            ("@upstream", Candidate::Upstream),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for bad in [
            "",
            "index.php",
            "{uri}",
            "/../x",
            "/a/./b",
            "=200",
            "=x",
            "@app",
        ] {
            assert!(bad.parse::<Candidate>().is_err(), "{bad}");
        }
    }
}
