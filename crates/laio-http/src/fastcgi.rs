//! FastCGI records: the messages between a web server and a responder. One request at a time on a
//! connection, which every responder supports.
//!
//! ```
//! use laio_http::fastcgi::{self, Event, Records};
//!
//! // A responder's response: output, error output, the end.
//! let mut bytes = Vec::new();
//! fastcgi::push_stream(&mut bytes, fastcgi::STDOUT, b"Status: 200\n\nhello");
//! fastcgi::push_stream(&mut bytes, fastcgi::STDERR, b"all is well");
//! fastcgi::push_end(&mut bytes, 0);
//!
//! let (mut records, mut output, mut said) = (Records::new(), Vec::new(), Vec::new());
//! let used = records.advance(&bytes, |event| match event {
//!     Event::Output(bytes) => output.extend_from_slice(bytes),
//!     Event::Error(bytes) => said.extend_from_slice(bytes),
//! })?;
//! assert!(records.is_done() && used == bytes.len());
//! assert_eq!((&output[..], &said[..]), (&b"Status: 200\n\nhello"[..], &b"all is well"[..]));
//! # Ok::<(), fastcgi::BadRecord>(())
//! ```

use std::fmt;

/// The request number, the same on every connection.
pub const REQUEST: u16 = 1;
/// Begins a request.
pub const BEGIN_REQUEST: u8 = 1;
/// Sent by the responder to end a request.
pub const END_REQUEST: u8 = 3;
/// Names and values that describe the request.
pub const PARAMS: u8 = 4;
/// The body of the request.
pub const STDIN: u8 = 5;
/// The head and the body of the response.
pub const STDOUT: u8 = 6;
/// The responder's error output, for the log.
pub const STDERR: u8 = 7;

/// Bytes of a record head.
pub const HEAD: usize = 8;
/// Maximum bytes of content of a record.
pub const CONTENT_MAX: usize = u16::MAX as usize;

const VERSION: u8 = 1;
const RESPONDER: u8 = 1;
const KEEP_CONNECTION: u8 = 1;

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The kind of record, such as [`STDOUT`].
    pub kind: u8,
    /// The request number; 0 is a management record.
    pub request: u16,
    /// Bytes of content that follow.
    pub content: u16,
    /// Bytes of padding after the content.
    pub padding: u8,
}

impl Head {
    /// Parses a record head.
    ///
    /// # Errors
    ///
    /// [`BadRecord::Version`].
    pub fn parse(bytes: [u8; HEAD]) -> Result<Head, BadRecord> {
        let [version, kind, r1, r0, c1, c0, padding, _] = bytes;
        if version != VERSION {
            return Err(BadRecord::Version);
        }
        Ok(Head {
            kind,
            request: u16::from_be_bytes([r1, r0]),
            content: u16::from_be_bytes([c1, c0]),
            padding,
        })
    }

    fn push(self, out: &mut Vec<u8>) {
        let ([r1, r0], [c1, c0]) = (self.request.to_be_bytes(), self.content.to_be_bytes());
        out.extend_from_slice(&[VERSION, self.kind, r1, r0, c1, c0, self.padding, 0]);
    }
}

/// Appends the begin record of a request. `keep` asks the responder to leave the connection open.
pub fn push_begin(out: &mut Vec<u8>, keep: bool) {
    let flags = if keep { KEEP_CONNECTION } else { 0 };
    push_record(out, BEGIN_REQUEST, &[0, RESPONDER, flags, 0, 0, 0, 0, 0]);
}

/// Appends a name and a value to parameters, which [`push_stream`] sends as [`PARAMS`].
pub fn push_param(params: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for length in [name.len(), value.len()] {
        match u8::try_from(length) {
            Ok(short) if short < 128 => params.push(short),
            _ => params.extend_from_slice(&(length as u32 | 1 << 31).to_be_bytes()),
        }
    }
    params.extend_from_slice(name);
    params.extend_from_slice(value);
}

/// Appends a part of a stream, in as many records as needed. Appends nothing for empty content,
/// which would end the stream.
pub fn push_stream(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    for part in content.chunks(CONTENT_MAX) {
        push_record(out, kind, part);
    }
}

/// Appends the end of a stream.
pub fn push_stream_end(out: &mut Vec<u8>, kind: u8) {
    push_record(out, kind, &[]);
}

/// Appends the end of a request, as a responder sends it.
pub fn push_end(out: &mut Vec<u8>, exit_status: u32) {
    let [a, b, c, d] = exit_status.to_be_bytes();
    push_record(out, END_REQUEST, &[a, b, c, d, 0, 0, 0, 0]);
}

fn push_record(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    let head = Head {
        kind,
        request: REQUEST,
        content: content.len() as u16, // callers split
        padding: 0,
    };
    head.push(out);
    out.extend_from_slice(content);
}

