//! The response with a file: status, head, and the part of the file that is sent.

use super::compress::Compressed;
use super::pages;
use super::response::{Body, RequestContext, Response};
use super::variant::Variant;
use crate::files::contents::Opened;
use crate::services::Services;
use laio_http::files::{Attributes, FileVersion, Selection, multipart};
use laio_http::{
    ByteRange, Coding, ContentType, HttpDate, Multipart, Output, RangeLimits, ResponseHead, Status,
};
use laio_rt::sync::Permit;
use laio_serve_base::options::Limits;
use laio_serve_base::trace;

/// Answers with a file: 200, 206, 304, 412 or 416.
pub async fn answer_with_file(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    name: &[u8],
    variant: Variant,
) -> Response {
    if let Variant::Plain(opened) = &variant
        && !ctx.has_conditions()
        && let Some(response) = ctx.with_cached_file(out, opened)
    {
        return response;
    }
    let plain = matches!(variant, Variant::Plain(_));
    let (opened, coding, permit) = match variant {
        Variant::Plain(opened) => (opened, Coding::Identity, None),
        Variant::Precompressed(opened, coding) => (opened, coding, None),
        Variant::Compressing(opened, coding, permit) => (opened, coding, Some(permit)),
    };
    let representation = present(ctx, name, &opened, coding, permit.is_some());
    let size = opened.status.size();
    let limits = RangeLimits {
        count: services.limits.ranges,
        gap: Limits::RANGE_GAP,
    };
    let version = &representation.version;
    let selection = version.select(ctx.request, size, &limits, ctx.second);
    note_selection(ctx, &selection, size, permit.is_some());
    match (selection, permit) {
        (Selection::NotModified, _) => {
            ctx.finish(representation.head(ctx, out, Status::NOT_MODIFIED));
            Response::bare(Status::NOT_MODIFIED)
        }
        (Selection::PreconditionFailed, _) => {
            let detail = "The file does not match the conditions of the request.";
            let page = pages::error(services, ctx, out, Status::PRECONDITION_FAILED, detail);
            Box::pin(page).await
        }
        (_, Some(permit)) => compressed(ctx, out, &representation, opened, permit),
        (Selection::Unsatisfiable, None) => {
            Box::pin(pages::unsatisfiable(services, ctx, out, size)).await
        }
        (Selection::Range(range), None) => single_range(ctx, out, &representation, opened, range),
        (Selection::Ranges(set), None) => {
            let parts = multipart(set, size, ContentType::of_path(name));
            several_ranges(ctx, out, &representation, opened, parts)
        }
        (Selection::Whole, None) => whole(ctx, out, &representation, &opened, plain),
    }
}

fn note_selection(ctx: RequestContext<'_>, selection: &Selection, size: u64, compresses: bool) {
    let of_path = || {
        let path = ctx.request.path.as_ref().map_or("", |path| path.as_str());
        format!(", for {}", path.escape_debug())
    };
    trace::note("response", || match selection {
        Selection::NotModified => {
            let why = "the client has the present version (If-None-Match or If-Modified-Since)";
            format!("304: {why}{}", of_path())
        }
        Selection::PreconditionFailed => {
            let why = "the file does not match If-Match or If-Unmodified-Since";
            format!("412: {why}{}", of_path())
        }
        _ if compresses => "200: the file, compressed, in chunks".to_owned(),
        Selection::Whole => format!("200: the file, {size} bytes"),
        Selection::Range(range) => {
            format!("206: bytes {} to {} of {size}", range.start, range.end - 1)
        }
        Selection::Ranges(_) => "206: several ranges of bytes".to_owned(),
        Selection::Unsatisfiable => "416: the file has no such bytes".to_owned(),
    });
}

/// A file with the metadata of its response.
struct Representation<'a> {
    name: &'a [u8],
    version: FileVersion,
    coding: Coding,
    varies: bool,
}

