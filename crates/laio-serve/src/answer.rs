//! From a request to its answer: checks access, resolves the name, opens the file.

use crate::auth::{Access, Resource};
use crate::cors;
use crate::observe::{self, Stage};
use crate::open::FileKind;
use crate::pages;
use crate::reply::{Reply, RequestContext};
use crate::resolve::{Refusal, Resolved, enter, resolve};
use crate::resource_exhaustion;
use crate::worker::Worker;
use laio_http::{Method, Status, prefers};
use std::io;

impl Worker {
    /// Decides the answer. Writes its head, and a body that does not come from a file, to `out`.
    /// `name` is a buffer for the name of the file.
    pub(crate) async fn answer(
        &self,
        ctx: RequestContext<'_>,
        out: &mut Vec<u8>,
        name: &mut Vec<u8>,
    ) -> Reply {
        let (request, site) = (ctx.request, ctx.site);
        let path = match &request.path {
            Ok(path) => path,
            Err(rejection) => {
                return self.refuse(ctx, out, Refusal::Rejected(*rejection)).await;
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
            method => return self.wrong_method(ctx, out, method).await,
        }
        if let Some(reply) = self.authorize(ctx, out, Resource::File(path)).await {
            return reply;
        }
        let begun = observe::begin();
        let resolved = resolve(site, path, name);
        observe::end(Stage::Resolve, begun);
        let resolved = match resolved {
            Ok(resolved) => resolved,
            Err(refusal) => return self.refuse(ctx, out, refusal).await,
        };
        if request.method == Method::Options {
            return pages::options(ctx, out);
        }
        let moved = site.redirects.of(name, resolved.directory, request.query);
        if let Some((status, location)) = moved {
            return pages::moved(ctx, out, status, name, &location);
        }
        match self.lookup(ctx, name, resolved).await {
            Ok(FileKind::File(opened)) => {
                // The index file may need other credentials than the directory.
                if resolved.directory
                    && let Some(reply) = self.authorize(ctx, out, Resource::Name(name)).await
                {
                    return reply;
                }
                let variant = self.variant(ctx, name, opened).await;
                self.file(ctx, out, name, variant).await
            }
            Ok(FileKind::Directory(_)) if !resolved.directory => {
                pages::to_directory(ctx, out, name)
            }
            Ok(FileKind::Directory(directory)) if site.listing => {
                self.listing(ctx, out, name, directory).await
            }
            Ok(FileKind::Directory(_) | FileKind::Special) => self.not_found(ctx, out).await,
            Err(error) => match explain(&error) {
                (Status::NOT_FOUND, _) => self.not_found(ctx, out).await,
                (status, detail) => self.error(ctx, out, status, detail).await,
            },
        }
    }

    /// Returns the error answer if the client may not access `resource`, else none.
    pub(crate) async fn authorize(
        &self,
        ctx: RequestContext<'_>,
        out: &mut Vec<u8>,
        resource: Resource<'_>,
    ) -> Option<Reply> {
        let users = ctx.site.users.as_ref()?;
        match self.check_access(users, ctx.request, resource).await {
            Access::Granted => None,
            Access::Denied => Some(self.unauthorized(ctx, out, users).await),
            Access::Busy => {
                let detail = "The server is checking too many passwords at the moment; try again.";
                Some(
                    self.error(ctx, out, Status::SERVICE_UNAVAILABLE, detail)
                        .await,
                )
            }
        }
    }

    /// Opens the file of a name. If the request path ends in a slash, opens the first existing
    /// index file; `name` is then its name. Without one, opens the directory itself if it may be
    /// listed.
    async fn lookup(
        &self,
        ctx: RequestContext<'_>,
        name: &mut Vec<u8>,
        resolved: Resolved,
    ) -> io::Result<FileKind> {
        if !resolved.directory {
            return self.open(ctx.site, name).await;
        }
        let length = name.len();
        for index in &ctx.site.index {
            enter(name, index.as_bytes());
            match self.open(ctx.site, name).await {
                // A directory of that name is not an index.
                Ok(FileKind::Directory(_) | FileKind::Special) => {}
                Err(error) if explain(&error).0 == Status::NOT_FOUND => {}
                kind => return kind,
            }
            name.truncate(length);
        }
        if ctx.site.listing {
            let kind = self.open(ctx.site, name).await?;
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
    async fn not_found(&self, ctx: RequestContext<'_>, out: &mut Vec<u8>) -> Reply {
        let ctx = RequestContext {
            varies_by_accept: ctx.site.fallback.is_some(),
            ..ctx
        };
        if let Some(fallback) = &ctx.site.fallback
            // A missing script or picture must not be answered with a page.
            && prefers(&ctx.request.headers, "text/html", "*/*")
            && let Some(opened) = self.open_file(ctx.site, fallback).await
        {
            if let Some(reply) = self.authorize(ctx, out, Resource::Name(fallback)).await {
                return reply;
            }
            let variant = self.variant(ctx, fallback, opened).await;
            return self.file(ctx, out, fallback, variant).await;
        }
        self.refuse(ctx, out, Refusal::NotFound).await
    }

    async fn refuse(&self, ctx: RequestContext<'_>, out: &mut Vec<u8>, refusal: Refusal) -> Reply {
        self.error(ctx, out, refusal.status(), refusal.detail())
            .await
    }

    async fn wrong_method(
        &self,
        ctx: RequestContext<'_>,
        out: &mut Vec<u8>,
        method: Method<'_>,
    ) -> Reply {
        let (status, detail) = if method.is_known() {
            (Status::METHOD_NOT_ALLOWED, "This server only reads files.")
        } else {
            (
                Status::NOT_IMPLEMENTED,
                "The server does not know this method.",
            )
        };
        self.error(ctx, out, status, detail).await
    }
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
