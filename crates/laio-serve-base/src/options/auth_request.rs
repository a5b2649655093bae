//! Servers that decide which requests are let in.

use super::declare::options;
#[cfg(feature = "clap")]
use super::declare::seconds;
use super::upstream::{Protocol, Upstream};
use std::str::FromStr;
use std::time::Duration;

options! {
    /// Auth servers: each decides, for one request after the other, whether it is let in.
    pub struct AuthRequests {
        /// Ask the auth server at this URL about each request, and let it in only if the answer is 2xx; with a glob only
        /// requests for paths that it matches. GLOB=off lets requests in without asking.
        ///
        /// It gets a GET with the fields of the request, and the method and the address in
        /// X-Forwarded-Method, X-Forwarded-Proto, X-Forwarded-Host, X-Forwarded-Uri, X-Original-Method,
        /// X-Original-URI and X-Original-URL. An answer of 3xx or 4xx goes to the client. Any other, and a
        /// missing one, is 503. URLs are written as for `--proxy`, and may have a query; several for a glob
        /// share its requests. The servers of all globs that match must let the request in. Globs are as in
        /// `--auth-path`, but `off` needs a path without escapes, in the same case.
        #[arg(long = "auth-request", value_name = "[GLOB=]URL", help_heading = "Access")]
        pub rules: Vec<AuthRule> = Vec::new(),
        /// Send auth servers only these fields of a request, such as Cookie and Authorization [default: all]
        ///
        /// Fields about its body, its connection and what the client has in a cache are never sent.
        #[arg(long = "auth-request-send", value_name = "NAME", value_delimiter = ',', help_heading = "Access")]
        pub send: Vec<String> = Vec::new(),
        /// Copy this field of an answer of 2xx to the request for an upstream, perhaps with another name.
        ///
        /// The fields of these names that a client sends are removed from all its requests, also in the access log.
        /// The first one is the name of the user: REMOTE_USER of programs, and the owner of WebDAV locks.
        #[arg(long = "auth-request-copy", value_name = "NAME[=NAME]", value_delimiter = ',', help_heading = "Access")]
        pub copy: Vec<CopiedField> = Vec::new(),
        /// Add the Set-Cookie fields of an answer of 2xx to the response.
        ///
        /// Auth servers that renew sessions need it.
        #[arg(long = "auth-request-cookies", help_heading = "Access")]
        pub cookies: bool = false,
        /// Answer browsers with a redirect to this URL instead of 401 of an auth server.
        ///
        /// {url} in it is the address of the request, {uri} only its path and query, both percent-encoded. Other
        /// clients (no Accept: text/html), and other methods than GET and HEAD, get the 401.
        #[arg(long = "auth-request-login", value_name = "URL", help_heading = "Access")]
        pub login: Option<String> = None,
        /// Time for an auth server to answer; then another one of its glob is asked, or the answer is 503.
        #[arg(long = "auth-request-timeout", value_name = "SECONDS", value_parser = seconds, help_heading = "Access")]
        pub time: Duration = Duration::from_secs(10),
        /// Bytes of the body of an auth server's answer; more is 503.
        #[arg(long = "max-auth-request-bytes", value_name = "BYTES", help_heading = "Access")]
        pub body_bytes: usize = 64 << 10,
    }
}

/// Which requests an auth server decides about.
///
/// ```
/// # use laio_serve_base::options as laio_serve;
/// use laio_serve::AuthRule;
///
/// let rule: AuthRule = "/admin/**=http://127.0.0.1:4180/oauth2/auth?allowed_groups=admins".parse()?;
/// assert_eq!(rule.glob.as_deref(), Some("/admin/**"));
/// assert_eq!(rule.server.unwrap().path, "/oauth2/auth");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthRule {
    /// None matches every path.
    pub glob: Option<String>,
    /// None lets the requests in.
    pub server: Option<AuthServer>,
}

/// A server that decides whether a request is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthServer {
    /// Its address. Its prefix and path have no meaning.
    pub upstream: Upstream,
    /// The path that it is asked for.
    pub path: String,
    /// The query that it is asked with.
    pub query: Option<String>,
}

/// A field of an auth server's answer that upstreams get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedField {
    /// The name in the answer.
    pub from: String,
    /// The name in the request for an upstream.
    pub to: String,
}

impl AuthRequests {
    /// Globs of a site.
    pub const GLOBS: usize = 64;
    /// Fields of a site that are copied.
    pub const COPIED: usize = 32;
    /// Fields of a response that set cookies, of all auth servers.
    pub const COOKIES: usize = 32;
}

