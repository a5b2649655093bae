//! A client: a connection, and the requests on it.

use super::connection::{Connection, Made};
use super::{Expected, Settings, Target};
use laio_rt::time::timeout_at;
use std::borrow::Cow;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// The reason why a request failed, which is a key of the error counters.
pub(super) type Failure = Cow<'static, str>;

/// A client.
pub(super) struct Client {
    connection: Option<Connection>,
    buffer: Vec<u8>,
    /// The number of connections that the server has closed between two requests.
    pub(super) reopened: u64,
}

/// The durations of the parts of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetched {
    /// `None` if the connection was open already.
    pub(super) made: Option<Made>,
    /// From the request to the first byte of the response.
    pub(super) first_byte: Duration,
    /// The whole duration, including connecting.
    pub(super) total: Duration,
    /// The size of the content.
    pub(super) bytes: u64,
}

/// The number of bytes read at a time; a response head must fit.
const BUFFER: usize = 64 << 10;
const HEADERS_MAX: usize = 64;

const CLOSED: Failure = Cow::Borrowed("closed before the answer");

impl Client {
    pub(super) fn new() -> Client {
        Client {
            connection: None,
            buffer: Vec::with_capacity(BUFFER),
            reopened: 0,
        }
    }

    /// Requests a target, and reads the response to its end.
    pub(super) async fn fetch(
        &mut self,
        settings: &Settings,
        target: &Target,
    ) -> Result<Fetched, Failure> {
        let deadline = Instant::now() + settings.timeout;
        let reused = self.connection.is_some();
        let result = match timeout_at(deadline, self.attempt(settings, target)).await {
            // A server may close an idle connection at any time: that is not a response to this request.
            Ok(Err(failure)) if reused && failure == CLOSED => {
                self.connection = None;
                self.reopened += 1;
                timeout_at(deadline, self.attempt(settings, target)).await
            }
            result => result,
        };
        let result = result.unwrap_or(Err(Cow::Borrowed("time-out")));
        if result.is_err() {
            self.connection = None;
        }
        result
    }

    async fn attempt(&mut self, settings: &Settings, target: &Target) -> Result<Fetched, Failure> {
        let began = Instant::now();
        let (mut connection, made) = match self.connection.take() {
            Some(connection) => (connection, None),
            None => {
                let made = Connection::make(settings).await;
                let (connection, made) = made.map_err(|error| message(&error))?;
                (connection, Some(made))
            }
        };
        let asked = Instant::now();
        let sent = connection.send(&target.request).await;
        sent.map_err(|error| gone(&error))?;
        self.buffer.clear();
        let mut first_byte = None;
        let head = loop {
            let count = self.read(&mut connection).await?;
            first_byte.get_or_insert_with(|| asked.elapsed());
            match head(&self.buffer)? {
                Some(head) => break head,
                None if count == 0 && self.buffer.is_empty() => return Err(CLOSED),
                None if count == 0 => return Err("the answer ends within its head".into()),
                None if self.buffer.len() == self.buffer.capacity() => {
                    return Err("the head of the answer is too long".into());
                }
                None => {}
            }
        };
        let bytes = self
            .body(&mut connection, &head, settings.verify, target.expected)
            .await?;
        if !settings.close && !head.closes {
            self.connection = Some(connection);
        }
        check_status(&head, bytes, target.expected)?;
        Ok(Fetched {
            made,
            first_byte: first_byte.unwrap_or_default(),
            total: began.elapsed(),
            bytes,
        })
    }

    /// Appends more bytes to the buffer.
    async fn read(&mut self, connection: &mut Connection) -> Result<usize, Failure> {
        let result = connection.read(&mut self.buffer).await;
        result.map_err(|error| gone(&error))
    }

    /// Reads the content, and checks it.
    async fn body(
        &mut self,
        connection: &mut Connection,
        head: &Head,
        verify: bool,
        expected: Expected,
    ) -> Result<u64, Failure> {
        let mut offset = 0;
        let mut start = head.length;
        loop {
            let piece = &self.buffer[start..];
            if let (true, 200, Expected::File { content, .. }) = (verify, head.status, expected)
                && content.differs(offset, piece).is_some()
            {
                return Err("wrong bytes".into());
            }
            offset += piece.len() as u64;
            match head.content {
                Some(all) if offset == all => return Ok(offset),
                Some(all) if offset > all => return Err("more bytes than stated".into()),
                _ => {}
            }
            start = 0;
            self.buffer.clear();
            if self.read(connection).await? == 0 {
                return match head.content {
                    Some(_) => Err("the content ends early".into()),
                    None => Ok(offset),
                };
            }
        }
    }
}

/// The relevant fields of a response head.
struct Head {
    /// The size of the head.
    length: usize,
    status: u16,
    /// The size of the content; `None` if it ends with the connection.
    content: Option<u64>,
    closes: bool,
}

fn head(bytes: &[u8]) -> Result<Option<Head>, Failure> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut answer = httparse::Response::new(&mut headers);
    let parsed = answer.parse(bytes).map_err(|_| "the answer is not HTTP")?;
    let httparse::Status::Complete(length) = parsed else {
        return Ok(None);
    };
    let mut head = Head {
        length,
        status: answer.code.unwrap_or(0),
        content: None,
        closes: answer.version == Some(0),
    };
    for header in answer.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        if header.name.eq_ignore_ascii_case("content-length") {
            head.content = Some(
                value
                    .parse()
                    .map_err(|_| "the length of the answer is no number")?,
            );
        } else if header.name.eq_ignore_ascii_case("connection") {
            head.closes = value.eq_ignore_ascii_case("close");
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err("the answer is chunked, which is not read here".into());
        }
    }
    head.closes |= head.content.is_none();
    Ok(Some(head))
}

fn check_status(head: &Head, bytes: u64, expected: Expected) -> Result<(), Failure> {
    let status = match expected {
        Expected::Absent => 404,
        _ => 200,
    };
    if head.status != status {
        return Err(format!("status {}, not {status}", head.status).into());
    }
    match expected {
        Expected::File { size, .. } if size != bytes => Err("wrong number of bytes".into()),
        _ => Ok(()),
    }
}

/// Errors of a connection that was open.
fn gone(error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => CLOSED,
        _ => message(error),
    }
}

fn message(error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".into(),
        ErrorKind::ConnectionReset => "connection reset".into(),
        _ => error.to_string().into(),
    }
}
