//! Messages of syslog (RFC 5424).

use laio_http::log::{LogRecord, LogValue, push_plain};
use std::io::Write;

/// The facility local7.
const FACILITY: u32 = 23;

/// Appends the header of a message for a record; the line of the log follows it. `sender` is [`sender`].
pub(super) fn push_message(record: &LogRecord<'_>, sender: &str, out: &mut Vec<u8>) {
    let priority = FACILITY * 8 + severity(record);
    // Writing to memory does not fail.
    let _ = write!(out, "<{priority}>1 ");
    push_plain(out, LogValue::Date(record.date));
    let _ = write!(out, " {sender} access - ");
}

/// Returns the severity: an error of the server, one of the client, or none.
pub(super) fn severity(record: &LogRecord<'_>) -> u32 {
    match record.status.code() {
        500.. => 3,
        400.. => 4,
        _ => 6,
    }
}

/// Returns who sends messages: the name of this machine, of the program, and the number of its process.
pub(super) fn sender() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    let name: String = name
        .chars()
        .filter(char::is_ascii_graphic)
        .take(255)
        .collect();
    let name = if name.is_empty() { "-" } else { &name };
    format!("{name} laio {}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_http::{HttpDate, Status};

    #[test]
    fn headers_of_messages() {
        let header = |status| {
            let record = LogRecord {
                status,
                ..LogRecord::unread(&HttpDate::EPOCH)
            };
            let mut out = Vec::new();
            push_message(&record, "host laio 12", &mut out);
            String::from_utf8(out).unwrap()
        };
        let rest = ">1 1970-01-01T00:00:00Z host laio 12 access - ";
        assert_eq!(header(Status::OK), format!("<190{rest}"));
        assert_eq!(header(Status::NOT_FOUND), format!("<188{rest}"));
        assert_eq!(header(Status::BAD_GATEWAY), format!("<187{rest}"));
        assert_eq!(sender().split(' ').count(), 3);
    }
}
