//! Compressing the responses of upstreams while they are passed on.

use super::fields::has_word;
use super::upstream_head::UpstreamHead;
use laio_http::{Coding, Headers, Status, Version};
use laio_rt::sync::Permit;
use laio_serve_base::options::Limits;
use laio_serve_core::request::compress::encoder::Encoder;
use laio_serve_core::request::compress::{Follows, encode, push_encoded};
use laio_serve_core::request::response::RequestContext;
use laio_serve_core::request::variant::is_compressible;
use laio_serve_core::services::Services;
use std::io;

/// How a response that becomes shorter by compression is sent.
pub(super) enum Form {
    /// As it is, to a client that accepts no coding; or as many as may be are being compressed.
    Plain,
    /// In a coding. The permit limits how many are compressed at a time.
    Encoded(Coding, Permit),
}

impl Form {
    /// Chooses the form for a client of a site that compresses. Returns `None` for a response that is not
    /// compressed for any client.
    pub(super) fn of(
        services: &Services,
        ctx: RequestContext<'_>,
        head: &UpstreamHead,
    ) -> Option<Form> {
        let site = ctx.site;
        if !is_worth_it(head, services.limits.compress_bytes) {
            return None;
        }
        Some(form(
            services,
            ctx.request.version,
            &ctx.request.headers,
            &site.compress,
        ))
    }

    /// Returns the coding, if there is one.
    pub(super) fn coding(&self) -> Option<Coding> {
        match self {
            Form::Plain => None,
            Form::Encoded(coding, _) => Some(*coding),
        }
    }
}

fn form(
    services: &Services,
    version: Version,
    headers: &Headers<'_>,
    available: &[Coding],
) -> Form {
    // HTTP/1.0 needs a known length.
    if version != Version::Http11 {
        return Form::Plain;
    }
    match Coding::negotiate(headers, available) {
        Coding::Identity => Form::Plain,
        coding => match services.compressions.try_acquire() {
            Some(permit) => Form::Encoded(coding, permit),
            None => Form::Plain,
        },
    }
}

/// Whether a response may be compressed, and becomes shorter by it.
fn is_worth_it(head: &UpstreamHead, most: u64) -> bool {
    let status = head.status;
    let has_content = !status.is_bodiless() && status != Status::PARTIAL_CONTENT;
    let length = head.announced().unwrap_or(Limits::COMPRESS_FROM);
    has_content
        && (Limits::COMPRESS_FROM..=most).contains(&length)
        && head.field("Content-Encoding").is_none()
        && head.field("Content-Type").is_some_and(is_text)
        && !head.fields().iter().any(|(name, value)| {
            name.eq_ignore_ascii_case(b"Cache-Control") && has_word(value, b"no-transform")
        })
}

/// Whether a content type is one of text. An event stream is not compressed, because each of its
/// messages is sent at once.
fn is_text(value: &[u8]) -> bool {
    let essence = value.split(|&byte| byte == b';').next().unwrap_or_default();
    let essence = essence.trim_ascii().to_ascii_lowercase();
    let essence = std::str::from_utf8(&essence).unwrap_or_default();
    essence != "text/event-stream" && is_compressible(essence)
}

/// A response being compressed.
pub(super) struct Compressing {
    coding: Coding,
    /// Made with the first content, on the CPU pool.
    encoder: Option<Encoder>,
    /// The content received last.
    plain: Vec<u8>,
    _permit: Permit,
}

impl Compressing {
    pub(super) fn new(coding: Coding, permit: Permit) -> Compressing {
        Compressing {
            coding,
            encoder: None,
            plain: Vec::new(),
            _permit: permit,
        }
    }

    /// Returns an empty buffer for content.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        plain
    }

    /// Appends content, compressed, as a chunk of HTTP/1.1 or bare. The client can decode all of it,
    /// because the upstream may take its time for the rest. Returns `last`, which says whether the
    /// content was the last, or the error of the encoder; and the length of what was appended, without
    /// the frame.
    pub(super) async fn push(
        &mut self,
        services: &Services,
        plain: Vec<u8>,
        last: io::Result<bool>,
        out: &mut Vec<u8>,
        framed: bool,
    ) -> (io::Result<bool>, u64) {
        let follows = match last {
            Ok(true) => Follows::Nothing,
            _ if plain.is_empty() => {
                self.plain = plain;
                return (last, 0);
            }
            _ => Follows::Later,
        };
        let made = encode(services, self.coding, &mut self.encoder, plain, follows).await;
        let pushed = made.and_then(|(made, plain)| {
            self.plain = plain;
            push_encoded(out, &made, framed)?;
            Ok(made.len() as u64)
        });
        match pushed {
            Ok(length) => (last, length),
            Err(error) => (Err(error), 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_worth_compressing() {
        let head = |status: Status, fields: &[(&str, &str)], length: Option<usize>| {
            let mut head = UpstreamHead::new(status, None, true);
            for (name, value) in fields {
                head.add(name.as_bytes(), value.as_bytes());
            }
            if let Some(length) = length {
                head.set_length(length);
            }
            is_worth_it(&head, 1 << 20)
        };
        let html = ("Content-Type", "Text/HTML; charset=utf-8");
        assert!(head(Status::OK, &[html], None));
        assert!(head(Status::NOT_FOUND, &[html], Some(5000)));
        assert!(!head(Status::OK, &[html], Some(10)));
        assert!(!head(Status::OK, &[html], Some(2 << 20)));
        assert!(!head(Status::PARTIAL_CONTENT, &[html], None));
        assert!(!head(Status::NO_CONTENT, &[html], None));
        assert!(!head(Status::OK, &[], None));
        for (name, value) in [
            ("Content-Encoding", "br"),
            ("Cache-Control", "max-age=1, No-Transform"),
        ] {
            assert!(!head(Status::OK, &[html, (name, value)], None), "{value}");
        }
        for content_type in ["text/event-stream", "image/png", "application/grpc", ""] {
            assert!(!head(Status::OK, &[("Content-Type", content_type)], None));
        }
        assert!(head(
            Status::OK,
            &[("Content-Type", "application/json")],
            None
        ));
    }

    #[test]
    fn the_head_of_an_encoded_response() {
        let mut head = UpstreamHead::new(Status::OK, None, true);
        for (name, value) in [
            ("Content-Type", "text/html"),
            ("ETag", "\"abc\""),
            ("Accept-Ranges", "bytes"),
            ("Content-Digest", "sha-256=:x:"),
            ("Vary", "Cookie"),
        ] {
            head.add(name.as_bytes(), value.as_bytes());
        }
        head.set_length(5000);
        let encoded = head.in_form(Some(Coding::Gzip));
        assert_eq!(encoded.field("ETag"), Some(b"W/\"abc\"".as_slice()));
        assert_eq!(encoded.field("Content-Encoding"), Some(b"gzip".as_slice()));
        assert!(encoded.announced().is_none() && encoded.field("Content-Digest").is_none());
        assert!(encoded.field("Accept-Ranges").is_none());
        let varies = |head: &UpstreamHead| {
            let all = head.fields().iter().filter(|(name, _)| **name == *b"Vary");
            all.map(|(_, value)| value.to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(
            varies(&encoded),
            [b"Cookie".to_vec(), b"Accept-Encoding".to_vec()]
        );
        let plain = head.in_form(None);
        assert_eq!(plain.announced(), Some(5000));
        assert_eq!(varies(&plain), varies(&encoded));
        assert_eq!(varies(&plain.in_form(None)), varies(&encoded));
        assert_eq!(plain.field("ETag"), Some(b"\"abc\"".as_slice()));
    }
}
