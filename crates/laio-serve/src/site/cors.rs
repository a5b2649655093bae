//! Which pages of other origins may read the files (CORS; the Fetch standard, sections 3.2 and
//! 4.8).

use crate::options;
use laio_http::{Method, Request, ResponseHead};
use std::io;

/// The CORS rule of a site.
pub(crate) struct Cors {
    any: bool,
    origins: Vec<String>,
    max_age: u32,
}

/// Request fields that a page may set in addition to those that are always allowed.
const ALLOWED_FIELDS: &str = "Authorization, Cache-Control, If-Match, If-Modified-Since, If-None-Match, If-Range, \
     If-Unmodified-Since, Range";
/// Answer fields that a page may read in addition to those that are always allowed.
const EXPOSED_FIELDS: &str = "Accept-Ranges, Content-Encoding, Content-Range, Date, ETag";

impl Cors {
    /// Compiles the rule.
    ///
    /// # Errors
    /// When an origin is malformed.
    pub(crate) fn new(options: &options::Cors) -> io::Result<Cors> {
        for origin in &options.origins {
            let host = origin.split_once("://").map(|(_, host)| host);
            let whole = host.is_some_and(|host| !host.is_empty() && !host.contains('/'));
            if origin != "*" && (!whole || origin.bytes().any(|byte| !byte.is_ascii_graphic())) {
                let text = format!("{origin:?} is not an origin: write https://example.org, or *");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
        Ok(Cors {
            any: options.origins.iter().any(|origin| origin == "*"),
            origins: options.origins.clone(),
            max_age: options.max_age,
        })
    }

    /// Adds the fields of every response.
    pub(crate) fn add<'v>(
        &self,
        head: ResponseHead<'v>,
        request: &Request<'_>,
    ) -> ResponseHead<'v> {
        let origin = request.headers.only("Origin");
        if self.any {
            let head = head.header("Access-Control-Allow-Origin", b"*");
            return head.header("Access-Control-Expose-Headers", EXPOSED_FIELDS.as_bytes());
        }
        // A cache must not send a response for one origin to another.
        let head = head.vary("Origin");
        match origin.filter(|origin| self.knows(origin)) {
            Some(origin) => head
                .header("Access-Control-Allow-Origin", origin)
                .header("Access-Control-Expose-Headers", EXPOSED_FIELDS.as_bytes()),
            None => head,
        }
    }

    /// Returns whether pages of the request's origin may read the response.
    pub(crate) fn described(&self, request: &Request<'_>) -> String {
        match request.headers.only("Origin") {
            _ if self.any => "--cors lets pages of every origin read".to_owned(),
            None => "the request has no Origin, which --cors would compare".to_owned(),
            Some(origin) => {
                let shown = String::from_utf8_lossy(origin).escape_debug().to_string();
                if self.knows(origin) {
                    format!("--cors lets pages of {shown} read")
                } else {
                    format!("--cors does not name {shown}, whose pages may not read")
                }
            }
        }
    }

    fn knows(&self, origin: &[u8]) -> bool {
        self.origins.iter().any(|own| own.as_bytes() == origin)
    }

    /// Adds the fields that answer a preflight request.
    pub(crate) fn add_permission<'v>(&self, head: ResponseHead<'v>) -> ResponseHead<'v> {
        head.header("Access-Control-Allow-Methods", b"GET, HEAD, OPTIONS")
            .header("Access-Control-Allow-Headers", ALLOWED_FIELDS.as_bytes())
            .header(
                "Access-Control-Max-Age",
                self.max_age.to_string().as_bytes(),
            )
    }
}

/// Whether the request is a CORS preflight.
pub(crate) fn is_preflight(request: &Request<'_>) -> bool {
    request.method == Method::Options
        && request.headers.get("Origin").is_some()
        && request
            .headers
            .get("Access-Control-Request-Method")
            .is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins() {
        let cors = |origin: &str| {
            Cors::new(&options::Cors {
                origins: vec![origin.to_owned()],
                max_age: 1,
            })
        };
        assert!(cors("*").is_ok() && cors("https://a.example:8080").is_ok());
        for bad in ["", "a.example", "https://", "https://a/", "https://a\r\nb"] {
            assert!(cors(bad).is_err(), "{bad}");
        }
    }
}
