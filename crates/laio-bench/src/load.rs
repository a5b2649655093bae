//! `laio load`: sends requests to an HTTP server, and measures their latencies.
//!
//! In closed loops, each of a number of clients sends the next request of a trace when it has received the
//! last response, or requests any file at random (as `http_load` does). In an open loop, requests start at a
//! rate, or at the times of a log, however long earlier ones take. Latency then counts from the scheduled
//! start, so a server that stalls is charged for the requests that were due meanwhile.
//!
//! All clients are tasks of one thread. The client's own delay is measured too: see [`LoadResult::lag`].

mod client;
mod connection;
mod drive;
mod report;
mod tally;
mod tls;

pub use report::{LoadResult, Percentiles, Second};
pub use tls::{Tls, Trust};

use crate::content::{Content, Random};
use crate::error::{Error, While};
use crate::stop::Stop;
use crate::trace::{Trace, target_of};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// The server, the load and its limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server.
    pub server: SocketAddr,
    /// The value of the `Host` field.
    pub host: String,
    /// How connections are encrypted; `None` for plain connections.
    pub tls: Option<Tls>,
    /// How requests are scheduled.
    pub pace: Pace,
    /// The number of requests; `None` to end with the trace.
    pub fetches: Option<u64>,
    /// The duration of the load.
    pub time: Option<Duration>,
    /// Whether to use a new connection for each request.
    pub close: bool,
    /// Whether to check every byte of the responses.
    pub verify: bool,
    /// The duration at the start whose requests are excluded from the latencies.
    pub warm_up: Duration,
    /// The time-out of a request.
    pub timeout: Duration,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// How requests are scheduled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// This many clients; each sends the next request of the trace, in order, until the trace ends.
    Clients(usize),
    /// This many clients; each requests any file at random, until an end, which must be given.
    Random(usize),
    /// This many requests per second, in the order of the trace, which is repeated if necessary.
    Rate(f64),
    /// At the times of the trace, divided by this factor.
    Times(f64),
}

/// The maximum number of requests in flight in an open loop; requests beyond it count as errors.
pub const IN_FLIGHT_MAX: usize = 10_000;

/// The requests to send.
struct Target {
    request: Rc<[u8]>,
    expected: Expected,
}

/// The expected response.
#[derive(Clone, Copy)]
enum Expected {
    File {
        content: Content,
        size: u64,
    },
    Absent,
    /// A file whose contents are unknown.
    Anything,
}

/// The prepared requests.
struct Plan {
    targets: Vec<Target>,
    /// Indices of targets.
    order: Vec<u32>,
    times: Vec<Option<Duration>>,
}

/// Loads a server with a trace, or with one target.
///
/// # Errors
/// If the load cannot start, or `stop` is requested before it starts. Errors of single requests are counted.
pub fn run(
    settings: &Settings,
    what: &What,
    stop: &Stop,
    progress: &mut dyn FnMut(&str),
) -> Result<LoadResult, Error> {
    stop.check()?;
    let plan = Plan::from_settings(settings, what)?;
    let runtime = laio_rt::Runtime::new(laio::Options::new().rights(laio::Rights::Settled))
        .doing("cannot start")?;
    Ok(runtime.block_on(drive::drive(settings, plan, stop, progress)))
}

/// The source of the targets.
#[derive(Clone, Debug)]
pub enum What {
    /// The requests of a trace.
    Trace(Trace),
    /// One target with unknown contents.
    Target(String),
}

impl Plan {
    fn from_settings(settings: &Settings, what: &What) -> Result<Plan, Error> {
        let plan = match what {
            What::Target(target) => Plan {
                targets: vec![Target::new(settings, target, Expected::Anything)],
                order: vec![0],
                times: vec![None],
            },
            What::Trace(trace) => {
                let target = |file: &crate::trace::Entry| {
                    let content = Content::from_name(&file.name);
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

    /// Returns the index of the target of the n-th request.
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
