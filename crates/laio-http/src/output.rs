//! What is sent of a response at once: its head, as lines whose fields are known, and bytes of the body.

use crate::Status;
use crate::framing::decimal;
use crate::request_fields::trim;
use crate::text::push_decimal;

/// The head of a response, and what of the body follows it in the same buffer.
///
/// HTTP/1.1 sends the bytes. HTTP/2 and HTTP/3 encode the fields, whose places are known, so that nothing
/// parses a head again. Rules change the same fields, and logs contain them.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// Perhaps a 100, then the head, then bytes of the body.
    pub bytes: Vec<u8>,
    /// The status of the head, if there is a head.
    pub status: Option<Status>,
    /// Where the head begins, and where the lines of its fields begin and end.
    start: usize,
    fields_start: usize,
    fields_end: usize,
    lengths: Vec<Lengths>,
}

/// Fields that were copied from a head.
#[derive(Clone, Debug, Default)]
pub struct HeadFields {
    lines: Box<[u8]>,
    lengths: Box<[Lengths]>,
}

/// The lengths of the name and the value of a field, whose line is `name: value\r\n`.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    name: u32,
    value: u32,
}

/// The number of fields that few heads exceed.
const USUAL_FIELDS: usize = 16;

impl Lengths {
    fn line(self) -> usize {
        self.name as usize + self.value as usize + b": \r\n".len()
    }
}

impl HeadFields {
    /// Returns the value of the first field with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        first(fields(&self.lines, &self.lengths), name)
    }
}

impl From<Vec<u8>> for Output {
    /// Returns an empty output, which uses the memory of these bytes.
    fn from(mut bytes: Vec<u8>) -> Output {
        bytes.clear();
        Output {
            bytes,
            ..Output::default()
        }
    }
}

impl Output {
    /// Removes everything.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
        (self.status, self.start) = (None, 0);
    }

    /// Writes the interim response 100, before the head of the final one.
    pub fn push_continue(&mut self) {
        self.begin(Status::CONTINUE);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Whether a 100 comes before the head.
    #[must_use]
    pub fn begins_with_continue(&self) -> bool {
        self.start > 0
    }

    /// Returns the name and value of every field, without white space around the value.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields_in(&self.bytes)
    }

    /// Returns the fields after these bytes were taken away.
    pub fn fields_in<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        fields(&bytes[self.fields_start..], &self.lengths)
    }

    /// Returns the value of the first field with this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        first(self.fields(), name)
    }

    /// Returns a copy of the fields from this number on.
    #[must_use]
    pub fn fields_from(&self, number: usize) -> HeadFields {
        let (before, lengths) = self.lengths.split_at(number);
        let before: usize = before.iter().map(|it| it.line()).sum();
        HeadFields {
            lines: self.bytes[self.fields_start + before..self.fields_end].into(),
            lengths: lengths.into(),
        }
    }

    /// Returns the length of the body, if the head announces it. `to_head` is set if the request was HEAD, so
    /// that no body follows.
    #[must_use]
    pub fn body_length(&self, to_head: bool) -> Option<u64> {
        if to_head || self.status.is_some_and(Status::is_bodiless) {
            return Some(0);
        }
        decimal(self.field("Content-Length")?)
    }

    /// Returns where in the bytes the body begins, after a finished head.
    #[must_use]
    pub fn body_start(&self) -> usize {
        self.fields_end + b"\r\n".len()
    }

    /// Writes the status line of a head.
    pub(crate) fn begin(&mut self, status: Status) {
        self.status = Some(status);
        self.start = self.bytes.len();
        self.bytes.extend_from_slice(b"HTTP/1.1 ");
        push_decimal(&mut self.bytes, u64::from(status.code()));
        self.bytes.push(b' ');
        self.bytes.extend_from_slice(status.reason().as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
        self.fields_start = self.bytes.len();
        self.fields_end = self.bytes.len();
        self.lengths.clear();
    }

    /// Writes a field at the end of an unfinished head.
    pub(crate) fn push(&mut self, name: &[u8], push_value: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        let start = self.bytes.len();
        push_value(&mut self.bytes);
        let value = self.bytes.len() - start;
        self.bytes.extend_from_slice(b"\r\n");
        self.fields_end = self.bytes.len();
        if self.lengths.capacity() == 0 {
            self.lengths.reserve(USUAL_FIELDS);
        }
        self.lengths.push(Lengths {
            name: name.len() as u32,
            value: value as u32,
        });
    }

    /// Writes fields at the end of an unfinished head.
    pub(crate) fn push_copied(&mut self, fields: &HeadFields) {
        self.bytes.extend_from_slice(&fields.lines);
        self.fields_end = self.bytes.len();
        self.lengths.extend_from_slice(&fields.lengths);
    }

    /// Removes fields of an unfinished head.
    pub(crate) fn retain(&mut self, keep: impl Fn(&[u8]) -> bool) {
        let (mut from, mut to) = (self.fields_start, self.fields_start);
        self.lengths.retain(|lengths| {
            let line = from..from + lengths.line();
            from = line.end;
            let is_kept = keep(&self.bytes[line.start..][..lengths.name as usize]);
            if is_kept {
                self.bytes.copy_within(line, to);
                to += lengths.line();
            }
            is_kept
        });
        self.bytes.truncate(to);
        self.fields_end = to;
    }

    /// Removes what follows the fields, so that the head is unfinished, and returns it.
    pub(crate) fn take_rest(&mut self) -> Vec<u8> {
        self.bytes.split_off(self.fields_end)
    }
}

