//! The conditions of a change (RFC 9110, section 13), for files that exist and for others.

use super::problem::Problem;
use crate::request::response::RequestContext;
use laio::ops::FileStatus;
use laio_http::{ConditionalResult, ETag, Validators, conditional, date};

/// Checks the conditions of a request that changes `present`.
///
/// The tag is the strong one, also shortly after a change, when readers get it as a weak one: the server replaces
/// files, so that each version has another inode or time, and a client may change again what it has just stored.
pub(super) fn check(ctx: RequestContext<'_>, present: Option<&FileStatus>) -> Result<(), Problem> {
    let Some(status) = present else {
        // Nothing matches If-Match, also not `*`, and every If-None-Match holds.
        return match ctx.request.headers.get("If-Match") {
            Some(_) => Err(Problem::CONDITIONS),
            None => Ok(()),
        };
    };
    let etag = etag(status);
    let validators = Validators {
        etag: Some(&etag),
        modified: Some(date::last_modified(status.modified().seconds, ctx.second)),
        now: ctx.second,
    };
    match conditional::evaluate(ctx.request, &validators) {
        ConditionalResult::Proceed { .. } => Ok(()),
        ConditionalResult::NotModified | ConditionalResult::PreconditionFailed => {
            Err(Problem::CONDITIONS)
        }
    }
}

/// Whether a request must not replace anything.
pub(super) fn only_creates(ctx: RequestContext<'_>) -> bool {
    let mut tags = ctx.request.headers.all("If-None-Match");
    tags.any(|value| value.trim_ascii() == b"*")
}

/// Returns the strong entity tag of a file.
pub(super) fn etag(status: &FileStatus) -> ETag {
    let modified = status.modified();
    ETag::of_file(
        status.inode(),
        status.size(),
        modified.seconds,
        modified.nanoseconds,
    )
}
