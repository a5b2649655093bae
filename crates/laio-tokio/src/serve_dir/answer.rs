//! From the head of a request to its response.

use super::found::{Found, Opened, open};
use super::{Body, Config, page};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use laio_http::{
    ByteRange, Coding, ContentType, ETag, Headers, HttpDate, Limits, Method, Multipart, Outcome,
    Parsed, RangeLimits, Ranges, Request, Status, Validators, conditional, date, parse,
};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::time::SystemTime;

/// Answers the request with this head.
pub(super) async fn answer(config: &Config, head: &[u8]) -> Response<Body> {
    match parse(head, &Limits::DEFAULT) {
        Ok(Parsed::Complete { request, .. }) => {
            let mut response = decide(config, &request).await;
            if request.method == Method::Head {
                *response.body_mut() = Body::empty();
            }
            response
        }
        Ok(Parsed::Partial) => page::error(Status::BAD_REQUEST, "The request is malformed."),
        Err(rejection) => page::error(rejection.status(), rejection.detail()),
    }
}

async fn decide(config: &Config, request: &Request<'_>) -> Response<Body> {
    let path = match &request.path {
        Ok(path) => path,
        Err(rejection) => return page::error(rejection.status(), rejection.detail()),
    };
    match request.method {
        Method::Get | Method::Head => {}
        Method::Options if path.is_whole_server() => return page::options(),
        Method::Options => {}
        method if method.is_known() => {
            let detail = "This server only reads files.";
            return page::error(Status::METHOD_NOT_ALLOWED, detail);
        }
        _ => {
            let detail = "The server does not know this method.";
            return page::error(Status::NOT_IMPLEMENTED, detail);
        }
    }
    let mut name = Vec::new();
    let normal = match path.file_name(&mut name) {
        Ok(normal) => normal,
        Err(rejection) => return page::error(rejection.status(), rejection.detail()),
    };
    if normal.hidden && !config.serves_dotfiles {
        // Dot files more often hold configuration and secrets than pages.
        return page::not_found();
    }
    if request.method == Method::Options {
        return page::options();
    }
    let found = match normal.trailing_slash {
        true => open_index(config, &mut name).await,
        false => open(config, &name).await,
    };
    match found {
        Ok(Found::File(plain)) => {
            let (opened, coding) = choose_variant(config, &request.headers, &name, plain).await;
            let varies = !config.precompressed.is_empty();
            with_file(request, &name, opened, coding, varies)
        }
        Ok(Found::Directory) if !normal.trailing_slash => page::to_directory(&name, request.query),
        Ok(Found::Directory | Found::Special) => page::not_found(),
        Err(error) => page::failed(&error),
    }
}

/// Opens the first index file of a directory that exists; `name` is then its name.
async fn open_index(config: &Config, name: &mut Vec<u8>) -> io::Result<Found> {
    let length = name.len();
    for index in &config.index {
        if length > 0 {
            name.push(b'/');
        }
        name.extend_from_slice(index.as_bytes());
        match open(config, name).await {
            // A directory of that name is not an index.
            Ok(Found::Directory | Found::Special) => {}
            Err(error) if page::is_missing(&error) => {}
            found => return found,
        }
        name.truncate(length);
    }
    Err(io::Error::from_raw_os_error(libc::ENOENT))
}

/// Opens the precompressed file that the client prefers. One older than the plain file is ignored,
/// because its contents may be outdated.
async fn choose_variant(
    config: &Config,
    headers: &Headers<'_>,
    name: &[u8],
    plain: Opened,
) -> (Opened, Coding) {
    let mut left = config.precompressed.clone();
    loop {
        let coding = Coding::negotiate(headers, &left);
        if coding == Coding::Identity {
            return (plain, coding);
        }
        left.retain(|&other| other != coding);
        let name = [name, coding.suffix().as_bytes()].concat();
        if let Ok(Found::File(opened)) = open(config, &name).await
            && opened.modified() >= plain.modified()
        {
            return (opened, coding);
        }
    }
}

/// Answers with a file: 200, 206, 304, 412 or 416.
fn with_file(
    request: &Request<'_>,
    name: &[u8],
    opened: Opened,
    coding: Coding,
    varies: bool,
) -> Response<Body> {
    let now = unix_time();
    let (seconds, nanoseconds) = opened.modified();
    let size = opened.status.size();
    let etag = ETag::of_file(opened.status.inode(), size, seconds, nanoseconds);
    let etag = etag.settled(seconds, now);
    let modified = date::last_modified(seconds, now);
    let validators = Validators {
        etag: Some(&etag),
        modified: Some(modified),
        now,
    };
    let range = match conditional::evaluate(request, &validators) {
        Outcome::PreconditionFailed => {
            let detail = "The file does not match the conditions of the request.";
            return page::error(Status::PRECONDITION_FAILED, detail);
        }
        Outcome::NotModified => None,
        Outcome::Proceed { range_applies } => Some(match request.headers.only("Range") {
            Some(value) if range_applies => Ranges::parse_within(value, size, &RANGE_LIMITS),
            _ => Ranges::None,
        }),
    };
    let content_type = ContentType::of_path(name);
    let mut response = match range {
        None => page::bare(Status::NOT_MODIFIED),
        Some(Ranges::Unsatisfiable) => return page::unsatisfiable(size),
        Some(Ranges::None) => {
            let range = ByteRange {
                start: 0,
                end: size,
            };
            with_body(Status::OK, content_type, Body::of_range(opened.file, range))
        }
        Some(Ranges::Single(range)) => {
            let body = Body::of_range(opened.file, range);
            let mut response = with_body(Status::PARTIAL_CONTENT, content_type, body);
            let mut text = Vec::new();
            range.push_content_range(size, &mut text);
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_RANGE, page::value(&text));
            response
        }
        Some(Ranges::Multiple(set)) => {
            // Unpredictable, so that no file contains the boundary.
            let random = RandomState::new().hash_one(size);
            let parts = Multipart::new(set, size, content_type, random);
            let mut text = Vec::new();
            parts.push_content_type(&mut text);
            let body = Body::of_parts(opened.file, &parts);
            let mut response = with_body(Status::PARTIAL_CONTENT, content_type, body);
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, page::value(&text));
            response
        }
    };
    let is_unchanged = response.status() == StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    add_validators(headers, &etag, modified);
    if varies {
        headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    if coding != Coding::Identity && !is_unchanged {
        let coding = HeaderValue::from_static(coding.name());
        headers.insert(header::CONTENT_ENCODING, coding);
    }
    response
}

/// As many ranges as `laio serve` sends by default, and as near to each other.
const RANGE_LIMITS: RangeLimits = RangeLimits {
    count: Ranges::COUNT_MAX,
    gap: 80,
};

fn with_body(status: Status, content_type: ContentType, body: Body) -> Response<Body> {
    let mut response = page::bare(status);
    let text = [content_type.essence, content_type.parameter()].concat();
    let headers = response.headers_mut();
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_TYPE, page::value(text.as_bytes()));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.left()));
    *response.body_mut() = body;
    response
}

/// Adds the fields that 200, 206 and 304 share (RFC 9110, section 15.4.5).
fn add_validators(headers: &mut HeaderMap, etag: &ETag, modified: i64) {
    headers.insert(header::ETAG, page::value(etag.as_bytes()));
    if let Some(date) = HttpDate::from_unix(modified) {
        headers.insert(header::LAST_MODIFIED, page::value(date.as_bytes()));
    }
}

fn unix_time() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}
