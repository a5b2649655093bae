//! Request methods (RFC 9110, section 9).

use std::fmt;

/// A request method; names are case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method<'b> {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
    /// `CONNECT` (never in a [`crate::Request`]: it is rejected)
    Connect,
    /// `OPTIONS`
    Options,
    /// `TRACE`
    Trace,
    /// `PATCH` (RFC 5789)
    Patch,
    /// Any other token.
    Other(&'b str),
}

impl<'b> Method<'b> {
    /// Returns the method with this name.
    #[must_use]
    pub fn from_name(name: &'b str) -> Self {
        match name {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "DELETE" => Method::Delete,
            "CONNECT" => Method::Connect,
            "OPTIONS" => Method::Options,
            "TRACE" => Method::Trace,
            "PATCH" => Method::Patch,
            other => Method::Other(other),
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &'b str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Connect => "CONNECT",
            Method::Options => "OPTIONS",
            Method::Trace => "TRACE",
            Method::Patch => "PATCH",
            Method::Other(name) => name,
        }
    }

    /// Whether the method is defined in RFC 9110 or RFC 5789. A known method that a server does not
    /// support is 405 with `Allow`; an unknown one is 501 (RFC 9110, section 9.1).
    #[must_use]
    pub const fn is_known(&self) -> bool {
        !matches!(self, Method::Other(_))
    }
}

impl fmt::Display for Method<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways_and_are_case_sensitive() {
        for name in [
            "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
        ] {
            let method = Method::from_name(name);
            assert!(method.is_known());
            assert_eq!(method.to_string(), name);
        }
        assert_eq!(Method::from_name("get"), Method::Other("get"));
        assert_eq!(Method::from_name("BREW").as_str(), "BREW");
        assert!(!Method::from_name("BREW").is_known());
    }
}
