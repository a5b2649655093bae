//! WebDAV (RFC 4918): what a client needs to mount the files of a site.
//!
//! `admit` checks locks and the `If` field before a change; the other functions answer the methods. Dead
//! properties are not kept.

#![cfg(feature = "webdav")]

mod copy_move;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod if_field;
mod lock;
mod locks;
mod multi_status;
mod problems;
mod properties;
mod propfind;
mod proppatch;
mod trees;
mod xml;

use super::change_extension::{ChangeExtension, Changing, ExtendsChanges, Made, Submitted};
use super::conditions::etag;
use super::disk::Disk;
use super::problem::Problem;
use super::target::Target;
use super::{Change, Done, read_nothing, with_document};
use copy_move::copy_or_move;
use if_field::{IfField, State};
use laio::ops::{FileStatus, StatFile};
use laio_http::etag::{Comparison, list_matches};
use laio_http::{Output, RequestPath, Status};
use laio_serve_core::files::resolve::{Refusal, resolve};
use laio_serve_core::files::temporary_name::is_temporary;
use laio_serve_core::request::auth_state::AuthState;
use laio_serve_core::request::body::ClientBody;
use laio_serve_core::request::response::RequestContext;
use laio_serve_core::request::response::Response;
use laio_serve_core::site::Site;
use laio_serve_core::site::auth;
use laio_serve_core::site::quota;
use laio_serve_core::site::upload_rules::UploadRules;
use laio_serve_upstream::group;
use lock::{lock, unlock};
use locks::Locks;
use multi_status::{DECLARATION, failures, push_href};
use propfind::propfind;
use proppatch::proppatch;
use rustix::fs::OFlags;
use std::sync::Arc;
use xml::Element;

/// Returns what WebDAV adds to changes of files, with the locks of a server.
pub fn extension() -> ChangeExtension {
    ChangeExtension(Arc::new(WebDav::default()))
}

#[derive(Default)]
struct WebDav {
    locks: Locks,
}

impl ExtendsChanges for WebDav {
    fn is_of(&self, site: &Site) -> bool {
        site.description.uploads.webdav
    }

    fn change(&self, method: &str, uploads: bool) -> Option<Change> {
        change(method, uploads)
    }

    fn make<'a>(
        &'a self,
        disk: Disk<'a>,
        ctx: RequestContext<'a>,
        change: Change,
        name: &'a [u8],
        body: &'a mut ClientBody<'_>,
    ) -> Changing<'a, Made> {
        Box::pin(make(&self.locks, disk, ctx, change, name, body))
    }

    fn check<'a>(
        &'a self,
        disk: Disk<'a>,
        ctx: RequestContext<'a>,
        change: Change,
        name: &'a [u8],
        submitted: &'a Submitted,
    ) -> Changing<'a, ()> {
        Box::pin(check_locks(&self.locks, disk, ctx, change, name, submitted))
    }

    fn remove_tree<'a>(
        &'a self,
        disk: Disk<'a>,
        target: &'a Target,
        rules: &'a UploadRules,
    ) -> Changing<'a, Option<Done>> {
        Box::pin(remove_tree(disk, target, rules))
    }

    fn forget(&self, root: (u64, u64), name: &[u8]) {
        self.locks.forget(root, name);
    }

    fn refuse(
        &self,
        ctx: RequestContext<'_>,
        out: &mut Output,
        name: &[u8],
        problem: &Problem,
        precondition: &str,
    ) -> Response {
        refuse(ctx, out, name, problem, precondition)
    }
}

/// Removes a directory with all that is in it. Returns the response if not all of it could be removed.
async fn remove_tree(
    disk: Disk<'_>,
    target: &Target,
    rules: &UploadRules,
) -> Result<Option<Done>, Problem> {
    let quota = rules.quota.as_ref();
    let left = trees::remove(disk, &target.directory, target.leaf(), quota).await?;
    Ok((!left.is_empty()).then(|| failures(&target.name, &left)))
}

/// Returns the change that a method of WebDAV asks for.
fn change(method: &str, uploads: bool) -> Option<Change> {
    Some(match method {
        "PROPFIND" => Change::Propfind,
        "COPY" if uploads => Change::Copy,
        "MOVE" if uploads => Change::Move,
        "LOCK" if uploads => Change::Lock,
        "UNLOCK" if uploads => Change::Unlock,
        "PROPPATCH" if uploads => Change::Proppatch,
        _ => return None,
    })
}

