//! Rewrites: a request is answered as if it had another path.

use super::path_pattern::{PathRule, decode};
use super::redirect::Redirects;
use crate::options::Rewrite;
use crate::trace;
use laio_http::{Rejection, Request, RequestPath};
use std::io;

/// The rewrites of a site.
pub(crate) struct Rewrites(Vec<(PathRule, Rewrite)>);

/// A path, and perhaps a query, in place of those of a request.
pub(crate) struct NewTarget {
    path: String,
    query: Option<String>,
}

impl Rewrites {
    /// Compiles the rewrites, or returns none if there are none.
    ///
    /// # Errors
    /// When a rewrite is malformed.
    pub(crate) fn new(rewrites: &[Rewrite]) -> io::Result<Option<Rewrites>> {
        if rewrites.is_empty() {
            return Ok(None);
        }
        let compiled = rewrites.iter().map(|rewrite| {
            let rule = compile(rewrite).map_err(|wrong| {
                let Rewrite { from, to } = rewrite;
                let text = format!("cannot rewrite {from} to {to}: {wrong}");
                io::Error::new(io::ErrorKind::InvalidInput, text)
            })?;
            Ok((rule, rewrite.clone()))
        });
        Ok(Some(Rewrites(compiled.collect::<io::Result<_>>()?)))
    }

    /// Returns what replaces the path of a request. The first rewrite that matches counts; a redirect of the path
    /// comes before all.
    pub(crate) fn of(&self, request: &Request<'_>, redirects: &Redirects) -> Option<NewTarget> {
        let path = request.path.as_ref().ok()?;
        if path.is_whole_server() || is_redirected(path, request.query, redirects) {
            return None;
        }
        let decoded = decode(path.as_str());
        let mut rules = self.0.iter();
        let (target, rewrite) =
            rules.find_map(|(rule, rewrite)| Some((rule.target(&decoded)?, rewrite)))?;
        // Targets are ASCII.
        let target = String::from_utf8(target).ok()?;
        trace::note("rewrite", || {
            let from = &rewrite.from;
            format!("the --rewrite of {from} leads to {}", target.escape_debug())
        });
        Some(match target.split_once('?') {
            None => NewTarget {
                path: target,
                query: None,
            },
            Some((path, query)) => NewTarget {
                path: path.to_owned(),
                query: Some(query.replace(QUERY, request.query.unwrap_or_default())),
            },
        })
    }
}

impl NewTarget {
    /// Returns a request with the new path. It may be a path that is refused.
    pub(crate) fn apply<'r>(&'r self, request: &Request<'r>) -> Request<'r> {
        Request {
            path: new_path(&self.path),
            query: self.query.as_deref().or(request.query),
            ..request.clone()
        }
    }
}

/// Parses a path that was put together. What was inserted may end in a dot segment or begin with one, and must not lead
/// out of the directory that the target names.
fn new_path(text: &str) -> Result<RequestPath<'_>, Rejection> {
    let is_dots = |segment: &str| {
        let rest = segment.replace("%2e", ".").replace("%2E", ".");
        rest == "." || rest == ".."
    };
    if text.split('/').any(is_dots) {
        Err(Rejection::PathAmbiguous)
    } else {
        RequestPath::new(text)
    }
}

/// Stands for the query of the request, as in `--try`.
const QUERY: &str = "{query}";

fn compile(rewrite: &Rewrite) -> Result<PathRule, String> {
    let to = &rewrite.to;
    if !to.starts_with('/') || to.starts_with("//") {
        return Err("the target must be a path, which begins with one slash".to_owned());
    }
    if to.contains('#') {
        return Err("the target has a #: the path of a request has no fragment".to_owned());
    }
    let rule = PathRule::new(&rewrite.from, to)?;
    let path = to.split_once('?').map_or(&**to, |(path, _)| path);
    if rule.has_fixed_target()
        && let Err(rejection) = new_path(path)
    {
        return Err(Rejection::to_string(&rejection));
    }
    Ok(rule)
}

fn is_redirected(path: &RequestPath<'_>, query: Option<&str>, redirects: &Redirects) -> bool {
    let mut name = Vec::new();
    path.file_name(&mut name).is_ok_and(|normal| {
        let found = redirects.of(&name, normal.trailing_slash, query);
        found.is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_http::{Limits, Parsed, parse};

    fn rewritten(rules: &[&str], redirects: &[&str], target: &str) -> Option<String> {
        let rules: Vec<Rewrite> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let redirects: Vec<_> = redirects.iter().map(|rule| rule.parse().unwrap()).collect();
        let head = format!("GET {target} HTTP/1.0\r\n\r\n");
        let Ok(Parsed::Complete { request, .. }) = parse(head.as_bytes(), &Limits::DEFAULT) else {
            panic!("{target}");
        };
        let redirects = Redirects::new(&redirects).unwrap();
        let new = Rewrites::new(&rules).unwrap()?.of(&request, &redirects)?;
        let request = new.apply(&request);
        assert_eq!(request.target, target, "the log has it");
        let query = request.query.map(|query| format!("?{query}"));
        let path = match &request.path {
            Ok(path) => path.as_str().to_owned(),
            Err(rejection) => rejection.to_string(),
        };
        Some(path + &query.unwrap_or_default())
    }

    #[test]
    fn the_first_that_fits_once() {
        let rules = [
            "/app/*=/index.html",
            r"~^/item/(\d+)$=/item.php?id=$1&{query}",
            "~^/v1(/.*)$=/v2$1",
            "~^/(.*)/raw$=/data/$1",
            "/v2/x=/never",
            "~^/img-(.*)$=/public/$1",
        ];
        let to = |target| rewritten(&rules, &["/app/old=/new"], target);
        assert_eq!(to("/app/x/y?z").as_deref(), Some("/index.html?z"));
        assert_eq!(to("/item/7?a=b").as_deref(), Some("/item.php?id=7&a=b"));
        assert_eq!(to("/v1/x%2fy//z").as_deref(), Some("/v2/x%2Fy//z"));
        assert_eq!(to("/v1/x").as_deref(), Some("/v2/x"));
        let refused = Rejection::PathAmbiguous.to_string();
        for target in ["/img-../x", "/img-./x"] {
            assert_eq!(to(target).as_ref(), Some(&refused), "{target}");
        }
        for target in ["/app/old", "/other", "/item/x", "/../x"] {
            assert_eq!(to(target), None, "{target}");
        }
        assert_eq!(rewritten(&[], &[], "/x"), None);
    }

    #[test]
    fn nonsense_is_refused() {
        for rule in [
            "/a=b",
            "/a=//b",
            "/a=https://b/",
            "/a=/b#c",
            "/a=/../b",
            "/a=/%",
            "~^/a(=/b",
            "~^/(a)=/$2",
        ] {
            let parsed = rule.parse::<Rewrite>().unwrap();
            assert!(Rewrites::new(&[parsed]).is_err(), "{rule}");
        }
    }
}
