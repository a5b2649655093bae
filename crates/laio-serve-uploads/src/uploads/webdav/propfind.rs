//! Properties of a file, or of a directory and what is in it (PROPFIND).

use super::locks::Locks;
use super::multi_status::MultiStatus;
use super::properties::{Resource, push_name};
use super::trees;
use super::xml::{Element, XmlName};
use super::{Depth, depth, document, status_of};
use crate::uploads::disk::Disk;
use crate::uploads::problem::Problem;
use crate::uploads::{Done, put};
use laio::ops::{FileStatus, ReadDir};
use laio_http::{RequestPath, Status};
use laio_rt::Descriptor;
use laio_serve_core::files::resolve::enter;
use laio_serve_core::files::temporary_name::is_temporary;
use laio_serve_core::request::body::ClientBody;
use laio_serve_core::request::listing::served_status;
use laio_serve_core::request::response::RequestContext;
use rustix::fs::OFlags;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Properties that one request asks for; a response repeats unknown ones for every resource.
const PROPERTIES_MAX: usize = 64;
/// Bytes of a response.
const RESPONSE_MAX: usize = 32 << 20;

/// What a request wants to know of each resource.
enum Wanted {
    /// All properties with their values, and these others.
    All(Vec<XmlName>),
    /// The names of all properties.
    Names,
    Some(Vec<XmlName>),
}

/// Answers a PROPFIND request.
pub(in crate::uploads) async fn propfind(
    locks: &Locks,
    disk: Disk<'_>,
    ctx: RequestContext<'_>,
    name: &[u8],
    body: &mut ClientBody<'_>,
) -> Result<Done, Problem> {
    let deep = match depth(ctx)? {
        Some(Depth::Zero) => false,
        Some(Depth::One) => true,
        // A client could make the server list all of a large tree.
        Some(Depth::Infinity) | None => return Err(Problem::INFINITE_DEPTH),
    };
    let wanted = wanted(document(body).await?)?;
    let status = status_of(disk, ctx.site, name).await?;
    let status = status.ok_or(Problem::NOT_FOUND)?;
    if !status.is_dir() && !status.is_file() {
        return Err(Problem::NOT_FOUND);
    }
    let limit = disk.services.limits.open_time;
    let listed = laio_rt::time::timeout(limit, async {
        let mut response = MultiStatus::new();
        let space = space(disk, ctx, name, &wanted).await?;
        push(locks, ctx, &wanted, (name, &status), space, &mut response);
        if deep && status.is_dir() {
            members(locks, disk, ctx, &wanted, name, space, &mut response).await?;
        }
        Ok(response.done())
    });
    listed.await.unwrap_or_else(|_| {
        Err(Problem::new(
            Status::SERVICE_UNAVAILABLE,
            "The directory takes too long to read; try again.",
        ))
    })
}

/// Reads what the request wants to know. An empty body wants all properties.
fn wanted(document: Option<Element>) -> Result<Wanted, Problem> {
    let bad = || Problem::new(Status::BAD_REQUEST, "The body is not a propfind element.");
    let Some(root) = document else {
        return Ok(Wanted::All(Vec::new()));
    };
    if !root.name.is("propfind") {
        return Err(bad());
    }
    let names = |element: Option<&Element>| {
        let children = element.map_or(&[][..], |element| &element.children);
        children.iter().map(|child| child.name.clone()).collect()
    };
    let wanted = if root.child("allprop").is_some() {
        Wanted::All(names(root.child("include")))
    } else if root.child("propname").is_some() {
        Wanted::Names
    } else {
        Wanted::Some(names(Some(root.child("prop").ok_or_else(bad)?)))
    };
    match &wanted {
        Wanted::All(names) | Wanted::Some(names) if names.len() > PROPERTIES_MAX => {
            Err(Problem::new(
                Status::CONTENT_TOO_LARGE,
                "The request asks for too many properties.",
            ))
        }
        _ => Ok(wanted),
    }
}

