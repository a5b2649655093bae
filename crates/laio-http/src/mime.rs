//! Media types by file name (RFC 9110, section 8.3).

use std::fmt;

/// A media type; text is declared to be UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentType {
    /// `type/subtype`.
    pub essence: &'static str,
}

impl ContentType {
    /// The type of unknown files.
    pub const OCTET_STREAM: ContentType = ContentType {
        essence: "application/octet-stream",
    };
    /// An HTML page.
    pub const HTML: ContentType = ContentType {
        essence: "text/html",
    };
    /// Plain text.
    pub const TEXT: ContentType = ContentType {
        essence: "text/plain",
    };
    /// JSON.
    pub const JSON: ContentType = ContentType {
        essence: "application/json",
    };

    /// Returns the type for the file name extension of a path.
    ///
    /// ```
    /// use laio_http::ContentType;
    ///
    /// assert_eq!(ContentType::of_path(b"a/b.HTML").to_string(), "text/html; charset=utf-8");
    /// assert_eq!(ContentType::of_path(b"a/b.png").to_string(), "image/png");
    /// assert_eq!(ContentType::of_path(b"a.html/b"), ContentType::OCTET_STREAM);
    /// ```
    #[must_use]
    pub fn of_path(path: &[u8]) -> Self {
        match extension(path).and_then(|text| mime_guess::from_ext(text).first_raw()) {
            // The obsolete name (RFC 9239), which the table still uses for modules.
            Some("application/javascript") => ContentType {
                essence: "text/javascript",
            },
            Some(essence) => ContentType { essence },
            None => ContentType::OCTET_STREAM,
        }
    }

    /// Returns the parameter of the type, with its semicolon, or nothing.
    #[must_use]
    pub fn parameter(&self) -> &'static str {
        if self.essence.starts_with("text/") {
            "; charset=utf-8"
        } else {
            ""
        }
    }
}

impl fmt::Display for ContentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.essence, self.parameter())
    }
}

/// Returns the part after the last dot of the last component, ignoring a leading dot.
fn extension(path: &[u8]) -> Option<&str> {
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    let dot = name
        .iter()
        .rposition(|&byte| byte == b'.')
        .filter(|&dot| dot > 0)?;
    str::from_utf8(&name[dot + 1..]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_common_files() {
        for (name, expected) in [
            ("index.html", "text/html; charset=utf-8"),
            ("style.css", "text/css; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("app.mjs", "text/javascript; charset=utf-8"),
            ("notes.txt", "text/plain; charset=utf-8"),
            ("data.json", "application/json"),
            ("picture.svg", "image/svg+xml"),
            ("picture.jpeg", "image/jpeg"),
            ("picture.webp", "image/webp"),
            ("picture.avif", "image/avif"),
            ("favicon.ico", "image/x-icon"),
            ("font.woff2", "font/woff2"),
            ("module.wasm", "application/wasm"),
            ("paper.pdf", "application/pdf"),
            ("film.mp4", "video/mp4"),
            ("archive.tar.gz", "application/gzip"),
        ] {
            assert_eq!(
                ContentType::of_path(name.as_bytes()).to_string(),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn unknown_types_are_octet_streams() {
        for name in [
            &b"README"[..],
            b".html",
            b"a.",
            b"a.nosuchtype",
            b"a.html/",
            b"",
            b"a.\xff",
        ] {
            assert_eq!(ContentType::of_path(name), ContentType::OCTET_STREAM);
        }
    }
}
