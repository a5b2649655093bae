//! Reading past a request body (RFC 9112, sections 6.3 and 7.1).

use crate::request::is_token_byte;
use crate::{Framing, Rejection};

/// Skips the body of a request whose content is not used, up to the next request on the connection.
/// Stores only the position in the framing.
///
/// ```
/// use laio_http::{BodySkip, Framing};
///
/// let mut skip = BodySkip::new(Framing::Chunked, BodySkip::BYTES_MAX)?;
/// assert_eq!(skip.advance(b"5\r\nhel")?, 6);
/// assert!(!skip.is_done());
/// assert_eq!(skip.advance(b"lo\r\n0\r\n\r\nGET /")?, 9);
/// assert!(skip.is_done());
/// # Ok::<(), laio_http::Rejection>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodySkip {
    state: State,
    /// Bytes, including all framing, that may still arrive.
    budget: u64,
    /// Fields received after the last chunk, and their bytes with line ends.
    trailers: usize,
    trailer_bytes: usize,
}

/// The part of a message that the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Content: the remaining bytes, never zero, followed by the end or the CRLF of a chunk.
    Data {
        left: u64,
        in_chunk: bool,
    },
    /// The first digit of a chunk size.
    SizeStart,
    /// Another digit, or the end of the digits.
    Size(u64),
    /// White space before the semicolon of an extension.
    SizeSpace(u64),
    /// A chunk extension.
    Extension(u64),
    /// The LF after a size.
    SizeEnd(u64),
    /// The CR and the LF after the content of a chunk.
    DataCr,
    DataLf,
    /// The first byte of a trailer field, or the CR of the empty line.
    TrailerStart,
    /// Another byte of the name of a trailer field, or the colon.
    TrailerName,
    /// The rest of a trailer field, and its LF.
    TrailerValue,
    TrailerLf,
    /// The LF of the empty line.
    EndLf,
    Done,
}

impl BodySkip {
    /// The default limit. Refusing more is cheaper than reading it.
    pub const BYTES_MAX: u64 = 64 * 1024;
    /// Maximum number of fields after a chunked body. They are ignored, so more are not worth
    /// reading.
    pub const TRAILERS_MAX: usize = 100;
    /// Bytes of these fields, with their line ends.
    pub const TRAILER_BYTES_MAX: usize = 8 * 1024;

    /// Prepares to skip a body of at most `limit` bytes, including its framing.
    ///
    /// # Errors
    ///
    /// [`Rejection::BodyTooLarge`] when the length is known and above the limit.
    pub fn new(framing: Framing, limit: u64) -> Result<Self, Rejection> {
        let state = match framing {
            Framing::Length(length) if length > limit => return Err(Rejection::BodyTooLarge),
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(left) => State::Data {
                left,
                in_chunk: false,
            },
            Framing::Chunked => State::SizeStart,
        };
        Ok(BodySkip {
            state,
            budget: limit,
            trailers: 0,
            trailer_bytes: 0,
        })
    }

    /// Parses the bytes received next, split in any way. Returns how many of them belong to the
    /// body: fewer than given only when the body has ended.
    ///
    /// # Errors
    ///
    /// [`Rejection::Chunk`], [`Rejection::Trailer`], [`Rejection::TrailersTooLarge`] or
    /// [`Rejection::BodyTooLarge`]. The connection cannot be used for another request then.
    pub fn advance(&mut self, input: &[u8]) -> Result<usize, Rejection> {
        self.advance_with(input, |_| {})
    }

    /// Like [`BodySkip::advance`], but passes the content, without the framing, to `content` piece
    /// by piece.
    ///
    /// ```
    /// use laio_http::{BodySkip, Framing};
    ///
    /// let (mut body, mut content) = (BodySkip::new(Framing::Chunked, 100)?, Vec::new());
    /// body.advance_with(b"5\r\nhel", |piece| content.extend_from_slice(piece))?;
    /// body.advance_with(b"lo\r\n0\r\n\r\n", |piece| content.extend_from_slice(piece))?;
    /// assert_eq!(content, b"hello");
    /// # Ok::<(), laio_http::Rejection>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`BodySkip::advance`]. The content passed on before the error is valid.
    pub fn advance_with(
        &mut self,
        input: &[u8],
        content: impl FnMut(&[u8]),
    ) -> Result<usize, Rejection> {
        self.advance_with_trailers(input, content, |_| {})
    }

