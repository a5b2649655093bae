//! A directory with all that is in it, as a zip file.
//!
//! The files are found before the response begins (`walk`), so that a directory that is too large or unreadable is an
//! error, and the length is known. They are read while they are sent (`send`).

#![cfg(feature = "zip")]

mod format;
mod send;
mod walk;

use super::auth_request;
use super::directory_answer::{DirectoryAnswer, DirectoryAnswered};
use super::lookup::explain;
use super::pages;
use super::response::{Body, RequestContext, Response};
use crate::services::Services;
use crate::site::Site;
use crate::site::auth::{Access, Resource};
use laio_http::{Output, Status, Version};
use laio_rt::Descriptor;
use laio_rt::sync::Semaphore;
use laio_serve_base::options::{Limits, Zip};
use rustix::fs::OFlags;
use send::Archive;
use std::io;
use walk::{Walk, WalkError};

/// The query that asks for an archive.
const QUERY: &str = "zip";

/// The archives that a worker sends.
pub struct Archives {
    /// Limits how many there are at a time.
    permits: Semaphore,
}

impl Archives {
    /// Returns what answers with archives within the limits.
    pub fn new(limits: &Limits) -> Archives {
        let permits = Semaphore::new(limits.zips);
        Archives { permits }
    }
}

impl DirectoryAnswer for Archives {
    fn is_asked(&self, ctx: RequestContext<'_>) -> bool {
        how(ctx.site).is_some() && ctx.request.query == Some(QUERY)
    }

    fn answer<'a>(
        &'a self,
        services: &'a Services,
        ctx: RequestContext<'a>,
        out: &'a mut Output,
        name: &'a [u8],
    ) -> DirectoryAnswered<'a> {
        Box::pin(archive(&self.permits, services, ctx, out, name))
    }

    fn link(&self, site: &Site) -> Option<&'static str> {
        how(site).map(|_| "<a href=\"?zip\">all as a zip file</a>")
    }
}

/// Returns how a site packs directories, if it does.
fn how(site: &Site) -> Option<Zip> {
    site.description.archives.zip
}

/// Answers with the archive of a directory. Returns `None` if the name names no directory.
async fn archive(
    permits: &Semaphore,
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    name: &[u8],
) -> Option<Response> {
    let how = how(ctx.site)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let directory = match walk::open(services, ctx.site, name, flags).await {
        Ok(directory) => directory,
        Err(error) => match explain(&error) {
            // A file, or nothing: as without the query.
            (Status::NOT_FOUND, _) => return None,
            (status, detail) => {
                return Some(pages::error(services, ctx, out, status, detail).await);
            }
        },
    };
    let Some(permit) = permits.try_acquire() else {
        let detail = "The server is packing too many directories at the moment; try again.";
        let status = Status::SERVICE_UNAVAILABLE;
        return Some(pages::error(services, ctx, out, status, detail).await);
    };
    let members = match members(services, ctx, name, directory).await {
        Ok(members) => members,
        Err((status, detail)) => {
            return Some(pages::error(services, ctx, out, status, detail).await);
        }
    };
    // HTTP/1.0 has no chunks, so it needs the length.
    let deflates = how == Zip::Deflate && ctx.request.version == Version::Http11;
    let mut archive = Archive::new(ctx.site.number, name, members, deflates, permit);
    if ctx.sends_body()
        && let Err(error) = archive.begin(services, ctx.site).await
    {
        let (status, detail) = explain_inside(&error);
        return Some(pages::error(services, ctx, out, status, detail).await);
    }
    let head = ctx.head(out, Status::OK);
    let head = head
        .header("Content-Type", b"application/zip")
        .header("Content-Disposition", &disposition(name));
    let head = if deflates {
        head.header("Transfer-Encoding", b"chunked")
    } else {
        head.content_length(archive.length())
    };
    ctx.finish(head);
    let mut response = Response::bare(Status::OK);
    if ctx.sends_body() {
        response.length = archive.length();
        response.body = Body::Generated(Box::new(archive));
    }
    Some(response)
}

/// Finds what is in the directory.
async fn members(
    services: &Services,
    ctx: RequestContext<'_>,
    name: &[u8],
    directory: Descriptor,
) -> Result<Vec<format::Member>, (Status, &'static str)> {
    let sees_all = match &ctx.site.users {
        None => true,
        Some(users) => {
            let checks = &services.password_checks;
            match checks.check(users, ctx.request, Resource::Every).await {
                Access::Granted => true,
                // What passwords guard is left out.
                Access::Denied => false,
                Access::Busy => {
                    let detail =
                        "The server is checking too many passwords at the moment; try again.";
                    return Err((Status::SERVICE_UNAVAILABLE, detail));
                }
            }
        }
    };
    auth_request::ask_about_all(services, ctx).await;
    let walk = Walk {
        services,
        site: ctx.site,
        client: ctx.client,
        auth: ctx.auth,
        sees_all,
    };
    let limit = services.limits.open_time;
    match laio_rt::time::timeout(limit, walk.members(name, directory)).await {
        Ok(Ok(members)) => Ok(members),
        Ok(Err(WalkError::TooLarge)) => Err((
            Status::FORBIDDEN,
            "The directory has more files or bytes than the server packs; get its directories one by one.",
        )),
        Ok(Err(WalkError::Disk(error))) => Err(explain_inside(&error)),
        Err(_) => Err((
            Status::SERVICE_UNAVAILABLE,
            "The directory takes too long to read; try again.",
        )),
    }
}

/// Returns status and text for something in the directory that cannot be read.
fn explain_inside(error: &io::Error) -> (Status, &'static str) {
    match explain(error) {
        (Status::FORBIDDEN, _) => (
            Status::FORBIDDEN,
            "The server may not read some of what is in the directory.",
        ),
        // Something disappeared while the server was looking.
        (Status::NOT_FOUND, _) => (
            Status::SERVICE_UNAVAILABLE,
            "The directory is changing; try again.",
        ),
        other => other,
    }
}

/// Returns the field that names the file (RFC 6266).
fn disposition(name: &[u8]) -> Vec<u8> {
    let leaf = name.rsplit(|&byte| byte == b'/').next();
    let leaf = leaf.filter(|leaf| !leaf.is_empty()).unwrap_or(b"files");
    let plain = |byte: &u8| match byte {
        b'"' | b'\\' | b'%' => b'_',
        byte if byte.is_ascii_graphic() || *byte == b' ' => *byte,
        _ => b'_',
    };
    let simple: Vec<u8> = leaf.iter().map(plain).collect();
    let mut value = b"attachment; filename=\"".to_vec();
    value.extend_from_slice(&simple);
    value.extend_from_slice(b".zip\"");
    if simple != leaf
        && let Ok(text) = std::str::from_utf8(leaf)
    {
        value.extend_from_slice(b"; filename*=UTF-8''");
        let encoded =
            percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC);
        encoded.for_each(|piece| value.extend_from_slice(piece.as_bytes()));
        value.extend_from_slice(b".zip");
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_archives() {
        let value = |name: &str| String::from_utf8(disposition(name.as_bytes())).unwrap();
        assert_eq!(value(""), "attachment; filename=\"files.zip\"");
        assert_eq!(value("a/b c"), "attachment; filename=\"b c.zip\"");
        assert_eq!(
            value("\u{fc}\""),
            "attachment; filename=\"___.zip\"; filename*=UTF-8''%C3%BC%22.zip"
        );
    }
}
