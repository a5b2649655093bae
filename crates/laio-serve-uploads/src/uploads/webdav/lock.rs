//! Making, refreshing and ending locks (LOCK, UNLOCK).

use super::locks::{Lock, Locks, Owner, Wanted};
use super::multi_status::{DECLARATION, push_href};
use super::xml::{Element, push_text};
use super::{Depth, depth, document, status_of};
use crate::uploads::change_extension::Submitted;
use crate::uploads::disk::Disk;
use crate::uploads::problem::Problem;
use crate::uploads::target::Target;
use crate::uploads::temporary::Temporary;
use crate::uploads::{Done, put};
use laio_http::Status;
use laio_serve_core::request::body::ClientBody;
use laio_serve_core::request::response::RequestContext;
use laio_serve_core::site::quota::Reservation;
use laio_serve_core::site::upload_rules::UploadRules;
use std::time::Duration;

/// The time of a lock whose client does not say how long it needs it.
const USUAL: Duration = Duration::from_secs(600);

/// Answers a LOCK request. Locks a name that nothing has too, with an empty file.
pub(in crate::uploads) async fn lock(
    locks: &Locks,
    disk: Disk<'_>,
    ctx: RequestContext<'_>,
    rules: &UploadRules,
    name: &[u8],
    submitted: &Submitted,
    body: &mut ClientBody<'_>,
) -> Result<Done, Problem> {
    let root = ctx.site.identity;
    let time = time(ctx);
    let Some(document) = document(body).await? else {
        let lock = locks.refresh(root, name, submitted, time);
        let lock = lock.ok_or(Problem::CONDITIONS)?;
        return Ok(confirm(Status::OK, &lock, false));
    };
    let infinite = match depth(ctx)? {
        Some(Depth::Zero) => false,
        Some(Depth::Infinity) | None => true,
        Some(Depth::One) => return Err(Problem::DEPTH),
    };
    let (exclusive, owner) = wanted(&document)?;
    let present = status_of(disk, ctx.site, name).await?;
    let target = match present {
        Some(_) => None,
        None => {
            locks.check_member(root, name, submitted)?;
            Some(Target::open(disk, ctx.site, name).await?)
        }
    };
    let lock = locks.lock(Wanted {
        root,
        name,
        infinite,
        exclusive,
        owner,
        user: submitted.user.clone(),
        time,
    })?;
    if let Some(target) = target {
        if let Err(problem) = create_empty(disk, rules, &target).await {
            locks.forget_token(&lock.token);
            return Err(problem);
        }
        return Ok(confirm(Status::CREATED, &lock, true));
    }
    Ok(confirm(Status::OK, &lock, true))
}

/// Answers an UNLOCK request.
pub(in crate::uploads) fn unlock(
    locks: &Locks,
    ctx: RequestContext<'_>,
    name: &[u8],
    submitted: &Submitted,
) -> Result<Done, Problem> {
    let value = ctx.request.headers.only("Lock-Token");
    let token = value.and_then(|value| std::str::from_utf8(value).ok());
    let token = token.and_then(|token| token.trim().strip_prefix('<')?.strip_suffix('>'));
    let token = token.ok_or(Problem::new(
        Status::BAD_REQUEST,
        "The Lock-Token field with the lock that ends is missing or malformed.",
    ))?;
    let submitted = Submitted {
        tokens: vec![token.to_owned()],
        user: submitted.user.clone(),
    };
    if locks.unlock(ctx.site.identity, name, &submitted) {
        Ok(Done::Changed(None))
    } else {
        Err(Problem {
            precondition: Some("lock-token-matches-request-uri"),
            ..Problem::new(Status::CONFLICT, "There is no such lock of this name.")
        })
    }
}

async fn create_empty(disk: Disk<'_>, rules: &UploadRules, target: &Target) -> Result<(), Problem> {
    put::check_space(disk, rules, target, 0).await?;
    let reservation = Reservation::of(rules.quota.as_ref(), 0, 1)?;
    let file = Temporary::create(disk, target).await?;
    file.publish(disk, target, true).await?;
    reservation.commit(0, None);
    Ok(())
}

