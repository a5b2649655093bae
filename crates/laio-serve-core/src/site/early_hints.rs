//! Links that clients get before the response (103 Early Hints, RFC 8297).

use super::fields::globs;
use globset::GlobSet;
use laio_http::{Output, ResponseHead, Status};
use laio_serve_base::options::EarlyHint;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The hints of a site.
pub struct EarlyHints {
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

    /// Returns the head with the links for a file, if it has any.
    pub(crate) fn head(&self, name: &[u8]) -> Option<Output> {
        let fitting = self.globs.matches(Path::new(OsStr::from_bytes(name)));
        if fitting.is_empty() {
            return None;
        }
        let mut out = Output::default();
        let mut head = ResponseHead::new(&mut out, Status::EARLY_HINTS);
        for &number in fitting.iter().take(LINKS_MAX) {
            head = head.header("Link", self.hints[number].link.as_bytes());
        }
        head.finish();
        Some(out)
    }
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
