//! Checking whether the client may access a resource.

use super::pages;
use super::response::{RequestContext, Response};
use crate::observe;
use crate::services::Services;
use crate::site::auth::{Access, Resource};
use laio_http::Status;

/// Returns the error response if the client may not access `resource`, else none.
pub(crate) async fn authorize(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Vec<u8>,
    resource: Resource<'_>,
) -> Option<Response> {
    if let Some(gate) = &ctx.site.gate
        && !gate.admits_to(ctx.client, resource)
    {
        observe::refused_by_network();
        return Some(pages::forbidden(services, ctx, out).await);
    }
    let users = ctx.site.users.as_ref()?;
    match services
        .password_checks
        .check(users, ctx.request, resource)
        .await
    {
        Access::Granted => None,
        Access::Denied => Some(pages::unauthorized(services, ctx, out, users).await),
        Access::Busy => {
            let detail = "The server is checking too many passwords at the moment; try again.";
            Some(pages::error(services, ctx, out, Status::SERVICE_UNAVAILABLE, detail).await)
        }
    }
}
