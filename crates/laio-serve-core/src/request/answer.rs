//! From a request to its response: checks access, resolves the name, opens the file.

use super::authorize::authorize;
use super::directory_answer::asked;
use super::file_response::answer_with_file;
use super::listing::listing;
use super::lookup::{Found, LookedUp, explain, lookup};
use super::pages;
use super::response::{RequestContext, Response};
use super::variant::choose_variant;
use crate::files::contents::FileKind;
use crate::files::resolve::{Refusal, Resolved, resolve};
use crate::request::open::open_file;
use crate::services::Services;
use crate::site::auth::Resource;
use crate::site::{Site, cors};
use laio_http::{Method, Output, RequestPath, Status, prefers};
use laio_serve_base::observe::{self, Stage};
use laio_serve_base::trace;

/// Decides the response. Writes its head, and a body that does not come from a file, to `out`.
/// `name` is a buffer for the name of the file. `looked_up` is what the site has for the path, if that
/// was looked up before.
// What a request for a file does not need is boxed, because each request that waits allocates this future.
pub async fn answer(
    services: &Services,
    ctx: RequestContext<'_>,
    looked_up: Option<LookedUp>,
    out: &mut Output,
    name: &mut Vec<u8>,
) -> Response {
    let (request, site) = (ctx.request, ctx.site);
    let path = match &request.path {
        Ok(path) => path,
        Err(rejection) => {
            return Box::pin(refuse(services, ctx, out, Refusal::Rejected(*rejection))).await;
        }
    };
    match request.method {
        Method::Get | Method::Head => {}
        // Checked before authentication, because browsers send preflight requests without
        // credentials.
        Method::Options if path.is_whole_server() || cors::is_preflight(request) => {
            return pages::options(ctx, out);
        }
        Method::Options => {}
        method => return Box::pin(wrong_method(services, ctx, out, method)).await,
    }
    if let Some(response) = authorize(services, ctx, out, Resource::File(path)).await {
        return response;
    }
    let resolved = match resolve_noted(site, path, name) {
        Ok(resolved) => resolved,
        Err(refusal) => return Box::pin(refuse(services, ctx, out, refusal)).await,
    };
    if request.method == Method::Options {
        return pages::options(ctx, out);
    }
    let moved = ctx.moved(name, resolved.directory);
    if let Some((status, location)) = moved {
        trace::note("redirect", || {
            format!(
                "a --redirect rule leads to {}, with {}",
                trace::shown(&location),
                status.code()
            )
        });
        return pages::moved(ctx, out, status, name, &location);
    }
    if let Some(feature) = asked(ctx)
        && let Some(response) = feature.answer(services, ctx, out, name).await
    {
        return response;
    }
    answer_for_name(services, ctx, (resolved, looked_up), out, name).await
}

/// Resolves a path, and notes what it names.
fn resolve_noted(
    site: &Site,
    path: &RequestPath<'_>,
    name: &mut Vec<u8>,
) -> Result<Resolved, Refusal> {
    let begun = observe::begin();
    let resolved = resolve(site, path, name);
    observe::end(Stage::Resolve, begun);
    trace::note("path", || match &resolved {
        Ok(Resolved { directory: true }) => format!("names the directory {}", trace::shown(name)),
        Ok(Resolved { directory: false }) => format!("names {}", trace::shown(name)),
        Err(Refusal::NotFound) => {
            "contains a name that begins with a dot, which is served only with --dotfiles"
                .to_owned()
        }
        Err(Refusal::Rejected(rejection)) => format!("is refused: {rejection}"),
    });
    resolved
}

/// Answers with what the site has for a name.
async fn answer_for_name(
    services: &Services,
    ctx: RequestContext<'_>,
    (resolved, looked_up): (Resolved, Option<LookedUp>),
    out: &mut Output,
    name: &mut Vec<u8>,
) -> Response {
    let asks_again = resolved.directory || ctx.site.application.is_some();
    match lookup(services, ctx, name, resolved, looked_up).await {
        Ok(Found::File(FileKind::File(opened))) => {
            // The index file, or that of another candidate, may need other credentials than the path.
            if asks_again
                && let Some(response) = authorize(services, ctx, out, Resource::Name(name)).await
            {
                return response;
            }
            let variant = choose_variant(services, ctx, name, opened).await;
            let response = answer_with_file(services, ctx, out, name, variant).await;
            response.of_file()
        }
        Ok(Found::WithoutSlash) => {
            trace::note("redirect", || {
                "a directory: relative links need the slash at the end of its path".to_owned()
            });
            pages::to_directory(ctx, out, name)
        }
        Ok(Found::File(FileKind::Directory(directory))) => {
            trace::note("response", || "--listing lists the directory".to_owned());
            Box::pin(listing(services, ctx, out, name, directory)).await
        }
        Ok(Found::Status(status)) if status != Status::NOT_FOUND => {
            let detail = "The site has no other answer for this path.";
            Box::pin(pages::error(services, ctx, out, status, detail)).await
        }
        // Scripts and upstreams answer before the site does.
        Ok(
            Found::File(FileKind::Special) | Found::Status(_) | Found::Script(_) | Found::Upstream,
        ) => Box::pin(not_found(services, ctx, out, name)).await,
        Err(error) => match explain(&error) {
            (Status::NOT_FOUND, _) => Box::pin(not_found(services, ctx, out, name)).await,
            (status, detail) => Box::pin(pages::error(services, ctx, out, status, detail)).await,
        },
    }
}

/// Answers for a name that does not exist: with the fallback page of a single-page application
/// (client-side routing), or 404.
async fn not_found(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    name: &mut Vec<u8>,
) -> Response {
    let ctx = RequestContext {
        varies_by_accept: ctx.site.fallback.is_some(),
        ..ctx
    };
    if let Some(fallback) = &ctx.site.fallback {
        trace::note("try", || {
            if prefers(&ctx.request.headers, "text/html", "*/*") {
                format!(
                    "nothing was found, and the client asks for HTML: --fallback {}",
                    trace::shown(fallback)
                )
            } else {
                "--fallback is only for clients that ask for HTML (Accept: text/html)".to_owned()
            }
        });
    }
    if let Some(fallback) = &ctx.site.fallback
        // A missing script or picture must not be answered with a page.
        && prefers(&ctx.request.headers, "text/html", "*/*")
        && let Some(opened) = open_file(services, ctx.site, fallback).await
    {
        if let Some(response) = authorize(services, ctx, out, Resource::Name(fallback)).await {
            return response;
        }
        name.clone_from(fallback);
        let variant = choose_variant(services, ctx, fallback, opened).await;
        let response = answer_with_file(services, ctx, out, fallback, variant).await;
        return response.of_file();
    }
    refuse(services, ctx, out, Refusal::NotFound).await
}

async fn refuse(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    refusal: Refusal,
) -> Response {
    pages::error(services, ctx, out, refusal.status(), refusal.detail()).await
}

async fn wrong_method(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    method: Method<'_>,
) -> Response {
    let (status, detail) = if method.is_known() {
        (
            Status::METHOD_NOT_ALLOWED,
            "Files do not allow this method.",
        )
    } else {
        (
            Status::NOT_IMPLEMENTED,
            "The server does not know this method.",
        )
    };
    pages::error(services, ctx, out, status, detail).await
}
