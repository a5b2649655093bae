//! Directory listings, as HTML and as JSON.

mod html;
mod json;

use super::lookup::explain;
use super::pages;
use super::response::{RequestContext, Response};
use crate::files::resolve::enter;
use crate::files::uncached::open_below;
use crate::services::Services;
use crate::site::Site;
use laio::ops::{FileStatus, FileType, Name, ReadDir, StatFile, StatPath};
use laio_http::{ContentType, Output, RequestPath, Status, prefers};
use laio_rt::Descriptor;
use laio_serve_base::options::IoStep;
use laio_serve_net::io_contexts::IoContexts;
use rustix::fs::OFlags;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// An entry of a listing.
pub(crate) struct Entry {
    name: Vec<u8>,
    directory: bool,
    size: u64,
    /// Seconds since 1970.
    modified: i64,
}

/// The entries of a directory.
pub(crate) struct Listing {
    /// Sorted by name, directories first.
    entries: Vec<Entry>,
    /// The directory has more entries than the limit.
    truncated: bool,
}

/// Answers with a directory listing: JSON if the client prefers it to HTML or asks for `?json`.
pub async fn listing(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    name: &[u8],
    directory: Descriptor,
) -> Response {
    let ctx = RequestContext {
        varies_by_accept: true,
        ..ctx
    };
    let listed = async {
        let _permit = services.listings.acquire().await;
        list(services, ctx, name, directory).await
    };
    let listed = laio_rt::time::timeout(services.limits.open_time, listed).await;
    let (status, detail) = match listed {
        Ok(Ok(listing)) => return listing.response(ctx, out, name),
        Ok(Err(error)) => match explain(&error) {
            (Status::INTERNAL_SERVER_ERROR, _) => (
                Status::INTERNAL_SERVER_ERROR,
                "The directory could not be read.",
            ),
            (Status::FORBIDDEN, _) => {
                (Status::FORBIDDEN, "The server may not read this directory.")
            }
            other => other,
        },
        // An entry may be a link into a file system whose server does not respond.
        Err(_) => (
            Status::SERVICE_UNAVAILABLE,
            "The directory takes too long to read; try again.",
        ),
    };
    pages::error(services, ctx, out, status, detail).await
}

async fn list(
    services: &Services,
    ctx: RequestContext<'_>,
    inside: &[u8],
    directory: Descriptor,
) -> io::Result<Listing> {
    let most = services.limits.listing_entries;
    let mut listing = Listing {
        entries: Vec::new(),
        truncated: false,
    };
    let mut buffer = Vec::with_capacity(ReadDir::<Descriptor>::ROOM);
    loop {
        let read = ReadDir::with_buffer(directory.clone(), buffer);
        let entries = services.contexts.submit(IoStep::Open, read).await?;
        if entries.is_empty() || listing.truncated {
            break;
        }
        for entry in entries.iter() {
            let name = entry.name().as_bytes();
            let hidden = name.starts_with(b".") && !ctx.site.serves_dotfiles;
            if hidden || !RequestPath::can_name(name) {
                continue;
            }
            if listing.entries.len() == most {
                listing.truncated = true;
                break;
            }
            let known = entry.file_type();
            let entry = stat_entry(
                &services.contexts,
                ctx.site,
                inside,
                &directory,
                name,
                known,
            )
            .await?;
            listing.entries.extend(entry);
        }
        buffer = entries.into_buffer();
    }
    listing.entries.sort_unstable_by(|one, other| {
        (!one.directory, &one.name).cmp(&(!other.directory, &other.name))
    });
    Ok(listing)
}

impl Listing {
    fn response(&self, ctx: RequestContext<'_>, out: &mut Output, name: &[u8]) -> Response {
        let headers = &ctx.request.headers;
        let json =
            ctx.request.query == Some("json") || prefers(headers, "application/json", "text/html");
        let mut page = Vec::new();
        let content_type = if json {
            json::write(self, &mut page);
            ContentType::JSON
        } else {
            let features = ctx.directory_answers.iter();
            let links: Vec<_> = features.filter_map(|one| one.link(ctx.site)).collect();
            html::write(self, name, &links, &mut page);
            ContentType::HTML
        };
        let head = ctx.head(out, Status::OK);
        // A glob such as /docs/** matches the directory itself too.
        let head = ctx.site.fields.add(head, &[name, b"/"].concat());
        ctx.with_page(head, Status::OK, content_type, &page)
    }
}

/// Returns the entry as a request for it would find it, if it is served.
async fn stat_entry(
    contexts: &IoContexts,
    site: &Site,
    inside: &[u8],
    directory: &Descriptor,
    name: &[u8],
    known: FileType,
) -> io::Result<Option<Entry>> {
    let status = served_status(contexts, site, inside, directory, name, known).await?;
    Ok(status.map(|status| Entry {
        name: name.to_vec(),
        directory: status.is_dir(),
        size: if status.is_file() { status.size() } else { 0 },
        modified: status.modified().seconds,
    }))
}

/// Returns the status of an entry as a request for it would find it. Returns none for entries that are not
/// served: special files, names removed meanwhile, and links that lead to special files, to nothing, or where the
/// site or the permissions do not let the server follow them.
///
/// # Errors
/// Any other error, so that no walk takes an entry that it could not examine for one that is not served.
pub async fn served_status(
    contexts: &IoContexts,
    site: &Site,
    inside: &[u8],
    directory: &Descriptor,
    name: &[u8],
    known: FileType,
) -> io::Result<Option<FileStatus>> {
    if !matches!(
        known,
        FileType::Regular | FileType::Directory | FileType::Unknown | FileType::Symlink
    ) {
        return Ok(None);
    }
    let path = Name::at(directory.clone(), CString::new(name)?);
    let status = contexts.submit(IoStep::Stat, StatPath::new(path).no_follow());
    let mut status = match status.await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        status => status?,
    };
    if status.is_symlink() {
        status = match target_of(contexts, site, inside, name).await {
            Err(error) if leads_nowhere(&error) => return Ok(None),
            status => status?,
        };
    }
    Ok((status.is_file() || status.is_dir()).then_some(status))
}

/// Whether a request for a link with this error would find nothing, or nothing that the server may read.
fn leads_nowhere(error: &io::Error) -> bool {
    matches!(explain(error).0, Status::NOT_FOUND | Status::FORBIDDEN)
}

/// Returns the metadata of a link's target, resolved by the rules of the site. `O_PATH` opens no
/// device or FIFO.
async fn target_of(
    contexts: &IoContexts,
    site: &Site,
    inside: &[u8],
    name: &[u8],
) -> io::Result<FileStatus> {
    let mut path = inside.to_vec();
    enter(&mut path, name);
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let target = open_below(contexts, site, &path, flags, site.resolve).await?;
    let target = Descriptor::from(target);
    contexts.submit(IoStep::Stat, StatFile::new(target)).await
}