    /// Like [`BodySkip::advance_with`], but also passes the fields after a chunked body to `trailer`, byte by byte,
    /// as lines that end in CRLF. The names are tokens, and the values contain no control characters.
    ///
    /// ```
    /// use laio_http::{BodySkip, Framing};
    ///
    /// let (mut body, mut trailers) = (BodySkip::new(Framing::Chunked, 100)?, Vec::new());
    /// body.advance_with_trailers(b"0\r\nA: b\r\n\r\n", |_| {}, |byte| trailers.push(byte))?;
    /// assert_eq!(trailers, b"A: b\r\n");
    /// # Ok::<(), laio_http::Rejection>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Like [`BodySkip::advance`].
    pub fn advance_with_trailers(
        &mut self,
        input: &[u8],
        mut content: impl FnMut(&[u8]),
        mut trailer: impl FnMut(u8),
    ) -> Result<usize, Rejection> {
        let mut position = 0;
        while position < input.len() && !self.is_done() {
            let consumed = match self.state {
                State::Data { left, in_chunk } => {
                    let here = left.min((input.len() - position) as u64);
                    self.state = match left - here {
                        0 if in_chunk => State::DataCr,
                        0 => State::Done,
                        left => State::Data { left, in_chunk },
                    };
                    content(&input[position..][..here as usize]); // at most its length
                    here
                }
                state => {
                    let next = state.step(input[position]);
                    self.state = next.ok_or_else(|| state.rejection())?;
                    if self.count_trailers(state)? {
                        trailer(input[position]);
                    }
                    1
                }
            };
            self.budget = self
                .budget
                .checked_sub(consumed)
                .ok_or(Rejection::BodyTooLarge)?;
            position += consumed as usize; // at most input.len()
        }
        Ok(position)
    }

    /// Counts a byte read in `state`, if it belongs to a trailer field. Returns whether it does.
    fn count_trailers(&mut self, state: State) -> Result<bool, Rejection> {
        if !state.is_trailer() || self.state == State::EndLf {
            return Ok(false);
        }
        self.trailers += usize::from(state == State::TrailerStart);
        self.trailer_bytes += 1;
        let fits = self.trailers <= BodySkip::TRAILERS_MAX
            && self.trailer_bytes <= BodySkip::TRAILER_BYTES_MAX;
        fits.then_some(true).ok_or(Rejection::TrailersTooLarge)
    }

    /// Whether the body has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }
}

impl State {
    /// Returns the state after one byte of framing, or `None` when the byte is not allowed.
    ///
    /// As strict as the grammar of section 7.1: a lenient reading of chunk lines (bare LF, white
    /// space, sizes that overflow) is a way to smuggle requests.
    fn step(self, byte: u8) -> Option<State> {
        match (self, byte) {
            (State::SizeStart, _) => Some(State::Size(hex_digit(byte)?)),
            (State::Size(size), b'\r') => Some(State::SizeEnd(size)),
            (State::Size(size) | State::SizeSpace(size), b';') => Some(State::Extension(size)),
            (State::Size(size) | State::SizeSpace(size), b' ' | b'\t') => {
                Some(State::SizeSpace(size))
            }
            (State::Size(size), _) => Some(State::Size(
                size.checked_mul(16)?.checked_add(hex_digit(byte)?)?,
            )),
            (State::Extension(size), b'\r') => Some(State::SizeEnd(size)),
            (State::Extension(_), _) => is_text(byte).then_some(self),
            (State::SizeEnd(0), b'\n') => Some(State::TrailerStart),
            (State::SizeEnd(left), b'\n') => Some(State::Data {
                left,
                in_chunk: true,
            }),
            (State::DataCr, b'\r') => Some(State::DataLf),
            (State::DataLf, b'\n') => Some(State::SizeStart),
            (State::TrailerStart, b'\r') => Some(State::EndLf),
            (State::TrailerName, b':') => Some(State::TrailerValue),
            // White space would begin a folded line or precede the colon; neither is part of a name
            // (section 5.1).
            (State::TrailerStart | State::TrailerName, _) => {
                is_token_byte(byte).then_some(State::TrailerName)
            }
            (State::TrailerValue, b'\r') => Some(State::TrailerLf),
            (State::TrailerValue, _) => is_text(byte).then_some(State::TrailerValue),
            (State::TrailerLf, b'\n') => Some(State::TrailerStart),
            (State::EndLf, b'\n') => Some(State::Done),
            _ => None,
        }
    }
}

impl State {
    fn is_trailer(self) -> bool {
        use State::{TrailerLf, TrailerName, TrailerStart, TrailerValue};
        matches!(self, TrailerStart | TrailerName | TrailerValue | TrailerLf)
    }

    /// Returns the rejection for a byte that is not allowed.
    fn rejection(self) -> Rejection {
        if self.is_trailer() {
            Rejection::Trailer
        } else {
            Rejection::Chunk
        }
    }
}

