//! Chosen fields of a log line.

use super::{LogFormat, LogRecord, push_escaped, push_json_string, push_rfc3339};
use crate::text::push_decimal;
use std::fmt;
use std::str::FromStr;

/// A field of a log line: a property of a request, or a header field of the request or of its response.
///
/// ```
/// use laio_http::LogField;
///
/// let field: LogField = "req:Accept-Language".parse()?;
/// assert_eq!(field.name(), "req:Accept-Language");
/// assert!("size".parse::<LogField>().unwrap_err().contains("bytes"));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogField {
    property: Property,
    /// The name as it was written.
    name: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Property {
    Time,
    Remote,
    Method,
    Target,
    Path,
    Query,
    Host,
    Status,
    Bytes,
    DurationUs,
    Duration,
    Referer,
    UserAgent,
    Version,
    TlsVersion,
    TlsCipher,
    EarlyData,
    Upstream,
    RequestField,
    ResponseField,
}

const PROPERTIES: [(&str, Property); 18] = [
    ("time", Property::Time),
    ("remote", Property::Remote),
    ("method", Property::Method),
    ("target", Property::Target),
    ("path", Property::Path),
    ("query", Property::Query),
    ("host", Property::Host),
    ("status", Property::Status),
    ("bytes", Property::Bytes),
    ("duration_us", Property::DurationUs),
    ("duration", Property::Duration),
    ("referer", Property::Referer),
    ("user_agent", Property::UserAgent),
    ("version", Property::Version),
    ("tls_version", Property::TlsVersion),
    ("tls_cipher", Property::TlsCipher),
    ("early_data", Property::EarlyData),
    ("upstream", Property::Upstream),
];

/// What precedes the name of a field of the request.
const REQUEST: &str = "req:";
/// What precedes the name of a field of the response.
const RESPONSE: &str = "resp:";

impl FromStr for LogField {
    type Err = String;

    fn from_str(text: &str) -> Result<LogField, String> {
        let known = PROPERTIES.iter().find(|(name, _)| *name == text);
        let of_head = |prefix: &str| text.strip_prefix(prefix).filter(|name| is_token(name));
        let property = match known {
            Some((_, property)) => *property,
            None if of_head(REQUEST).is_some() => Property::RequestField,
            None if of_head(RESPONSE).is_some() => Property::ResponseField,
            None => {
                let names: Vec<_> = PROPERTIES.iter().map(|(name, _)| *name).collect();
                return Err(format!(
                    "{text:?} is no field of a log line: the fields are {}, {REQUEST}NAME and {RESPONSE}NAME",
                    names.join(", ")
                ));
            }
        };
        let name = text.into();
        Ok(LogField { property, name })
    }
}

fn is_token(name: &str) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token)
}

