#![forbid(unsafe_code)]
//! HTTP/1.1 messages for a server of files: parsing, paths, ranges, conditions, types, log lines.
//!
//! There is no I/O here and no runtime: bytes go in, decisions and bytes come out. Whoever moves the
//! bytes, and how, is somebody else's business; so everything can be tested with a string. What a
//! request needs on its common way allocates nothing, except in buffers the caller keeps.
//!
//! # From request to response
//!
//! Bytes arrive in a buffer. [`parse`] says whether there is a request in it:
//!
//! ```
//! use laio_http::*;
//!
//! let received = b"GET /notes/a%20b.txt HTTP/1.1\r\nHost: example.org\r\nRange: bytes=-4\r\n\r\n";
//!
//! // Half of it is not an error: read more, and parse again.
//! assert!(matches!(parse(&received[..30], &Limits::DEFAULT)?, Parsed::Partial));
//! let Parsed::Complete { request, head_len } = parse(received, &Limits::DEFAULT)? else { panic!() };
//! assert_eq!((request.method, request.keep_alive), (Method::Get, true));
//! assert_eq!(head_len, received.len());
//!
//! // The path, below the root of the site, is safe to open.
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
//! // Is the client's copy still good, and which part does it want?
//! let current = Validators { etag: Some(&etag), modified: Some(mtime), now: clock.second() };
//! let range = match conditional::evaluate(&request, &current) {
//!     Outcome::Proceed { range_applies: true } => {
//!         request.headers.only("Range").map_or(Ranges::None, |value| Ranges::parse(value, size))
//!     }
//!     outcome => panic!("{outcome:?}: another answer"),
//! };
//! let Ranges::Single(range) = range else { panic!("all of it, or 416") };
//!
//! // The head of the answer; the bytes of the file follow it.
//! let mut out = Vec::new();
//! ResponseHead::new(&mut out, Status::PARTIAL_CONTENT)
//!     .date(&date)
//!     .content_type(ContentType::of_path(&relative))
//!     .content_length(range.len())
//!     .content_range(range, size)
//!     .etag(&etag)
//!     .connection(request.version, request.keep_alive)
//!     .finish();
//! assert_eq!(
//!     String::from_utf8(out).unwrap(),
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
//! What cannot be served is a [`Rejection`], which knows its status and its sentence; see
//! [`response::error_body`] for the page. A body nobody wants is passed over with [`BodySkip`], and
//! [`log::write_line`] makes the line for the access log.
//!
//! # How strict
//!
//! As strict as a server at the edge should be: whatever two readers of a message could understand
//! differently is refused, and the doc comments cite the section of RFC 9110 (semantics) or RFC 9112
//! (HTTP/1.1) they follow. HTTP/1.0 is spoken too.

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
mod range;
mod readings;
mod rejection;
mod request;
mod request_path;
mod status;
mod target;
mod text;

pub mod conditional;
pub mod date;
pub mod encoding;
pub mod etag;
pub mod fastcgi;
pub mod log;
pub mod path;
pub mod response;
pub mod upstream;

pub use accept::prefers;
pub use body::BodySkip;
pub use conditional::{Outcome, Validators};
pub use date::{DateCache, HttpDate};
pub use encoding::Coding;
pub use etag::ETag;
pub use framing::Framing;
pub use guard::{BadPattern, Guard};
pub use headers::Headers;
pub use limits::Limits;
pub use log::{LogFormat, LogRecord};
pub use method::Method;
pub use mime::ContentType;
pub use mount::{Mount, Program};
pub use multipart::Multipart;
pub use range::{ByteRange, RangeLimits, RangeSet, Ranges};
pub use rejection::Rejection;
pub use request::{Parsed, Request, Version, parse};
pub use request_path::RequestPath;
pub use response::ResponseHead;
pub use status::Status;
pub use text::push_html_escaped;
