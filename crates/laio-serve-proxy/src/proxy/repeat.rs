//! Whether a failed request may be sent again.

use super::proxy_request::{ProxyRequest, Source};
use laio_http::Method;
use laio_serve_upstream::error::{Progress, UpstreamError};

/// Whether a failed request can be repeated without having an effect twice.
pub(super) fn may_be_repeated(
    proxy_request: &ProxyRequest<'_>,
    error: &UpstreamError,
    source: &mut impl Source,
) -> bool {
    let allowed = match error.progress {
        Progress::NotConnected => true,
        Progress::Stale | Progress::NothingReceived => {
            is_idempotent(&proxy_request.ctx.request.method)
        }
        Progress::Final => false,
    };
    allowed && !error.client_gone && source.rewind()
}

/// Whether the request may be repeated (RFC 9110, section 9.2.2).
fn is_idempotent(method: &Method<'_>) -> bool {
    matches!(
        method,
        Method::Get | Method::Head | Method::Options | Method::Put | Method::Delete
    )
}
