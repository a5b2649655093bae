//! Sending a request to an upstream, and receiving the head of its answer.

use super::answer::Passed;
use super::client::{Asking, Source};
use super::link::{Deadline, Line, Link, send};
use super::pool::Pool;
use super::target::Route;
use super::{Trouble, fastcgi, request};
use crate::options::{Protocol, UpstreamLimits};
use laio_http::fastcgi::{Event, Records, STDIN, push_stream, push_stream_end};
use laio_http::upstream::{parse_answer, parse_cgi};
use laio_http::{Framing, Method};
use laio_rt::sync::Permit;
use laio_rt::time::Sleep;
use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

/// A connection in use, with its permit from the pool.
pub(super) struct Lease {
    pub(super) link: Link,
    pub(super) pool: Rc<Pool>,
    pub(super) limits: UpstreamLimits,
    pub(super) deadline: Deadline,
    pub(super) speech: Speech,
    /// For the log.
    pub(super) name: String,
    pub(super) permit: Permit,
}

/// The protocol state of a connection.
pub(super) enum Speech {
    Http,
    FastCgi(Box<Heard>),
}

/// The parsed part of a FastCGI answer.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) records: Records,
    /// Output that was not consumed yet.
    pub(super) output: Vec<u8>,
    /// The program's error output, for the log.
    said: Vec<u8>,
}

/// The head of an answer, and the connection for its body.
pub(super) struct Answered {
    pub(super) lease: Lease,
    pub(super) passed: Passed,
    /// Whether the whole request was sent. If not, the connection cannot be reused.
    pub(super) whole: bool,
}

/// Sends a request and receives the head of the answer. If a reused connection turns out to be
/// closed, repeats an idempotent request on a new one.
pub(super) async fn ask(
    asking: &Asking<'_>,
    route: &Route,
    source: &mut impl Source,
    limits: &UpstreamLimits,
) -> Result<Answered, Trouble> {
    let deadline = Deadline::new(limits);
    let permit = route.pool.permit(limits).await?;
    let kept = route.pool.take(limits);
    let link = match kept {
        Some(link) => link,
        None => connect(route, limits, deadline).await?,
    };
    let mut lease = Lease {
        link,
        permit,
        pool: route.pool.clone(),
        limits: limits.clone(),
        deadline,
        speech: Speech::of(&route.target.protocol),
        name: route.target.name.clone(),
    };
    let mut result = attempt(asking, route, source, &mut lease).await;
    let method = &asking.asked.request.method;
    if let Err(trouble) = &result
        && trouble.stale
        && request::is_idempotent(method)
        && source.is_untouched()
    {
        route.pool.forget();
        lease.link = connect(route, limits, deadline).await?;
        lease.speech = Speech::of(&route.target.protocol);
        result = attempt(asking, route, source, &mut lease).await;
    }
    let (passed, whole) = result?;
    Ok(Answered {
        lease,
        passed,
        whole,
    })
}

async fn connect(
    route: &Route,
    limits: &UpstreamLimits,
    deadline: Deadline,
) -> Result<Link, Trouble> {
    let time = deadline.within(limits.connect_time);
    Link::connect(&route.target, time, limits).await
}

