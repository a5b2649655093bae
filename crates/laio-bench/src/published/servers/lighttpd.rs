//! `laio bench lighttpd`: the published measurements of asynchronous I/O in lighttpd 1.5 (2006, 2007).

use super::accelerator::Socket;
use super::loads::Loads;
use super::serving::Server;
use super::usable;
use crate::error::Error;
use crate::load::Pace;
use crate::published::run::Run;
use crate::record::Cache;
use crate::trace::Preset;

pub(in crate::published) const SMALL: &str = "files of 100 KiB, 100 parallel";
pub(in crate::published) const LARGE: &str = "files of 10 MB, by chunk";
pub(in crate::published) const ONE: &str = "one large file, by clients";
pub(in crate::published) const STAT: &str = "stat acceleration, 100 parallel";

pub(in crate::published) const SENDFILE: &str = "lighttpd-sendfile";
pub(in crate::published) const AIO: &str = "lighttpd-linux-aio";
pub(in crate::published) const POSIX_AIO: &str = "lighttpd-posix-aio";
pub(in crate::published) const GTHREAD_AIO: &str = "lighttpd-gthread-aio";
pub(in crate::published) const PARALLEL: usize = 100;
/// The sizes of chunks, in KiB.
const CHUNKS: [usize; 5] = [256, 384, 512, 768, 1024];
/// The numbers of clients that request one file.
const CLIENTS: [usize; 4] = [1, 2, 5, 10];
pub(in crate::published) const BY_512: &str = "linux-aio, 512 KiB";
pub(in crate::published) const BY_1024: &str = "linux-aio, 1 MiB";
pub(in crate::published) const UNACCELERATED: &str = "no acceleration";
pub(in crate::published) const BY_TCP: &str = "FastCGI, tcp";
pub(in crate::published) const BY_UNIX: &str = "FastCGI, unix";
pub(in crate::published) const BY_THREADS: &str = "threads";

pub(in crate::published) fn run(run: &mut Run<'_>) -> Result<(), Error> {
    let scale = run.settings.scale(0.02);
    small(run, scale)?;
    large(run, scale)?;
    one(run, scale)
}

/// Returns servers with the same position on the axis.
fn at(position: usize, pace: Pace, servers: &[Server]) -> Vec<(usize, Server, Pace)> {
    let servers = servers.iter();
    servers
        .map(|server| (position, server.clone(), pace))
        .collect()
}

fn chunked(name: &str, kib: usize) -> Server {
    let bytes = (kib << 10).to_string();
    Server::laio(name, &["--preset", AIO, "--chunk", &bytes])
}

fn small(run: &mut Run<'_>, scale: f64) -> Result<(), Error> {
    let trace = Preset::LighttpdSmall.trace(1, scale);
    let set = run.make(SMALL, &trace)?;
    let presets = [SENDFILE, AIO, POSIX_AIO, GTHREAD_AIO];
    let mut servers: Vec<Server> = presets.map(Server::preset).into();
    servers.push(Server::backend("lazy"));
    servers.extend(Server::peers());
    let servers = usable(run, servers);
    let threads = [
        "--preset",
        SENDFILE,
        "--policy",
        "open=threads,stat=threads",
        "--stat-threads",
        "4",
    ];
    let accelerated = vec![
        Server::preset(SENDFILE).called(UNACCELERATED),
        Server::accelerated(BY_TCP, SENDFILE, Socket::Tcp),
        Server::accelerated(BY_UNIX, SENDFILE, Socket::Unix),
        Server::laio(BY_THREADS, &threads),
        Server::backend("lazy"),
    ];
    let accelerated = usable(run, accelerated);
    for cache in run.caches() {
        for (workload, servers) in [(SMALL, &servers), (STAT, &accelerated)] {
            // stat blocks only on a name that must be looked up on the disk.
            if servers.is_empty() || (workload == STAT && cache == Cache::Warm) {
                continue;
            }
            let loads = Loads {
                workload,
                trace: &trace,
                set: &set,
                subjects: at(PARALLEL, Pace::Random(PARALLEL), servers),
            };
            loads.measure(run, cache)?;
        }
    }
    run.remove(&set)
}

fn large(run: &mut Run<'_>, scale: f64) -> Result<(), Error> {
    let trace = Preset::LighttpdLarge.trace(1, scale);
    let set = run.make(LARGE, &trace)?;
    let by_chunk = |kib| {
        let servers = [chunked(AIO, kib), Server::preset(SENDFILE)];
        at(kib, Pace::Random(PARALLEL), &servers)
    };
    let mut subjects: Vec<_> = CHUNKS.into_iter().flat_map(by_chunk).collect();
    subjects.retain(|entrant| run.settings.takes(&entrant.1.name));
    let loads = Loads {
        workload: LARGE,
        trace: &trace,
        set: &set,
        subjects,
    };
    loads.measure_all(run)?;
    run.remove(&set)
}

fn one(run: &mut Run<'_>, scale: f64) -> Result<(), Error> {
    let mut trace = Preset::LighttpdOne.trace(1, scale.max(0.1));
    let set = run.make(ONE, &trace)?;
    let mut servers = vec![
        Server::preset(SENDFILE),
        chunked(BY_512, 512),
        chunked(BY_1024, 1024),
        Server::backend("lazy"),
    ];
    servers.extend(Server::peers());
    let servers = usable(run, servers);
    for cache in run.caches() {
        for clients in CLIENTS {
            // Each client sends one request, as siege was configured.
            trace.requests.resize(clients, trace.requests[0]);
            let loads = Loads {
                workload: ONE,
                trace: &trace,
                set: &set,
                subjects: at(clients, Pace::Clients(clients), &servers),
            };
            loads.measure(run, cache)?;
        }
    }
    run.remove(&set)
}
