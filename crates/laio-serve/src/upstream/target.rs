//! Which upstream a path is for, and what it is called there.

use super::encryption::Encryption;
use super::names::{Addresses, Place};
use super::pool::Pool;
use crate::options::{Protocol, Upstream};
use laio_http::Rejection;
use std::borrow::Cow;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// The upstreams of a site, as all workers share them: those with the longest prefixes first.
#[derive(Default)]
pub(crate) struct Targets(Vec<Arc<Target>>);

/// An upstream.
pub(crate) struct Target {
    /// Normalised, and without a slash at its end, unless one was asked for.
    prefix: String,
    pub(super) protocol: Protocol,
    pub(super) place: Place,
    pub(super) encryption: Option<Encryption>,
    /// For the log.
    pub(crate) name: String,
}

/// An upstream as one worker has it.
pub(crate) struct Route {
    pub(crate) target: Arc<Target>,
    pub(crate) pool: Rc<Pool>,
}

impl Targets {
    /// # Errors
    /// When a name cannot be looked up, or a prefix is there twice.
    pub(crate) fn new(upstreams: &[Upstream]) -> io::Result<Targets> {
        let target = |upstream: &Upstream| Target::new(upstream).map(Arc::new);
        let mut targets: Vec<_> = upstreams.iter().map(target).collect::<Result<_, _>>()?;
        targets.sort_by_key(|target| std::cmp::Reverse(target.prefix.len()));
        if let Some(pair) = targets
            .windows(2)
            .find(|pair| pair[0].prefix == pair[1].prefix)
        {
            let text = format!("there are two upstreams for {}", pair[0].prefix);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Targets(targets))
    }

    /// For one worker.
    pub(crate) fn routes(&self) -> Vec<Route> {
        let route = |target: &Arc<Target>| Route {
            target: target.clone(),
            pool: Rc::default(),
        };
        self.0.iter().map(route).collect()
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = Arc<Addresses>> {
        self.0.iter().filter_map(|target| match &target.place {
            Place::Tcp(addresses) => Some(addresses.clone()),
            Place::Unix(_) => None,
        })
    }
}

impl Target {
    fn new(upstream: &Upstream) -> io::Result<Target> {
        let prefix = normal(&upstream.prefix)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        let scheme = match (&upstream.protocol, &upstream.tls) {
            (Protocol::Http { .. }, None) => "http",
            (Protocol::Http { .. }, Some(_)) => "https",
            (Protocol::FastCgi, _) => "fastcgi",
        };
        Ok(Target {
            name: format!("{scheme}://{}", upstream.address),
            prefix: prefix.into_owned(),
            protocol: upstream.protocol.clone(),
            place: Place::find(&upstream.address)?,
            encryption: Encryption::of(upstream)?,
        })
    }

    /// What is left of a path behind the prefix, beginning with a slash or empty; none if it does not begin with
    /// it.
    fn rest<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = path.strip_prefix(self.prefix.trim_end_matches('/'))?;
        let ends = rest.starts_with('/') || (rest.is_empty() && !self.prefix.ends_with('/'));
        ends.then_some(rest)
    }

    /// The prefix as the name of a program, and the path behind it.
    pub(super) fn split<'p>(&self, path: &'p str) -> (&'p str, &'p str) {
        let rest = self.rest(path).unwrap_or(path);
        path.split_at(path.len() - rest.len())
    }

    /// What an HTTP upstream knows a path by.
    pub(super) fn path_there<'p>(&self, path: &'p str) -> Cow<'p, str> {
        let Protocol::Http { path: Some(there) } = &self.protocol else {
            return path.into();
        };
        let rest = self.rest(path).unwrap_or(path);
        let joined = format!("{}{rest}", there.trim_end_matches('/'));
        match joined.is_empty() {
            true => "/".into(),
            false => joined.into(),
        }
    }
}

/// The route for a path, and the path made normal.
pub(crate) fn route<'r, 'p>(
    routes: &'r [Route],
    path: &'p str,
) -> Option<(&'r Route, Cow<'p, str>)> {
    if routes.is_empty() {
        return None;
    }
    // What is malformed is refused where files are looked for.
    let path = normal(path).ok()?;
    let route = routes
        .iter()
        .find(|route| route.target.rest(&path).is_some())?;
    Some((route, path))
}