/// Splits parameters into names and values. Returns `None` if they are truncated.
///
/// ```
/// use laio_http::fastcgi::{params, push_param};
/// let mut bytes = Vec::new();
/// push_param(&mut bytes, b"REQUEST_METHOD", b"GET");
/// assert_eq!(params(&bytes), Some(vec![(&b"REQUEST_METHOD"[..], &b"GET"[..])]));
/// ```
#[must_use]
pub fn params(mut bytes: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let name = length(&mut bytes)?;
        let value = length(&mut bytes)?;
        let (name, rest) = bytes.split_at_checked(name)?;
        let (value, rest) = rest.split_at_checked(value)?;
        found.push((name, value));
        bytes = rest;
    }
    Some(found)
}

fn length(bytes: &mut &[u8]) -> Option<usize> {
    let (&first, rest) = bytes.split_first()?;
    if first < 128 {
        *bytes = rest;
        return Some(usize::from(first));
    }
    let (long, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some((u32::from_be_bytes(*long) & !(1 << 31)) as usize)
}

/// The output of a responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'b> {
    /// A piece of the response.
    Output(&'b [u8]),
    /// A piece of the error output, for the log.
    Error(&'b [u8]),
}

/// Parses the records of a responder for one request. Stores only the position in the record.
#[derive(Clone, Debug)]
pub struct Records {
    state: State,
    output_ended: bool,
    /// The content of the record that ends the request.
    end: [u8; HEAD],
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The head of a record, and the number of bytes received of it.
    Head([u8; HEAD], usize),
    /// The content, and the remaining number of bytes.
    Content(Head, u16),
    Padding(u8, u8),
    Done,
}

impl Default for Records {
    fn default() -> Self {
        Records::new()
    }
}

impl Records {
    /// Returns a parser for the response to a request that was just sent.
    #[must_use]
    pub const fn new() -> Records {
        Records {
            state: State::Head([0; HEAD], 0),
            output_ended: false,
            end: [0; HEAD],
        }
    }

    /// Whether the responder has ended the request.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Returns the exit status of the program, once it has ended.
    #[must_use]
    pub const fn exit_status(&self) -> u32 {
        let [a, b, c, d, ..] = self.end;
        u32::from_be_bytes([a, b, c, d])
    }

    /// Parses the bytes received next, split in any way. Returns how many belong to the request:
    /// fewer than given only when the request has ended.
    ///
    /// # Errors
    ///
    /// [`BadRecord`]; the connection cannot be used afterwards.
    pub fn advance(
        &mut self,
        input: &[u8],
        mut event: impl FnMut(Event<'_>),
    ) -> Result<usize, BadRecord> {
        let mut position = 0;
        while !self.is_done() {
            let rest = &input[position..];
            match &mut self.state {
                State::Done => {}
                State::Head(bytes, filled) => {
                    let here = rest.len().min(HEAD - *filled);
                    bytes[*filled..][..here].copy_from_slice(&rest[..here]);
                    *filled += here;
                    position += here;
                    if *filled < HEAD {
                        break;
                    }
                    let head = Head::parse(*bytes)?;
                    self.begin(head)?;
                }
                State::Content(head, left) => {
                    let (head, here) = (*head, rest.len().min(usize::from(*left)));
                    let place = usize::from(head.content - *left);
                    let piece = &rest[..here];
                    *left -= here as u16; // at most left
                    let over = *left == 0;
                    match head.kind {
                        STDOUT if here > 0 => event(Event::Output(piece)),
                        STDERR if here > 0 => event(Event::Error(piece)),
                        END_REQUEST => self.end[place..][..here].copy_from_slice(piece),
                        _ => {}
                    }
                    position += here;
                    if !over {
                        break;
                    }
                    self.state = State::Padding(head.kind, head.padding);
                }
                State::Padding(kind, left) => {
                    let here = rest.len().min(usize::from(*left));
                    *left -= here as u8; // at most left
                    position += here;
                    if *left > 0 {
                        break;
                    }
                    let kind = *kind;
                    self.finish(kind)?;
                }
            }
        }
        Ok(position)
    }

    /// Checks whether a record is allowed at this point.
    fn begin(&mut self, head: Head) -> Result<(), BadRecord> {
        match (head.request, head.kind) {
            // Management records answer questions that this side does not ask. They are ignored, as
            // the specification requires.
            (0, kind) if kind > STDERR => {}
            (REQUEST, STDOUT) => {
                if self.output_ended {
                    return Err(BadRecord::AfterEnd);
                }
                self.output_ended = head.content == 0;
            }
            (REQUEST, STDERR) => {}
            (REQUEST, END_REQUEST) if usize::from(head.content) == HEAD => {}
            (REQUEST, _) => return Err(BadRecord::Kind),
            _ => return Err(BadRecord::Request),
        }
        self.state = State::Content(head, head.content);
        Ok(())
    }

    fn finish(&mut self, kind: u8) -> Result<(), BadRecord> {
        self.state = State::Head([0; HEAD], 0);
        if kind == END_REQUEST {
            self.state = State::Done;
            if self.end[4] != 0 {
                return Err(BadRecord::Refused);
            }
        }
        Ok(())
    }
}

/// The reason why the bytes of a responder are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BadRecord {
    /// The version is not 1: the peer does not use FastCGI.
    Version,
    /// A record is of a kind that a responder does not send.
    Kind,
    /// A record belongs to a request that was not made.
    Request,
    /// Output after the end of its stream.
    AfterEnd,
    /// The responder refused the request: it is overloaded, or not a responder.
    Refused,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadRecord::Version => "the upstream does not use FastCGI",
            BadRecord::Kind => "a FastCGI record has a kind that responders do not send",
            BadRecord::Request => "a FastCGI record is for another request",
            BadRecord::AfterEnd => "FastCGI output follows the end of its stream",
            BadRecord::Refused => "the FastCGI responder refused the request",
        })
    }
}