impl Representation<'_> {
    /// Begins a head with the fields that 200, 206 and 304 share (RFC 9110, section 15.4.5).
    fn head<'v>(
        &self,
        ctx: RequestContext<'_>,
        out: &'v mut Output,
        status: Status,
    ) -> ResponseHead<'v> {
        self.fields(ctx, ctx.head(out, status), status)
    }

    fn fields<'v>(
        &self,
        ctx: RequestContext<'_>,
        head: ResponseHead<'v>,
        status: Status,
    ) -> ResponseHead<'v> {
        let mut head = head.etag(&self.version.etag);
        if let Some(date) = HttpDate::from_unix(self.version.last_modified) {
            head = head.last_modified(&date);
        }
        if self.varies {
            head = head.vary("Accept-Encoding");
        }
        if self.coding != Coding::Identity && status != Status::NOT_MODIFIED {
            head = head.content_encoding(self.coding.name());
        }
        ctx.site.fields.add(head, self.name)
    }
}

fn present<'a>(
    ctx: RequestContext<'_>,
    name: &'a [u8],
    opened: &Opened,
    coding: Coding,
    compressing: bool,
) -> Representation<'a> {
    let status = &opened.status;
    let modified = status.modified();
    let attributes = Attributes {
        inode: status.inode(),
        size: status.size(),
        modified: (modified.seconds, modified.nanoseconds),
    };
    Representation {
        name,
        version: FileVersion::from_attributes(&attributes, compressing, ctx.second),
        coding,
        varies: !ctx.site.compress.is_empty() || !ctx.site.precompressed.is_empty(),
    }
}

fn compressed(
    ctx: RequestContext<'_>,
    out: &mut Output,
    representation: &Representation<'_>,
    opened: Opened,
    permit: Permit,
) -> Response {
    let head = representation.head(ctx, out, Status::OK);
    let head = head.content_type(ContentType::of_path(representation.name));
    ctx.finish(head.header("Transfer-Encoding", b"chunked"));
    let mut response = Response::bare(Status::OK);
    if ctx.sends_body() {
        let size = opened.status.size();
        let compressed = Compressed::new(opened.contents, size, representation.coding, permit);
        response.body = Body::Generated(Box::new(compressed));
        response.length = size;
    }
    response
}

fn whole(
    ctx: RequestContext<'_>,
    out: &mut Output,
    representation: &Representation<'_>,
    opened: &Opened,
    plain: bool,
) -> Response {
    let head = ctx.head(out, Status::OK);
    let common = head.output().fields().count();
    let head = representation.fields(ctx, head, Status::OK).accept_ranges();
    let head = head
        .content_type(ContentType::of_path(representation.name))
        .content_length(opened.status.size());
    // A weak entity tag may become a strong one later, so it is not stored.
    if plain
        && !representation.version.etag.is_weak()
        && let Some(fields) = &opened.fields
    {
        let own = head.output().fields_from(common);
        let rules = ctx.site.response_rules.as_ref();
        let _ = fields.set(match rules.filter(|rules| rules.suit_cached_files) {
            Some(rules) => rules.applied_to_file(representation.name, &own),
            None => own,
        });
    }
    ctx.with_whole_file(head, opened)
}

fn single_range(
    ctx: RequestContext<'_>,
    out: &mut Output,
    representation: &Representation<'_>,
    opened: Opened,
    range: ByteRange,
) -> Response {
    let status = Status::PARTIAL_CONTENT;
    let head = representation.head(ctx, out, status).accept_ranges();
    let head = head.content_range(range, opened.status.size());
    let head = head.content_type(ContentType::of_path(representation.name));
    let body = Body::File(opened.contents, range);
    ctx.with_body(head, status, range.len(), body)
}

fn several_ranges(
    ctx: RequestContext<'_>,
    out: &mut Output,
    representation: &Representation<'_>,
    opened: Opened,
    parts: Multipart,
) -> Response {
    let status = Status::PARTIAL_CONTENT;
    let mut content_type = Vec::new();
    parts.push_content_type(&mut content_type);
    let head = representation.head(ctx, out, status).accept_ranges();
    let head = head.header("Content-Type", &content_type);
    let length = parts.content_length();
    let body = Body::Parts(opened.contents, Box::new(parts));
    ctx.with_body(head, status, length, body)
}
