#![forbid(unsafe_code)]
//! HTTP/1.1 messages for a file server: parsing, paths, ranges, conditions, types, log lines.
//!
//! This crate has no I/O and no runtime: it turns bytes into decisions and bytes, so everything can
//! be tested with strings. Common requests allocate nothing except in buffers of the caller.
//!
//! # From request to response
//!
//! Received bytes are collected in a buffer. [`parse`] finds out whether they contain a request:
//!
//! ```
//! use laio_http::*;
//!
//! let received = b"GET /notes/a%20b.txt HTTP/1.1\r\nHost: example.org\r\nRange: bytes=-4\r\n\r\n";
//!
//! // An incomplete head is not an error: receive more, and parse again.
//! assert!(matches!(parse(&received[..30], &Limits::DEFAULT)?, Parsed::Partial));
//! let Parsed::Complete { request, head_len } = parse(received, &Limits::DEFAULT)? else { panic!() };
//! assert_eq!((request.method, request.keep_alive), (Method::Get, true));
//! assert_eq!(head_len, received.len());
//!
//! // The path is safe to open below the root of the site.
//! let mut relative = Vec::new();
//! request.path.clone()?.file_name(&mut relative)?;
//! assert_eq!(relative, b"notes/a b.txt");
//!
//! // The file was opened; these are its attributes.
//! let (inode, size, mtime) = (7, 1000, 784_111_777);
//! let etag = ETag::of_file(inode, size, mtime, 0);
//! let mut clock = DateCache::new();
//! let date = *clock.at(1_700_000_000);
//!
//! // Is the client's copy current, and which part of the file does it want?
//! let current = Validators { etag: Some(&etag), modified: Some(mtime), now: clock.second() };
//! let range = match conditional::evaluate(&request, &current) {
//!     ConditionalResult::Proceed { range_applies: true } => {
//!         request.headers.only("Range").map_or(Ranges::None, |value| Ranges::parse(value, size))
//!     }
//!     outcome => panic!("{outcome:?}: another response"),
//! };
//! let Ranges::Single(range) = range else { panic!("all of it, or 416") };
//!
//! // The head of the response; the bytes of the file follow it.
//! let mut out = Output::default();
//! ResponseHead::new(&mut out, Status::PARTIAL_CONTENT)
//!     .date(&date)
//!     .content_type(ContentType::of_path(&relative))
//!     .content_length(range.len())
//!     .content_range(range, size)
//!     .etag(&etag)
//!     .connection(request.version, request.keep_alive)
//!     .finish();
//! assert_eq!(
//!     String::from_utf8(out.bytes).unwrap(),
//!     "HTTP/1.1 206 Partial Content\r\n\
//!      Date: Tue, 14 Nov 2023 22:13:20 GMT\r\n\
//!      Content-Type: text/plain; charset=utf-8\r\n\
//!      Content-Length: 4\r\n\
//!      Content-Range: bytes 996-999/1000\r\n\
//!      ETag: \"7-3e8-2ebc98a1.0\"\r\n\r\n"
//! );
//! # Ok::<(), Rejection>(())
//! ```
//!
//! A request that cannot be served is a [`Rejection`], which has a status and a text; see
//! [`response::error_body`] for the page. [`BodySkip`] discards an unused body, and
//! [`log::write_line`] formats the access log line.
//!
//! # How strict
//!
//! As strict as a server at the edge must be: everything that two recipients could interpret
//! differently is refused. The doc comments cite the sections of RFC 9110 (semantics) and RFC 9112
//! (HTTP/1.1). HTTP/1.0 is supported too.

mod accept;
mod body;
mod framing;
mod guard;
mod headers;
mod limits;
mod method;
mod mime;
mod mount;
mod multipart;
mod output;
mod range;
mod readings;
mod rejection;
mod request;
mod request_fields;
mod request_path;
mod script;
mod status;
mod target;
mod text;
mod version;

pub mod conditional;
pub mod date;
pub mod encoding;
pub mod etag;
pub mod fastcgi;
pub mod files;
pub mod log;
pub mod path;
pub mod proxy_protocol;
pub mod response;
pub mod upstream;

pub use accept::prefers;
pub use body::BodySkip;
pub use conditional::{ConditionalResult, Validators};
pub use date::{DateCache, HttpDate};
pub use encoding::Coding;
pub use etag::ETag;
pub use framing::Framing;
pub use guard::{BadPattern, Guard};
pub use headers::Headers;
pub use limits::Limits;
pub use log::{LogField, LogFormat, LogRecord};
pub use method::Method;
pub use mime::ContentType;
pub use mount::{Mount, Program};
pub use multipart::Multipart;
pub use output::{HeadFields, Output};
pub use range::{ByteRange, RangeLimits, RangeSet, Ranges};
pub use rejection::Rejection;
pub use request::{Parsed, Request, parse};
pub use request_fields::{RequestFields, is_connection_specific};
pub use request_path::{RequestPath, ascii_query};
pub use response::ResponseHead;
pub use script::{BadExtension, ScriptNames, ScriptPath};
pub use status::Status;
pub use text::push_html_escaped;
pub use version::Version;

/// The examples on the front page of the crate compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
