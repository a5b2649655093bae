//! Which requests the server asks auth servers about, and which fields of a request it sends them.

use super::auth::{Resource, is_guarded};
use super::fields::globs;
use crate::field_names::{is_one_of, is_same_variable};
use crate::options::{self, AuthServer, Site as Description};
use crate::upstream::group::{Group, Healths};
use globset::GlobSet;
use laio_http::{Guard, Request, RequestPath};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The auth servers of a site.
pub(crate) struct AuthRequests {
    rules: Vec<AuthRule>,
    /// The paths whose requests are let in without asking, and their globs.
    open: Option<(GlobSet, Vec<String>)>,
    /// The fields of requests that are sent; all if it is empty.
    send: Vec<String>,
    copy: Vec<options::CopiedField>,
    pub(crate) passes_cookies: bool,
    login: Option<String>,
    pub(crate) time: Duration,
    pub(crate) body_bytes: usize,
}

/// The auth servers for a glob.
pub(crate) struct AuthRule {
    /// None guards every path.
    guard: Option<(String, Guard)>,
    pub(crate) group: Arc<Group>,
    /// The path that the servers are asked for.
    pub(crate) path: String,
    pub(crate) query: Option<String>,
}

/// Fields that no auth server gets from a client: those of the body and the connection, which it does not get either,
/// those that could make the answer another one than that to the question, and those that the server itself sets.
const NEVER_SENT: [&str; 18] = [
    "Content-Encoding",
    "Content-Language",
    "Content-Length",
    "Content-Location",
    "Content-Range",
    "Content-Type",
    "Digest",
    "Expect",
    "If",
    "If-Match",
    "If-Modified-Since",
    "If-None-Match",
    "If-Range",
    "If-Unmodified-Since",
    "Range",
    "Upgrade",
    "X-Forwarded-Method",
    "X-Original-Method",
];

/// Fields that describe the client of a trusted proxy, which auth servers need whatever is sent else.
const FORWARDED: [&str; 5] = [
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Real-IP",
];

/// Fields that auth servers get although they are copied: they are what the client shows.
const CREDENTIALS: [&str; 2] = ["Authorization", "Cookie"];

/// Fields that the server sets itself, or that frame the message.
const RESERVED: [&str; 18] = [
    "Connection",
    "Content-Length",
    "Content-Type",
    "Expect",
    "Forwarded",
    "Host",
    "Keep-Alive",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-URI",
    "X-Original-URL",
];

impl AuthRequests {
    /// Compiles the rules of a site, or returns none if it has none.
    ///
    /// # Errors
    /// When a glob, a name or a server is malformed.
    pub(crate) fn new(
        site: &Description,
        healths: &mut Healths,
    ) -> io::Result<Option<AuthRequests>> {
        let given = &site.auth_requests;
        // A host without auth servers may share its upstreams with a site that has them.
        if given.rules.is_empty() && given.copy.is_empty() {
            return Ok(None);
        }
        if !given.rules.is_empty() && given.rules.iter().all(|rule| rule.server.is_none()) {
            return Err(wrong(
                "--auth-request GLOB=off needs an auth server for the other paths: --auth-request [GLOB=]URL".to_owned(),
            ));
        }
        check_fields(site)?;
        let login = given.login.clone();
        if let Some(login) = &login {
            check_login(login)?;
        }
        let mut places: Vec<Option<&str>> = Vec::new();
        let mut open: Vec<String> = Vec::new();
        for rule in &given.rules {
            let place = rule.glob.as_deref();
            match &rule.server {
                None => open.extend(rule.glob.clone()),
                Some(_) if places.contains(&place) => {}
                Some(_) => places.push(place),
            }
        }
        let most = options::AuthRequests::GLOBS;
        if places.len() + open.len() > most {
            return Err(wrong(format!("--auth-request has more than {most} globs")));
        }
        let rules = places.iter().map(|&place| {
            let rules = given.rules.iter();
            let servers = rules.filter(|rule| rule.glob.as_deref() == place);
            let servers: Vec<_> = servers.filter_map(|rule| rule.server.as_ref()).collect();
            AuthRule::new(place, &servers, site.upstreams.ca.as_deref(), healths)
        });
        Ok(Some(AuthRequests {
            rules: rules.collect::<io::Result<_>>()?,
            open: if open.is_empty() {
                None
            } else {
                Some((globs(open.iter().map(String::as_str))?, open))
            },
            send: given.send.clone(),
            copy: given.copy.clone(),
            passes_cookies: given.cookies,
            login,
            time: given.time,
            body_bytes: given.body_bytes,
        }))
    }

