//! TLS for client connections, and replacing certificates while serving.

mod certificates;
pub(crate) mod session;

use crate::messages::print;
use crate::options::{Limits, Options};
use certificates::Certificates;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

/// The TLS configuration of a server.
#[derive(Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
    watcher: Option<Watcher>,
}

/// State that lets returning clients resume their TLS sessions, on any worker and after a reload.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    /// Keys for session tickets, which most clients store themselves.
    tickets: Arc<dyn ProducesTickets>,
    /// Recent sessions of clients that do not support tickets.
    remembered: Arc<dyn StoresServerSessions>,
}

impl Sessions {
    /// Creates the state.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn new() -> io::Result<Sessions> {
        Ok(Sessions {
            tickets: ring::Ticketer::new().map_err(io::Error::other)?,
            remembered: ServerSessionMemoryCache::new(Limits::TLS_SESSIONS),
        })
    }
}

impl Tls {
    /// Reads the certificates, or returns none if no address uses TLS.
    ///
    /// # Errors
    /// Names the malformed certificate; also fails if there are certificates but no TLS address, or
    /// the reverse.
    pub(crate) fn new(
        options: &Options,
        http2: bool,
        sessions: Sessions,
    ) -> io::Result<Option<Tls>> {
        let address = options.listen.iter().find(|listen| listen.tls);
        let problem = match (address, options.certificates.is_empty()) {
            (None, true) => return Ok(None),
            (Some(_), false) => None,
            (Some(address), true) => Some(format!("{address} needs a certificate, but none is configured")),
            (None, false) => Some(
                "a certificate is configured, but no address uses TLS: write tls: before an address"
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

    /// Reads the certificates again.
    ///
    /// # Errors
    /// Says what is wrong with them; the old ones then stay in use.
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

/// A thread that checks the files for changes. A separate one, because file access may block.
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
            while ended.recv_timeout(Limits::TLS_CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let stamp = certificates.stamp();
                if stamp == seen {
                    continue;
                }
                seen = stamp;
                match certificates.reload() {
                    Ok(()) => print("using the new certificates"),
                    Err(error) => print(format_args!("keeping the old certificates: {error}")),
                }
            }
        };
        Ok(Watcher {
            end,
            thread: thread.spawn(watch)?,
        })
    }
}