/// What begins a URL of an auth server.
const SCHEMES: [&str; 6] = ["http:", "https:", "http+unix:", "h2c:", "h2:", "h2c+unix:"];

/// Parses `[GLOB=]URL` or `GLOB=off`.
impl FromStr for AuthRule {
    type Err = String;

    fn from_str(text: &str) -> Result<AuthRule, String> {
        let is_url = |text: &str| SCHEMES.iter().any(|scheme| text.starts_with(scheme));
        if is_url(text) {
            return Ok(AuthRule {
                glob: None,
                server: Some(text.parse()?),
            });
        }
        let mut ends = text.match_indices('=').map(|(at, _)| at);
        let end = ends.find(|&at| {
            let rest = &text[at + 1..];
            is_url(rest) || rest == "off"
        });
        let end = end.ok_or_else(|| {
            format!("{text:?} is no rule: write http://HOST:PORT/PATH, GLOB=http://HOST:PORT/PATH or GLOB=off")
        })?;
        let server = match &text[end + 1..] {
            "off" => None,
            url => Some(url.parse()?),
        };
        Ok(AuthRule {
            glob: Some(text[..end].to_owned()),
            server,
        })
    }
}

/// Parses a URL as that of `--proxy`, with an optional query.
impl FromStr for AuthServer {
    type Err = String;

    fn from_str(text: &str) -> Result<AuthServer, String> {
        let (url, weight) = match text.rfind(",weight=") {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let (url, query) = match url.split_once('?') {
            Some((url, query)) => (url, Some(query)),
            None => (url, None),
        };
        let strange = |byte: u8| !byte.is_ascii_graphic() || byte == b'#';
        if query.is_some_and(|query| query.bytes().any(strange)) {
            return Err(format!("the query of {text:?} must be percent-encoded"));
        }
        let mut upstream = Upstream::http(&format!("/={url}{weight}"))?;
        let (Protocol::Http { path } | Protocol::Http2 { path }) = &mut upstream.protocol else {
            return Err(format!("{text:?} is no URL of an HTTP server"));
        };
        let path = path.take();
        Ok(AuthServer {
            upstream,
            path: path.unwrap_or_else(|| "/".to_owned()),
            query: query.map(str::to_owned),
        })
    }
}

/// Parses `NAME` or `NAME=NAME`.
impl FromStr for CopiedField {
    type Err = String;

    fn from_str(text: &str) -> Result<CopiedField, String> {
        let (from, to) = text.split_once('=').unwrap_or((text, text));
        Ok(CopiedField {
            from: from.to_owned(),
            to: to.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::UpstreamAddress;

    #[test]
    fn rules() {
        let rule = |text: &str| {
            let rule: AuthRule = text.parse().unwrap();
            let server = rule
                .server
                .map(|it| (it.upstream.address, it.path, it.query));
            (rule.glob, server)
        };
        let tcp = |host: &str, port| UpstreamAddress::Tcp(host.to_owned(), port);
        let to = |address, path: &str, query: Option<&str>| {
            Some((address, path.to_owned(), query.map(str::to_owned)))
        };
        assert_eq!(rule("http://a"), (None, to(tcp("a", 80), "/", None)));
        assert_eq!(
            rule("/a=b/**=https://c/d/?rd=http://e/=f,weight=2"),
            (
                Some("/a=b/**".to_owned()),
                to(tcp("c", 443), "/d/", Some("rd=http://e/=f"))
            )
        );
        assert_eq!(
            rule("http+unix:/run/s:/v?q"),
            (
                None,
                to(UpstreamAddress::Unix("/run/s".into()), "/v", Some("q"))
            )
        );
        assert_eq!(rule("/x=off"), (Some("/x".to_owned()), None));
        let weighed: AuthServer = "http://a/b?c,weight=7".parse().unwrap();
        assert_eq!(weighed.upstream.weight, 7);
        for bad in [
            "",
            "off",
            "/x",
            "/x=",
            "/x=ftp://a",
            "http://",
            "http://a/b?c#d",
            "http://a/b?\u{e9}",
            "http://a,weight=0",
        ] {
            assert!(bad.parse::<AuthRule>().is_err(), "{bad}");
        }
    }

    #[test]
    fn copied_fields() {
        let field = |text: &str| {
            let field: CopiedField = text.parse().unwrap();
            (field.from, field.to)
        };
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(field("Remote-User"), pair("Remote-User", "Remote-User"));
        assert_eq!(field("X-A=X-B"), pair("X-A", "X-B"));
    }
}
