//! The reasons for refusing a request, and their statuses.

use crate::Status;
use std::fmt;

/// The reason for refusing a request. After most of them the connection must be closed, because the
/// start of the next request is not certain; the refused *paths* are the exception (see
/// [`Rejection::closes`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rejection {
    /// The request line is not `method SP target SP version CRLF`.
    RequestLine,
    /// The method name is longer than any known one.
    MethodTooLong,
    /// `CONNECT`: this is not a proxy.
    Connect,
    /// The target is in none of the forms of RFC 9112, section 3.2, or not in one for this method.
    Target,
    /// The target is longer than [`crate::Limits::target_bytes`].
    TargetTooLong,
    /// The major version is not 1.
    Version,
    /// The head is longer than [`crate::Limits::head_bytes`].
    HeadTooLarge,
    /// More fields than [`crate::Limits::headers`].
    TooManyHeaders,
    /// A field line is malformed: bad name, space before the colon, folded line, control character.
    Header,
    /// A line ends in LF alone.
    BareLineFeed,
    /// HTTP/1.1 without `Host`.
    HostMissing,
    /// More than one `Host`.
    HostRepeated,
    /// `Host`, or the authority of the target, is not a host and an optional port.
    Host,
    /// `Content-Length` is not a number.
    ContentLength,
    /// More than one `Content-Length`.
    ContentLengthRepeated,
    /// Both `Content-Length` and `Transfer-Encoding`.
    LengthAndEncoding,
    /// `Transfer-Encoding` in an HTTP/1.0 request.
    EncodingInHttp10,
    /// `Transfer-Encoding` that does not end in `chunked`, or that has it twice.
    TransferEncoding,
    /// A transfer coding other than `chunked`, before it.
    TransferEncodingUnknown,
    /// `Expect` with a value other than `100-continue`.
    Expectation,
    /// The framing of a chunked body is broken.
    Chunk,
    /// A trailer field after a chunked body is malformed.
    Trailer,
    /// More trailer fields after a chunked body than [`crate::BodySkip::TRAILERS_MAX`], or more
    /// bytes than [`crate::BodySkip::TRAILER_BYTES_MAX`].
    TrailersTooLarge,
    /// The body is longer than the server's limit.
    BodyTooLarge,
    /// `%` without two hexadecimal digits.
    PathEscape,
    /// `%00` in the path.
    PathNul,
    /// `%2F` in the path: no file name can contain a slash.
    PathEncodedSlash,
    /// More `..` than components before it.
    PathAboveRoot,
    /// Readers interpret the path differently: see [`crate::RequestPath::new`].
    PathAmbiguous,
}

impl Rejection {
    /// Returns the status to answer with.
    #[must_use]
    pub const fn status(self) -> Status {
        self.row().0
    }

    /// Returns one sentence for the error page and the log.
    #[must_use]
    pub const fn detail(self) -> &'static str {
        self.row().1
    }

    /// Whether the connection must be closed because the framing is lost. Only after a refused path
    /// can the next request on the connection be read.
    #[must_use]
    pub const fn closes(self) -> bool {
        !matches!(
            self,
            Rejection::PathEscape
                | Rejection::PathNul
                | Rejection::PathEncodedSlash
                | Rejection::PathAboveRoot
                | Rejection::PathAmbiguous
        )
    }

    const fn row(self) -> (Status, &'static str) {
        use Rejection as R;
        match self {
            R::RequestLine => (Status::BAD_REQUEST, "The request line is malformed."),
            R::MethodTooLong => (
                Status::NOT_IMPLEMENTED,
                "The server does not know this method.",
            ),
            R::Connect => (Status::NOT_IMPLEMENTED, "This server is not a proxy."),
            R::Target => (Status::BAD_REQUEST, "The request target is malformed."),
            R::TargetTooLong => (Status::URI_TOO_LONG, "The request target is too long."),
            R::Version => (
                Status::HTTP_VERSION_NOT_SUPPORTED,
                "This server supports HTTP/1.1 and HTTP/1.0.",
            ),
            R::HeadTooLarge => (
                Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "The request head is too large.",
            ),
            R::TooManyHeaders => (
                Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "The request has too many header fields.",
            ),
            R::Header => (Status::BAD_REQUEST, "A header field is malformed."),
            R::BareLineFeed => (
                Status::BAD_REQUEST,
                "A line ends without a carriage return.",
            ),
            R::HostMissing => (Status::BAD_REQUEST, "The Host field is missing."),
            R::HostRepeated => (Status::BAD_REQUEST, "There is more than one Host field."),
            R::Host => (Status::BAD_REQUEST, "The host name is malformed."),
            R::ContentLength => (Status::BAD_REQUEST, "The Content-Length is not a number."),
            R::ContentLengthRepeated => (
                Status::BAD_REQUEST,
                "There is more than one Content-Length.",
            ),
            R::LengthAndEncoding => (
                Status::BAD_REQUEST,
                "There are both Content-Length and Transfer-Encoding.",
            ),
            R::EncodingInHttp10 => (
                Status::BAD_REQUEST,
                "There is a Transfer-Encoding in an HTTP/1.0 request.",
            ),
            R::TransferEncoding => (Status::BAD_REQUEST, "The Transfer-Encoding is malformed."),
            R::TransferEncodingUnknown => (
                Status::NOT_IMPLEMENTED,
                "The only known transfer coding is chunked.",
            ),
            R::Expectation => (
                Status::EXPECTATION_FAILED,
                "The only known expectation is 100-continue.",
            ),
            R::Chunk => (Status::BAD_REQUEST, "The chunked body is malformed."),
            R::Trailer => (
                Status::BAD_REQUEST,
                "A trailer field after the body is malformed.",
            ),
            R::TrailersTooLarge => (
                Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "There are too many trailer fields after the body, or they are too large.",
            ),
            R::BodyTooLarge => (Status::CONTENT_TOO_LARGE, "The request body is too large."),
            R::PathEscape => (
                Status::BAD_REQUEST,
                "The path has a malformed percent escape.",
            ),
            R::PathNul => (Status::BAD_REQUEST, "The path contains a NUL."),
            R::PathEncodedSlash => (Status::NOT_FOUND, "No file name can contain a slash."),
            R::PathAboveRoot => (Status::BAD_REQUEST, "The path leads out of the site."),
            R::PathAmbiguous => (Status::BAD_REQUEST, "The path can be read in two ways."),
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status(), self.detail())
    }
}

impl std::error::Error for Rejection {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_says_status_and_reason() {
        assert_eq!(
            Rejection::Chunk.to_string(),
            "400 Bad Request: The chunked body is malformed."
        );
        assert!(Rejection::Chunk.status().is_error());
    }

    #[test]
    fn only_a_bad_path_keeps_the_connection() {
        assert!(!Rejection::PathNul.closes());
        assert!(Rejection::Header.closes() && Rejection::Target.closes());
    }
}
