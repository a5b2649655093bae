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
    pub(super) fn find(host: &str, port: u16) -> io::Result<Arc<Addresses>> {
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
    match found.is_empty() {
        true => Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the name has no address",
        )),
        false => Ok(found),
    }
}

/// The lookup thread, which ends when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Names(Option<Arc<Ended>>);

#[derive(Debug, Default)]
struct Ended {
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Names {
    /// Starts the thread, if there are names.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn keep(all: impl Iterator<Item = Arc<Addresses>>) -> io::Result<Names> {
        let names: Vec<_> = all.filter(|addresses| addresses.is_name()).collect();
        if names.is_empty() {
            return Ok(Names::default());
        }
        let ended = Arc::<Ended>::default();
        let thread = std::thread::Builder::new().name("laio-names".to_owned());
        let seen = ended.clone();
        // The thread is never joined, because a lookup may block for long.
        thread.spawn(move || keep(&names, &seen))?;
        Ok(Names(Some(ended)))
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        if let Some(ended) = &self.0 {
            *ended.ended.lock().unwrap() = true;
            ended.changed.notify_all();
        }
    }
}

fn keep(names: &[Arc<Addresses>], ended: &Ended) {
    let mut over = ended.ended.lock().unwrap();
    while !*over {
        let pause = UpstreamLimits::LOOK_UP;
        let (after, waited) = ended.changed.wait_timeout(over, pause).unwrap();
        over = after;
        if *over || !waited.timed_out() {
            continue;
        }
        drop(over);
        for addresses in names {
            if let Ok(found) = look_up(&addresses.host, addresses.port) {
                *addresses.found.lock().unwrap() = found;
            }
        }
        over = ended.ended.lock().unwrap();
    }
}

/// The address of an upstream.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Tcp(Arc<Addresses>),
    Unix(std::path::PathBuf),
}

impl Place {
    pub(super) fn find(address: &UpstreamAddress) -> io::Result<Place> {
        Ok(match address {
            UpstreamAddress::Tcp(host, port) => Place::Tcp(Addresses::find(host, *port)?),
            UpstreamAddress::Unix(path) => Place::Unix(path.clone()),
        })
    }
}