impl fmt::Display for LogField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogValue<'a> {
    /// Any bytes.
    Text(&'a [u8]),
    /// A number.
    Number(u64),
    /// A time in microseconds, which is written in seconds.
    Micros(u64),
    /// The time of the response.
    Date(&'a crate::HttpDate),
}

impl LogField {
    /// Returns the fields of the format JSON, if none are chosen.
    #[must_use]
    pub fn usual() -> Vec<LogField> {
        let names = [
            "time",
            "remote",
            "method",
            "target",
            "version",
            "referer",
            "user_agent",
            "status",
            "bytes",
            "duration_us",
        ];
        let field = |name: &&str| {
            let (name, property) = PROPERTIES.iter().find(|(own, _)| own == name)?;
            let (name, property) = ((*name).into(), *property);
            Some(LogField { property, name })
        };
        names.iter().filter_map(field).collect()
    }

    /// Returns the name, as it was written.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the field is one of the response's head.
    #[must_use]
    pub fn is_of_response(&self) -> bool {
        self.property == Property::ResponseField
    }

    /// Whether the field is one of the TLS session.
    #[must_use]
    pub fn is_of_tls(&self) -> bool {
        matches!(self.property, Property::TlsVersion | Property::TlsCipher)
    }

    /// Returns the value for a record, or none if the record has none.
    #[must_use]
    pub fn value<'a>(&self, record: &LogRecord<'a>) -> Option<LogValue<'a>> {
        let text = |text: &'a str| Some(text.as_bytes()).filter(|text| !text.is_empty());
        let text = match self.property {
            Property::Time => return Some(LogValue::Date(record.date)),
            Property::Status => return Some(LogValue::Number(u64::from(record.status.code()))),
            Property::Bytes => return Some(LogValue::Number(record.bytes)),
            Property::DurationUs => return Some(LogValue::Number(record.duration_us)),
            Property::Duration => return Some(LogValue::Micros(record.duration_us)),
            Property::Remote => text(record.remote),
            Property::Method => text(record.method),
            Property::Target => Some(record.target),
            Property::Path => Some(split(record.target).0),
            Property::Query => split(record.target).1,
            Property::Host => record.host.map(str::as_bytes),
            Property::Referer => record.referer,
            Property::UserAgent => record.user_agent,
            Property::Version => text(record.version),
            Property::TlsVersion => record.tls.map(|(version, _)| version.as_bytes()),
            Property::TlsCipher => record.tls.map(|(_, cipher)| cipher.as_bytes()),
            Property::EarlyData => record.early_data.then_some(&b"1"[..]),
            Property::Upstream => record.upstream.map(str::as_bytes),
            Property::RequestField => of_request(record, &self.name[REQUEST.len()..]),
            Property::ResponseField => record.response_fields?.get(&self.name[RESPONSE.len()..]),
        };
        text.map(LogValue::Text)
    }
}

/// Returns the value of the first field of this name of a request.
fn of_request<'a>(record: &LogRecord<'a>, name: &str) -> Option<&'a [u8]> {
    let mut added = record.added.iter();
    let added = added.find(|(own, _)| own.eq_ignore_ascii_case(name.as_bytes()));
    match added {
        Some((_, value)) => Some(value),
        None => record.headers?.get(name),
    }
}

/// Splits a target into its path and its query.
fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match target.iter().position(|&byte| byte == b'?') {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

/// Appends a line with these fields, in their order and without its line feed. Fields without a value are left
/// out, except that the other formats than JSON write them as `-`.
///
/// As in [`write_line`](super::write_line), a client cannot break the line.
pub fn write_fields(
    format: LogFormat,
    fields: &[LogField],
    record: &LogRecord<'_>,
    out: &mut Vec<u8>,
) {
    if format == LogFormat::Json {
        let mut separator = b'{';
        for field in fields {
            if let Some(value) = field.value(record) {
                out.push(separator);
                separator = b',';
                push_json_string(out, field.name.as_bytes());
                out.push(b':');
                push_json_value(out, value);
            }
        }
        if separator == b'{' {
            out.push(b'{');
        }
        return out.push(b'}');
    }
    for (number, field) in fields.iter().enumerate() {
        if number > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(field.name.as_bytes());
        out.push(b'=');
        match field.value(record) {
            None => out.push(b'-'),
            Some(LogValue::Text(text)) if !is_bare(text) => {
                out.push(b'"');
                push_escaped(out, text);
                out.push(b'"');
            }
            Some(value) => push_plain(out, value),
        }
    }
}

/// Whether a value needs no quotes: it cannot be taken for several, or for a field without one.
fn is_bare(text: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'=');
    !text.is_empty() && text != b"-" && text.iter().all(plain)
}

fn push_json_value(out: &mut Vec<u8>, value: LogValue<'_>) {
    match value {
        LogValue::Text(text) => push_json_string(out, text),
        LogValue::Date(date) => {
            out.push(b'"');
            push_rfc3339(out, date);
            out.push(b'"');
        }
        number => push_plain(out, number),
    }
}

