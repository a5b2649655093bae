//! Answers with error pages, redirects and OPTIONS.

use super::response::{Body, RequestContext, Response};
use crate::request::open::open_file;
use crate::services::Services;
use crate::site::auth::Users;
use crate::site::{alt_svc, cors, hsts};
use laio_http::response::error_body;
use laio_http::{ByteRange, ContentType, HttpDate, Output, ResponseHead, Status, Version, path};
use laio_serve_base::server_name::SERVER_NAME;
use laio_serve_base::trace;
use std::time::Duration;

/// Seconds after which a client may retry when the server has reached a limit.
const RETRY_AFTER: &[u8] = b"1";

/// Answers with an error page: the site's own, if it has one.
pub async fn error(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    status: Status,
    detail: &str,
) -> Response {
    error_with(services, ctx, out, status, detail, |head| match status {
        Status::METHOD_NOT_ALLOWED => head.allow(ctx.site.description.uploads.methods()),
        Status::SERVICE_UNAVAILABLE => head.header("Retry-After", RETRY_AFTER),
        _ => head,
    })
    .await
}

pub(crate) async fn unsatisfiable(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    size: u64,
) -> Response {
    let (status, detail) = (Status::RANGE_NOT_SATISFIABLE, "The file has no such bytes.");
    error_with(services, ctx, out, status, detail, |head| {
        head.content_range_unsatisfied(size)
    })
    .await
}

/// Answers 401 with a challenge for name and password.
pub(crate) async fn unauthorized(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    users: &Users,
) -> Response {
    let challenge = format!("Basic realm=\"{}\", charset=\"UTF-8\"", users.realm);
    let (status, detail) = (
        Status::UNAUTHORIZED,
        "This page needs a name and a password.",
    );
    error_with(services, ctx, out, status, detail, |head| {
        head.header("WWW-Authenticate", challenge.as_bytes())
    })
    .await
}

/// Answers 403 to a client that the site does not let in.
pub async fn forbidden(services: &Services, ctx: RequestContext<'_>, out: &mut Output) -> Response {
    let detail = "The server does not let clients of your network in here.";
    error(services, ctx, out, Status::FORBIDDEN, detail).await
}

/// Answers 429 to a client that may retry after this time.
pub(crate) async fn too_many_requests(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    after: Duration,
) -> Response {
    let seconds = after.as_millis().div_ceil(1000).max(1).to_string();
    let (status, detail) = (
        Status::TOO_MANY_REQUESTS,
        "You have sent too many requests; try again later.",
    );
    error_with(services, ctx, out, status, detail, |head| {
        head.header("Retry-After", seconds.as_bytes())
    })
    .await
}

async fn error_with(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    status: Status,
    detail: &str,
    more: impl FnOnce(ResponseHead<'_>) -> ResponseHead<'_>,
) -> Response {
    let own = ctx.site.error_pages.iter().find(|(own, _)| *own == status);
    if let Some((_, name)) = own
        && let Some(opened) = open_file(services, ctx.site, name).await
    {
        trace::note("response", || {
            format!(
                "{status}: {detail} --error-page answers with {}",
                trace::shown(name)
            )
        });
        let size = opened.status.size();
        let head = more(ctx.head(out, status));
        let range = ByteRange {
            start: 0,
            end: size,
        };
        let head = head.content_type(ContentType::of_path(name));
        return ctx.with_body(head, status, size, Body::File(opened.contents, range));
    }
    trace::note("response", || format!("{status}: {detail}"));
    let page = page(status, detail);
    let head = more(ctx.head(out, status));
    ctx.with_page(head, status, ContentType::HTML, &page)
}

/// Redirects a directory name without a slash to the name with one.
pub(crate) fn to_directory(ctx: RequestContext<'_>, out: &mut Output, name: &[u8]) -> Response {
    let mut location = Vec::new();
    path::encode(name, true, ctx.request.query, &mut location);
    moved(ctx, out, Status::MOVED_PERMANENTLY, name, &location)
}

/// Answers with a redirect.
pub fn moved(
    ctx: RequestContext<'_>,
    out: &mut Output,
    status: Status,
    name: &[u8],
    location: &[u8],
) -> Response {
    trace::note("response", || {
        format!("{status}: the path is at another address")
    });
    let page = page(status, "This is at another address now.");
    let head = ctx.head(out, status).location(location);
    let head = ctx.site.fields.add(head, name);
    ctx.with_page(head, status, ContentType::HTML, &page)
}

/// Redirects to the page where users log in, with the cookies of an auth server.
pub(crate) fn login<'c>(
    ctx: RequestContext<'_>,
    out: &mut Output,
    location: &[u8],
    cookies: impl Iterator<Item = &'c [u8]>,
) -> Response {
    trace::note("response", || "302: to --auth-request-login".to_owned());
    let status = Status::FOUND;
    let page = page(status, "This page needs a login.");
    let mut head = ctx.head(out, status).location(location);
    for cookie in cookies {
        head = head.header("Set-Cookie", cookie);
    }
    let head = head.header("Cache-Control", b"no-store");
    ctx.with_page(head, status, ContentType::HTML, &page)
}

