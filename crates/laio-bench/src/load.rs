//! `laio load`: requests to an HTTP server, and how long they take.
//!
//! Closed loops: so many clients, each of which asks for the next file of a trace when it has got the one before,
//! or for any file at random (as `http_load` does). Open loop: requests begin at a rate, or at the times of a log,
//! however long those before take; then latency counts from the time at which a request was to begin, so that a
//! server that stalls is not spared the requests that would have come meanwhile.
//!
//! All clients are tasks of one thread. Whether it keeps up is measured too: see [`Outcome::lag`].

mod client;
mod connection;
mod drive;
mod report;
mod tally;
mod tls;

pub use report::{Outcome, Percentiles, Second};
pub use tls::{Tls, Trust};

use crate::content::{Content, Random};
use crate::error::{Error, While};
use crate::stop::Stop;
use crate::trace::{Trace, target_of};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// What to ask of whom, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server.
    pub server: SocketAddr,
    /// What the `Host` field says.
    pub host: String,
    /// How connections are encrypted; none for plain ones.
    pub tls: Option<Tls>,
    /// How requests follow each other.
    pub pace: Pace,
    /// End after so many requests; none to end with the trace.
    pub fetches: Option<u64>,
    /// End after this time.
    pub time: Option<Duration>,
    /// One connection for each request.
    pub close: bool,
    /// Check every byte of the answers.
    pub verify: bool,
    /// No times are kept of what begins before this has passed.
    pub warm_up: Duration,
    /// Longest time for a request.
    pub timeout: Duration,
    /// Where what is random comes from.
    pub seed: u64,
}

/// How requests follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many clients; each takes the next request of the trace, in order, until the trace ends.
    Clients(usize),
    /// So many clients; each takes any file at random, until an end that must be given.
    Random(usize),
    /// So many requests each second, in the order of the trace, from the start again if need be.
    Rate(f64),
    /// At the times of the trace, so many times as fast.
    Times(f64),
}

/// Most requests in flight in an open loop; those that would be more are counted as errors.
pub const IN_FLIGHT_MAX: usize = 10_000;

/// What is asked for.
struct Target {
    request: Rc<[u8]>,
    expected: Expected,
}

/// What the answer ought to be.
#[derive(Clone, Copy)]
enum Expected {
    File {
        content: Content,
        size: u64,
    },
    Absent,
    /// Of a file of which nothing is known.
    Anything,
}

/// The requests, ready to be sent.
struct Plan {
    targets: Vec<Target>,
    /// Indices of targets.
    order: Vec<u32>,
    times: Vec<Option<Duration>>,
}

/// Loads a server with a trace, or with one target.
///
/// # Errors
/// Nothing could be begun, or `stop` was asked before anything was. What goes wrong with single requests is
/// counted.
pub fn run(
    settings: &Settings,
    what: &What,
    stop: &Stop,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    stop.check()?;
    let plan = Plan::of(settings, what)?;
    let runtime =
        laio_rt::Runtime::new(laio::Options::new().settled_rights(true)).doing("cannot start")?;
    Ok(runtime.block_on(drive::drive(settings, plan, stop, progress)))
}

/// What to ask for.
#[derive(Clone, Debug)]
pub enum What {
    /// The requests of a trace.
    Trace(Trace),
    /// One target, of which nothing is known.
    Target(String),
}

impl Plan {
    fn of(settings: &Settings, what: &What) -> Result<Plan, Error> {
        let plan = match what {
            What::Target(target) => Plan {
                targets: vec![Target::new(settings, target, Expected::Anything)],
                order: vec![0],
                times: vec![None],
            },
            What::Trace(trace) => {
                let target = |file: &crate::trace::Entry| {
                    let content = Content::of(&file.name);
                    let expected = match file.size {
                        Some(size) => Expected::File { content, size },
                        None => Expected::Absent,
                    };
                    Target::new(settings, &target_of(&file.name), expected)
                };
                Plan {
                    targets: trace.files.iter().map(target).collect(),
                    order: trace.requests.iter().map(|request| request.file).collect(),
                    times: trace.requests.iter().map(|request| request.at).collect(),
                }
            }
        };
        let wrong = if plan.order.is_empty() {
            "there are no requests in the trace"
        } else if matches!(settings.pace, Pace::Times(_)) && plan.times.iter().any(Option::is_none)
        {
            "the trace has no times; give a rate"
        } else {
            return Ok(plan);
        };
        Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, wrong))
            .doing("nothing can be asked for")
    }

    /// The target of the n-th request.
    fn index(&self, pace: Pace, number: u64, random: &mut Random) -> usize {
        match pace {
            Pace::Random(_) => random.below(self.targets.len() as u64) as usize,
            _ => self.order[(number % self.order.len() as u64) as usize] as usize,
        }
    }
}

impl Target {
    fn new(settings: &Settings, target: &str, expected: Expected) -> Target {
        let connection = if settings.close {
            "Connection: close\r\n"
        } else {
            ""
        };
        let host = &settings.host;
        let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{connection}\r\n");
        Target {
            request: request.into_bytes().into(),
            expected,
        }
    }
}

#[cfg(test)]
mod tests;
