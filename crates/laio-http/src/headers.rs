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
    /// The positions, if there are at most [`FEW`].
    few: [Span; FEW],
    /// The positions, if there are more.
    many: Box<[Span]>,
}

/// The number of fields whose positions need no allocation. Browsers send 10 to 20 fields.
const FEW: usize = 24;

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
        let spans = match self.count {
            ..=FEW => &self.few[..self.count],
            _ => &self.many,
        };
        spans.iter().map(move |span| {
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

    /// Returns the fields whose names `keep` accepts, in order.
    #[must_use]
    pub fn filtered(&self, mut keep: impl FnMut(&[u8]) -> bool) -> Headers<'b> {
        let spans = match self.count {
            ..=FEW => &self.few[..self.count],
            _ => &self.many,
        };
        let mut kept = Headers {
            head: self.head,
            count: 0,
            few: [Span::default(); FEW],
            many: Box::default(),
        };
        let is_kept = |span: &&Span| {
            let name = &self.head[usize::from(span.name_start)..];
            keep(&name[..usize::from(span.name_len)])
        };
        let found: Vec<Span> = spans.iter().filter(is_kept).copied().collect();
        kept.count = found.len();
        match found.len() {
            ..=FEW => kept.few[..found.len()].copy_from_slice(&found),
            _ => kept.many = found.into(),
        }
        kept
    }

    /// Parses the fields of a head, which begin at `from`. Returns them, and the length of the head; `None`: the head
    /// is incomplete. The length of `head` fits 16 bits.
    pub(crate) fn parse(
        head: &'b [u8],
        from: usize,
        limits: &Limits,
    ) -> Result<Option<(Headers<'b>, usize)>, httparse::Error> {
        let most = limits.headers_in_force();
        // Clearing the larger array costs more than parsing a short head.
        match parse_into(
            &mut [httparse::EMPTY_HEADER; FEW][..most.min(FEW)],
            head,
            from,
        ) {
            Err(httparse::Error::TooManyHeaders) if most > FEW => {
                let mut fields = [httparse::EMPTY_HEADER; Limits::HEADERS_MAX];
                parse_into(&mut fields[..most], head, from)
            }
            parsed => parsed,
        }
    }

    /// Converts the fields found by the parser, which are slices of `head`.
    fn from_fields(head: &'b [u8], fields: &[httparse::Header<'b>]) -> Self {
        debug_assert!(head.len() <= usize::from(u16::MAX));
        let offset = |part: &[u8]| (part.as_ptr() as usize - head.as_ptr() as usize) as u16;
        let span = |field: &httparse::Header<'b>| Span {
            name_start: offset(field.name.as_bytes()),
            name_len: field.name.len() as u16,
            value_start: offset(field.value),
            value_len: field.value.len() as u16,
        };
        let mut headers = Headers {
            head,
            count: fields.len(),
            few: [Span::default(); FEW],
            many: Box::default(),
        };
        match fields.len() {
            ..=FEW => {
                let few = headers.few.iter_mut().zip(fields);
                few.for_each(|(place, field)| *place = span(field));
            }
            _ => headers.many = fields.iter().map(span).collect(),
        }
        headers
    }
}

fn parse_into<'b>(
    fields: &mut [httparse::Header<'b>],
    head: &'b [u8],
    from: usize,
) -> Result<Option<(Headers<'b>, usize)>, httparse::Error> {
    Ok(match httparse::parse_headers(&head[from..], fields)? {
        httparse::Status::Partial => None,
        httparse::Status::Complete((len, fields)) => {
            Some((Headers::from_fields(head, fields), from + len))
        }
    })
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
        let parsed = Headers::parse(head, 0, &Limits::DEFAULT);
        parsed.expect("valid").expect("complete").0
    }

    #[test]
    fn few_and_many_fields_are_found() {
        for count in [1, FEW - 1, FEW, FEW + 1, Limits::HEADERS_MAX] {
            let fields: String = (0..count).map(|it| format!("F{it}: {it}\r\n")).collect();
            let head = format!("{fields}\r\n");
            let headers = headers(head.as_bytes());
            assert_eq!(headers.len(), count);
            for number in 0..count {
                let value = headers.get(&format!("f{number}"));
                assert_eq!(value, Some(number.to_string().as_bytes()), "of {count}");
            }
        }
    }

    #[test]
    fn the_limit_counts_below_and_above_few() {
        let head = "A: b\r\n".repeat(FEW + 2) + "\r\n";
        for most in [1, FEW, FEW + 1] {
            let limits = Limits {
                headers: most,
                ..Limits::DEFAULT
            };
            let parsed = Headers::parse(head.as_bytes(), 0, &limits);
            assert!(matches!(parsed, Err(httparse::Error::TooManyHeaders)));
        }
    }

    #[test]
    fn fields_are_filtered_by_name() {
        for count in [FEW, FEW + 1, 2 * FEW, 2 * FEW + 2] {
            let fields: String = (0..count)
                .map(|it| format!("F{}: {it}\r\n", it % 2))
                .collect();
            let head = format!("{fields}\r\n");
            let headers = headers(head.as_bytes()).filtered(|name| name == b"F1");
            assert_eq!(headers.len(), count / 2);
            let values: Vec<_> = headers.iter().map(|(_, value)| value.to_vec()).collect();
            let odd = (0..count).filter(|it| it % 2 == 1);
            let odd: Vec<_> = odd.map(|it| it.to_string().into_bytes()).collect();
            assert_eq!((values, headers.get("F0")), (odd, None));
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
