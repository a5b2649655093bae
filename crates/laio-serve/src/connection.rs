//! A connection: request after request, each a straight line through the steps.

use crate::open::Found;
use crate::reply::{self, Moment, Reply};
use crate::resolve::{Refusal, resolve};
use crate::worker::Worker;
use laio_http::log::LogRecord;
use laio_http::response::CONTINUE;
use laio_http::{BodySkip, Framing, Method, Parsed, Rejection, Request, Status, parse};
use laio_rt::Descriptor;
use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;

/// One client's connection and the buffers it keeps.
pub(crate) struct Connection {
    worker: Rc<Worker>,
    socket: Descriptor,
    peer: Box<str>,
    /// Received and not yet used up.
    input: Vec<u8>,
    output: Vec<u8>,
    name: Vec<u8>,
    /// Between two requests: may be ended at any time without harm.
    idle: Rc<Cell<bool>>,
}

/// Whether another request may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Request,
    End,
}

impl Connection {
    pub(crate) fn new(
        worker: Rc<Worker>,
        socket: OwnedFd,
        peer: Box<str>,
        idle: Rc<Cell<bool>>,
    ) -> Connection {
        let socket = Descriptor::from(socket);
        let (input, output, name) = (Vec::new(), Vec::new(), Vec::new());
        Connection {
            worker,
            socket,
            peer,
            input,
            output,
            name,
            idle,
        }
    }

    /// Serves until the client leaves, misbehaves or has had its share. An I/O error ends the
    /// connection: there is nobody to tell.
    pub(crate) async fn serve(mut self) {
        for count in 1.. {
            let last = count == self.worker.limits().requests;
            match self.exchange(last).await {
                Ok(Next::Request) => {}
                Ok(Next::End) | Err(_) => break,
            }
        }
    }

    /// One request and its answer.
    async fn exchange(&mut self, last: bool) -> io::Result<Next> {
        // Taken, so that the request can borrow from it while the rest of self is in use.
        let mut input = std::mem::take(&mut self.input);
        self.idle.set(input.is_empty());
        let worker = self.worker.clone();
        let mut started = None;
        let (request, head_len) = loop {
            match parse(&input, &laio_http::Limits::DEFAULT) {
                Ok(Parsed::Complete { request, head_len }) => break (request, head_len),
                Ok(Parsed::Partial) => {}
                Err(rejection) => return self.reject(rejection).await,
            }
            let limits = worker.limits();
            let time = match started {
                None if input.is_empty() => limits.idle_time,
                None => limits.head_time,
                Some(start) => limits.head_time.saturating_sub(Instant::elapsed(&start)),
            };
            let before = input.len();
            input = worker.receive(&self.socket, input, time).await?;
            if input.len() == before {
                return Ok(Next::End);
            }
            self.idle.set(false);
            started.get_or_insert_with(Instant::now);
        };
        let started = started.unwrap_or_else(Instant::now);
        let keep_alive = request.keep_alive && !last && !worker.is_stopping();
        let (date, second) = worker.now();
        let moment = Moment {
            date: &date,
            second,
            keep_alive,
        };

        let (reply, file) = self.answer(&request, moment).await;
        let record = LogRecord {
            remote: &self.peer,
            status: reply.status,
            bytes: reply.length,
            ..LogRecord::of(&request, &date)
        };
        // A client that waits for leave to send its body gets it: the body is read and thrown away.
        if request.expects_continue && !request.framing.is_none() {
            self.output.splice(..0, CONTINUE.iter().copied());
        }
        let output = std::mem::take(&mut self.output);
        let file = file.as_ref().zip(reply.body);
        let sent = worker.send(&self.socket, output, file).await;
        worker.log.write(&LogRecord {
            duration_us: micros_since(started),
            ..record
        });
        self.output = sent?;
        if !keep_alive {
            return Ok(Next::End);
        }
        let framing = request.framing;
        input.drain(..head_len);
        self.input = input;
        self.skip_body(framing).await
    }

