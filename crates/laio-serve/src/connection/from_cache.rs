//! The fast path: decides the response to a request whose cached file alone matters, for HTTP/1.1, HTTP/2 and HTTP/3.

use super::SentResponse;
use laio_http::{Framing, HttpDate, Request};
use laio_serve_base::clients::Peer;
use laio_serve_base::observe::{self, Stage};
use laio_serve_base::options::Memory;
use laio_serve_core::request::answer_from_cache::answer_from_cache;
use laio_serve_core::request::directory_answer::DirectoryAnswer;
use laio_serve_core::request::response::{Body, RequestContext};
use laio_serve_core::services::Services;
use laio_serve_net::buffers::Buffers;

/// What a request has from its connection.
pub(super) struct Arrival<'a> {
    pub(super) services: &'a Services,
    pub(super) peer: &'a Peer,
    /// Requests without https are redirected.
    pub(super) redirects_to_https: bool,
    pub(super) secure: bool,
    /// The value of `Alt-Svc`.
    pub(super) alt_svc: Option<&'a str>,
    pub(super) directory_answers: &'a [Box<dyn DirectoryAnswer>],
    /// The request has a stream of HTTP/2 or HTTP/3.
    pub(super) is_multiplexed: bool,
}

/// The response to a request: its head, and perhaps its body, are in the output buffer.
pub(super) struct FromCache<'h> {
    pub(super) request: Request<'h>,
    pub(super) keep_alive: bool,
    pub(super) buffers: Buffers,
    /// What follows the output buffer.
    pub(super) body: Body,
    pub(super) date: HttpDate,
    pub(super) sent: SentResponse,
}

/// Decides the response to a request, which `read` returns. Returns `None` for a request that needs
/// [`Connection::answer`](super::Connection::answer), with nothing changed.
pub(super) fn from_cache<'h>(
    arrival: &Arrival<'_>,
    read: impl FnOnce() -> Option<Request<'h>>,
    output_bytes: usize,
    keeps_alive: impl FnOnce(&Request<'_>) -> bool,
) -> Option<FromCache<'h>> {
    let services = arrival.services;
    // The requests of a trusted proxy name their clients.
    let depends_on_more = arrival.peer.is_trusted || arrival.redirects_to_https;
    if depends_on_more || services.contexts.sync || services.log.needs_fields() {
        return None;
    }
    let started = services.contexts.now();
    let request = read()?;
    if request.framing != Framing::None || request.expects_continue {
        return None;
    }
    let (date, second) = services.now();
    let client = &arrival.peer.client;
    let mut ctx = RequestContext::new(
        services,
        &request,
        client,
        (&date, second),
        keeps_alive(&request),
        arrival.secure,
    );
    ctx.alt_svc = arrival.alt_svc;
    ctx.directory_answers = arrival.directory_answers;
    ctx.inline_body = if arrival.is_multiplexed {
        Memory::SHORT_BODY
    } else {
        Memory::COPIED_BODY
    };
    let fast = ctx.site.fast_path;
    let interim = arrival.is_multiplexed && fast.has_interim_responses;
    if !fast.admits_all || interim || ctx.route().is_some() {
        return None;
    }
    let keep_alive = ctx.keep_alive;
    let Buffers {
        mut output,
        mut name,
    } = services.buffer_pool.take();
    output.bytes.reserve(output_bytes);
    let Some(response) = answer_from_cache(services, ctx, &mut output, &mut name) else {
        services.buffer_pool.put_back(Buffers { output, name });
        return None;
    };
    ctx.apply_rules(&response, &name, &mut output);
    observe::since(Stage::Receive, started);
    Some(FromCache {
        keep_alive,
        buffers: Buffers { output, name },
        sent: SentResponse {
            status: response.status,
            length: response.length,
            started,
        },
        body: response.body,
        request,
        date,
    })
}
