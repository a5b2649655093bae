//! Checking whether the client may access a resource.

use super::auth_request::ask_auth_servers;
use super::pages;
use super::response::{RequestContext, Response};
use crate::services::Services;
use crate::site::auth::{Access, Resource};
use laio_http::{Output, Status};
use laio_serve_base::observe;
use laio_serve_base::trace;

/// Returns the error response if the client may not access `resource`, else none.
pub async fn authorize(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    resource: Resource<'_>,
) -> Option<Response> {
    // A rewrite must not lead around the rules for the path that the client asked for.
    let before = ctx.before_rewrite;
    let before = before.and_then(|request| request.path.as_ref().ok());
    if let Some(path) = before {
        let before = match resource {
            // The program gets it as REQUEST_URI.
            Resource::Program(_, mount) => Resource::Program(path, mount),
            _ => Resource::Upstream(path),
        };
        if let Some(response) = admit(services, ctx, out, before).await {
            return Some(response);
        }
    }
    admit(services, ctx, out, resource).await
}

/// Returns the error response if the rules of a site keep the client from a resource.
async fn admit(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    resource: Resource<'_>,
) -> Option<Response> {
    if let Some(access) = &ctx.site.network_access
        && !access.admits_to(ctx.client, resource)
    {
        observe::refused_by_network();
        trace::note("access", || {
            let client = &ctx.client.name;
            let path = resource.shown();
            format!("{path}: --allow and --deny of a glob do not let {client} in")
        });
        return Some(Box::pin(pages::forbidden(services, ctx, out)).await);
    }
    // Boxed, because few sites have passwords or auth servers.
    if ctx.site.users.is_some()
        && let Some(response) = Box::pin(check_password(services, ctx, out, resource)).await
    {
        return Some(response);
    }
    ctx.site.auth_requests.as_ref()?;
    Box::pin(ask_auth_servers(services, ctx, out, resource)).await
}

/// Returns the error response if a resource needs a password that the request does not have.
async fn check_password(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    resource: Resource<'_>,
) -> Option<Response> {
    let users = ctx.site.users.as_ref()?;
    let access = services
        .password_checks
        .check(users, ctx.request, resource)
        .await;
    trace::note("access", || {
        let why = match access {
            Access::Granted if users.is_guarded(resource) => "the name and the password are right",
            Access::Granted => "no --auth-path covers it, so it needs no password",
            Access::Denied if ctx.request.headers.get("Authorization").is_some() => {
                "--auth guards it, and the name or the password is wrong"
            }
            Access::Denied => "--auth guards it, and the request has no name and password",
            Access::Busy => "too many passwords are being checked",
        };
        format!("{}: {why}", resource.shown())
    });
    match access {
        Access::Granted => None,
        Access::Denied => Some(pages::unauthorized(services, ctx, out, users).await),
        Access::Busy => {
            let detail = "The server is checking too many passwords at the moment; try again.";
            Some(pages::error(services, ctx, out, Status::SERVICE_UNAVAILABLE, detail).await)
        }
    }
}