/// Returns the fields whose lines begin at the start of `lines`.
fn fields<'a>(
    mut lines: &'a [u8],
    lengths: &'a [Lengths],
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    lengths.iter().map(move |lengths| {
        let (line, rest) = lines.split_at(lengths.line());
        lines = rest;
        let (name, value) = line.split_at(lengths.name as usize);
        (name, trim(&value[2..][..lengths.value as usize]))
    })
}

fn first<'a>(
    mut fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    name: &str,
) -> Option<&'a [u8]> {
    let found = fields.find(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()));
    found.map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResponseHead;

    fn shown(output: &Output) -> String {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let fields = output.fields();
        let fields = fields.map(|(name, value)| format!("{}={}|", text(name), text(value)));
        fields.collect()
    }

    #[test]
    fn fields_are_found_and_changed() {
        let mut output = Output::default();
        output.push_continue();
        ResponseHead::new(&mut output, Status::OK)
            .header("Server", b"laio")
            .content_length(4)
            .header("X-A", b" \r\nX-B: 1 ")
            .header("x-a", b"")
            .finish()
            .extend_from_slice(b"body");
        assert_eq!(
            shown(&output),
            "Server=laio|Content-Length=4|X-A=X-B: 1|x-a=|"
        );
        assert_eq!(output.fields_from(2).get("x-A"), Some(&b"X-B: 1"[..]));
        assert!(output.field("X-B").is_none() && output.begins_with_continue());
        assert_eq!(&output.bytes[output.body_start()..], b"body");
        let length = |to_head| output.body_length(to_head);
        assert_eq!((length(false), length(true)), (Some(4), Some(0)));
        output.change_fields(|head| {
            head.retain(|name| !name.eq_ignore_ascii_case(b"X-A"));
            head.add(b"X-C", b"2");
        });
        let fields = "Server=laio|Content-Length=4|X-C=2|";
        assert_eq!(shown(&output), fields);
        let text = "HTTP/1.1 100 Continue\r\n\r\n\
             HTTP/1.1 200 OK\r\nServer: laio\r\nContent-Length: 4\r\nX-C: 2\r\n\r\nbody";
        assert_eq!(output.bytes, text.as_bytes());
        let copied = output.fields_from(0);
        output.clear();
        ResponseHead::new(&mut output, Status::NOT_FOUND)
            .copied_fields(&copied)
            .finish();
        assert_eq!(shown(&output), fields);
        assert!(!output.begins_with_continue());
    }
}
