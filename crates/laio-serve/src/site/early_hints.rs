//! Links that clients get before the response (103 Early Hints, RFC 8297).

use super::fields::globs;
use crate::net::stream::Stream;
use crate::options::EarlyHint;
use crate::request::response::RequestContext;
use globset::GlobSet;
use laio_http::{Method, ResponseHead, Status};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The hints of a site.
pub(crate) struct EarlyHints {
    globs: GlobSet,
    hints: Vec<EarlyHint>,
}

/// Links of one response.
const LINKS_MAX: usize = 32;

impl EarlyHints {
    /// Compiles the hints. Returns `None` if there are none.
    ///
    /// # Errors
    /// When a glob or a link is malformed.
    pub(crate) fn new(hints: &[EarlyHint]) -> io::Result<Option<EarlyHints>> {
        if hints.is_empty() {
            return Ok(None);
        }
        for EarlyHint { link, .. } in hints {
            let whole = link.starts_with('<') && link.contains('>');
            if !whole || link.bytes().any(|byte| byte.is_ascii_control()) {
                let text =
                    format!("{link:?} is not a link: write '</style.css>; rel=preload; as=style'");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
        Ok(Some(EarlyHints {
            globs: globs(hints.iter().map(|hint| hint.glob.as_str()))?,
            hints: hints.to_vec(),
        }))
    }

    /// Returns the head with the links for a request, or none if it gets no hints.
    pub(crate) fn head(&self, ctx: RequestContext<'_>, stream: &Stream) -> Option<Vec<u8>> {
        if !takes_hints(ctx, stream) {
            return None;
        }
        let mut name = Vec::new();
        let path = ctx.request.path.as_ref().ok()?;
        let normal = path.file_name(&mut name).ok()?;
        if normal.trailing_slash
            && let Some(index) = ctx.site.index.first()
        {
            crate::files::resolve::enter(&mut name, index.as_bytes());
        }
        let fitting = self.globs.matches(Path::new(OsStr::from_bytes(&name)));
        if fitting.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        let mut head = ResponseHead::new(&mut out, Status::EARLY_HINTS);
        for &number in fitting.iter().take(LINKS_MAX) {
            head = head.header("Link", self.hints[number].link.as_bytes());
        }
        head.finish();
        Some(out)
    }
}

/// Whether the client of a request gets hints: over HTTP/2 and HTTP/3, because some clients of HTTP/1.1 take an interim response
/// for the final one (RFC 8297, section 3), and browsers ignore hints there; and for pages, because browsers ignore the
/// hints of what a page loads.
fn takes_hints(ctx: RequestContext<'_>, stream: &Stream) -> bool {
    let request = ctx.request;
    let mode = request.headers.get("Sec-Fetch-Mode");
    stream.is_multiplexed()
        && request.method == Method::Get
        && mode.is_none_or(|mode| mode == b"navigate")
        && !ctx.has_conditions()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links() {
        let hints = |text: &str| text.parse().map(|hint: EarlyHint| EarlyHints::new(&[hint]));
        let good = "*.html=</a.css?v=1>; rel=preload; as=style";
        assert!(matches!(hints(good), Ok(Ok(Some(_)))));
        for bad in ["*=a.css", "*=<a.css", "[=<a>", "*=<a>\r\nX: y"] {
            assert!(matches!(hints(bad), Ok(Err(_))), "{bad}");
        }
        assert!(hints("*.html").is_err());
        assert!(EarlyHints::new(&[]).unwrap().is_none());
    }
}