    /// Returns the rules, each of which must let a request for a resource in, with their numbers.
    pub(crate) fn of(&self, resource: Resource<'_>) -> impl Iterator<Item = (usize, &AuthRule)> {
        let rules = match self.opens(resource) {
            Some(_) => &[],
            None => &self.rules[..],
        };
        let rules = rules.iter().enumerate();
        rules.filter(move |(_, rule)| rule.guards(resource))
    }

    /// Returns the glob that lets a request for a resource in without asking.
    pub(crate) fn opens(&self, resource: Resource<'_>) -> Option<&str> {
        let (set, globs) = self.open.as_ref()?;
        let path = match resource {
            Resource::Every => return None,
            Resource::Name(name) => std::str::from_utf8(name).ok()?,
            Resource::File(path) | Resource::Upstream(path) | Resource::Program(path, _) => {
                path.as_str().strip_prefix('/')?
            }
        };
        if !has_one_meaning(path) {
            return None;
        }
        let found = |path: &str| set.matches(Path::new(path)).first().copied();
        let found = found(path).or_else(|| found(&format!("{path}/")))?;
        Some(&globs[found])
    }

    /// Returns the groups of auth servers, in the order of the rules.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.rules.iter().map(|rule| &rule.group)
    }

    /// Returns a request without the fields that only auth servers set.
    pub(crate) fn without_copied<'r>(&self, request: &Request<'r>) -> Request<'r> {
        Request {
            headers: request.headers.filtered(|name| !self.copies_to(name)),
            ..request.clone()
        }
    }

    /// Whether auth servers get a field of a request.
    pub(crate) fn sends(&self, name: &[u8]) -> bool {
        let is_wanted = self.send.is_empty()
            || self.send.iter().any(|own| is_same_variable(name, own))
            || is_one_of(name, &FORWARDED);
        is_wanted
            && !NEVER_SENT.iter().any(|own| is_same_variable(name, own))
            && (is_one_of(name, &CREDENTIALS) || !self.copies_to(name))
    }

    /// Returns the names that a field of an answer has in the request for an upstream.
    pub(crate) fn copies<'s>(&'s self, name: &'s [u8]) -> impl Iterator<Item = &'s str> {
        let same = |field: &&options::CopiedField| field.from.as_bytes().eq_ignore_ascii_case(name);
        self.copy.iter().filter(same).map(|field| &*field.to)
    }

    /// Returns the name of the field that names the user.
    pub(crate) fn user_field(&self) -> Option<&str> {
        Some(&*self.copy.first()?.to)
    }

    /// Returns the URL where browsers log in, for a request at `origin` (scheme and host) for `uri`.
    pub(crate) fn login(&self, origin: &str, uri: &str) -> Option<String> {
        let escaped = |text: &str| utf8_percent_encode(text, UNRESERVED).to_string();
        let url = self.login.as_ref()?.replace(URI, &escaped(uri));
        Some(url.replace(URL, &escaped(&format!("{origin}{uri}"))))
    }

    fn copies_to(&self, name: &[u8]) -> bool {
        let mut copied = self.copy.iter();
        copied.any(|field| is_same_variable(name, &field.to))
    }
}

impl AuthRule {
    fn new(
        glob: Option<&str>,
        servers: &[&AuthServer],
        ca: Option<&Path>,
        healths: &mut Healths,
    ) -> io::Result<AuthRule> {
        let first = servers[0];
        if let Some(other) = servers
            .iter()
            .find(|it| (&it.path, &it.query) != (&first.path, &first.query))
        {
            return Err(wrong(format!(
                "the servers of one glob of --auth-request have different paths: {} and {}",
                first.path, other.path
            )));
        }
        let path = RequestPath::new(&first.path).map_err(|error| wrong(error.to_string()))?;
        let guard = |glob: &str| {
            let guard = Guard::new([glob]).map_err(|bad| wrong(bad.to_string()))?;
            io::Result::Ok((glob.to_owned(), guard))
        };
        let upstreams: Vec<_> = servers.iter().map(|server| &server.upstream).collect();
        Ok(AuthRule {
            guard: glob.map(guard).transpose()?,
            group: Arc::new(Group::of_auth_servers(&upstreams, ca, healths)?),
            path: path.as_str().to_owned(),
            query: first.query.clone(),
        })
    }

