//! The head of a stored response: what is stored, updated, and sent to a client that has the response.

use super::super::upstream_head::UpstreamHead;
use laio_http::{Framing, Status};
use laio_serve_base::field_names::is_one_of;
use laio_serve_core::request::response::RequestContext;

/// Fields that describe a body.
const NOT_IN_304: [&str; 4] = [
    "Content-Encoding",
    "Content-Language",
    "Content-Range",
    "Content-Type",
];

impl UpstreamHead {
    /// Returns the bytes of all fields.
    pub(super) fn size(&self) -> usize {
        let sizes = self
            .fields
            .iter()
            .map(|(name, value)| name.len() + value.len());
        sizes.sum()
    }

    /// Returns the head as it is stored: with a date, and without the age that it has already.
    pub(super) fn for_store(&self, ctx: RequestContext<'_>) -> UpstreamHead {
        let mut head = self.clone();
        head.remove(b"Age");
        head.add_date(ctx);
        head
    }

    fn add_date(&mut self, ctx: RequestContext<'_>) {
        if !self.has("Date") {
            let date = ctx.date.as_bytes().as_slice();
            self.fields.push((b"Date".as_slice().into(), date.into()));
        }
    }

    /// Replaces the fields that a 304 for this response has (RFC 9111, section 3.2).
    pub(super) fn update(&mut self, newer: &UpstreamHead, ctx: RequestContext<'_>) {
        self.remove(b"Date");
        for (name, _) in &newer.fields {
            self.remove(name);
        }
        self.fields.extend(newer.fields.iter().cloned());
        self.add_date(ctx);
    }

    fn remove(&mut self, name: &[u8]) {
        self.fields
            .retain(|(own, _)| !own.eq_ignore_ascii_case(name));
    }

    /// Returns the head that tells a client that it has this response already (RFC 9110, section 15.4.5).
    pub(super) fn not_modified(&self) -> UpstreamHead {
        let mut head = self.clone();
        head.fields
            .retain(|(name, _)| !is_one_of(name, &NOT_IN_304));
        UpstreamHead {
            status: Status::NOT_MODIFIED,
            framing: Some(Framing::None),
            length: None,
            ..head
        }
    }
}
