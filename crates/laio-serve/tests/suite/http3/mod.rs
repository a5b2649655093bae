//! HTTP/3, with clients of other libraries: `quinn` and `h3`.

mod client;
mod early;
mod lifecycle;
mod memory;
mod network;
mod relay;
mod requests;
mod violations;

use crate::common::Running;
use crate::common::certs::{Made, make};
use crate::common::multiplexed::{self, large, site};
use laio::BackendKind;
use laio_serve::{Http3, Options};
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use tempfile::TempDir;

/// A site with a certificate, and a server with HTTP/3.
struct Fixture {
    server: Running,
    made: Made,
    options: Options,
    site: TempDir,
}

impl Fixture {
    fn start() -> Fixture {
        Fixture::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Options)) -> Fixture {
        Fixture::on(BackendKind::Lazy, change)
    }

    fn on(backend: BackendKind, change: impl FnOnce(&mut Options)) -> Fixture {
        let site = site();
        let made = make(site.path(), "localhost");
        let mut own = Options::default();
        let server = Running::on(backend, site.path(), |options| {
            options.listen = vec!["tls:127.0.0.1:0".parse().unwrap()];
            options.certificates = vec![made.files.clone()];
            options.http3 = Some(Http3::default());
            change(options);
            own = options.clone();
        });
        Fixture {
            server,
            made,
            options: own,
            site,
        }
    }

    /// Returns the options of the server.
    fn options(&self) -> Options {
        self.options.clone()
    }

    /// Returns the directory of the site.
    fn root(&self) -> &Path {
        self.site.path()
    }

    /// Returns the address with TLS.
    fn address(&self) -> SocketAddr {
        let mut places = self.server.places().iter();
        places.find(|it| it.tls).unwrap().inet().unwrap()
    }
}

/// Runs a test with a time limit, then closes its endpoints.
fn run(test: impl Future<Output = ()>) {
    multiplexed::run(async {
        test.await;
        client::close_all().await;
    });
}
