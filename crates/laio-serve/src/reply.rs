//! Step 5: the status, the head, and which bytes of the file follow it.

use crate::SERVER_NAME;
use crate::open::Opened;
use laio_http::response::error_body;
use laio_http::{
    ByteRange, ContentType, ETag, HttpDate, Outcome, Ranges, Request, ResponseHead, Status,
    Validators, conditional, date, path,
};

/// The methods that files have.
const ALLOW: &str = "GET, HEAD, OPTIONS";

/// What will be sent: the head is in the output buffer; this is the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: Status,
    /// The bytes of the file to send, if any.
    pub(crate) body: Option<ByteRange>,
    /// Bytes of body, from the file or in the output buffer, for the log.
    pub(crate) length: u64,
}

/// The second of the answer, and whether the connection stays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) date: &'a HttpDate,
    pub(crate) second: i64,
    pub(crate) keep_alive: bool,
}

/// The answer with a file: 200, 206, 304, 412 or 416.
pub(crate) fn file(
    out: &mut Vec<u8>,
    request: &Request<'_>,
    moment: Moment<'_>,
    name: &[u8],
    opened: &Opened,
) -> Reply {
    let status = &opened.status;
    let modified = status.modified();
    let etag = ETag::of_file(
        status.inode(),
        status.size(),
        modified.seconds,
        modified.nanoseconds,
    );
    let last_modified = date::last_modified(modified.seconds, moment.second);
    let size = status.size();
    let validators = Validators {
        etag: Some(&etag),
        modified: Some(last_modified),
        now: moment.second,
    };
    let range = match conditional::evaluate(request, &validators) {
        Outcome::NotModified => {
            let head = ResponseHead::new(out, Status::NOT_MODIFIED);
            validated(head, moment, &etag, last_modified)
                .connection(request.version, moment.keep_alive)
                .finish();
            return Reply {
                status: Status::NOT_MODIFIED,
                body: None,
                length: 0,
            };
        }
        Outcome::PreconditionFailed => {
            let detail = "The file is not the one that the request was made for.";
            return error(out, request, moment, Status::PRECONDITION_FAILED, detail);
        }
        Outcome::Proceed {
            range_applies: true,
        } => request
            .headers
            .only("Range")
            .map_or(Ranges::None, |value| Ranges::parse(value, size)),
        Outcome::Proceed {
            range_applies: false,
        } => Ranges::None,
    };
    let (code, body) = match range {
        Ranges::Single(range) => (Status::PARTIAL_CONTENT, range),
        Ranges::Unsatisfiable => return unsatisfiable(out, request, moment, size),
        // Several ranges may be answered with the whole (RFC 9110, 14.2).
        Ranges::None | Ranges::Multiple(_) => (
            Status::OK,
            ByteRange {
                start: 0,
                end: size,
            },
        ),
    };
    let mut head = validated(ResponseHead::new(out, code), moment, &etag, last_modified)
        .content_type(ContentType::of_path(name))
        .content_length(body.len())
        .accept_ranges();
    if code == Status::PARTIAL_CONTENT {
        head = head.content_range(body, size);
    }
    head.connection(request.version, moment.keep_alive).finish();
    let sends = request.method != laio_http::Method::Head && !body.is_empty();
    Reply {
        status: code,
        body: sends.then_some(body),
        length: if sends { body.len() } else { 0 },
    }
}

/// The fields that 200, 206 and 304 share.
fn validated<'v>(
    head: ResponseHead<'v>,
    moment: Moment<'_>,
    etag: &ETag,
    last_modified: i64,
) -> ResponseHead<'v> {
    let head = head.date(moment.date).server(SERVER_NAME).etag(etag);
    match HttpDate::from_unix(last_modified) {
        Some(date) => head.last_modified(&date),
        None => head,
    }
}

fn unsatisfiable(out: &mut Vec<u8>, request: &Request<'_>, moment: Moment<'_>, size: u64) -> Reply {
    let page = page(Status::RANGE_NOT_SATISFIABLE, "The file has no such bytes.");
    let head = start(out, Status::RANGE_NOT_SATISFIABLE, moment).content_range_unsatisfied(size);
    finish(head, request, moment, &page);
    with_page(out, request, Status::RANGE_NOT_SATISFIABLE, &page)
}

/// An answer with a page that says what is wrong.
pub(crate) fn error(
    out: &mut Vec<u8>,
    request: &Request<'_>,
    moment: Moment<'_>,
    status: Status,
    detail: &str,
) -> Reply {
    let page = page(status, detail);
    let mut head = start(out, status, moment);
    if status == Status::METHOD_NOT_ALLOWED {
        head = head.allow(ALLOW);
    }
    finish(head, request, moment, &page);
    with_page(out, request, status, &page)
}

/// The answer to what is not understood as a request: the connection ends.
pub(crate) fn unread(out: &mut Vec<u8>, date: &HttpDate, status: Status, detail: &str) -> Reply {
    let page = page(status, detail);
    ResponseHead::new(out, status)
        .date(date)
        .server(SERVER_NAME)
        .content_type(ContentType::HTML)
        .content_length(page.len() as u64)
        .connection(laio_http::Version::Http11, false)
        .finish();
    out.extend_from_slice(&page);
    Reply {
        status,
        body: None,
        length: page.len() as u64,
    }
}

/// Sends a client that named a directory without its slash to the name with it.
pub(crate) fn redirect(
    out: &mut Vec<u8>,
    request: &Request<'_>,
    moment: Moment<'_>,
    name: &[u8],
) -> Reply {
    let mut location = Vec::new();
    path::encode(name, true, request.query, &mut location);
    let page = page(
        Status::MOVED_PERMANENTLY,
        "This is a directory; its name ends in a slash.",
    );
    let head = start(out, Status::MOVED_PERMANENTLY, moment).location(&location);
    finish(head, request, moment, &page);
    with_page(out, request, Status::MOVED_PERMANENTLY, &page)
}

/// The answer to OPTIONS.
pub(crate) fn options(out: &mut Vec<u8>, request: &Request<'_>, moment: Moment<'_>) -> Reply {
    start(out, Status::NO_CONTENT, moment)
        .allow(ALLOW)
        .connection(request.version, moment.keep_alive)
        .finish();
    Reply {
        status: Status::NO_CONTENT,
        body: None,
        length: 0,
    }
}

fn start<'v>(out: &'v mut Vec<u8>, status: Status, moment: Moment<'_>) -> ResponseHead<'v> {
    ResponseHead::new(out, status)
        .date(moment.date)
        .server(SERVER_NAME)
}

fn finish(head: ResponseHead<'_>, request: &Request<'_>, moment: Moment<'_>, page: &[u8]) {
    head.content_type(ContentType::HTML)
        .content_length(page.len() as u64)
        .connection(request.version, moment.keep_alive)
        .finish();
}

fn with_page(out: &mut Vec<u8>, request: &Request<'_>, status: Status, page: &[u8]) -> Reply {
    if request.method == laio_http::Method::Head {
        return Reply {
            status,
            body: None,
            length: 0,
        };
    }
    out.extend_from_slice(page);
    Reply {
        status,
        body: None,
        length: page.len() as u64,
    }
}

fn page(status: Status, detail: &str) -> Vec<u8> {
    let mut page = Vec::new();
    error_body(&mut page, status, detail);
    page
}
