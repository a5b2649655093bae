//! Links that a client gets before the response.

use super::response::RequestContext;
use crate::files::resolve::enter;
use crate::site::early_hints::EarlyHints;
use laio_http::{Method, Output};
use laio_serve_net::stream::Stream;

/// Returns the head with the links for a request, if it gets any.
pub fn early_hints(hints: &EarlyHints, ctx: RequestContext<'_>, stream: &Stream) -> Option<Output> {
    if !takes_hints(ctx, stream) {
        return None;
    }
    let mut name = Vec::new();
    let path = ctx.request.path.as_ref().ok()?;
    let normal = path.file_name(&mut name).ok()?;
    if normal.trailing_slash
        && let Some(index) = ctx.site.index.first()
    {
        enter(&mut name, index.as_bytes());
    }
    hints.head(&name)
}

/// Whether the client of a request gets hints: over HTTP/2 and HTTP/3, because some clients of HTTP/1.1 take an
/// interim response for the final one (RFC 8297, section 3), and browsers ignore hints there; and for pages, because
/// browsers ignore the hints of what a page loads.
fn takes_hints(ctx: RequestContext<'_>, stream: &Stream) -> bool {
    let request = ctx.request;
    let mode = request.headers.get("Sec-Fetch-Mode");
    stream.is_multiplexed()
        && request.method == Method::Get
        && mode.is_none_or(|mode| mode == b"navigate")
        && !ctx.has_conditions()
}
