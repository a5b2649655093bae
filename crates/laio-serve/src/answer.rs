//! From a request to its answer: checks access, resolves the name, opens the file.

use crate::auth::{Access, Wanted};
use crate::cors;
use crate::observe::{self, Stage};
use crate::open::Found;
use crate::pages;
use crate::reply::{Asked, Reply};
use crate::resolve::{Refusal, Resolved, enter, resolve};
use crate::shortage;
use crate::worker::Worker;
use laio_http::{Method, Status, prefers};
use std::io;

impl Worker {
    /// Decides the answer. Writes its head, and a body that does not come from a file, to `out`.
    /// `name` is a buffer for the name of the file.
    pub(crate) async fn answer(
        &self,
        asked: Asked<'_>,
        out: &mut Vec<u8>,
        name: &mut Vec<u8>,
    ) -> Reply {
        let (request, site) = (asked.request, asked.site);
        let path = match &request.path {
            Ok(path) => path,
            Err(rejection) => {
                return self.refuse(asked, out, Refusal::Rejected(*rejection)).await;
            }
        };
        match request.method {
            Method::Get | Method::Head => {}
            // Checked before authentication, because browsers send preflight requests without
            // credentials.
            Method::Options if path.is_whole_server() || cors::is_preflight(request) => {
                return pages::options(asked, out);
            }
            Method::Options => {}
            method => return self.wrong_method(asked, out, method).await,
        }
        if let Some(reply) = self.keep_out(asked, out, Wanted::File(path)).await {
            return reply;
        }
        let begun = observe::begin();
        let resolved = resolve(site, path, name);
        observe::end(Stage::Resolve, begun);
        let resolved = match resolved {
            Ok(resolved) => resolved,
            Err(refusal) => return self.refuse(asked, out, refusal).await,
        };
        if request.method == Method::Options {
            return pages::options(asked, out);
        }
        let moved = site.redirects.of(name, resolved.directory, request.query);
        if let Some((status, location)) = moved {
            return pages::moved(asked, out, status, name, &location);
        }
        match self.find(asked, name, resolved).await {
            Ok(Found::File(opened)) => {
                // The index file may need other credentials than the directory.
                if resolved.directory
                    && let Some(reply) = self.keep_out(asked, out, Wanted::Name(name)).await
                {
                    return reply;
                }
                let variant = self.variant(asked, name, opened).await;
                self.file(asked, out, name, variant).await
            }
            Ok(Found::Directory(_)) if !resolved.directory => pages::to_directory(asked, out, name),
            Ok(Found::Directory(directory)) if site.listing => {
                self.listing(asked, out, name, directory).await
            }
            Ok(Found::Directory(_) | Found::Special) => self.absent(asked, out).await,
            Err(error) => match explain(&error) {
                (Status::NOT_FOUND, _) => self.absent(asked, out).await,
                (status, detail) => self.error(asked, out, status, detail).await,
            },
        }
    }

    /// Returns the error answer if the client may not access `wanted`, else none.
    pub(crate) async fn keep_out(
        &self,
        asked: Asked<'_>,
        out: &mut Vec<u8>,
        wanted: Wanted<'_>,
    ) -> Option<Reply> {
        let users = asked.site.users.as_ref()?;
        match self.authorize(users, asked.request, wanted).await {
            Access::Granted => None,
            Access::Denied => Some(self.unauthorized(asked, out, users).await),
            Access::Busy => {
                let detail = "The server is checking too many passwords at the moment; try again.";
                Some(
                    self.error(asked, out, Status::SERVICE_UNAVAILABLE, detail)
                        .await,
                )
            }
        }
    }

    /// Opens the file of a name. For a directory opens its index, whose name is then in `name`, or
    /// else the directory itself if it may be listed.
    async fn find(
        &self,
        asked: Asked<'_>,
        name: &mut Vec<u8>,
        resolved: Resolved,
    ) -> io::Result<Found> {
        if !resolved.directory {
            return self.open(asked.site, name).await;
        }
        let length = name.len();
        for index in &asked.site.index {
            enter(name, index.as_bytes());
            match self.open(asked.site, name).await {
                // A directory of that name is not an index.
                Ok(Found::Directory(_) | Found::Special) => {}
                Err(error) if explain(&error).0 == Status::NOT_FOUND => {}
                found => return found,
            }
            name.truncate(length);
        }
        if asked.site.listing {
            let found = self.open(asked.site, name).await?;
            if matches!(found, Found::Directory(_)) {
                return Ok(found);
            }
        }
        // The name is a file with a slash after it: not found, as in the kernel (ENOTDIR).
        Err(rustix::io::Errno::NOENT.into())
    }

    /// Answers for a name that does not exist: with the fallback page of an application that
    /// handles addresses itself, or 404.
    async fn absent(&self, asked: Asked<'_>, out: &mut Vec<u8>) -> Reply {
        let asked = Asked {
            by_accept: asked.site.fallback.is_some(),
            ..asked
        };
        if let Some(fallback) = &asked.site.fallback
            // A missing script or picture must not be answered with a page.
            && prefers(&asked.request.headers, "text/html", "*/*")
            && let Some(opened) = self.open_file(asked.site, fallback).await
        {
            if let Some(reply) = self.keep_out(asked, out, Wanted::Name(fallback)).await {
                return reply;
            }
            let variant = self.variant(asked, fallback, opened).await;
            return self.file(asked, out, fallback, variant).await;
        }
        self.refuse(asked, out, Refusal::Absent).await
    }

    async fn refuse(&self, asked: Asked<'_>, out: &mut Vec<u8>, refusal: Refusal) -> Reply {
        self.error(asked, out, refusal.status(), refusal.detail())
            .await
    }

    async fn wrong_method(&self, asked: Asked<'_>, out: &mut Vec<u8>, method: Method<'_>) -> Reply {
        let (status, detail) = if method.is_known() {
            (Status::METHOD_NOT_ALLOWED, "This server only reads files.")
        } else {
            (
                Status::NOT_IMPLEMENTED,
                "The server does not know this method.",
            )
        };
        self.error(asked, out, status, detail).await
    }
}

/// Returns status and text for a file that cannot be opened. A file that exists but must not be
/// seen looks like a missing one.
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
        _ if shortage::is_one(error) => (
            Status::SERVICE_UNAVAILABLE,
            "The server has reached a limit; try again.",
        ),
        _ => (Status::INTERNAL_SERVER_ERROR, "The file could not be read."),
    }
}
