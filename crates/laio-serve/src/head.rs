//! The head of an answer: the fields that all answers have.

use laio_http::{HttpDate, ResponseHead, Status};

/// The value of the `Server` field.
pub(crate) const SERVER_NAME: &str = concat!("laio/", env!("CARGO_PKG_VERSION"));

/// Begins the head of an answer that this server makes itself.
pub(crate) fn begin<'v>(out: &'v mut Vec<u8>, status: Status, date: &HttpDate) -> ResponseHead<'v> {
    ResponseHead::new(out, status)
        .date(date)
        .server(SERVER_NAME)
}
