//! A path prefix whose requests are answered by an upstream or a program.

use crate::request_path::ascii_query;
use crate::{Rejection, RequestPath};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// The end of the name of a PHP program, if more follows.
const PROGRAM_END: &str = ".php/";

/// A path prefix of whole segments, and the path that replaces it for an upstream.
///
/// ```
/// use laio_http::{Mount, RequestPath};
///
/// let mount = Mount::new("/api", Some("/v1/"))?;
/// let path = RequestPath::new("/%61pi/x//y")?;
/// assert_eq!(mount.rest(&path), Some("/x//y"));
/// assert_eq!(mount.upstream_path(&path), "/v1/x//y");
/// assert_eq!(mount.rest(&RequestPath::new("/apix")?), None);
/// # Ok::<(), laio_http::Rejection>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// In canonical form. With a slash at its end, matching paths need one too.
    prefix: String,
    there: Option<String>,
}

/// A path as split for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program<'p> {
    script: &'p str,
    info: &'p str,
    path: &'p str,
    is_file: bool,
}

impl Mount {
    /// Returns a mount for paths that begin with `prefix`. `there` replaces the prefix for an
    /// upstream; without it, the upstream gets the whole path.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`RequestPath::new`].
    pub fn new(prefix: &str, there: Option<&str>) -> Result<Mount, Rejection> {
        let prefix = RequestPath::new(prefix)?.as_str().to_owned();
        if prefix == "*" {
            return Err(Rejection::Target);
        }
        let there = there.map(str::to_owned);
        Ok(Mount { prefix, there })
    }

    /// Returns the prefix in canonical form.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the part of a path after the prefix, which is empty or begins with a slash, or none
    /// if the path does not begin with the prefix.
    #[must_use]
    pub fn rest<'p>(&self, path: &'p RequestPath<'_>) -> Option<&'p str> {
        let rest = path
            .as_str()
            .strip_prefix(self.prefix.trim_end_matches('/'))?;
        let ends = rest.starts_with('/') || (rest.is_empty() && !self.prefix.ends_with('/'));
        ends.then_some(rest)
    }

    /// Returns the path for an HTTP upstream. It never begins with two slashes.
    #[must_use]
    pub fn upstream_path<'p>(&self, path: &'p RequestPath<'_>) -> Cow<'p, str> {
        let Some(there) = &self.there else {
            return path.as_str().into();
        };
        let rest = self.rest(path).unwrap_or(path.as_str());
        let there = there.trim_end_matches('/');
        if there.is_empty() {
            format!("/{}", rest.trim_start_matches('/')).into()
        } else {
            format!("{there}{rest}").into()
        }
    }

    /// Splits a path into a program's name and the rest: the name ends with the first segment that
    /// ends in `.php`, if more follows, or else with the prefix.
    #[must_use]
    pub fn program<'p>(&self, path: &'p RequestPath<'_>) -> Program<'p> {
        let whole = path.as_str();
        let named = whole.find(PROGRAM_END);
        let end = match named {
            Some(at) => at + PROGRAM_END.len() - 1,
            None => whole.len() - self.rest(path).map_or(whole.len(), str::len),
        };
        Program {
            script: &whole[..end],
            info: &whole[end..],
            path: whole,
            is_file: named.is_some(),
        }
    }
}

impl<'p> Program<'p> {
    /// Returns `SCRIPT_NAME`.
    #[must_use]
    pub fn script_name(&self) -> Vec<u8> {
        decoded(self.script)
    }

    /// Returns `PATH_INFO`.
    #[must_use]
    pub fn path_info(&self) -> Vec<u8> {
        decoded(self.info)
    }

    /// Returns `PATH_INFO`, percent-encoded.
    pub(crate) fn encoded_info(&self) -> &'p str {
        self.info
    }

    /// Returns `DOCUMENT_URI`: the whole path.
    #[must_use]
    pub fn document_uri(&self) -> Vec<u8> {
        decoded(self.path)
    }

    /// Returns the file of the path, below the root and with a leading slash: `SCRIPT_FILENAME`
    /// without `DOCUMENT_ROOT`.
    #[must_use]
    pub fn file(&self) -> Vec<u8> {
        decoded(if self.is_file { self.script } else { self.path })
    }

    /// Returns `REQUEST_URI` in canonical form, so that a program that parses it gets the path that
    /// was checked by guards.
    #[must_use]
    pub fn request_uri(&self, query: Option<&str>) -> String {
        match query {
            Some(query) => format!("{}?{}", self.path, ascii_query(query)),
            None => self.path.to_owned(),
        }
    }
}

fn decoded(path: &str) -> Vec<u8> {
    percent_decode_str(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RequestPath<'_> {
        RequestPath::new(text).unwrap()
    }

    #[test]
    fn whole_segments() {
        let rest = |prefix: &str, text: &str| {
            let mount = Mount::new(prefix, None).unwrap();
            mount.rest(&path(text)).map(str::to_owned)
        };
        assert_eq!(rest("/api", "/api").as_deref(), Some(""));
        assert_eq!(rest("/api", "/api/").as_deref(), Some("/"));
        assert_eq!(rest("/api", "/apix"), None);
        assert_eq!(rest("/api/", "/api"), None);
        assert_eq!(rest("/api/", "/api/x").as_deref(), Some("/x"));
        assert_eq!(rest("/", "/x").as_deref(), Some("/x"));
        assert_eq!(rest("/", "*"), None);
        assert_eq!(rest("/%61pi", "//api/x").as_deref(), Some("/x"));
        assert!(Mount::new("*", None).is_err() && Mount::new("/a/..%2f", None).is_err());
    }

    #[test]
    fn upstream_paths() {
        let there = |prefix: &str, there: Option<&str>, text: &str| {
            let mount = Mount::new(prefix, there).unwrap();
            mount.upstream_path(&path(text)).into_owned()
        };
        assert_eq!(there("/x", None, "/x/a%2fb"), "/x/a%2Fb");
        assert_eq!(there("/x", Some("/"), "/x"), "/");
        assert_eq!(there("/x", Some("/"), "/x//evil/admin"), "/evil/admin");
        assert_eq!(there("/x", Some("/v1"), "/x//y"), "/v1//y");
        assert_eq!(there("/x/", Some("/v2/"), "/x/"), "/v2/");
    }

    #[test]
    fn program_variables() {
        let mount = Mount::new("/app", None).unwrap();
        let of = |text: &str| {
            let path = path(text);
            let program = mount.program(&path);
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            let (script, info) = (program.script_name(), program.path_info());
            (text(script), text(info), text(program.file()))
        };
        let three = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(of("/app/x%20y"), three("/app", "/x y", "/app/x y"));
        assert_eq!(of("/app/a.php/x"), three("/app/a.php", "/x", "/app/a.php"));
        assert_eq!(of("/app/a.php"), three("/app", "/a.php", "/app/a.php"));
        let path = path("/%61pp/./%20x");
        let program = mount.program(&path);
        assert_eq!(program.request_uri(Some("q=%61")), "/app/%20x?q=%61");
    }
}