    /// Decides the answer. The head, and a body that does not come from the file, are in `output`.
    async fn answer(
        &mut self,
        request: &Request<'_>,
        moment: Moment<'_>,
    ) -> (Reply, Option<Descriptor>) {
        let out = &mut self.output;
        match request.method {
            Method::Get | Method::Head => {}
            Method::Options => return (reply::options(out, request, moment), None),
            method => {
                let (status, detail) = if method.is_known() {
                    (
                        Status::METHOD_NOT_ALLOWED,
                        "Files can be read here, and no more.",
                    )
                } else {
                    (Status::NOT_IMPLEMENTED, "This method is not known here.")
                };
                return (reply::error(out, request, moment, status, detail), None);
            }
        }
        let resolved = match resolve(request.path, &mut self.name) {
            Ok(resolved) => resolved,
            Err(refusal) => {
                let (status, detail) = (refusal.status(), refusal.detail());
                return (reply::error(out, request, moment, status, detail), None);
            }
        };
        match self.worker.open(&self.name).await {
            Ok(Found::File(opened)) => {
                let reply = reply::file(out, request, moment, &self.name, &opened);
                (reply, reply.body.is_some().then_some(opened.file))
            }
            Ok(Found::Directory) if !resolved.directory => {
                (reply::redirect(out, request, moment, &self.name), None)
            }
            Ok(Found::Directory | Found::Special) => {
                let absent = Refusal::Absent;
                let reply = reply::error(out, request, moment, absent.status(), absent.detail());
                (reply, None)
            }
            Err(error) => {
                let (status, detail) = explain(&error);
                (reply::error(out, request, moment, status, detail), None)
            }
        }
    }

    /// Answers what is not a request, and ends the connection.
    async fn reject(&mut self, rejection: Rejection) -> io::Result<Next> {
        let (date, _) = self.worker.now();
        let reply = reply::unread(
            &mut self.output,
            &date,
            rejection.status(),
            rejection.detail(),
        );
        self.worker.log.write(&LogRecord {
            remote: &self.peer,
            status: reply.status,
            bytes: reply.length,
            ..LogRecord::unread(&date)
        });
        let output = std::mem::take(&mut self.output);
        self.output = self.worker.send(&self.socket, output, None).await?;
        Ok(Next::End)
    }

    /// Passes over the body of a request, so that the next request is found behind it.
    async fn skip_body(&mut self, framing: Framing) -> io::Result<Next> {
        if framing.is_none() {
            return Ok(Next::Request);
        }
        // Too long to be worth it: the connection ends instead.
        let Ok(mut skip) = BodySkip::new(framing, BodySkip::BYTES_MAX) else {
            return Ok(Next::End);
        };
        loop {
            match skip.advance(&self.input) {
                Ok(used) => drop(self.input.drain(..used)),
                Err(_) => return Ok(Next::End),
            }
            if skip.is_done() {
                return Ok(Next::Request);
            }
            let input = std::mem::take(&mut self.input);
            let before = input.len();
            let time = self.worker.limits().head_time;
            self.input = self.worker.receive(&self.socket, input, time).await?;
            if self.input.len() == before {
                return Ok(Next::End);
            }
        }
    }
}

/// Status and sentence for a file that cannot be opened. What exists but must not be seen looks like
/// what is not there.
fn explain(error: &io::Error) -> (Status, &'static str) {
    use rustix::io::Errno;
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NXIO) => {
            (Status::NOT_FOUND, "There is nothing under this name.")
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            (Status::FORBIDDEN, "The server may not read this file.")
        }
        Some(Errno::NAMETOOLONG) => (Status::NOT_FOUND, "No file has so long a name."),
        Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM) => (
            Status::SERVICE_UNAVAILABLE,
            "The server is at a limit; try again.",
        ),
        _ => (Status::INTERNAL_SERVER_ERROR, "The file could not be read."),
    }
}

fn micros_since(start: Instant) -> u64 {
    start.elapsed().as_micros().try_into().unwrap_or(u64::MAX)
}
