//! Answers that do not come from a file.

use super::Body;
use http::{HeaderValue, Response, StatusCode, header};
use laio_http::{ByteRange, ContentType, Status, path, response::error_body};
use std::io;

/// The methods that files allow.
const ALLOW: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");

/// A response without fields and body.
pub(super) fn bare(status: Status) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::from_u16(status.code()).expect("a listed status");
    response
}

/// A field value. No value that is passed has a control character.
pub(super) fn value(bytes: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(bytes).expect("no control character")
}

/// An error page.
pub(super) fn error(status: Status, detail: &str) -> Response<Body> {
    let mut page = Vec::new();
    error_body(&mut page, status, detail);
    let mut response = bare(status);
    let mut content_type = ContentType::HTML.essence.to_owned();
    content_type.push_str(ContentType::HTML.parameter());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, value(content_type.as_bytes()));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(page.len()));
    match status {
        Status::METHOD_NOT_ALLOWED => {
            headers.insert(header::ALLOW, ALLOW);
        }
        Status::SERVICE_UNAVAILABLE => {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        _ => {}
    }
    *response.body_mut() = Body::of_bytes(page.into());
    response
}

pub(super) fn not_found() -> Response<Body> {
    error(Status::NOT_FOUND, "There is nothing under this name.")
}

/// The answer to a range that the file has not.
pub(super) fn unsatisfiable(size: u64) -> Response<Body> {
    let mut response = error(Status::RANGE_NOT_SATISFIABLE, "The file has no such bytes.");
    let mut range = Vec::new();
    ByteRange::push_unsatisfied(size, &mut range);
    response
        .headers_mut()
        .insert(header::CONTENT_RANGE, value(&range));
    response
}

/// The answer to OPTIONS.
pub(super) fn options() -> Response<Body> {
    let mut response = bare(Status::NO_CONTENT);
    response.headers_mut().insert(header::ALLOW, ALLOW);
    response
}

/// Redirects the name of a directory to the same with a slash after it. The reference is relative, because
/// a router may have taken a prefix off the path.
pub(super) fn to_directory(name: &[u8], query: Option<&str>) -> Response<Body> {
    let last = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    let mut location = vec![b'.'];
    path::encode(last, true, query, &mut location);
    let mut response = error(Status::MOVED_PERMANENTLY, "This is at another address now.");
    response
        .headers_mut()
        .insert(header::LOCATION, value(&location));
    response
}

/// The answer to an error of opening. A path through a link that is not followed looks like a missing
/// file.
pub(super) fn failed(error: &io::Error) -> Response<Body> {
    let (status, detail) = match error.raw_os_error() {
        _ if is_missing(error) => return not_found(),
        Some(libc::EACCES | libc::EPERM) => {
            (Status::FORBIDDEN, "The server may not read this file.")
        }
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN) => (
            Status::SERVICE_UNAVAILABLE,
            "The server has reached a limit; try again.",
        ),
        _ => (Status::INTERNAL_SERVER_ERROR, "The file could not be read."),
    };
    self::error(status, detail)
}

/// Whether an error of opening says that there is no such file.
pub(super) fn is_missing(error: &io::Error) -> bool {
    use libc::{ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, ENXIO, EXDEV};
    matches!(
        error.raw_os_error(),
        Some(ENOENT | ENOTDIR | ELOOP | EXDEV | ENXIO | ENAMETOOLONG)
    )
}
