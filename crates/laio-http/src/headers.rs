//! The fields of a request head, found by name.

use crate::Limits;
use std::fmt;

/// The header fields of a request, in the order received.
///
/// Stores positions instead of slices, which take a quarter of the memory while a request waits for
/// its file. Names are compared without case (RFC 9110, section 5.1).
#[derive(Clone)]
pub struct Headers<'b> {
    /// The bytes that positions refer to.
    head: &'b [u8],
    count: usize,
    spans: [Span; Limits::HEADERS_MAX],
}

/// The position of a field in the head.
#[derive(Clone, Copy, Default)]
struct Span {
    name_start: u16,
    name_len: u16,
    value_start: u16,
    value_len: u16,
}

impl<'b> Headers<'b> {
    /// Returns the value of the first field with this name, without surrounding white space.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'b [u8]> {
        self.all(name).next()
    }

    /// Returns the values of all fields with this name, in order (RFC 9110, section 5.3).
    pub fn all(&self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        self.iter()
            .filter(move |(field, _)| field.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// Returns the value of a field that must not be repeated; `None` when it is missing **or
    /// repeated**. For fields whose invalid values are ignored, such as `Range` and the dates.
    #[must_use]
    pub fn only(&self, name: &str) -> Option<&'b [u8]> {
        let mut values = self.all(name);
        let value = values.next()?;
        values.next().is_none().then_some(value)
    }

    /// Returns the name and value of every field.
    pub fn iter(&self) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
        let head = self.head;
        let slice = |start: u16, len: u16| &head[usize::from(start)..][..usize::from(len)];
        self.spans[..self.count].iter().map(move |span| {
            (
                slice(span.name_start, span.name_len),
                slice(span.value_start, span.value_len),
            )
        })
    }

    /// Returns the number of fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no field at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Converts the fields found by the parser. They are slices of `head`, whose length fits 16
    /// bits.
    pub(crate) fn of(head: &'b [u8], fields: &[httparse::Header<'b>]) -> Self {
        debug_assert!(head.len() <= usize::from(u16::MAX) && fields.len() <= Limits::HEADERS_MAX);
        let offset = |part: &[u8]| (part.as_ptr() as usize - head.as_ptr() as usize) as u16;
        let mut spans = [Span::default(); Limits::HEADERS_MAX];
        for (span, field) in spans.iter_mut().zip(fields) {
            *span = Span {
                name_start: offset(field.name.as_bytes()),
                name_len: field.name.len() as u16,
                value_start: offset(field.value),
                value_len: field.value.len() as u16,
            };
        }
        Headers {
            head,
            count: fields.len(),
            spans,
        }
    }
}

impl fmt::Debug for Headers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy;
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (text(name), text(value))))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(head: &[u8]) -> Headers<'_> {
        let mut fields = [httparse::EMPTY_HEADER; Limits::HEADERS_MAX];
        match httparse::parse_headers(head, &mut fields) {
            Ok(httparse::Status::Complete((_, found))) => Headers::of(head, found),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lookup_ignores_case_and_keeps_order() {
        let headers = headers(b"Host: a\r\nX-A: 1\r\nEmpty:   \r\nx-a:\t2 \r\n\r\n");
        assert_eq!(headers.len(), 4);
        assert!(!headers.is_empty());
        assert_eq!(headers.get("HOST"), Some(&b"a"[..]));
        assert_eq!(headers.get("X-a"), Some(&b"1"[..]));
        assert_eq!(headers.all("x-A").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(headers.get("empty"), Some(&b""[..]));
        assert_eq!(headers.get("Hos"), None);
        assert_eq!(headers.get(""), None);
    }

    #[test]
    fn a_repeated_field_is_not_the_only_one() {
        let headers = headers(b"Range: a\r\nAge: 1\r\nrange: b\r\n\r\n");
        assert_eq!(headers.only("Age"), Some(&b"1"[..]));
        assert_eq!(headers.only("Range"), None);
        assert_eq!(headers.only("Via"), None);
    }

    #[test]
    fn debug_shows_text() {
        assert_eq!(
            format!("{:?}", headers(b"A: \xff\r\n\r\n")),
            "{\"A\": \"\u{fffd}\"}"
        );
    }
}
