//! Responses with a file.

use super::page::{bare, error, type_text, unsatisfiable};
use super::{Attributes, Body, FileResponse, FileVersion, Part, Selection, multipart};
use crate::{
    ByteRange, Coding, ContentType, HttpDate, Multipart, RangeLimits, Ranges, Request, Status,
};

/// Responds with a file that was found: 200, 206, 304, 412 or 416.
pub(super) fn with_file<F>(
    request: &Request<'_>,
    name: &[u8],
    (file, attributes): (F, Attributes),
    coding: Coding,
    now: i64,
) -> FileResponse<F> {
    let size = attributes.size;
    let version = FileVersion::from_attributes(&attributes, false, now);
    let content_type = ContentType::of_path(name);
    let mut response = match version.select(request, size, &RANGE_LIMITS, now) {
        Selection::PreconditionFailed => {
            let detail = "The file does not match the conditions of the request.";
            return error(Status::PRECONDITION_FAILED, detail);
        }
        Selection::Unsatisfiable => return unsatisfiable(size),
        Selection::NotModified => bare(Status::NOT_MODIFIED),
        selection => with_bytes(file, size, selection, content_type),
    };
    let fields = &mut response.fields;
    // 200, 206 and 304 share these (RFC 9110, section 15.4.5).
    fields.push(("etag", version.etag.as_bytes().to_vec()));
    if let Some(date) = HttpDate::from_unix(version.last_modified) {
        fields.push(("last-modified", date.as_bytes().to_vec()));
    }
    if coding != Coding::Identity && response.status != Status::NOT_MODIFIED {
        fields.push(("content-encoding", coding.name().into()));
    }
    response
}

/// As many ranges as `laio serve` sends by default, and as near to each other.
const RANGE_LIMITS: RangeLimits = RangeLimits {
    count: Ranges::COUNT_MAX,
    gap: 80,
};

/// 200 or 206.
fn with_bytes<F>(
    file: F,
    size: u64,
    selection: Selection,
    content_type: ContentType,
) -> FileResponse<F> {
    let status = selection.status();
    let mut fields = vec![("accept-ranges", b"bytes".to_vec())];
    let mut text = type_text(content_type);
    let parts = match selection {
        Selection::Range(range) => {
            let mut text = Vec::new();
            range.push_content_range(size, &mut text);
            fields.push(("content-range", text));
            vec![Part::Range(range)]
        }
        Selection::Ranges(set) => {
            let multipart = multipart(set, size, content_type);
            text.clear();
            multipart.push_content_type(&mut text);
            parts_of(&multipart)
        }
        _ => vec![Part::Range(ByteRange {
            start: 0,
            end: size,
        })],
    };
    let length: u64 = parts.iter().map(Part::len).sum();
    fields.push(("content-type", text));
    fields.push(("content-length", length.to_string().into()));
    FileResponse {
        status,
        fields,
        body: Body::File { file, parts },
    }
}

fn parts_of(multipart: &Multipart) -> Vec<Part> {
    let mut parts = Vec::new();
    for (number, range) in multipart.ranges().iter().enumerate() {
        let mut head = Vec::new();
        multipart.push_head(number, &mut head);
        parts.push(Part::Bytes(head));
        parts.push(Part::Range(*range));
    }
    let mut end = Vec::new();
    multipart.push_end(&mut end);
    parts.push(Part::Bytes(end));
    parts
}