/// Sends the body while waiting for the answer, because an upstream may refuse a request early.
async fn attempt(
    asking: &Asking<'_>,
    route: &Route,
    source: &mut impl Source,
    lease: &mut Lease,
) -> Result<(Passed, bool), Trouble> {
    let (limits, deadline) = (lease.limits.clone(), lease.deadline);
    let mut out = Vec::new();
    let outgoing = match route.target.protocol {
        Protocol::Http { .. } => {
            request::push_head(&mut out, asking, &route.target);
            match asking.asked.request.framing {
                Framing::Chunked => Outgoing::Chunked,
                Framing::None | Framing::Length(_) => Outgoing::Plain,
            }
        }
        Protocol::FastCgi => {
            fastcgi::push_head(&mut out, asking, &route.target);
            Outgoing::FastCgi
        }
    };
    let line = lease.link.line();
    let reused = lease.link.reused;
    let to_head = asking.asked.request.method == Method::Head;
    let gone = source.watch();
    let mut wait = Wait {
        gone,
        limits: &limits,
        deadline,
        first_byte: None,
        look: None,
    };
    let mut pump = pin!(pump(line, out, source, outgoing, &limits, deadline));
    let mut head = pin!(read_head(lease, to_head));
    let mut pumped = None;
    poll_fn(|context| {
        if pumped.is_none()
            && let Poll::Ready(result) = pump.as_mut().poll(context)
        {
            match result {
                Ok(whole) => pumped = Some(whole),
                Err(trouble) => return Poll::Ready(Err(trouble)),
            }
        }
        if let Poll::Ready(result) = head.as_mut().poll(context) {
            let whole = pumped == Some(true);
            return Poll::Ready(match result {
                Ok(passed) => Ok((passed, whole)),
                Err(mut trouble) => {
                    trouble.stale &= reused;
                    Err(trouble)
                }
            });
        }
        // The time limit for the answer begins when the request is sent.
        match pumped.is_some() {
            true => wait.poll(context).map(Err),
            false => Poll::Pending,
        }
    })
    .await
}

/// The conditions that end the wait for an answer: the time limit, and a client that closes its
/// connection.
struct Wait<'a, G> {
    gone: G,
    limits: &'a UpstreamLimits,
    deadline: Deadline,
    first_byte: Option<Sleep>,
    look: Option<Sleep>,
}

impl<G: Fn() -> bool> Wait<'_, G> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Trouble> {
        let time = self.limits.first_byte_time;
        let limit = self
            .first_byte
            .get_or_insert_with(|| laio_rt::time::sleep(self.deadline.within(time)));
        if Pin::new(limit).poll(context).is_ready() {
            return Poll::Ready(Trouble::late("the upstream did not answer in time"));
        }
        loop {
            let pause = UpstreamLimits::LOOK;
            let look = self.look.get_or_insert_with(|| laio_rt::time::sleep(pause));
            if Pin::new(look).poll(context).is_pending() {
                return Poll::Pending;
            }
            if (self.gone)() {
                return Poll::Ready(Trouble::gone());
            }
            self.look = None;
        }
    }
}

/// The framing of the request body.
#[derive(Clone, Copy)]
enum Outgoing {
    Plain,
    Chunked,
    FastCgi,
}

impl Outgoing {
    fn push(self, out: &mut Vec<u8>, piece: &[u8]) {
        match self {
            Outgoing::Plain => out.extend_from_slice(piece),
            Outgoing::Chunked if piece.is_empty() => {}
            Outgoing::Chunked => {
                let _ = write!(out, "{:x}\r\n", piece.len());
                out.extend_from_slice(piece);
                out.extend_from_slice(b"\r\n");
            }
            Outgoing::FastCgi => push_stream(out, STDIN, piece),
        }
    }

    fn end(self, out: &mut Vec<u8>) {
        match self {
            Outgoing::Plain => {}
            Outgoing::Chunked => out.extend_from_slice(b"0\r\n\r\n"),
            Outgoing::FastCgi => push_stream_end(out, STDIN),
        }
    }
}

/// Sends a head and the body after it, piece by piece. Returns false if the upstream accepts no
/// more, perhaps because it has answered already.
async fn pump(
    line: Line,
    mut out: Vec<u8>,
    source: &mut impl Source,
    outgoing: Outgoing,
    limits: &UpstreamLimits,
    deadline: Deadline,
) -> Result<bool, Trouble> {
    let mut piece = Vec::new();
    loop {
        // Send the head without waiting for the client's body.
        let mut last = false;
        if out.is_empty() || source.is_ready() {
            piece.clear();
            last = source.next(&mut piece).await?;
            outgoing.push(&mut out, &piece);
        }
        if last {
            outgoing.end(&mut out);
        }
        let time = deadline.within(limits.between_time);
        match send(&line, out, time).await {
            Ok(emptied) => out = emptied,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(Trouble::late(
                    "the upstream did not accept the request in time",
                ));
            }
            Err(_) => return Ok(false),
        }
        if last {
            return Ok(true);
        }
    }
}