/// Reads whether the lock is exclusive, and its owner.
fn wanted(document: &Element) -> Result<(bool, Option<Owner>), Problem> {
    let bad = || Problem::new(Status::BAD_REQUEST, "The body is not a lockinfo element.");
    let unknown = || {
        let text = "The server has exclusive and shared locks for writing only.";
        Problem::new(Status::UNPROCESSABLE_CONTENT, text)
    };
    if !document.name.is("lockinfo") {
        return Err(bad());
    }
    let scope = document.child("lockscope").ok_or_else(bad)?;
    let kind = document.child("locktype").ok_or_else(bad)?;
    kind.child("write").ok_or_else(unknown)?;
    let exclusive = scope.child("exclusive").is_some();
    if !exclusive && scope.child("shared").is_none() {
        return Err(unknown());
    }
    let owner = document
        .child("owner")
        .map(|owner| match owner.child("href") {
            Some(href) => Owner::Address(href.text.trim().to_owned()),
            None => Owner::Text(owner.text.trim().to_owned()),
        });
    match &owner {
        Some(Owner::Address(text) | Owner::Text(text)) if text.len() > Locks::OWNER_BYTES => {
            Err(Problem::new(
                Status::CONTENT_TOO_LARGE,
                "The text about the owner of the lock is too long.",
            ))
        }
        _ => Ok((exclusive, owner)),
    }
}

/// Returns the time that a request asks for, within the limit. A client may offer several.
fn time(ctx: RequestContext<'_>) -> Duration {
    let value = ctx.request.headers.get("Timeout").unwrap_or_default();
    let first = value.split(|&byte| byte == b',').next().unwrap_or_default();
    let first = std::str::from_utf8(first).unwrap_or_default().trim();
    let asked = match first.strip_prefix("Second-") {
        Some(seconds) => seconds.parse().map_or(Locks::LONGEST, Duration::from_secs),
        None if first.eq_ignore_ascii_case("infinite") => Locks::LONGEST,
        None => USUAL,
    };
    asked.min(Locks::LONGEST)
}

fn confirm(status: Status, lock: &Lock, is_new: bool) -> Done {
    let mut content = DECLARATION.to_vec();
    content.extend_from_slice(b"<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery>");
    push_active_lock(&mut content, lock);
    content.extend_from_slice(b"</D:lockdiscovery></D:prop>\n");
    Done::Document {
        status,
        content,
        lock_token: is_new.then(|| lock.token.clone()),
    }
}

/// Appends the description of a lock.
pub(super) fn push_active_lock(out: &mut Vec<u8>, lock: &Lock) {
    let scope = if lock.exclusive {
        "exclusive"
    } else {
        "shared"
    };
    let depth = if lock.infinite { "infinity" } else { "0" };
    let text = format!(
        "<D:activelock><D:lockscope><D:{scope}/></D:lockscope><D:locktype><D:write/></D:locktype><D:depth>{depth}</D:depth>"
    );
    out.extend_from_slice(text.as_bytes());
    match &lock.owner {
        Some(Owner::Text(text)) => {
            out.extend_from_slice(b"<D:owner>");
            push_text(out, text);
            out.extend_from_slice(b"</D:owner>");
        }
        Some(Owner::Address(address)) => {
            out.extend_from_slice(b"<D:owner><D:href>");
            push_text(out, address);
            out.extend_from_slice(b"</D:href></D:owner>");
        }
        None => {}
    }
    let text = format!(
        "<D:timeout>Second-{}</D:timeout><D:locktoken><D:href>{}</D:href></D:locktoken><D:lockroot>",
        lock.time.as_secs(),
        lock.token
    );
    out.extend_from_slice(text.as_bytes());
    push_href(out, lock.name(), false);
    out.extend_from_slice(b"</D:lockroot></D:activelock>");
}
