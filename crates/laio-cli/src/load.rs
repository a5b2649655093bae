//! `laio load`.

use crate::status::StatusLine;
use crate::{Failure, interrupt, print};
use clap::Args;
use laio_bench::load::{self, Pace, Settings, Tls, Trust, What};
use laio_bench::record::save;
use laio_bench::trace;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// By default ten clients take the requests of the trace in order, until it ends. Responses are checked byte
/// by byte: the contents of a generated file follow from its name. Without a trace, the URL itself is
/// requested.
#[derive(Debug, Args)]
#[command(after_help = crate::EXIT_CODES)]
pub(crate) struct Arguments {
    /// The server, and without --trace the target: http://HOST:PORT/PATH, or https://…
    #[arg(value_name = "URL", value_parser = url)]
    url: Url,
    /// The requests: a trace written by `laio trace`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Number of clients, each of which takes the next request of the trace
    #[arg(long, value_name = "N", group = "pace", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: Option<u32>,
    /// Number of clients, each of which takes any file at random, with a new connection for each, as
    /// http_load does
    #[arg(long, value_name = "N", group = "pace", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    parallel: Option<u32>,
    /// Start this many requests per second, whether earlier ones have finished or not
    #[arg(long, value_name = "N", group = "pace", value_parser = positive)]
    rate: Option<f64>,
    /// Start requests at the times of the trace, divided by this factor
    #[arg(long, value_name = "FACTOR", group = "pace", num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_parser = positive)]
    at_times: Option<f64>,
    /// End after this many requests
    #[arg(long, value_name = "N")]
    fetches: Option<u64>,
    /// End after this time
    #[arg(long, value_name = "S", value_parser = positive)]
    seconds: Option<f64>,
    /// Exclude requests that start in the first seconds from the latencies
    #[arg(long, value_name = "S", value_parser = positive)]
    warm_up: Option<f64>,
    /// Use a new connection for each request
    #[arg(long)]
    close: bool,
    /// Keep connections open, also with --parallel
    #[arg(long, conflicts_with = "close")]
    keep_alive: bool,
    /// Trust servers whose certificates are signed by one in FILE (PEM), instead of the system's roots
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Trust any certificate
    #[arg(long)]
    insecure: bool,
    /// Resume TLS sessions; otherwise each connection makes a full handshake
    #[arg(long)]
    resume: bool,
    /// Do not check the bytes of responses
    #[arg(long)]
    no_verify: bool,
    /// Time-out of a request, in seconds
    #[arg(long, value_name = "S", default_value = "60", value_parser = positive)]
    timeout: f64,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write all results to FILE as JSON; - writes them to standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a line for each second to FILE
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

#[derive(Clone, Debug)]
struct Url {
    encrypted: bool,
    server: SocketAddr,
    /// With the port, if the URL has one.
    authority: String,
    host: String,
    target: String,
}

fn url(text: &str) -> Result<Url, String> {
    let (encrypted, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return Err("a URL begins with http:// or https://".to_owned()),
    };
    let at = rest.find('/').unwrap_or(rest.len());
    let (authority, target) = rest.split_at(at);
    let with_port = authority
        .rsplit_once(':')
        .filter(|(_, port)| port.parse::<u16>().is_ok());
    let (host, address) = match with_port {
        Some((host, _)) => (host, authority.to_owned()),
        None => (
            authority,
            format!("{authority}:{}", if encrypted { 443 } else { 80 }),
        ),
    };
    let mut found = address
        .to_socket_addrs()
        .map_err(|error| format!("{authority}: {error}"))?;
    if target.contains(|one: char| one.is_whitespace() || one.is_control()) {
        return Err("the path contains spaces or control characters".to_owned());
    }
    Ok(Url {
        encrypted,
        server: found
            .next()
            .ok_or_else(|| format!("{authority} has no address"))?,
        authority: authority.to_owned(),
        host: host.to_owned(),
        target: if target.is_empty() { "/" } else { target }.to_owned(),
    })
}

impl Arguments {
    fn tls(&self) -> Result<Option<Tls>, Failure> {
        if !self.url.encrypted {
            let asked = self.insecure || self.resume || self.ca.is_some();
            return if asked {
                Err("--ca, --insecure and --resume are for https:// URLs".into())
            } else {
                Ok(None)
            };
        }
        let trust = match &self.ca {
            Some(file) => Trust::Roots(file.clone()),
            None if self.insecure => Trust::Anybody,
            None => Trust::System,
        };
        Ok(Some(Tls::new(&self.url.host, &trust, self.resume)?))
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number")?;
    let fits = (1e-6..=1e9).contains(&number);
    fits.then_some(number)
        .ok_or_else(|| "a positive number".to_owned())
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let stop = interrupt::listen()?;
    let pace = match (
        arguments.clients,
        arguments.parallel,
        arguments.rate,
        arguments.at_times,
    ) {
        (Some(clients), ..) => Pace::Clients(clients as usize),
        (_, Some(clients), ..) => Pace::Random(clients as usize),
        (_, _, Some(rate), _) => Pace::Rate(rate),
        (.., Some(speed)) => Pace::Times(speed),
        _ => Pace::Clients(10),
    };
    let what = match &arguments.trace {
        Some(file) => What::Trace(trace::read(file)?),
        None => What::Target(arguments.url.target.clone()),
    };
    let settings = Settings {
        server: arguments.url.server,
        tls: arguments.tls()?,
        host: arguments.url.authority,
        pace,
        fetches: arguments.fetches,
        time: arguments.seconds.map(Duration::from_secs_f64),
        close: arguments.close || (arguments.parallel.is_some() && !arguments.keep_alive),
        verify: !arguments.no_verify && arguments.trace.is_some(),
        warm_up: arguments
            .warm_up
            .map_or(Duration::ZERO, Duration::from_secs_f64),
        timeout: Duration::from_secs_f64(arguments.timeout),
        seed: arguments.seed,
    };
    let mut line = StatusLine::new();
    let outcome = load::run(&settings, &what, &stop, &mut |text| line.show(text));
    line.clear();
    let outcome = outcome?;
    if let Some(file) = &arguments.csv {
        save(file, &outcome.csv())?;
    }
    let to_stdout = arguments
        .json
        .as_ref()
        .is_some_and(|file| file.as_os_str() == "-");
    match &arguments.json {
        Some(file) if !to_stdout => save(file, &outcome.json())?,
        _ => {}
    }
    print(&if to_stdout {
        outcome.json()
    } else {
        outcome.table()
    })?;
    match outcome.failed() {
        0 => Ok(()),
        failed => Err(format!("{failed} requests failed").into()),
    }
}