fn hex_digit(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

/// Whether the byte is visible, obs-text, space or tab.
fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1000;

    /// Returns the number of bytes consumed, or `None` if the body is incomplete.
    fn chunked(input: &[u8]) -> Result<Option<usize>, Rejection> {
        let mut skip = BodySkip::new(Framing::Chunked, LIMIT)?;
        let consumed = skip.advance(input)?;
        Ok(skip.is_done().then_some(consumed))
    }

    #[test]
    fn bodies_of_known_length() {
        let mut skip = BodySkip::new(Framing::Length(5), LIMIT).unwrap();
        assert_eq!(skip.advance(b"").unwrap(), 0);
        assert_eq!(skip.advance(b"abc").unwrap(), 3);
        assert_eq!(skip.advance(b"deGET").unwrap(), 2);
        assert!(skip.is_done());
        assert_eq!(skip.advance(b"GET").unwrap(), 0);
        assert!(BodySkip::new(Framing::None, 0).unwrap().is_done());
        assert!(BodySkip::new(Framing::Length(LIMIT), LIMIT).is_ok());
        let too_large = BodySkip::new(Framing::Length(LIMIT + 1), LIMIT);
        assert_eq!(too_large, Err(Rejection::BodyTooLarge));
    }

    #[test]
    fn chunks_extensions_and_trailers() {
        assert_eq!(chunked(b"0\r\n\r\n"), Ok(Some(5)));
        assert_eq!(
            chunked(b"3\r\nabc\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\n\r\nGET"),
            Ok(Some(36))
        );
        assert_eq!(
            chunked(b"1 ;a\r\nx\r\n0\r\nT: v\r\nU: w\r\n\r\nG"),
            Ok(Some(26))
        );
        assert_eq!(chunked(b"0\r\n\r"), Ok(None));
        assert_eq!(chunked(b"0\r\nT: v\r\n"), Ok(None));
    }

    #[test]
    fn broken_chunks() {
        for bad in [
            &b"\r\n"[..],
            b"x\r\n",
            b"-1\r\n",
            b"+1\r\n",
            b"0x1\r\n",
            b" 1\r\n",
            b"1 \r\n",
            b"1\n",
            b"1\rx",
            b"1;a\n",
            b"1;\0\r\n",
            b"1\r\nab",
            b"1\r\na\n",
            b"1\r\na\rx",
            b"10000000000000000\r\n",
        ] {
            assert_eq!(
                chunked(bad),
                Err(Rejection::Chunk),
                "{}",
                bad.escape_ascii()
            );
        }
    }

    #[test]
    fn broken_trailers() {
        for bad in [
            &b"\n"[..],
            b" T: v\r\n",
            b"\tT: v\r\n",
            b"T: v\n",
            b"T: v\rU",
            b"T: \0\r\n",
            b"T\r\n",
            b"T : v\r\n",
            b": v\r\n",
            b"T(: v\r\n",
            b"\xc3\xa9: v\r\n",
            b"T: v\r\n U: w\r\n",
            b"T: v\r\nno colon\r\n",
            b"GET / HTTP/1.1\r\n",
        ] {
            let body = [b"0\r\n", bad].concat();
            let shown = bad.escape_ascii();
            assert_eq!(chunked(&body), Err(Rejection::Trailer), "{shown}");
        }
        let good = b"0\r\nT:\r\nx-1: \xc3\xa9\t,\r\n\r\n";
        assert_eq!(chunked(good), Ok(Some(good.len())));
    }

    #[test]
    fn trailers_are_limited_exactly() {
        let read = |fields: &[u8]| {
            let mut skip = BodySkip::new(Framing::Chunked, BodySkip::BYTES_MAX).unwrap();
            let body = [b"0\r\n", fields, b"\r\n"].concat();
            skip.advance(&body).map(|_| skip.is_done())
        };
        let fields = |count: usize| b"T:\r\n".repeat(count);
        assert_eq!(read(&fields(BodySkip::TRAILERS_MAX)), Ok(true));
        let one_more = read(&fields(BodySkip::TRAILERS_MAX + 1));
        assert_eq!(one_more, Err(Rejection::TrailersTooLarge));
        let long = |bytes: usize| [b"T:", &vec![b'x'; bytes - 4][..], b"\r\n"].concat();
        assert_eq!(read(&long(BodySkip::TRAILER_BYTES_MAX)), Ok(true));
        let one_more = read(&long(BodySkip::TRAILER_BYTES_MAX + 1));
        assert_eq!(one_more, Err(Rejection::TrailersTooLarge));
    }

    #[test]
    fn every_kind_of_byte_counts_against_the_limit() {
        let long = |part: &[u8]| [part, &[b'x'; 1000]].concat();
        for head in [&b"1;"[..], b"0\r\nT:", b"3e8\r\n"] {
            assert_eq!(chunked(&long(head)), Err(Rejection::BodyTooLarge));
        }
        assert_eq!(chunked(&[b'0'; 1001]), Err(Rejection::BodyTooLarge));
        assert_eq!(chunked(b"ffffffffffffffff\r\nabc"), Ok(None));
    }

    #[test]
    fn the_split_makes_no_difference() {
        let body = b"3;q\r\nabc\r\nc\r\n0123456789ab\r\n0\r\nA: b\r\n\r\n";
        for first in 0..=body.len() {
            for second in first..=body.len() {
                let mut skip = BodySkip::new(Framing::Chunked, LIMIT).unwrap();
                for part in [&body[..first], &body[first..second], &body[second..]] {
                    assert_eq!(skip.advance(part), Ok(part.len()));
                }
                assert!(skip.is_done());
            }
        }
    }
}