/// Redirects a request that arrived without TLS to https.
pub fn to_https(ctx: RequestContext<'_>, out: &mut Output, location: &[u8]) -> Response {
    let status = Status::PERMANENT_REDIRECT;
    let page = page(status, "This server uses https.");
    let head = ctx.head(out, status).location(location);
    ctx.with_page(head, status, ContentType::HTML, &page)
}

/// Answers an authority that checks a name (RFC 8555, section 8.3).
pub fn challenge(ctx: RequestContext<'_>, out: &mut Output, answer: &str) -> Response {
    let head = ctx.head(out, Status::OK).cache_control("no-store");
    ctx.with_page(head, Status::OK, ContentType::TEXT, answer.as_bytes())
}

/// Answers a request that names no host and cannot be redirected.
pub(crate) fn no_host(ctx: RequestContext<'_>, out: &mut Output) -> Response {
    let status = Status::BAD_REQUEST;
    let page = page(
        status,
        "This server uses https, and the request names no host.",
    );
    ctx.with_page(ctx.head(out, status), status, ContentType::HTML, &page)
}

/// Answers an OPTIONS request.
pub fn options(ctx: RequestContext<'_>, out: &mut Output) -> Response {
    let uploads = &ctx.site.description.uploads;
    let methods = uploads.methods();
    trace::note("response", || format!("204: the methods are {methods}"));
    let head = ctx.head(out, Status::NO_CONTENT).allow(methods);
    let head = match uploads.classes() {
        // Windows looks for the second field.
        Some(classes) => head.header("DAV", classes).header("MS-Author-Via", b"DAV"),
        None => head,
    };
    let head = match &ctx.site.cors {
        Some(cors) if cors::is_preflight(ctx.request) => cors.add_permission(head),
        _ => head,
    };
    ctx.finish(head);
    Response::bare(Status::NO_CONTENT)
}

/// The values of fields that only responses over TLS have.
#[derive(Clone, Copy, Default)]
pub struct SecureFields<'v> {
    pub hsts: Option<&'v str>,
    pub alt_svc: Option<&'v str>,
}

/// Answers input that is not a valid request; the connection ends afterwards.
pub fn malformed_request(
    out: &mut Output,
    date: &HttpDate,
    fields: SecureFields<'_>,
    status: Status,
    detail: &str,
) -> Response {
    let page = page(status, detail);
    last(out, (date, fields), status, ContentType::HTML, &page)
}

/// Answers a plain HTTP request on a TLS port. The text is plain, because the client may be a
/// terminal.
pub fn plain_http_on_tls_port(out: &mut Output, date: &HttpDate) -> Response {
    let text = "400 Bad Request: this port accepts encrypted connections only (TLS), and the request was not encrypted.\n\
                Use https:// instead of http://.\n";
    last(
        out,
        (date, SecureFields::default()),
        Status::BAD_REQUEST,
        ContentType::TEXT,
        text.as_bytes(),
    )
}

/// Writes a response after which the connection ends.
fn last(
    out: &mut Output,
    (date, SecureFields { hsts, alt_svc }): (&HttpDate, SecureFields<'_>),
    status: Status,
    content_type: ContentType,
    page: &[u8],
) -> Response {
    let length = page.len() as u64;
    let mut head = ResponseHead::new(out, status)
        .date(date)
        .server(SERVER_NAME);
    if let Some(hsts) = hsts {
        head = head.header(hsts::FIELD, hsts.as_bytes());
    }
    if let Some(alt_svc) = alt_svc {
        head = head.header(alt_svc::FIELD, alt_svc.as_bytes());
    }
    head.content_type(content_type)
        .content_length(length)
        .connection(Version::Http11, false)
        .finish()
        .extend_from_slice(page);
    Response {
        length,
        ..Response::bare(status)
    }
}

fn page(status: Status, detail: &str) -> Vec<u8> {
    let mut page = Vec::new();
    error_body(&mut page, status, detail);
    page
}