/// A path in the form that all writings of it share (RFC 3986, section 6.2.2): what need not be encoded is not,
/// dot segments are resolved. Encoded slashes stay: they are the upstream's to understand.
fn normal(path: &str) -> Result<Cow<'_, str>, Rejection> {
    let rest = path.strip_prefix('/').ok_or(Rejection::Target)?;
    let dots = rest.split('/').any(|segment| matches!(segment, "." | ".."));
    if !dots && !path.contains('%') {
        return Ok(path.into());
    }
    let mut out: Vec<Cow<'_, str>> = Vec::new();
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        let segment = unencoded(segment)?;
        match &*segment {
            "." | ".." => {
                if segment == ".." && out.pop().is_none() {
                    return Err(Rejection::PathAboveRoot);
                }
                if last {
                    out.push("".into());
                }
            }
            _ => out.push(segment),
        }
    }
    Ok(format!("/{}", out.join("/")).into())
}

fn unencoded(segment: &str) -> Result<Cow<'_, str>, Rejection> {
    if !segment.contains('%') {
        return Ok(segment.into());
    }
    let mut out = String::with_capacity(segment.len());
    let mut parts = segment.split('%');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).ok_or(Rejection::PathEscape)?;
        let hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let byte = u8::from_str_radix(digits, 16).ok().filter(|_| hex);
        match byte.ok_or(Rejection::PathEscape)? {
            0 => return Err(Rejection::PathNul),
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                out.push(char::from(byte));
            }
            _ => {
                out.push('%');
                out.push_str(&digits.to_ascii_uppercase());
            }
        }
        out.push_str(rest);
    }
    Ok(out.into())
}

/// A path as the name of a file would be, so that it is guarded as strictly as any reading of it could ask for:
/// with encoded slashes as slashes, and without dot segments that this makes.
pub(super) fn guarded_name(path: &str, name: &mut Vec<u8>) -> Result<(), Rejection> {
    let slashes = path.replace("%2F", "/");
    laio_http::path::normalize(&slashes, name).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_one_form() {
        for (path, expected) in [
            ("/", "/"),
            ("/a//b/", "/a//b/"),
            ("/%61pi/x", "/api/x"),
            ("/a/./b/../c", "/a/c"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/..", "/"),
            ("/a/b/.", "/a/b/"),
            ("/a%2fb%c3", "/a%2Fb%C3"),
        ] {
            assert_eq!(normal(path).unwrap(), expected, "{path}");
        }
        for bad in ["a", "/..", "/a/../..", "/%", "/%1", "/%+1", "/%00", "/%é"] {
            assert!(normal(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_longest_prefix_wins() {
        let upstream = |text: &str| Upstream::http(text).unwrap();
        let targets = Targets::new(&[
            upstream("/api=http://127.0.0.1:1"),
            upstream("/api/new/=http://127.0.0.1:2/v2/"),
            upstream("/x=http+unix:/s:/"),
        ])
        .unwrap();
        let routes = targets.routes();
        let there = |path: &str| {
            let (route, path) = route(&routes, path)?;
            let to = route.target.path_there(&path).into_owned();
            Some((route.target.name.clone(), to))
        };
        let at = |name: &str, path: &str| Some((format!("http://{name}"), path.to_owned()));
        assert_eq!(there("/api"), at("127.0.0.1:1", "/api"));
        assert_eq!(there("/api/%61"), at("127.0.0.1:1", "/api/a"));
        assert_eq!(there("/api/new"), at("127.0.0.1:1", "/api/new"));
        assert_eq!(there("/api/new/"), at("127.0.0.1:2", "/v2/"));
        assert_eq!(there("/api/new/a/b"), at("127.0.0.1:2", "/v2/a/b"));
        assert_eq!(there("/x"), at("unix:/s", "/"));
        assert_eq!(there("/x/"), at("unix:/s", "/"));
        assert_eq!(there("/x/y"), at("unix:/s", "/y"));
        for other in ["/apix", "/", "/api/../y", "//api", "*", "/%zz"] {
            assert_eq!(there(other), None, "{other}");
        }
        let twice = [
            upstream("/a=http://127.0.0.1"),
            upstream("/a=http://127.0.0.1"),
        ];
        assert!(Targets::new(&twice).is_err());
    }

    #[test]
    fn encoded_slashes_do_not_lead_past_a_guard() {
        let mut name = Vec::new();
        guarded_name("/api/x%2F..%2Fadmin", &mut name).unwrap();
        assert_eq!(name, b"api/admin");
    }
}
