//! Requests that change the files of a site: PUT, DELETE and MKCOL, and the methods of WebDAV ([`webdav`]).
//!
//! [`answer_change`] decides the response to one of them. A file gets its name when it is complete
//! ([`temporary`]), so no reader and no crash ever sees a part of one.

mod change_extension;
mod change_services;
mod conditions;
mod delete;
mod disk;
mod make_directory;
mod names_in_change;
mod problem;
mod put;
mod stale;
mod target;
mod temporary;
pub mod webdav;

pub use change_extension::ChangeExtension;
pub use change_services::{ChangeServices, SharedChanges};
pub use stale::remove_stale;

use change_extension::{Made, Submitted};
use disk::Disk;
use laio_http::{ETag, Framing, Method, Output, ResponseHead, Status};
use laio_serve_base::observe;
use laio_serve_base::options::{Limits, Uploaders};
use laio_serve_base::trace;
use laio_serve_core::files::resolve::resolve;
use laio_serve_core::files::temporary_name::is_temporary;
use laio_serve_core::request::authorize::authorize;
use laio_serve_core::request::body::ClientBody;
use laio_serve_core::request::pages;
use laio_serve_core::request::response::{RequestContext, Response};
use laio_serve_core::services::Services;
use laio_serve_core::site::auth::Resource;
use laio_serve_core::site::quota;
use problem::Problem;
use target::Target;

/// A method that changes files, or is a part of WebDAV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // They have the names of the methods.
pub enum Change {
    Put,
    Delete,
    MakeDirectory,
    Copy,
    Move,
    Lock,
    Unlock,
    Proppatch,
    /// Changes nothing.
    Propfind,
}

impl Change {
    /// Returns the change that a request asks for, if its site allows changes and no upstream answers it.
    pub fn from_request(changes: &ChangeServices, ctx: RequestContext<'_>) -> Option<Change> {
        let (uploads, extension) = (ctx.site.uploads.is_some(), changes.extension_of(ctx.site));
        if !uploads && extension.is_none() {
            return None;
        }
        let change = match ctx.request.method {
            Method::Put if uploads => Change::Put,
            Method::Delete if uploads => Change::Delete,
            Method::Other("MKCOL") if uploads => Change::MakeDirectory,
            Method::Other(name) => extension?.change(name, uploads)?,
            _ => return None,
        };
        ctx.upstream().is_none().then_some(change)
    }

    /// Whether the name of the request need not exist.
    fn creates(self) -> bool {
        matches!(self, Change::Put | Change::MakeDirectory | Change::Lock)
    }

    /// Returns the limit of the body, with its framing.
    pub fn body_limit(self, ctx: RequestContext<'_>, limits: &Limits) -> u64 {
        match (self, &ctx.site.uploads) {
            // A longer body is refused once the conditions are checked.
            (Change::Put, _) if ctx.request.framing != Framing::Chunked => u64::MAX,
            (Change::Put, Some(rules)) => rules.bytes.saturating_mul(2).max(limits.body_bytes),
            _ => limits.body_bytes,
        }
    }

    /// Returns the buffer space for one receive of the body.
    pub fn receive_room(self, framing: Framing) -> usize {
        match (self, framing) {
            (Change::Put, Framing::Length(length)) => length.min(CHUNK as u64) as usize,
            (Change::Put, Framing::Chunked) => CHUNK,
            _ => 0,
        }
    }
}

/// What a change has done.
enum Done {
    /// There is a new file or directory.
    Created(Option<ETag>),
    /// The file was replaced or deleted.
    Changed(Option<ETag>),
    /// The response is a document for programs.
    Document {
        status: Status,
        content: Vec<u8>,
        /// The token of a new lock.
        lock_token: Option<String>,
    },
}

/// Makes a change and decides the response. Writes its head, and a page, to `out`. Returns whether the next
/// request can follow on the connection. Returns none instead of making a change that is only explained.
pub async fn answer_change(
    changes: &ChangeServices,
    ctx: RequestContext<'_>,
    change: Change,
    body: &mut ClientBody<'_>,
    out: &mut Output,
    name: &mut Vec<u8>,
) -> Option<(Response, bool)> {
    let services = body.services;
    // The rest of a short body is read after the response, unless the client may not send it.
    let is_short = match ctx.request.framing {
        Framing::Length(length) => length <= services.limits.body_bytes && !body.expects_continue,
        _ => false,
    };
    let reusable = RequestContext {
        keep_alive: ctx.keep_alive && (is_short || body.has_arrived()),
        ..ctx
    };
    let done = match check(services, reusable, change, out, name).await {
        Ok(None) if trace::is_on() && change != Change::Propfind => {
            let method = ctx.request.method;
            trace::note("change", || {
                let name = trace::shown(name);
                format!("{method} of {name}; an explanation changes nothing")
            });
            return None;
        }
        Ok(None) => match make(changes, ctx, change, body, name).await {
            // The directory was deleted at this moment.
            Err(problem) if change.creates() && problem.status == Status::NOT_FOUND => {
                Err(Problem::NO_PARENT)
            }
            done => done,
        },
        Ok(Some(response)) => {
            body.discard_received();
            return Some((response, reusable.keep_alive));
        }
        Err(problem) => Err(problem),
    };
    // Requests received from now on see the change.
    services.cache.iter().for_each(|cache| cache.note_change());
    let too_slow = matches!(&done, Err(problem) if problem.status == Status::REQUEST_TIMEOUT);
    let keep_alive = ctx.keep_alive && !too_slow && (body.discard_received() || is_short);
    let ctx = RequestContext { keep_alive, ..ctx };
    let response = match done {
        Ok(done) => confirm(ctx, out, &done),
        Err(problem) => match (problem.precondition, changes.extension_of(ctx.site)) {
            // Its clients read elements, others a page.
            (Some(precondition), Some(extension)) => {
                extension.refuse(ctx, out, name, &problem, precondition)
            }
            _ => pages::error(services, ctx, out, problem.status, &problem.detail).await,
        },
    };
    Some((response, keep_alive))
}

