//! The request that is explained.

use std::io;
use std::net::IpAddr;

/// The field in which the request names its client, which no other request has.
pub(super) const CLIENT_FIELD: &str = "X-Laio-Explained-Client";

/// A request: its URL, its method and its header fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Whether the URL is one of https.
    pub secure: bool,
    /// The host of the URL, with its port, as the `Host` field has it.
    pub host: String,
    /// The port of the URL, if it names one.
    pub port: Option<u16>,
    /// The path and the query.
    pub target: String,
    /// The method.
    pub method: String,
    /// The address of the client, if it is not this machine.
    pub client: Option<IpAddr>,
    /// Further header fields. A `Host` replaces that of the URL.
    pub fields: Vec<(String, String)>,
}

impl Question {
    /// Returns the GET request for a URL, such as `https://example.org/a?b=c`. A path alone is one of
    /// `http://localhost`.
    ///
    /// # Errors
    /// When the URL is of another kind.
    pub fn new(url: &str) -> io::Result<Question> {
        let url = url.split_once('#').map_or(url, |(url, _)| url);
        let (secure, rest) = if let Some(rest) = strip_scheme(url, "http://") {
            (false, rest)
        } else if let Some(rest) = strip_scheme(url, "https://") {
            (true, rest)
        } else if url.starts_with('/') || url == "*" {
            return Ok(Question::from_parts(false, "localhost", None, url));
        } else {
            let text = format!(
                "{url:?} is no URL of a web server: write http://HOST/PATH, https://HOST/PATH or /PATH"
            );
            return Err(invalid(text));
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (host, target) = rest.split_at(end);
        let strange = |c: char| !c.is_ascii_graphic() || c == '@';
        if host.is_empty() || host.contains(strange) {
            return Err(invalid(format!(
                "{url:?} names no host, or one with characters that no host has"
            )));
        }
        let port = match host.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => {
                let parsed = port
                    .parse()
                    .map_err(|_| invalid(format!("{port:?} in {url:?} is no port")))?;
                Some(parsed)
            }
            _ => None,
        };
        Ok(Question::from_parts(secure, host, port, target))
    }

    fn from_parts(secure: bool, host: &str, port: Option<u16>, target: &str) -> Question {
        Question {
            secure,
            host: host.to_owned(),
            port,
            target: escaped(target),
            method: "GET".to_owned(),
            client: None,
            fields: Vec::new(),
        }
    }

    /// Sets the method.
    ///
    /// # Errors
    /// When it is not a token.
    pub fn method(mut self, method: &str) -> io::Result<Question> {
        if !is_token(method) {
            return Err(invalid(format!("{method:?} is no method")));
        }
        method.clone_into(&mut self.method);
        Ok(self)
    }

    /// Adds a header field, written `Accept-Encoding: br`.
    ///
    /// # Errors
    /// When it has no name, or its value contains a control character.
    pub fn field(mut self, text: &str) -> io::Result<Question> {
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| invalid(format!("{text:?} is no header field: write NAME: VALUE")))?;
        let value = value.trim();
        if !is_token(name) || value.chars().any(char::is_control) {
            let text = format!(
                "{text:?} is no header field: its name or its value has a character that fields cannot have"
            );
            return Err(invalid(text));
        }
        self.fields.push((name.to_owned(), value.to_owned()));
        Ok(self)
    }

    /// Returns the URL.
    pub fn url(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}{}", self.host, self.target)
    }

    /// Returns the head of the request.
    pub(super) fn request(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        let has_host = self
            .fields
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("Host"));
        if !has_host {
            head += &format!("Host: {}\r\n", self.host);
        }
        if let Some(client) = self.client {
            head += &format!("{CLIENT_FIELD}: {client}\r\n");
        }
        for (name, value) in &self.fields {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        head.into_bytes()
    }
}

fn strip_scheme<'u>(url: &'u str, scheme: &str) -> Option<&'u str> {
    let (start, rest) = url.split_at_checked(scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then_some(rest)
}

fn is_token(text: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(token)
}

/// Returns a target as a browser sends it: with a path, and only with characters that a request line may have.
fn escaped(target: &str) -> String {
    let mut escaped = String::with_capacity(target.len() + 1);
    if !target.starts_with(['/', '*']) {
        escaped.push('/');
    }
    for byte in target.bytes() {
        match byte {
            b'!'..=b'~' => escaped.push(char::from(byte)),
            _ => escaped += &format!("%{byte:02X}"),
        }
    }
    escaped
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let parts = |url: &str| {
            let it = Question::new(url).unwrap();
            (it.secure, it.host, it.port, it.target)
        };
        for (url, secure, host, port, target) in [
            ("http://a.b", false, "a.b", None, "/"),
            (
                "HTTPS://a.b:8443/x?y#z",
                true,
                "a.b:8443",
                Some(8443),
                "/x?y",
            ),
            ("http://[::1]/", false, "[::1]", None, "/"),
            (
                "http://[::1]:8/é f",
                false,
                "[::1]:8",
                Some(8),
                "/%C3%A9%20f",
            ),
            ("http://a?x=1", false, "a", None, "/?x=1"),
            ("/x", false, "localhost", None, "/x"),
            ("*", false, "localhost", None, "*"),
        ] {
            let expected = (secure, host.to_owned(), port, target.to_owned());
            assert_eq!(parts(url), expected, "{url}");
        }
        for bad in [
            "",
            "a.b/x",
            "ftp://a/",
            "http://",
            "http:///x",
            "http://a:b/",
            "http://a b/",
            "http://u@a/",
        ] {
            assert!(Question::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_can_be_added_to_the_request() {
        let question = || Question::new("/").unwrap();
        for bad in ["", "GET /", "GET\r\n"] {
            assert!(question().method(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "X", ": x", "X y: z", "X: a\r\nY: b", "X: \u{7f}"] {
            assert!(question().field(bad).is_err(), "{bad:?}");
        }
        let asked = question()
            .field("host:  b ")
            .unwrap()
            .method("HEAD")
            .unwrap();
        assert_eq!(asked.request(), b"HEAD / HTTP/1.1\r\nhost: b\r\n\r\n");
    }
}
