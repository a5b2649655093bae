//! Responses that do not come from a file.

use super::{Body, Failure, FileResponse};
use crate::response::error_body;
use crate::{ByteRange, ContentType, Rejection, Status, path};

/// The methods that files allow.
const ALLOW: (&str, &[u8]) = ("allow", b"GET, HEAD, OPTIONS");

/// A response without fields and body.
pub(super) fn bare<F>(status: Status) -> FileResponse<F> {
    FileResponse {
        status,
        fields: Vec::new(),
        body: Body::Empty,
    }
}

/// An error page.
pub(super) fn error<F>(status: Status, detail: &str) -> FileResponse<F> {
    let mut page = Vec::new();
    error_body(&mut page, status, detail);
    let mut fields = vec![
        ("content-type", type_text(ContentType::HTML)),
        ("content-length", page.len().to_string().into()),
    ];
    match status {
        Status::METHOD_NOT_ALLOWED => fields.push((ALLOW.0, ALLOW.1.into())),
        Status::SERVICE_UNAVAILABLE => fields.push(("retry-after", b"1".into())),
        _ => {}
    }
    FileResponse {
        status,
        fields,
        body: Body::Bytes(page),
    }
}

/// The value of `Content-Type`.
pub(super) fn type_text(content_type: ContentType) -> Vec<u8> {
    let text = [content_type.essence, content_type.parameter()];
    text.concat().into()
}

pub(super) fn rejected<F>(rejection: Rejection) -> FileResponse<F> {
    error(rejection.status(), rejection.detail())
}

pub(super) fn not_found<F>() -> FileResponse<F> {
    error(Status::NOT_FOUND, "There is nothing under this name.")
}

/// The response to a range that the file has not.
pub(super) fn unsatisfiable<F>(size: u64) -> FileResponse<F> {
    let mut response = error(Status::RANGE_NOT_SATISFIABLE, "The file has no such bytes.");
    let mut range = Vec::new();
    ByteRange::push_unsatisfied(size, &mut range);
    response.fields.push(("content-range", range));
    response
}

/// The response to OPTIONS.
pub(super) fn options<F>() -> FileResponse<F> {
    let mut response = bare(Status::NO_CONTENT);
    response.fields.push((ALLOW.0, ALLOW.1.into()));
    response
}

/// Redirects the name of a directory to the same with a slash after it. The reference is relative, because
/// a router may have taken a prefix off the path.
pub(super) fn to_directory<F>(name: &[u8], query: Option<&str>) -> FileResponse<F> {
    let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    let mut location = vec![b'.'];
    path::encode(last, true, query, &mut location);
    let mut response = error(Status::MOVED_PERMANENTLY, "This is at another address now.");
    response.fields.push(("location", location));
    response
}

/// The response if a file was not opened.
pub(super) fn failed<F>(failure: Failure) -> FileResponse<F> {
    let (status, detail) = match failure {
        Failure::Missing => return not_found(),
        Failure::Forbidden => (Status::FORBIDDEN, "The server may not read this file."),
        Failure::Exhausted => (
            Status::SERVICE_UNAVAILABLE,
            "The server has reached a limit; try again.",
        ),
        Failure::Unreadable => (Status::INTERNAL_SERVER_ERROR, "The file could not be read."),
    };
    error(status, detail)
}
