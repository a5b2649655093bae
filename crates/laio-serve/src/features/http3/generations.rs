//! What HTTP/3 keeps for all generations of workers, and its configuration in one of them.

use super::receive::receive;
use crate::features::feature::{DatagramReceiver, DatagramSockets, Datagrams};
use laio_rt::JoinHandle;
use laio_serve_base::options::{EarlyData, Http3, Options};
use laio_serve_net::quic::config::{Secrets, ServerConfig, server};
use laio_serve_net::quic::routes::Routes;
use laio_serve_net::tls::Tls;
use std::io;
use std::sync::Arc;

/// Returns what HTTP/3 keeps until the server ends.
///
/// # Errors
/// When the system has no random numbers.
pub(super) fn datagrams() -> io::Result<Option<Arc<dyn Datagrams>>> {
    Ok(Some(Arc::new(Generations {
        secrets: Secrets::new()?,
        routes: Arc::default(),
    })))
}

/// What HTTP/3 keeps for all generations of workers.
#[derive(Debug)]
struct Generations {
    secrets: Secrets,
    /// The endpoints of all generations.
    routes: Arc<Routes>,
}

/// HTTP/3 in a generation of workers.
#[derive(Debug)]
pub(super) struct Http3Generation {
    pub(super) http3: Http3,
    pub(super) config: Arc<ServerConfig>,
    pub(super) routes: Arc<Routes>,
}

impl Datagrams for Generations {
    fn configure(
        &self,
        options: &Options,
        tls: &Tls,
    ) -> io::Result<Option<Arc<dyn DatagramReceiver>>> {
        let Some(http3) = &options.http3 else {
            return Ok(None);
        };
        if http3.early_data.is_some() && tls.asks_clients() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "--early-data cannot be combined with --client-ca: a client shows its certificate only after \
                 early data",
            ));
        }
        Ok(Some(Arc::new(Http3Generation {
            http3: http3.clone(),
            config: server(&tls.config, http3, &options.limits, &self.secrets)?,
            routes: self.routes.clone(),
        })))
    }

    fn leave(&self) {
        self.routes.leave();
    }
}

impl DatagramReceiver for Http3Generation {
    fn receive(&self, sockets: DatagramSockets) -> io::Result<Vec<JoinHandle<()>>> {
        receive(self, sockets)
    }

    fn announcement(&self, port: u16) -> String {
        let port = self.http3.alt_svc_port.unwrap_or(port);
        format!("h3=\":{port}\"; ma={}", Http3::ALT_SVC_AGE)
    }

    fn passes_early(&self) -> bool {
        self.http3.early_data == Some(EarlyData::Upstreams)
    }
}
