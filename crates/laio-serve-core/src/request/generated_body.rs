//! A body that is made piece by piece while it is sent.

use crate::services::Services;
use std::io;
use std::pin::Pin;

/// What makes a body of which only the next piece is in memory.
pub trait GeneratedBody {
    /// Appends the next bytes to `out`. `framed`: as chunks of HTTP/1.1 (RFC 9112, section 7.1), if
    /// their length is not known in advance. Returns whether they were the last.
    ///
    /// # Errors
    /// When the rest cannot be made. The response is then incomplete, which the client notices.
    fn next_piece<'a>(
        &'a mut self,
        services: &'a Services,
        out: &'a mut Vec<u8>,
        framed: bool,
    ) -> NextPiece<'a>;
}

/// What [`GeneratedBody::next_piece`] returns.
pub type NextPiece<'a> = Pin<Box<dyn Future<Output = io::Result<bool>> + 'a>>;
