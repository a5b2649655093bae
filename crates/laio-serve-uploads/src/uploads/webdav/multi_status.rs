//! Responses with a status for each of several resources (RFC 4918, section 13).

use super::trees::Failure;
use super::xml::push_text;
use crate::uploads::Done;
use laio_http::{Status, path};

/// A multi-status document being written.
pub(super) struct MultiStatus(pub(super) Vec<u8>);

impl MultiStatus {
    pub(super) fn new() -> MultiStatus {
        let mut out = DECLARATION.to_vec();
        out.extend_from_slice(b"<D:multistatus xmlns:D=\"DAV:\">\n");
        MultiStatus(out)
    }

    /// Begins the part about a resource.
    pub(super) fn begin(&mut self, name: &[u8], directory: bool) {
        self.0.extend_from_slice(b"<D:response>");
        push_href(&mut self.0, name, directory);
    }

    /// Writes a group of properties with one status, if there are any.
    pub(super) fn properties(&mut self, properties: &[u8], status: Status) {
        if !properties.is_empty() {
            self.0.extend_from_slice(b"<D:propstat><D:prop>");
            self.0.extend_from_slice(properties);
            self.0.extend_from_slice(b"</D:prop>");
            self.status(status);
            self.0.extend_from_slice(b"</D:propstat>");
        }
    }

    pub(super) fn status(&mut self, status: Status) {
        let text = format!("<D:status>HTTP/1.1 {status}</D:status>");
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(super) fn end(&mut self) {
        self.0.extend_from_slice(b"</D:response>\n");
    }

    /// Ends the document.
    pub(super) fn done(mut self) -> Done {
        self.0.extend_from_slice(b"</D:multistatus>\n");
        Done::Document {
            status: Status::MULTI_STATUS,
            content: self.0,
            lock_token: None,
        }
    }
}

/// The beginning of each document.
pub(in crate::uploads) const DECLARATION: &[u8] = b"<?xml version=\"1.0\" encoding=\"utf-8\"?>\n";

/// Appends the address of a name.
pub(in crate::uploads) fn push_href(out: &mut Vec<u8>, name: &[u8], directory: bool) {
    let mut address = Vec::new();
    path::encode(name, directory, None, &mut address);
    out.extend_from_slice(b"<D:href>");
    // An encoded address is ASCII, but may contain `&`.
    push_text(out, &String::from_utf8_lossy(&address));
    out.extend_from_slice(b"</D:href>");
}

/// Returns the response that tells which names below `inside` could not be removed.
pub(in crate::uploads) fn failures(inside: &[u8], failures: &[Failure]) -> Done {
    let mut response = MultiStatus::new();
    for (name, problem) in failures {
        let mut whole = inside.to_vec();
        if !name.is_empty() {
            laio_serve_core::files::resolve::enter(&mut whole, name);
        }
        response.begin(&whole, false);
        response.status(problem.status);
        response.end();
    }
    response.done()
}
