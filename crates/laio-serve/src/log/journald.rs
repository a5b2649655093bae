//! Entries of systemd's journal, in its native protocol: a line for each field, or for a value with control
//! characters its length and its bytes.

use super::syslog::severity;
use laio_http::log::{LogField, LogRecord, LogValue, push_plain};
use std::io::Write;

/// What precedes the names of fields.
const PREFIX: &str = "LAIO_";
/// The length of the longest name of a field.
const NAME_MAX: usize = 64;

/// Appends an entry: the line that `push_line` appends as its message, and the fields.
pub(super) fn push_entry(
    record: &LogRecord<'_>,
    fields: &[LogField],
    out: &mut Vec<u8>,
    push_line: impl FnOnce(&mut Vec<u8>),
) {
    let severity = severity(record);
    // Writing to memory does not fail.
    let _ = write!(out, "PRIORITY={severity}\nSYSLOG_IDENTIFIER=laio\nMESSAGE=");
    // Its control characters are escaped.
    push_line(out);
    out.push(b'\n');
    for field in fields {
        let Some(value) = field.value(record) else {
            continue;
        };
        push_name(field.name(), out);
        match value {
            LogValue::Text(text) if text.iter().any(u8::is_ascii_control) => {
                out.push(b'\n');
                out.extend_from_slice(&(text.len() as u64).to_le_bytes());
                out.extend_from_slice(text);
            }
            value => {
                out.push(b'=');
                push_plain(out, value);
            }
        }
        out.push(b'\n');
    }
}

/// Appends the name of a field as the journal allows it: `LAIO_REQ_X_ID` for `req:X-Id`.
fn push_name(name: &str, out: &mut Vec<u8>) {
    let letters = PREFIX.bytes().chain(name.bytes()).take(NAME_MAX);
    out.extend(letters.map(|byte| {
        if byte.is_ascii_alphanumeric() {
            byte.to_ascii_uppercase()
        } else {
            b'_'
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_http::{HttpDate, Status};

    #[test]
    fn entries() {
        let record = LogRecord {
            remote: "192.0.2.1",
            target: b"/a\nPRIORITY=0",
            status: Status::NOT_FOUND,
            ..LogRecord::unread(&HttpDate::EPOCH)
        };
        let fields: Vec<LogField> = ["status", "remote", "target", "host", "req:X-Id"]
            .iter()
            .map(|name| name.parse().unwrap())
            .collect();
        let mut out = Vec::new();
        push_entry(&record, &fields, &mut out, |out| {
            out.extend_from_slice(b"the line")
        });
        let mut expected = b"PRIORITY=4\nSYSLOG_IDENTIFIER=laio\nMESSAGE=the line\nLAIO_STATUS=404\nLAIO_REMOTE=192.0.2.1\nLAIO_TARGET\n".to_vec();
        expected.extend_from_slice(&13_u64.to_le_bytes());
        expected.extend_from_slice(b"/a\nPRIORITY=0\n");
        assert_eq!(out, expected);
        let mut name = Vec::new();
        push_name(&format!("req:X-{}", "y".repeat(100)), &mut name);
        assert!(name.starts_with(b"LAIO_REQ_X_YYY") && name.len() == 64);
    }
}
