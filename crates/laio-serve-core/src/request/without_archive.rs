//! What stands in for zip files in a server without the feature `zip`: no request asks for one.

use super::response::{RequestContext, Response};
use crate::services::Services;

pub(crate) fn is_asked(_: RequestContext<'_>) -> bool {
    false
}

pub(crate) async fn archive(
    _: &Services,
    _: RequestContext<'_>,
    _: &mut laio_http::Output,
    _: &[u8],
) -> Option<Response> {
    None
}

pub(crate) mod send {
    use crate::services::Services;
    use crate::site::Site;
    pub(crate) use std::convert::Infallible as Archive;
    use std::io;

    pub(crate) async fn next_piece(
        _: &Services,
        _: &Site,
        archive: &mut Archive,
        _: &mut Vec<u8>,
        _: bool,
    ) -> io::Result<bool> {
        match *archive {}
    }
}
