//! TLS: what a server needs for it, and certificates that are replaced while it serves.

mod certificates;
mod session;

pub(crate) use session::{Session, is_in_the_clear};

use crate::messages::say;
use crate::options::{Limits, Options};
use certificates::Certificates;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

/// What encrypted connections have in common.
#[derive(Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
    watcher: Option<Watcher>,
}

/// What lets clients that come back go on with what they have agreed on, whichever worker they meet, also one that
/// was started with other options.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    /// Most clients keep it themselves, sealed with keys that change by themselves.
    tickets: Arc<dyn ProducesTickets>,
    /// Of clients that cannot, the last so many are remembered.
    remembered: Arc<dyn StoresServerSessions>,
}

impl Sessions {
    /// # Errors
    /// When there is no randomness to be had.
    pub(crate) fn new() -> io::Result<Sessions> {
        Ok(Sessions {
            tickets: ring::Ticketer::new().map_err(io::Error::other)?,
            remembered: ServerSessionMemoryCache::new(Limits::TLS_SESSIONS),
        })
    }
}

impl Tls {
    /// # Errors
    /// Says which certificate is wrong, and how; or that there is none, and a place that needs one.
    pub(crate) fn new(
        options: &Options,
        http2: bool,
        sessions: Sessions,
    ) -> io::Result<Option<Tls>> {
        let place = options.listen.iter().find(|listen| listen.tls);
        let problem = match (place, options.certificates.is_empty()) {
            (None, true) => return Ok(None),
            (Some(_), false) => None,
            (Some(place), true) => Some(format!("{place} needs a certificate, and there is none")),
            (None, false) => Some(
                "there is a certificate, but nothing listens for TLS: write tls: before an address"
                    .to_owned(),
            ),
        };
        if let Some(text) = problem {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let certificates = Arc::new(Certificates::read(&options.certificates)?);
        let config = Arc::new(configure(certificates.clone(), http2, sessions)?);
        let watcher = Some(Watcher::start(certificates.clone())?);
        Ok(Some(Tls {
            config,
            certificates,
            watcher,
        }))
    }

    /// Reads the certificates anew.
    ///
    /// # Errors
    /// Says what is wrong with them; then the old ones stay.
    pub(crate) fn reload(&self) -> io::Result<()> {
        self.certificates.reload()
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        if let Some(Watcher { end, thread }) = self.watcher.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

fn configure(
    certificates: Arc<Certificates>,
    http2: bool,
    sessions: Sessions,
) -> io::Result<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.ticketer = sessions.tickets;
    config.session_storage = sessions.remembered;
    let protocols: &[&[u8]] = if http2 {
        &[b"h2", b"http/1.1"]
    } else {
        &[b"http/1.1"]
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

/// A thread that looks whether the files have changed: they may lie where a look waits for a server.
#[derive(Debug)]
struct Watcher {
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watcher {
    fn start(certificates: Arc<Certificates>) -> io::Result<Watcher> {
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().name("laio-certs".to_owned());
        let mut seen = certificates.stamp();
        let watch = move || {
            while ended.recv_timeout(Limits::TLS_LOOK) == Err(RecvTimeoutError::Timeout) {
                let stamp = certificates.stamp();
                if stamp == seen {
                    continue;
                }
                seen = stamp;
                match certificates.reload() {
                    Ok(()) => say("new certificates are in use"),
                    Err(error) => say(format_args!("the old certificates stay in use: {error}")),
                }
            }
        };
        Ok(Watcher {
            end,
            thread: thread.spawn(watch)?,
        })
    }
}