/// Appends a value without quotes and escapes.
pub fn push_plain(out: &mut Vec<u8>, value: LogValue<'_>) {
    match value {
        LogValue::Text(text) => out.extend_from_slice(text),
        LogValue::Number(number) => push_decimal(out, number),
        LogValue::Micros(micros) => {
            push_decimal(out, micros / 1_000_000);
            out.push(b'.');
            // With leading zeros.
            let mut digits = Vec::with_capacity(7);
            push_decimal(&mut digits, 1_000_000 + micros % 1_000_000);
            out.extend_from_slice(&digits[1..]);
        }
        LogValue::Date(date) => push_rfc3339(out, date),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HttpDate, Limits, Output, Parsed, ResponseHead, Status, parse};

    fn fields(names: &str) -> Vec<LogField> {
        names.split(',').map(|name| name.parse().unwrap()).collect()
    }

    fn line(format: LogFormat, names: &str) -> String {
        let head = b"GET /a%20b?c=\"d\" HTTP/1.1\r\nHost: h:80\r\nX-B: e\x09f\r\nReferer: \r\nUser-Agent: x=y\r\n\r\n";
        let Parsed::Complete { request, .. } = parse(head, &Limits::DEFAULT).unwrap() else {
            panic!("the head is incomplete")
        };
        let mut response = Output::default();
        ResponseHead::new(&mut response, Status::OK)
            .header("Server", b"laio")
            .header("X-A", b" one ")
            .header("x-a", b"two")
            .finish();
        let record = LogRecord {
            remote: "192.0.2.1",
            status: Status::OK,
            bytes: 5,
            duration_us: 1_000_042,
            tls: Some(("TLSv1.3", "TLS13_AES_128_GCM_SHA256")),
            early_data: true,
            upstream: Some("http://127.0.0.1:9"),
            response_fields: Some(&response.fields_from(0)),
            ..LogRecord::from_request(&request, &HttpDate::EPOCH)
        };
        let mut out = Vec::new();
        write_fields(format, &fields(names), &record, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn names_and_order() {
        assert_eq!(
            line(
                LogFormat::Json,
                "status,path,query,resp:x-a,req:X-B,req:absent,duration,host"
            ),
            r#"{"status":200,"path":"/a%20b","query":"c=\"d\"","resp:x-a":"one","req:X-B":"e\u0009f","duration":1.000042,"host":"h:80"}"#
        );
        assert_eq!(
            line(
                LogFormat::Logfmt,
                "time,remote,method,target,version,bytes,duration_us,tls_version,tls_cipher,early_data,upstream"
            ),
            "time=1970-01-01T00:00:00Z remote=192.0.2.1 method=GET target=\"/a%20b?c=\\x22d\\x22\" version=HTTP/1.1 \
             bytes=5 duration_us=1000042 tls_version=TLSv1.3 tls_cipher=TLS13_AES_128_GCM_SHA256 early_data=1 \
             upstream=http://127.0.0.1:9"
        );
        assert_eq!(
            line(LogFormat::Logfmt, "referer,user_agent,req:x-b,resp:none"),
            "referer=\"\" user_agent=\"x=y\" req:x-b=\"e\\x09f\" resp:none=-"
        );
        assert_eq!(line(LogFormat::Json, "resp:none"), "{}");
    }

    #[test]
    fn the_usual_fields_are_those_of_json() {
        let names: Vec<_> = LogField::usual()
            .iter()
            .map(|field| field.name().to_owned())
            .collect();
        assert_eq!(names.len(), 10);
        for field in LogField::usual() {
            assert_eq!(field.name().parse(), Ok(field));
        }
    }

    #[test]
    fn names_that_are_none() {
        for bad in ["", "size", "req:", "resp:a b", "req:a\r\nb", "Time"] {
            assert!(bad.parse::<LogField>().is_err(), "{bad:?}");
        }
    }
}