    fn guards(&self, resource: Resource<'_>) -> bool {
        let guard = self.guard.as_ref();
        guard.is_none_or(|(_, guard)| is_guarded(guard, resource))
    }

    /// Returns the rule as text.
    pub(crate) fn described(&self) -> String {
        let to = format!("{}{}", self.group.name(), self.path);
        match &self.guard {
            Some((glob, _)) => format!("--auth-request {glob} asks {to}"),
            None => format!("--auth-request asks {to}"),
        }
    }
}

/// Stands for the percent-encoded path and query of a request.
const URI: &str = "{uri}";
/// Stands for its percent-encoded address.
const URL: &str = "{url}";

const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Whether every program reads a path as what it says. A program gets what follows its own name in a path, which may
/// be another path.
fn has_one_meaning(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~./".contains(&byte);
    let names_program = |path: &str| {
        let at = path.to_ascii_lowercase().find(".ph");
        at.is_some_and(|at| path[at..].contains('/'))
    };
    path.bytes().all(plain) && !names_program(path)
}

fn check_fields(site: &Description) -> io::Result<()> {
    let given = &site.auth_requests;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(token);
    let names = given.copy.iter().flat_map(|it| [&it.from, &it.to]);
    if let Some(name) = names.chain(&given.send).find(|name| !is_name(name)) {
        return Err(wrong(format!("{name:?} is not a field name")));
    }
    let most = options::AuthRequests::COPIED;
    if given.copy.len() > most || given.send.len() > most {
        return Err(wrong(format!(
            "--auth-request-copy and --auth-request-send have at most {most} fields each"
        )));
    }
    for options::CopiedField { to, .. } in &given.copy {
        if RESERVED
            .iter()
            .any(|own| is_same_variable(to.as_bytes(), own))
        {
            return Err(wrong(format!(
                "--auth-request-copy cannot set the field {to}: the server sets it itself; choose another name with NAME=NAME"
            )));
        }
        if site.auth.users.is_some() && to.eq_ignore_ascii_case("Authorization") {
            return Err(wrong(
                "--auth-request-copy of Authorization cannot be combined with --auth, which reads that field; choose another name with NAME=NAME".to_owned(),
            ));
        }
    }
    Ok(())
}