/// Checks access, and resolves the name. Returns the response if the client may not change the site.
async fn check(
    services: &Services,
    ctx: RequestContext<'_>,
    change: Change,
    out: &mut Output,
    name: &mut Vec<u8>,
) -> Result<Option<Response>, Problem> {
    let path = ctx
        .request
        .path
        .as_ref()
        .map_err(|it| Problem::from_rejection(*it))?;
    let who = ctx.site.uploads.as_ref().map(|rules| rules.who);
    // A change may concern other paths than that of the request: a destination, or what is in a directory.
    if change != Change::Propfind
        && let Some(access) = &ctx.site.network_access
        && !access.admits_to(ctx.client, Resource::Every)
    {
        observe::refused_by_network();
        return Ok(Some(pages::forbidden(services, ctx, out).await));
    }
    let asked = match who.filter(|_| change != Change::Propfind) {
        Some(Uploaders::Users) => authorize(services, ctx, out, Resource::Every).await,
        _ => authorize(services, ctx, out, Resource::File(path)).await,
    };
    if asked.is_some() {
        return Ok(asked);
    }
    if path.is_whole_server() {
        return Err(Problem::NO_FILE);
    }
    let resolved = resolve(ctx.site, path, name);
    let resolved = resolved.map_err(|refusal| match refusal {
        laio_serve_core::files::resolve::Refusal::NotFound if change == Change::Propfind => {
            Problem::NOT_FOUND
        }
        laio_serve_core::files::resolve::Refusal::NotFound => Problem::HIDDEN,
        laio_serve_core::files::resolve::Refusal::Rejected(rejection) => {
            Problem::from_rejection(rejection)
        }
    })?;
    if is_temporary(name) {
        return Err(Problem::HIDDEN);
    }
    if resolved.directory && change == Change::Put {
        return Err(Problem::IS_DIRECTORY);
    }
    Ok(None)
}

async fn make(
    changes: &ChangeServices,
    ctx: RequestContext<'_>,
    change: Change,
    body: &mut ClientBody<'_>,
    name: &[u8],
) -> Result<Done, Problem> {
    let _permit = changes
        .permits
        .try_acquire()
        .ok_or(Problem::TOO_MANY_CHANGES)?;
    let services = body.services;
    let disk = Disk { services, changes };
    let submitted = match changes.extension_of(ctx.site) {
        None => Submitted::default(),
        Some(extension) => match extension.make(disk, ctx, change, name, body).await? {
            Made::Done(done) => return Ok(done),
            Made::Admitted(submitted) => submitted,
        },
    };
    let rules = ctx.site.uploads.as_ref().ok_or(Problem::NO_FILE)?;
    quota::check_counted(rules.quota.as_ref())?;
    let target = Target::open(disk, ctx.site, name);
    if change == Change::Put {
        return put::put(disk, ctx, rules, &target.await?, &submitted, body).await;
    }
    read_nothing(body).await?;
    match change {
        Change::Delete => delete::delete(disk, ctx, rules, &target.await?).await,
        _ => make_directory::make_directory(disk, rules, &target.await?).await,
    }
}

/// Receives the body of a request that has no use for one.
async fn read_nothing(body: &mut ClientBody<'_>) -> Result<(), Problem> {
    let mut content = Vec::new();
    while !body.next_piece(&mut content).await? {
        if !content.is_empty() {
            break;
        }
    }
    if content.is_empty() {
        Ok(())
    } else {
        Err(Problem::BODY_WITHOUT_MEANING)
    }
}

/// Answers a change that was made.
fn confirm(ctx: RequestContext<'_>, out: &mut Output, done: &Done) -> Response {
    let (status, etag) = match done {
        Done::Created(etag) => (Status::CREATED, etag),
        Done::Changed(etag) => (Status::NO_CONTENT, etag),
        Done::Document {
            status,
            content,
            lock_token,
        } => {
            let mut head = ctx.head(out, *status);
            if let Some(token) = lock_token {
                head = head.header("Lock-Token", format!("<{token}>").as_bytes());
            }
            return with_document(ctx, head, *status, content);
        }
    };
    let mut head = ctx.head(out, status);
    if let Some(etag) = etag {
        head = head.etag(etag);
    }
    if ctx.request.headers.get("X-OC-Mtime").is_some() && etag.is_some() {
        head = head.header("X-OC-Mtime", b"accepted");
    }
    if status == Status::CREATED {
        head = head.content_length(0);
    }
    ctx.finish(head);
    Response::bare(status)
}

/// Answers with a document for programs.
fn with_document(
    ctx: RequestContext<'_>,
    head: ResponseHead<'_>,
    status: Status,
    content: &[u8],
) -> Response {
    let length = content.len() as u64;
    let head = head.header("Content-Type", b"application/xml; charset=utf-8");
    ctx.finish(head.content_length(length))
        .extend_from_slice(content);
    Response {
        length,
        ..Response::bare(status)
    }
}

/// Bytes of an upload in memory at a time.
const CHUNK: usize = Limits::CHUNK;