/// Checks whether a change is admitted, and makes it if it is one of WebDAV only.
async fn make(
    locks: &Locks,
    disk: Disk<'_>,
    ctx: RequestContext<'_>,
    change: Change,
    name: &[u8],
    body: &mut ClientBody<'_>,
) -> Result<Made, Problem> {
    let submitted = admit(locks, disk, ctx, change, name).await?;
    match change {
        Change::Put | Change::Delete | Change::MakeDirectory => {
            return Ok(Made::Admitted(submitted));
        }
        Change::Propfind => return propfind(locks, disk, ctx, name, body).await.map(Made::Done),
        _ => {}
    }
    let rules = ctx.site.uploads.as_ref().ok_or(Problem::NO_FILE)?;
    quota::check_counted(rules.quota.as_ref())?;
    let done = match change {
        Change::Lock => lock(locks, disk, ctx, rules, name, &submitted, body).await,
        Change::Proppatch => proppatch(disk, ctx, name, body).await,
        Change::Unlock => {
            read_nothing(body).await?;
            unlock(locks, ctx, name, &submitted)
        }
        _ => {
            read_nothing(body).await?;
            let moves = change == Change::Move;
            copy_or_move(locks, disk, ctx, rules, name, &submitted, moves).await
        }
    };
    done.map(Made::Done)
}

/// Answers a change that was refused with what programs understand.
fn refuse(
    ctx: RequestContext<'_>,
    out: &mut Output,
    name: &[u8],
    problem: &Problem,
    precondition: &str,
) -> Response {
    let mut content = DECLARATION.to_vec();
    content.extend_from_slice(format!("<D:error xmlns:D=\"DAV:\"><D:{precondition}>").as_bytes());
    if *precondition == *"lock-token-submitted" {
        push_href(&mut content, name, false);
    }
    content.extend_from_slice(format!("</D:{precondition}></D:error>\n").as_bytes());
    let head = ctx.head(out, problem.status);
    with_document(ctx, head, problem.status, &content)
}

/// Reads the `If` field, and checks that no lock forbids the change. Returns the tokens of the client.
async fn admit(
    locks: &Locks,
    disk: Disk<'_>,
    ctx: RequestContext<'_>,
    change: Change,
    name: &[u8],
) -> Result<Submitted, Problem> {
    let mut submitted = Submitted {
        tokens: Vec::new(),
        user: ctx
            .auth
            .and_then(AuthState::user)
            .or_else(|| auth::user_of(ctx.request)),
    };
    if let Some(value) = ctx.request.headers.get("If") {
        let field = IfField::parse(value)?;
        submitted.tokens = field.tokens().map(str::to_owned).collect();
        if !holds(locks, disk, ctx, &field, name).await? {
            return Err(Problem::CONDITIONS);
        }
    }
    check_locks(locks, disk, ctx, change, name, &submitted).await?;
    Ok(submitted)
}

/// Checks that no lock of another client forbids a change of the name.
async fn check_locks(
    locks: &Locks,
    disk: Disk<'_>,
    ctx: RequestContext<'_>,
    change: Change,
    name: &[u8],
    submitted: &Submitted,
) -> Result<(), Problem> {
    let root = ctx.site.identity;
    if locks.is_empty() {
        return Ok(());
    }
    match change {
        // A lock that is asked for meets the present ones when it is made.
        Change::Propfind | Change::Copy | Change::Lock | Change::Unlock => Ok(()),
        Change::Proppatch => locks.check(root, name, false, submitted),
        Change::Put | Change::MakeDirectory => {
            locks.check(root, name, false, submitted)?;
            match status_of(disk, ctx.site, name).await? {
                Some(_) => Ok(()),
                None => locks.check_member(root, name, submitted),
            }
        }
        Change::Delete | Change::Move => {
            locks.check(root, name, true, submitted)?;
            locks.check_member(root, name, submitted)
        }
    }
}