fn check_login(login: &str) -> io::Result<()> {
    let starts = ["/", "http://", "https://"];
    let good = starts.iter().any(|start| login.starts_with(start));
    if good && login.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(())
    } else {
        Err(wrong(format!(
            "--auth-request-login {login:?} is no address: write /PATH or https://HOST/PATH, percent-encoded; {URL} and {URI} are replaced"
        )))
    }
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_http::{Limits, Mount, Parsed, parse};

    fn compiled(change: impl FnOnce(&mut options::AuthRequests)) -> io::Result<AuthRequests> {
        let mut site = Description::default();
        change(&mut site.auth_requests);
        Ok(AuthRequests::new(&site, &mut Healths::default())?.unwrap())
    }

    fn with_rules(rules: &[&str]) -> io::Result<AuthRequests> {
        compiled(|it| it.rules = rules.iter().map(|rule| rule.parse().unwrap()).collect())
    }

    #[test]
    fn every_matching_rule_decides_unless_one_opens_the_path() {
        let rules = with_rules(&[
            "http://127.0.0.1:1",
            "/admin/**=http://127.0.0.1:2/v",
            "http://127.0.0.1:3",
            "/login/**=off",
            "*.css=off",
        ]);
        let rules = rules.unwrap();
        assert_eq!(rules.groups().count(), 2);
        let of = |resource: Resource<'_>| rules.of(resource).map(|it| it.0).collect::<Vec<_>>();
        let file = |path: &str| of(Resource::File(&RequestPath::new(path).unwrap()));
        assert_eq!(file("/"), [0]);
        assert_eq!(file("/%41dmin/x"), [0, 1]);
        assert_eq!(of(Resource::Every), [0, 1]);
        assert_eq!(of(Resource::Name(b"admin/index.html")), [0, 1]);
        for open in ["/login", "/login/", "/login/a/b", "/a.css", "/b/a.css"] {
            assert!(file(open).is_empty(), "{open}");
        }
        for asked in [
            "/Login/x",
            "/%6cogin%2fx",
            "/login;a/x",
            "/login%20/x",
            "/index.php/a.css",
            "/x.PHP5/login/a.css",
            "*",
        ] {
            assert_eq!(file(asked)[0], 0, "{asked}");
        }
        let path = RequestPath::new("/login/x.php/admin").unwrap();
        let mount = Mount::new("/", None).unwrap();
        assert_eq!(of(Resource::Program(&path, &mount)), [0, 1]);
    }

    #[test]
    fn what_is_no_rule() {
        for bad in [
            &["/x=off"][..],
            &["/[=http://127.0.0.1:1"],
            &["http://127.0.0.1:1", "/[=off"],
            &["http://127.0.0.1:1/a", "http://127.0.0.1:2/b"],
            &["http://127.0.0.1:1", "https://127.0.0.1:2"],
            &["http://127.0.0.1:1", "http://127.0.0.1:1"],
            &["http://127.0.0.1:1/..%2f"],
        ] {
            assert!(with_rules(bad).is_err(), "{bad:?}");
        }
        let with_copy = |copy: &str| {
            compiled(|it| {
                it.rules = vec!["http://127.0.0.1:1".parse().unwrap()];
                it.copy = vec![copy.parse().unwrap()];
            })
            .is_ok()
        };
        assert!(with_copy("Remote-User") && with_copy("Authorization") && with_copy("A=B"));
        for bad in [
            "",
            "A B",
            "A=",
            "A=Content-Length",
            "Host",
            "x_forwarded_for",
        ] {
            assert!(!with_copy(bad), "{bad}");
        }
        for bad in ["login", "//x y", "ftp://x"] {
            let login = compiled(|it| {
                it.rules = vec!["http://127.0.0.1:1".parse().unwrap()];
                it.login = Some(bad.to_owned());
            });
            assert!(login.is_err(), "{bad}");
        }
    }

    #[test]
    fn fields_that_are_sent_and_removed() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\nremote_user: x\r\nREMOTE-USER: y\r\nCookie: c\r\nX-A: b\r\n\r\n";
        let Ok(Parsed::Complete { request, .. }) = parse(head, &Limits::DEFAULT) else {
            panic!("the head is complete");
        };
        let rules = |send: &[&str], copy: &[&str]| {
            compiled(|it| {
                it.rules = vec!["http://127.0.0.1:1".parse().unwrap()];
                it.send = send.iter().map(|&name| name.to_owned()).collect();
                it.copy = copy.iter().map(|name| name.parse().unwrap()).collect();
            })
            .unwrap()
        };
        let all = rules(&[], &["X-Auth=Remote-User", "Authorization"]);
        let names = |request: &Request<'_>| {
            let names = request.headers.iter().map(|(name, _)| name.to_vec());
            names.collect::<Vec<_>>()
        };
        let kept = all.without_copied(&request);
        assert_eq!(names(&kept), [&b"Host"[..], b"Cookie", b"X-A"]);
        assert!(all.sends(b"Cookie") && all.sends(b"authorization") && all.sends(b"X-A"));
        for never in [
            &b"Remote_User"[..],
            b"Content-Length",
            b"If-None-Match",
            b"Range",
        ] {
            assert!(!all.sends(never));
        }
        let some = rules(&["cookie"], &[]);
        assert!(some.sends(b"Cookie") && some.sends(b"X-Forwarded-For") && !some.sends(b"X-A"));
        assert_eq!(all.copies(b"x-auth").collect::<Vec<_>>(), ["Remote-User"]);
    }

    #[test]
    fn addresses_of_logins() {
        let rules = compiled(|it| {
            it.rules = vec!["http://127.0.0.1:1".parse().unwrap()];
            it.login = Some("/in?rd={url}&p={uri}".to_owned());
        });
        let login = rules.unwrap().login("https://a.b", "/x?{url}=\u{e9}&");
        assert_eq!(
            login.unwrap(),
            "/in?rd=https%3A%2F%2Fa.b%2Fx%3F%7Burl%7D%3D%C3%A9%26&p=%2Fx%3F%7Burl%7D%3D%C3%A9%26"
        );
    }
}