/// Returns the free and the used bytes, if the request asks for them, and the file system knows them.
async fn space(
    disk: Disk<'_>,
    ctx: RequestContext<'_>,
    name: &[u8],
    wanted: &Wanted,
) -> io::Result<Option<(u64, u64)>> {
    let (Wanted::All(names) | Wanted::Some(names)) = wanted else {
        return Ok(None);
    };
    let is_quota = |name: &XmlName| name.local.starts_with("quota-");
    if !names.iter().any(is_quota) {
        return Ok(None);
    }
    let opened = trees::open_served(disk, ctx.site, name, OFlags::PATH).await?;
    let Some(status) = put::space(disk, opened).await? else {
        return Ok(None);
    };
    let unit = status.fragment_size();
    let free = status.available_blocks().saturating_mul(unit);
    let kept = ctx.site.uploads.as_ref().map_or(0, |rules| rules.keep_free);
    let used = status.blocks().saturating_mul(unit).saturating_sub(free);
    Ok(Some((free.saturating_sub(kept), used)))
}

/// Appends what is in a directory.
async fn members(
    locks: &Locks,
    disk: Disk<'_>,
    ctx: RequestContext<'_>,
    wanted: &Wanted,
    inside: &[u8],
    space: Option<(u64, u64)>,
    response: &mut MultiStatus,
) -> Result<(), Problem> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let directory: Descriptor = trees::open_served(disk, ctx.site, inside, flags).await?;
    let (mut count, mut memory) = (0, disk.services.memory.page(0));
    loop {
        let entries = disk.names(ReadDir::new(directory.clone())).await?;
        if entries.is_empty() {
            return Ok(());
        }
        for entry in entries.iter() {
            let leaf = entry.name().as_bytes();
            let hidden = leaf.starts_with(b".") && !ctx.site.serves_dotfiles;
            if hidden || is_temporary(leaf) || !RequestPath::can_name(leaf) {
                continue;
            }
            count += 1;
            // A client could take a shortened list for the whole one, and delete its own files.
            if count > disk.services.limits.listing_entries || response.0.len() > RESPONSE_MAX {
                return Err(Problem::new(
                    Status::INSUFFICIENT_STORAGE,
                    "The directory has more entries than the server lists (--max-listing).",
                ));
            }
            let length = response.0.len();
            if !memory.as_mut().is_some_and(|memory| memory.grow_to(length)) {
                return Err(Problem::NO_MEMORY);
            }
            let contexts = &disk.services.contexts;
            let known = entry.file_type();
            let status = served_status(contexts, ctx.site, inside, &directory, leaf, known);
            let Some(status) = status.await? else {
                continue;
            };
            let mut name = inside.to_vec();
            enter(&mut name, leaf);
            push(locks, ctx, wanted, (&name, &status), space, response);
        }
    }
}

/// Appends the part about a resource.
fn push(
    locks: &Locks,
    ctx: RequestContext<'_>,
    wanted: &Wanted,
    (name, status): (&[u8], &FileStatus),
    space: Option<(u64, u64)>,
    response: &mut MultiStatus,
) {
    let has_locks = ctx.site.uploads.is_some();
    let resource = Resource {
        name,
        status,
        locks: has_locks.then(|| locks.of(ctx.site.identity, name)),
        space,
    };
    response.begin(name, status.is_dir());
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    let mut some = |names: &[XmlName], found: &mut Vec<u8>| {
        for name in names {
            let is_own = name.namespace == super::xml::DAV;
            if !is_own || !resource.push(ctx, &name.local, found) {
                push_name(&mut missing, name);
            }
        }
    };
    match wanted {
        Wanted::Names => {
            for name in resource.names() {
                found.extend_from_slice(format!("<D:{name}/>").as_bytes());
            }
        }
        Wanted::All(others) => {
            for name in resource.names() {
                resource.push(ctx, name, &mut found);
            }
            some(others, &mut found);
        }
        Wanted::Some(names) => some(names, &mut found),
    }
    response.properties(&found, Status::OK);
    response.properties(&missing, Status::NOT_FOUND);
    if found.is_empty() && missing.is_empty() {
        response.0.extend_from_slice(
            b"<D:propstat><D:prop/><D:status>HTTP/1.1 200 OK</D:status></D:propstat>",
        );
    }
    response.end();
}
