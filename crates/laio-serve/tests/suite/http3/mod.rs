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
use laio::BackendKind;
use laio_serve::{Http3, Options};
use std::fs;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};
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

fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::write(root.join("index.html"), "<h1>home</h1>").unwrap();
    fs::write(root.join("ten.txt"), "0123456789").unwrap();
    fs::write(root.join("empty.txt"), "").unwrap();
    fs::write(root.join("text.txt"), "laio ".repeat(100_000)).unwrap();
    fs::write(root.join("large.bin"), large()).unwrap();
    fs::create_dir(root.join("docs")).unwrap();
    fs::write(root.join("docs/a.txt"), "a").unwrap();
    // The entity tag of a recently changed file is weak.
    let before = SystemTime::now() - Duration::from_secs(3600);
    for name in [
        "index.html",
        "ten.txt",
        "empty.txt",
        "text.txt",
        "large.bin",
    ] {
        let file = fs::File::options().append(true).open(root.join(name));
        file.unwrap().set_modified(before).unwrap();
    }
    dir
}

fn large() -> Vec<u8> {
    let words = (0..500_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes());
    words.collect()
}

/// Runs a test with a time limit.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let limit = Duration::from_secs(300);
    let test = async {
        test.await;
        client::close_all().await;
    };
    let done = runtime.block_on(async { tokio::time::timeout(limit, test).await });
    done.expect("it takes for ever");
}
