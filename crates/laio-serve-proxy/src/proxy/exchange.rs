//! Sending a request to an upstream of its route, and receiving the head of the response.

use super::proxy_request::{ProxyRequest, Source};
use super::repeat::may_be_repeated;
use super::upstream_response::UpstreamResponse;
use super::{hash_key, http1, http2};
use laio_serve_base::messages::print;
use laio_serve_base::options::{Balance, Protocol, UpstreamLimits};
use laio_serve_upstream::error::UpstreamError;
use laio_serve_upstream::link::Deadline;
use laio_serve_upstream::route::Tried;
use std::time::Instant;

/// Sends a request and receives the head of the response. A request that failed before it can have had an
/// effect goes to further upstreams of the prefix.
pub(super) async fn ask(
    proxy_request: &ProxyRequest<'_>,
    source: &mut impl Source,
    limits: &UpstreamLimits,
) -> Result<UpstreamResponse, UpstreamError> {
    let (route, deadline) = (proxy_request.route, Deadline::new(limits));
    let key = match route.group.balance() {
        Balance::Hash(key) => hash_key::of(proxy_request, key),
        _ => None,
    };
    let (begun, mut tried) = (Instant::now(), Tried::default());
    let mut chosen = route.choose(&mut tried, key, limits);
    loop {
        let Some(member) = chosen else {
            return Err(UpstreamError::bad_gateway("there is no upstream"));
        };
        let answered = match member.target.protocol {
            Protocol::Http2 { .. } => {
                http2::ask(proxy_request, member, source, limits, deadline).await
            }
            Protocol::Http { .. } | Protocol::FastCgi => {
                http1::ask(proxy_request, member, source, limits, deadline).await
            }
        };
        let mut error = match answered {
            Ok(response) => {
                member.succeeded();
                return Ok(response);
            }
            Err(error) => error,
        };
        member.failed(&error, deadline, limits);
        error.upstream = Some(member.target.name.clone());
        let again = tried.count() < limits.tries
            && begun.elapsed() < limits.retry_time
            && !deadline.is_over()
            && may_be_repeated(proxy_request, &error, source);
        chosen = if again {
            route.choose(&mut tried, key, limits)
        } else {
            None
        };
        let Some(next) = chosen else {
            return Err(error);
        };
        print(format_args!(
            "{} for {}: {}; the request goes to {}",
            member.target.name,
            proxy_request.path.as_str().escape_debug(),
            error.why,
            next.target.name,
        ));
    }
}
