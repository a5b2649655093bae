//! The memory of responses that are made in memory before they are sent: listings, lists of properties, and answers of
//! auth servers.

use laio_http::{Output, Status};
use laio_serve_base::options::{Memory, MemoryUse};
use laio_serve_core::request::pages;
use laio_serve_core::request::response::{RequestContext, Response};
use laio_serve_core::services::Services;
use laio_serve_net::memory::Loan;
use laio_serve_net::memory::connection::Held;
use laio_serve_net::stream::Stream;

/// The memory of a response, given back on drop.
pub(super) type PageMemory = (Option<Loan>, Option<Held>);

/// Takes the memory of a response whose head and page are in `output`. Replaces it by 503 if a budget is used up.
pub(super) async fn hold_page(
    services: &Services,
    stream: &Stream,
    ctx: RequestContext<'_>,
    response: Response,
    output: &mut Output,
) -> (Response, PageMemory) {
    let length = output.bytes.len();
    if length as u64 <= Memory::reserve(MemoryUse::Pages, 0) {
        return (response, PageMemory::default());
    }
    let held = match stream.memory() {
        None => services.memory.page(length).map(|loan| (Some(loan), None)),
        Some(memory) => memory.page(length).map(|held| (None, Some(held))),
    };
    if let Some(held) = held {
        return (response, held);
    }
    *output = Output::default();
    let detail = "The server has no memory left for this response; try again.";
    let status = Status::SERVICE_UNAVAILABLE;
    let page = Box::pin(pages::error(services, ctx, output, status, detail)).await;
    (page, PageMemory::default())
}
