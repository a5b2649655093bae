//! DNS lookups of upstream names: at start, and then periodically on a separate thread. No request
//! waits for a lookup. While a lookup fails, the previous addresses stay in use.

use crate::options::{UpstreamAddress, UpstreamLimits};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex};

/// The addresses of one name and port.
#[derive(Debug)]
pub(crate) struct Addresses {
    host: String,
    port: u16,
    found: Mutex<Vec<SocketAddr>>,
}

impl Addresses {
    /// Looks up a name. Blocks, so only for use at start.
    pub(super) fn resolve(host: &str, port: u16) -> io::Result<Arc<Addresses>> {
        let found = look_up(host, port).map_err(|error| {
            let text = format!("cannot look up the upstream {host}: {error}");
            io::Error::new(error.kind(), text)
        })?;
        Ok(Arc::new(Addresses {
            host: host.to_owned(),
            port,
            found: Mutex::new(found),
        }))
    }

    /// Returns the addresses, in the order to try them.
    pub(super) fn get(&self) -> Vec<SocketAddr> {
        self.found.lock().unwrap().clone()
    }

    /// Whether the host is a name rather than a numeric address.
    fn is_name(&self) -> bool {
        self.host.parse::<std::net::IpAddr>().is_err()
    }
}

fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let mut found: Vec<_> = (host, port).to_socket_addrs()?.collect();
    found.dedup();
    if found.is_empty() {
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the name has no address",
        ))
    } else {
        Ok(found)
    }
}

/// The lookup thread, which ends when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct NameResolver(Option<Arc<StopFlag>>);

#[derive(Debug, Default)]
struct StopFlag {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl NameResolver {
    /// Starts the thread, if there are names.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn start(all: impl Iterator<Item = Arc<Addresses>>) -> io::Result<NameResolver> {
        let names: Vec<_> = all.filter(|addresses| addresses.is_name()).collect();
        if names.is_empty() {
            return Ok(NameResolver::default());
        }
        let stopped = Arc::<StopFlag>::default();
        let seen = stopped.clone();
        // The thread is never joined, because a lookup may block for long.
        let purpose = "the thread that looks up the names of upstreams";
        laio::thread::start("laio-names", purpose, move || refresh(&names, &seen))?;
        Ok(NameResolver(Some(stopped)))
    }
}

impl Drop for NameResolver {
    fn drop(&mut self) {
        if let Some(stopped) = &self.0 {
            *stopped.stopped.lock().unwrap() = true;
            stopped.changed.notify_all();
        }
    }
}

fn refresh(names: &[Arc<Addresses>], stopped: &StopFlag) {
    let mut stop = stopped.stopped.lock().unwrap();
    while !*stop {
        let pause = UpstreamLimits::LOOKUP_INTERVAL;
        let (after, waited) = stopped.changed.wait_timeout(stop, pause).unwrap();
        stop = after;
        if *stop || !waited.timed_out() {
            continue;
        }
        drop(stop);
        for addresses in names {
            if let Ok(found) = look_up(&addresses.host, addresses.port) {
                *addresses.found.lock().unwrap() = found;
            }
        }
        stop = stopped.stopped.lock().unwrap();
    }
}

/// The address of an upstream.
#[derive(Clone, Debug)]
pub(crate) enum ResolvedAddress {
    Tcp(Arc<Addresses>),
    Unix(std::path::PathBuf),
}

impl ResolvedAddress {
    pub(super) fn resolve(address: &UpstreamAddress) -> io::Result<ResolvedAddress> {
        Ok(match address {
            UpstreamAddress::Tcp(host, port) => {
                ResolvedAddress::Tcp(Addresses::resolve(host, *port)?)
            }
            UpstreamAddress::Unix(path) => ResolvedAddress::Unix(path.clone()),
        })
    }
}