impl std::error::Error for BadRecord {}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = Result<(Vec<u8>, Vec<u8>, bool, usize), BadRecord>;

    fn read(bytes: &[u8], step: usize) -> Read {
        let (mut records, mut output, mut said) = (Records::new(), Vec::new(), Vec::new());
        let mut used = 0;
        for part in bytes.chunks(step) {
            used += records.advance(part, |event| match event {
                Event::Output(bytes) => output.extend_from_slice(bytes),
                Event::Error(bytes) => said.extend_from_slice(bytes),
            })?;
        }
        Ok((output, said, records.is_done(), used))
    }

    fn padded(kind: u8, request: u16, content: &[u8], padding: u8) -> Vec<u8> {
        let mut out = Vec::new();
        let content_len = content.len() as u16;
        let head = Head {
            kind,
            request,
            content: content_len,
            padding,
        };
        head.push(&mut out);
        out.extend_from_slice(content);
        out.resize(out.len() + usize::from(padding), 0);
        out
    }

    #[test]
    fn the_split_makes_no_difference() {
        let mut bytes = padded(STDOUT, REQUEST, b"out", 5);
        bytes.extend(padded(10, 0, b"values", 2));
        bytes.extend(padded(STDERR, REQUEST, b"err", 0));
        bytes.extend(padded(STDOUT, REQUEST, b"put", 255));
        bytes.extend(padded(STDOUT, REQUEST, b"", 1));
        bytes.extend(padded(END_REQUEST, REQUEST, &[0, 0, 0, 7, 0, 0, 0, 0], 3));
        let whole = bytes.len();
        bytes.extend(b"more");
        for step in 1..=bytes.len() {
            let expected = (b"output".to_vec(), b"err".to_vec(), true, whole);
            assert_eq!(read(&bytes, step), Ok(expected), "step {step}");
        }
        assert!(!read(&bytes[..whole - 1], 7).unwrap().2);
        let mut records = Records::new();
        records.advance(&bytes, |_| {}).unwrap();
        assert_eq!(records.exit_status(), 7);
    }

    #[test]
    fn invalid_records_are_refused() {
        let mut after = padded(STDOUT, REQUEST, b"", 0);
        after.extend(padded(STDOUT, REQUEST, b"x", 0));
        let overloaded = padded(END_REQUEST, REQUEST, &[0, 0, 0, 0, 2, 0, 0, 0], 0);
        for (bytes, expected) in [
            (b"HTTP/1.1 400 Bad".to_vec(), BadRecord::Version),
            (padded(STDIN, REQUEST, b"x", 0), BadRecord::Kind),
            (padded(END_REQUEST, REQUEST, b"x", 0), BadRecord::Kind),
            (padded(STDOUT, 2, b"x", 0), BadRecord::Request),
            (padded(STDOUT, 0, b"x", 0), BadRecord::Request),
            (after, BadRecord::AfterEnd),
            (overloaded, BadRecord::Refused),
        ] {
            assert_eq!(read(&bytes, 3), Err(expected));
        }
    }

    #[test]
    fn long_parameters_and_streams() {
        let (name, value) = (vec![b'n'; 127], vec![b'v'; 70_000]);
        let mut bytes = Vec::new();
        push_param(&mut bytes, &name, &value);
        push_param(&mut bytes, &value, b"");
        let found = params(&bytes).unwrap();
        assert_eq!(found, [(&name[..], &value[..]), (&value[..], &b""[..])]);
        assert_eq!(params(&bytes[..bytes.len() - 1]), None);
        assert_eq!(params(&[128, 0]), None);
        let mut out = Vec::new();
        push_stream(&mut out, STDOUT, &value);
        push_stream_end(&mut out, STDOUT);
        assert_eq!(out.len(), value.len() + 3 * HEAD);
        assert_eq!(read(&out, 1000).unwrap().0, value);
    }
}