/// Whether one of the lists of the field holds.
async fn holds(
    locks: &Locks,
    disk: Disk<'_>,
    ctx: RequestContext<'_>,
    field: &IfField,
    own_name: &[u8],
) -> Result<bool, Problem> {
    for list in &field.lists {
        let name = match &list.resource {
            None => own_name.to_vec(),
            Some(address) => match name_of(ctx, address) {
                Ok(name) => name,
                // A resource of another server.
                Err(_) => continue,
            },
        };
        let mut all = true;
        for condition in &list.conditions {
            let matches = match &condition.what {
                State::Token(token) => locks.has(ctx.site.identity, &name, token),
                State::Tag(tag) => {
                    let status = status_of(disk, ctx.site, &name).await?;
                    let current = status.map(|status| etag(&status));
                    list_matches(tag.as_bytes(), current.as_ref(), Comparison::Weak)
                }
            };
            all &= matches != condition.not;
        }
        if all {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the name below the root for an address of this server, as in `Destination`.
fn name_of(ctx: RequestContext<'_>, address: &str) -> Result<Vec<u8>, Problem> {
    let bad = || Problem::new(Status::BAD_REQUEST, "The address is malformed.");
    let path = match address.split_once("://") {
        Some((scheme, rest)) if !address.starts_with('/') => {
            let slash = rest.find('/').unwrap_or(rest.len());
            let (host, path) = rest.split_at(slash);
            if !is_own_host(scheme, host, ctx.request.host.unwrap_or_default()) {
                return Err(Problem::OTHER_SERVER);
            }
            path
        }
        _ => address,
    };
    let path = if path.is_empty() { "/" } else { path };
    if path.contains(['?', '#']) || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(bad());
    }
    let path = RequestPath::new(path).map_err(Problem::from_rejection)?;
    let upstream = group::route(&ctx.site.routes, &path);
    if upstream.is_some() || path.is_whole_server() {
        return Err(Problem::OTHER_SERVER);
    }
    let mut name = Vec::new();
    resolve(ctx.site, &path, &mut name).map_err(|refusal| match refusal {
        Refusal::NotFound => Problem::HIDDEN,
        Refusal::Rejected(rejection) => Problem::from_rejection(rejection),
    })?;
    if is_temporary(&name) {
        Err(Problem::HIDDEN)
    } else {
        Ok(name)
    }
}

/// Whether an address with this scheme and host is one of the server that the request was sent to. Hosts are equal with
/// or without the default port (RFC 9110, section 4.2.3). A proxy in front of this server may have another scheme, so
/// that of the connection does not matter.
fn is_own_host(scheme: &str, host: &str, own: &str) -> bool {
    let default = match scheme {
        _ if scheme.eq_ignore_ascii_case("http") => "80",
        _ if scheme.eq_ignore_ascii_case("https") => "443",
        _ => return false,
    };
    let split = |host| match str::rsplit_once(host, ':') {
        Some((name, "")) => (name, default),
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, port),
        _ => (host, default),
    };
    let ((name, port), (own_name, own_port)) = (split(host), split(own));
    name.eq_ignore_ascii_case(own_name) && port == own_port
}

/// Returns the status of a name as reading finds it. None if it finds nothing.
async fn status_of(
    disk: Disk<'_>,
    site: &Site,
    name: &[u8],
) -> Result<Option<FileStatus>, Problem> {
    let status = async {
        let opened = trees::open_served(disk, site, name, OFlags::PATH).await?;
        disk.names(StatFile::new(opened)).await
    };
    match status.await.map_err(Problem::from) {
        Ok(status) => Ok(Some(status)),
        Err(problem) if problem.status == Status::NOT_FOUND => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// Receives and parses the body of a request. Returns `None` for an empty body.
async fn document(body: &mut ClientBody<'_>) -> Result<Option<Element>, Problem> {
    let mut content = Vec::new();
    while !body.next_piece(&mut content).await? {}
    xml::parse(&content)
}

/// The value of `Depth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    Zero,
    One,
    Infinity,
}

/// Returns the depth that a request asks for.
fn depth(ctx: RequestContext<'_>) -> Result<Option<Depth>, Problem> {
    let Some(value) = ctx.request.headers.get("Depth") else {
        return Ok(None);
    };
    match value {
        b"0" => Ok(Some(Depth::Zero)),
        b"1" => Ok(Some(Depth::One)),
        value if value.eq_ignore_ascii_case(b"infinity") => Ok(Some(Depth::Infinity)),
        _ => Err(Problem::DEPTH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_server() {
        for (address, own) in [
            ("http://dav.example", "dav.example"),
            ("http://dav.example:80", "dav.example"),
            ("http://dav.example", "dav.example:80"),
            ("HTTP://DAV.example:", "dav.example"),
            ("https://dav.example:443", "dav.example"),
            ("https://dav.example", "dav.example:443"),
            ("http://dav.example:8080", "dav.example:8080"),
            ("http://[::1]:80", "[::1]"),
        ] {
            let (scheme, host) = address.split_once("://").unwrap();
            assert!(is_own_host(scheme, host, own), "{address} {own}");
        }
        for (address, own) in [
            ("http://other.example", "dav.example"),
            ("http://dav.example:443", "dav.example"),
            ("https://dav.example:80", "dav.example"),
            ("https://dav.example", "dav.example:80"),
            ("http://dav.example:8080", "dav.example"),
            ("http://user@dav.example", "dav.example"),
            ("ftp://dav.example", "dav.example"),
            ("http://[::1]", "[::2]"),
        ] {
            let (scheme, host) = address.split_once("://").unwrap();
            assert!(!is_own_host(scheme, host, own), "{address} {own}");
        }
    }
}
