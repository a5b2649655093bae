//! From a request to its response: checks access, resolves the name, opens the file.

use super::authorize::authorize;
use super::file_response::answer_with_file;
use super::listing::listing;
use super::pages;
use super::response::{RequestContext, Response};
use super::variant::choose_variant;
use crate::files::contents::FileKind;
use crate::files::resolve::{Refusal, Resolved, enter, resolve};
use crate::observe::{self, Stage};
use crate::request::open::{open, open_file};
use crate::resource_exhaustion;
use crate::services::Services;
use crate::site::auth::Resource;
use crate::site::cors;
use laio_http::{Method, Status, prefers};
use std::io;

/// Decides the response. Writes its head, and a body that does not come from a file, to `out`.
/// `name` is a buffer for the name of the file.
pub(crate) async fn answer(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Vec<u8>,
    name: &mut Vec<u8>,
) -> Response {
    let (request, site) = (ctx.request, ctx.site);
    let path = match &request.path {
        Ok(path) => path,
        Err(rejection) => {
            return refuse(services, ctx, out, Refusal::Rejected(*rejection)).await;
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
        method => return wrong_method(services, ctx, out, method).await,
    }
    if let Some(response) = authorize(services, ctx, out, Resource::File(path)).await {
        return response;
    }
    let begun = observe::begin();
    let resolved = resolve(site, path, name);
    observe::end(Stage::Resolve, begun);
    let resolved = match resolved {
        Ok(resolved) => resolved,
        Err(refusal) => return refuse(services, ctx, out, refusal).await,
    };
    if request.method == Method::Options {
        return pages::options(ctx, out);
    }
    let moved = site.redirects.of(name, resolved.directory, request.query);
    if let Some((status, location)) = moved {
        return pages::moved(ctx, out, status, name, &location);
    }
    match lookup(services, ctx, name, resolved).await {
        Ok(FileKind::File(opened)) => {
            // The index file may need other credentials than the directory.
            if resolved.directory
                && let Some(response) = authorize(services, ctx, out, Resource::Name(name)).await
            {
                return response;
            }
            let variant = choose_variant(services, ctx, name, opened).await;
            answer_with_file(services, ctx, out, name, variant).await
        }
        Ok(FileKind::Directory(_)) if !resolved.directory => pages::to_directory(ctx, out, name),
        Ok(FileKind::Directory(directory)) if site.listing => {
            listing(services, ctx, out, name, directory).await
        }
        Ok(FileKind::Directory(_) | FileKind::Special) => not_found(services, ctx, out).await,
        Err(error) => match explain(&error) {
            (Status::NOT_FOUND, _) => not_found(services, ctx, out).await,
            (status, detail) => pages::error(services, ctx, out, status, detail).await,
        },
    }
}

/// Opens the file of a name. If the request path ends in a slash, opens the first existing index
/// file; `name` is then its name. Without one, opens the directory itself if it may be listed.
async fn lookup(
    services: &Services,
    ctx: RequestContext<'_>,
    name: &mut Vec<u8>,
    resolved: Resolved,
) -> io::Result<FileKind> {
    if !resolved.directory {
        return open(services, ctx.site, name).await;
    }
    let length = name.len();
    for index in &ctx.site.index {
        enter(name, index.as_bytes());
        match open(services, ctx.site, name).await {
            // A directory of that name is not an index.
            Ok(FileKind::Directory(_) | FileKind::Special) => {}
            Err(error) if explain(&error).0 == Status::NOT_FOUND => {}
            kind => return kind,
        }
        name.truncate(length);
    }
    if ctx.site.listing {
        let kind = open(services, ctx.site, name).await?;
        if matches!(kind, FileKind::Directory(_)) {
            return Ok(kind);
        }
    }
    // A directory without index file that may not be listed, or a file with a slash after it:
    // not found, as in the kernel (ENOTDIR).
    Err(rustix::io::Errno::NOENT.into())
}

/// Answers for a name that does not exist: with the fallback page of a single-page application
/// (client-side routing), or 404.
async fn not_found(services: &Services, ctx: RequestContext<'_>, out: &mut Vec<u8>) -> Response {
    let ctx = RequestContext {
        varies_by_accept: ctx.site.fallback.is_some(),
        ..ctx
    };
    if let Some(fallback) = &ctx.site.fallback
        // A missing script or picture must not be answered with a page.
        && prefers(&ctx.request.headers, "text/html", "*/*")
        && let Some(opened) = open_file(services, ctx.site, fallback).await
    {
        if let Some(response) = authorize(services, ctx, out, Resource::Name(fallback)).await {
            return response;
        }
        let variant = choose_variant(services, ctx, fallback, opened).await;
        return answer_with_file(services, ctx, out, fallback, variant).await;
    }
    refuse(services, ctx, out, Refusal::NotFound).await
}

async fn refuse(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Vec<u8>,
    refusal: Refusal,
) -> Response {
    pages::error(services, ctx, out, refusal.status(), refusal.detail()).await
}

async fn wrong_method(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Vec<u8>,
    method: Method<'_>,
) -> Response {
    let (status, detail) = if method.is_known() {
        (Status::METHOD_NOT_ALLOWED, "This server only reads files.")
    } else {
        (
            Status::NOT_IMPLEMENTED,
            "The server does not know this method.",
        )
    };
    pages::error(services, ctx, out, status, detail).await
}

/// Returns status and text for a file that cannot be opened. A path through a symbolic link that
/// the site does not follow, or out of the root, looks like a missing file. A file without read
/// permission gives 403.
fn explain(error: &io::Error) -> (Status, &'static str) {
    use rustix::io::Errno;
    if error.kind() == io::ErrorKind::TimedOut {
        return (
            Status::SERVICE_UNAVAILABLE,
            "The file takes too long to open; try again.",
        );
    }
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::XDEV
            | Errno::NXIO
            | Errno::NAMETOOLONG,
        ) => (Status::NOT_FOUND, "There is nothing under this name."),
        Some(Errno::ACCESS | Errno::PERM) => {
            (Status::FORBIDDEN, "The server may not read this file.")
        }
        _ if resource_exhaustion::is_resource_exhaustion(error) => (
            Status::SERVICE_UNAVAILABLE,
            "The server has reached a limit; try again.",
        ),
        _ => (Status::INTERNAL_SERVER_ERROR, "The file could not be read."),
    }
}