/// Receives the head of the answer, skipping interim answers.
async fn read_head(lease: &mut Lease, to_head: bool) -> Result<Passed, Trouble> {
    let mut interim = 0;
    let mut anything = !lease.link.input.is_empty();
    loop {
        if let Some(passed) = lease.head(to_head)? {
            let code = passed.status.code();
            if code >= 200 || code == 101 {
                return Ok(passed);
            }
            interim += 1;
            if interim > UpstreamLimits::INTERIM {
                return Err(Trouble::gateway(
                    "the upstream sent too many interim answers",
                ));
            }
            continue;
        }
        // Limits the time between two pieces of a head; `Wait` limits the time for the first one.
        let time = match anything {
            true => lease.limits.between_time,
            false => lease.limits.first_byte_time.saturating_mul(2),
        };
        let time = lease.deadline.within(time.max(lease.limits.between_time));
        match lease.link.receive(time).await {
            Ok(0) => {
                let mut trouble =
                    Trouble::gateway("the upstream closed the connection before it answered");
                trouble.stale = !anything;
                return Err(trouble);
            }
            Ok(_) => anything = true,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(Trouble::late("the upstream did not answer in time"));
            }
            Err(error) => {
                let mut trouble = Trouble::gateway(format_args!("cannot read the answer: {error}"));
                trouble.stale = !anything;
                return Err(trouble);
            }
        }
    }
}

impl Speech {
    fn of(protocol: &Protocol) -> Speech {
        match protocol {
            Protocol::Http { .. } => Speech::Http,
            Protocol::FastCgi => Speech::FastCgi(Box::default()),
        }
    }
}

impl Lease {
    /// Parses the head, if it is complete, and leaves what follows it in the buffer.
    fn head(&mut self, to_head: bool) -> Result<Option<Passed>, Trouble> {
        if let Speech::FastCgi(_) = self.speech {
            self.hear().map_err(|error| Trouble::gateway(&error))?;
        }
        let heads = UpstreamLimits::HEAD;
        let (buffer, found) = match &mut self.speech {
            Speech::Http => {
                let input = &mut self.link.input;
                let found = parse_answer(input, &heads, to_head).map(|found| {
                    found.map(|(answer, length)| (Passed::of(&answer, false), length))
                });
                (input, found)
            }
            Speech::FastCgi(heard) => {
                let found = parse_cgi(&heard.output, &heads, to_head)
                    .map(|found| found.map(|(answer, length)| (Passed::of(&answer, true), length)));
                if matches!(found, Ok(None)) && heard.records.is_done() {
                    return Err(Trouble::gateway("the program ended without an answer"));
                }
                (&mut heard.output, found)
            }
        };
        let Some((passed, length)) = found.map_err(Trouble::gateway)? else {
            return Ok(None);
        };
        buffer.drain(..length);
        Ok(Some(passed))
    }

    /// Parses the received records.
    pub(super) fn hear(&mut self) -> io::Result<()> {
        let Speech::FastCgi(heard) = &mut self.speech else {
            return Ok(());
        };
        let Heard {
            records,
            output,
            said,
        } = &mut **heard;
        let used = records.advance(&self.link.input, |event| match event {
            Event::Output(piece) => output.extend_from_slice(piece),
            Event::Error(piece) => {
                let room = UpstreamLimits::STDERR.saturating_sub(said.len());
                said.extend_from_slice(&piece[..piece.len().min(room)]);
            }
        });
        let used = used.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.link.input.drain(..used);
        if records.is_done() && !said.is_empty() {
            let text = std::mem::take(said);
            let text = String::from_utf8_lossy(&text);
            super::say(format_args!(
                "{}, error output: {}",
                self.name,
                text.trim_end().escape_debug()
            ));
        }
        Ok(())
    }

    /// Returns the connection to the pool after a complete exchange, if it can be reused.
    pub(super) fn finish(self) {
        let over = match &self.speech {
            Speech::Http => true,
            Speech::FastCgi(heard) => heard.records.is_done(),
        };
        let Lease {
            mut link,
            pool,
            limits,
            permit,
            ..
        } = self;
        link.reused = true;
        if over {
            pool.keep(link, &limits);
        }
        // Released last, so that the next waiter finds the connection in the pool.
        drop(permit);
    }
}
