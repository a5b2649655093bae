//! TLS for client connections, and replacing certificates while serving.

mod certificates;
mod client_certificates;
mod parameters;
pub mod published;
pub mod session;

use certificates::{Certificates, Stamp};
use client_certificates::ClientCertificates;
use laio::thread::JoinHandle;
use laio_serve_base::messages::print;
use laio_serve_base::options::{Limits, Options};
use parameters::Parameters;
use published::{CHALLENGE_PROTOCOL, Published};
use rustls::crypto::ring;
use rustls::server::{
    NoServerSessionStorage, ProducesTickets, ServerSessionMemoryCache, StoresServerSessions,
};
use rustls::{ConfigBuilder, ServerConfig, WantsVerifier};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

/// The TLS configuration of a server.
#[derive(Debug)]
pub struct Tls {
    /// The configuration of connections.
    pub config: Arc<ServerConfig>,
    /// Certificates that the server gets by itself.
    pub published: Option<Arc<Published>>,
    files: Arc<Files>,
    watcher: Option<Watcher>,
}

/// What is read again when files change.
#[derive(Debug)]
struct Files {
    certificates: Arc<Certificates>,
    clients: Option<Arc<ClientCertificates>>,
}

/// Secrets that outlast a generation of workers: they let returning clients resume their TLS sessions on any
/// worker.
#[derive(Clone, Debug)]
pub struct Sessions {
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
    pub fn new() -> io::Result<Sessions> {
        Ok(Sessions {
            tickets: ring::Ticketer::new().map_err(io::Error::other)?,
            remembered: ServerSessionMemoryCache::new(Limits::TLS_SESSIONS),
        })
    }
}

impl Tls {
    /// Reads the certificates, or returns none if no address uses TLS. `published` has the
    /// certificates that the server gets by itself.
    ///
    /// # Errors
    /// Names the malformed certificate; also fails if there are certificates but no TLS address, or
    /// the reverse.
    pub fn new(
        options: &Options,
        http2: bool,
        sessions: Sessions,
        published: Option<Arc<Published>>,
    ) -> io::Result<Option<Tls>> {
        let address = options.listen.iter().find(|listen| listen.tls);
        let without = options.certificates.is_empty() && published.is_none();
        let problem = match (address, without) {
            (None, _) if published.is_some() => Some(
                "--https needs an address with TLS: write tls: before an address of --listen".to_owned(),
            ),
            (None, _) if options.redirect_http().is_some() => Some(
                "--redirect-http needs an address with TLS: write tls: before an address".to_owned(),
            ),
            (None, true) => return Ok(None),
            (Some(_), false) => None,
            (Some(address), true) => Some(format!("{address} needs a certificate, which is not configured")),
            (None, false) => Some(
                "a certificate is configured, but no address uses TLS: write tls: before an address"
                    .to_owned(),
            ),
        };
        if let Some(text) = problem {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let Parameters { provider, versions } = Parameters::new(&options.tls)?;
        let provider = Arc::new(provider);
        let files = Arc::new(Files {
            certificates: Arc::new(Certificates::read(
                &options.certificates,
                published.clone(),
            )?),
            clients: ClientCertificates::read(&options.tls, &provider)?,
        });
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(io::Error::other)?;
        let mut config = configure(builder, &files, http2, sessions);
        // Who lists cipher suites has chosen their order too.
        config.ignore_client_order = !options.tls.ciphers.is_empty();
        if published.as_ref().is_some_and(|it| it.checks_in_handshake) {
            // Only an authority that checks a name offers it, and nothing else.
            config.alpn_protocols.push(CHALLENGE_PROTOCOL.to_vec());
        }
        let config = Arc::new(config);
        let watcher = Some(Watcher::start(files.clone())?);
        Ok(Some(Tls {
            config,
            published,
            files,
            watcher,
        }))
    }

    /// Whether clients are asked for certificates.
    pub fn asks_clients(&self) -> bool {
        self.files.clients.is_some()
    }

    /// Reads the certificates again.
    ///
    /// # Errors
    /// Says what is wrong with them; the old ones then stay in use.
    pub fn reload(&self) -> io::Result<()> {
        self.files.reload()
    }
}

impl Files {
    fn reload(&self) -> io::Result<()> {
        self.certificates.reload()?;
        self.clients.as_ref().map_or(Ok(()), |it| it.reload())
    }

    fn stamp(&self) -> Stamp {
        let clients = self.clients.iter().flat_map(|it| it.files());
        Stamp::from_files(self.certificates.files().chain(clients.cloned()))
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
    builder: ConfigBuilder<ServerConfig, WantsVerifier>,
    files: &Files,
    http2: bool,
    sessions: Sessions,
) -> ServerConfig {
    let certificates = files.certificates.clone();
    let mut config = match &files.clients {
        Some(clients) => {
            let verifier = builder.with_client_cert_verifier(clients.clone());
            let mut config = verifier.with_cert_resolver(certificates);
            // A resumed session would skip the check of the client's certificate.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
            config
        }
        None => {
            let mut config = builder
                .with_no_client_auth()
                .with_cert_resolver(certificates);
            config.ticketer = sessions.tickets;
            config.session_storage = sessions.remembered;
            config
        }
    };
    let protocols: &[&[u8]] = if http2 {
        &[b"h2", b"http/1.1"]
    } else {
        &[b"http/1.1"]
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    config
}

/// A thread that checks the files for changes. A separate one, because file access may block.
#[derive(Debug)]
struct Watcher {
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watcher {
    fn start(files: Arc<Files>) -> io::Result<Watcher> {
        let (end, ended) = channel();
        let mut seen = files.stamp();
        let watch = move || {
            while ended.recv_timeout(Limits::TLS_CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let stamp = files.stamp();
                if stamp == seen {
                    continue;
                }
                seen = stamp;
                match files.reload() {
                    Ok(()) => print("using the new certificates"),
                    Err(error) => print(format_args!("keeping the old certificates: {error}")),
                }
            }
        };
        Ok(Watcher {
            end,
            thread: laio::thread::start(
                "laio-certs",
                "the thread that watches certificates",
                watch,
            )?,
        })
    }
}
