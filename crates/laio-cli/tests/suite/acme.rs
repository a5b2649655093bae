//! Certificates that the server gets by itself: from Pebble, an authority for tests, or signed with their own keys.

mod authority;

use crate::common::server::{ServerProcess, get, wait_until};
use crate::common::text;
use authority::{Authority, EXTERNAL_ACCOUNT, Setup, connect, free_ports};
use rustix::process::Signal;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A directory with a site, and the state of the server.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        laio_testing::watchdog::enter();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("site")).unwrap();
        fs::write(dir.path().join("site/index.html"), "home").unwrap();
        Place(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the command with these flags, which are separated by spaces.
    fn command(&self, flags: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
        command
            .args(["serve", "site", "--log=off", "--acme-state=state"])
            .args(flags.split(' '))
            .current_dir(self.path())
            .env_remove("LAIO_BACKEND");
        command
    }

    /// Starts a server with these flags, where `HTTP` is the address at which the authority checks names.
    fn start(&self, authority: &Authority, flags: &str) -> ServerProcess {
        laio_testing::watchdog::step(flags);
        wait_until_free([authority.http(), authority.tls()]);
        let flags = flags.replace("HTTP", &authority.http().to_string());
        ServerProcess::spawn(self.command(&flags).args(authority.flags()))
    }

    /// Returns the folder of the files of the authority.
    fn folder(&self) -> PathBuf {
        let entries = fs::read_dir(self.path().join("state")).unwrap();
        let mut paths = entries.map(|entry| entry.unwrap().path());
        let is_folder = |path: &PathBuf| path.to_str().unwrap().ends_with("_dir");
        paths.find(is_folder).expect("the folder of the authority")
    }
}

/// The kernel closes the sockets of a ring some time after its process was killed.
fn wait_until_free(addresses: [SocketAddr; 2]) {
    for address in addresses {
        wait_until("the address is free", || TcpListener::bind(address).is_ok());
    }
}

/// Gets a page by https. Returns the certificate.
fn page(
    address: SocketAddr,
    root: &CertificateDer<'static>,
    name: &str,
) -> std::io::Result<Vec<u8>> {
    let mut stream = connect(address, root, name)?;
    let answer = get(&mut stream, "/")?;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("home"),
        "{answer}"
    );
    Ok(stream.conn.peer_certificates().unwrap()[0].to_vec())
}

#[test]
fn certificates_by_http_and_their_renewal() {
    let place = Place::new();
    let setup = Setup {
        lifetime: 8,
        ..Setup::default()
    };
    let Some(authority) = Authority::start(place.path(), &setup) else {
        return;
    };
    let flags = "--https=a.net,B.net --acme-retry=1 --listen=HTTP";
    let server = place.start(&authority, flags);
    server.wait_for_line("until there is a certificate for a.net, b.net");
    server.wait_for_line("got a certificate for a.net, valid until");
    server.wait_for_line("got a certificate for b.net, valid until");
    let root = authority.root();
    let first = page(authority.tls(), &root, "a.net").unwrap();
    page(authority.tls(), &root, "b.net").unwrap();
    // Who uses http is led to https, with the port.
    let redirect = get(TcpStream::connect(authority.http()).unwrap(), "/x?y").unwrap();
    let location = format!("Location: https://a:{}/x?y", authority.tls().port());
    assert!(
        redirect.starts_with("HTTP/1.1 308") && redirect.contains(&location),
        "{redirect}"
    );
    let unknown = "/.well-known/acme-challenge/unknown";
    let redirect = get(TcpStream::connect(authority.http()).unwrap(), unknown).unwrap();
    assert!(redirect.starts_with("HTTP/1.1 308"), "{redirect}");
    server.wait_for_line("got a certificate for a.net, valid until");
    let second = page(authority.tls(), &root, "a.net").unwrap();
    assert_ne!(first, second, "new handshakes use the new certificate");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for entry in fs::read_dir(place.folder()).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    assert_eq!(mode(&place.folder()), 0o700);
    assert_eq!(mode(&place.path().join("state")), 0o700);
}

#[test]
fn the_authority_suggests_when_to_renew() {
    let place = Place::new();
    let Some(authority) = Authority::start(place.path(), &Setup::default()) else {
        return;
    };
    // The site refuses all clients; the authority still gets the answer to its challenge.
    let flags = "--https=a.net --acme-retry=1 --deny=127.0.0.0/8 --listen=HTTP";
    let server = place.start(&authority, flags);
    server.wait_for_line("getting a certificate for a.net");
    let mut order = Vec::new();
    wait_until("an order is on disk", || {
        let folders = fs::read_dir(place.path().join("state")).unwrap();
        let mut orders = folders.map(|it| it.unwrap().path().join("a.net.order.json"));
        orders.any(|path| fs::read(path).map(|contents| order = contents).is_ok())
    });
    server.wait_for_line("got a certificate for a.net");
    server.signal(Signal::TERM);
    server.wait_for_success();
    // As if the server had been killed before it removed the order.
    fs::write(place.folder().join("a.net.order.json"), order).unwrap();
    let file = place.folder().join("a.net.pem");
    let first = fs::read_to_string(&file).unwrap();
    let begin = first.find("-----BEGIN CERTIFICATE").unwrap();
    let end = begin + first[begin..].find("-----END CERTIFICATE-----\n").unwrap();
    authority.suggest_renewal(&format!(
        "{}-----END CERTIFICATE-----\n",
        &first[begin..end]
    ));
    let server = place.start(&authority, flags);
    server.wait_for_line("got a certificate for a.net");
    assert_ne!(fs::read_to_string(&file).unwrap(), first);
    assert_eq!(authority.orders(), 2);
}

#[test]
fn certificates_by_tls_alone() {
    let place = Place::new();
    let setup = Setup {
        needs_external_account: true,
        ..Setup::default()
    };
    let Some(authority) = Authority::start(place.path(), &setup) else {
        return;
    };
    fs::write(place.path().join("eab"), EXTERNAL_ACCOUNT).unwrap();
    let flags = "--https=a.net --acme-challenge=tls-alpn-01 --acme-eab=eab \
                 --acme-contact=me@a.net --admin=127.0.0.1:0";
    let server = place.start(&authority, flags);
    let line = server.wait_for_line("--admin listens on ");
    let admin: SocketAddr = line.rsplit(' ').next().unwrap().parse().unwrap();
    server.wait_for_line("got a certificate for a.net");
    let metrics = get(TcpStream::connect(admin).unwrap(), "/metrics").unwrap();
    for part in [
        "\nlaio_certificate_expires_in_seconds{name=\"a.net\"} 77",
        "\nlaio_certificates_issued_total{name=\"a.net\"} 1\n",
        "\nlaio_certificate_failures_total{name=\"a.net\"} 0\n",
    ] {
        assert!(metrics.contains(part), "{part} is not in {metrics}");
    }
    let status = get(TcpStream::connect(admin).unwrap(), "/status.json").unwrap();
    let status = status.split_once("\r\n\r\n").unwrap().1;
    let status: serde_json::Value = serde_json::from_str(status).unwrap();
    assert_eq!(status["certificates"]["a.net"]["issued"], 1);
    page(authority.tls(), &authority.root(), "a.net").unwrap();
}

#[test]
fn the_authority_is_away_and_comes_back() {
    let place = Place::new();
    let Some(mut authority) = Authority::start(place.path(), &Setup::default()) else {
        return;
    };
    authority.stop();
    let flags = "--https=a.net --acme-retry=0.2 --listen=HTTP";
    let server = place.start(&authority, flags);
    server.wait_for_line("cannot get a certificate for a.net: https://localhost");
    // Meanwhile connections are encrypted with a certificate that no client trusts.
    let error = page(authority.tls(), &own(&authority), "a.net").unwrap_err();
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    authority.resume();
    // Without waiting for the next try.
    server.signal(Signal::HUP);
    server.wait_for_line("got a certificate for a.net");
    let root = authority.root();
    page(authority.tls(), &root, "a.net").unwrap();
    server.signal(Signal::TERM);
    server.wait_for_success();
    // A server that starts without the authority has the certificate.
    authority.stop();
    let server = place.start(&authority, flags);
    server.wait_for_line("using the certificate on disk for a.net");
    page(authority.tls(), &root, "a.net").unwrap();
    // The authority has lost its accounts.
    fs::remove_file(place.folder().join("a.net.pem")).unwrap();
    drop(server);
    authority.resume();
    let server = place.start(&authority, flags);
    server.wait_for_line("does not know the account");
    server.wait_for_line("got a certificate for a.net");
}

#[test]
fn a_certificate_that_the_authority_has_forgotten_is_renewed() {
    let place = Place::new();
    let setup = Setup {
        lifetime: 6,
        ..Setup::default()
    };
    let Some(mut authority) = Authority::start(place.path(), &setup) else {
        return;
    };
    let flags = "--https=a.net --acme-retry=0.2 --listen=HTTP";
    let server = place.start(&authority, flags);
    server.wait_for_line("got a certificate for a.net");
    // Pebble keeps what it has issued in its memory only, and finds no order that the renewal could replace.
    authority.stop();
    authority.resume();
    server.wait_for_line("got a certificate for a.net");
    page(authority.tls(), &authority.root(), "a.net").unwrap();
}

fn own(authority: &Authority) -> CertificateDer<'static> {
    let flags = authority.flags();
    let file = flags
        .iter()
        .find_map(|flag| flag.strip_prefix("--acme-ca="));
    CertificateDer::from_pem_file(file.unwrap()).unwrap()
}

#[test]
fn what_the_authority_refuses_is_shown() {
    let place = Place::new();
    let Some(authority) = Authority::start(place.path(), &Setup::default()) else {
        return;
    };
    // The authority looks at another port.
    let flags = "--https=a.net,blocked.net --listen=127.0.0.1:0";
    let server = place.start(&authority, flags);
    let line = server.wait_for_line("cannot get a certificate for a.net");
    assert!(
        line.contains("the authority says") && line.contains("refused"),
        "{line}"
    );
    assert!(line.contains("trying again in 60 seconds"), "{line}");
    let line = server.wait_for_line("cannot get a certificate for blocked.net");
    assert!(line.contains("blocked.net"), "{line}");
    let left = fs::read_dir(place.folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(
        left.collect::<Vec<_>>(),
        ["account.json"],
        "no order is left"
    );
}

#[test]
fn a_killed_server_goes_on_with_its_order() {
    let place = Place::new();
    // Time to kill the server before it asks whether its name is checked.
    let setup = Setup {
        poll_seconds: 5,
        ..Setup::default()
    };
    let Some(authority) = Authority::start(place.path(), &setup) else {
        return;
    };
    let flags = "--https=a.net --acme-retry=0.1 --listen=HTTP";
    let mut server = place.start(&authority, flags);
    wait_until("the name is checked", || authority.checked() == 1);
    server.child.kill().unwrap();
    drop(server);
    server = place.start(&authority, flags);
    server.wait_for_line("got a certificate for a.net");
    page(authority.tls(), &authority.root(), "a.net").unwrap();
    assert_eq!(authority.orders(), 1, "the order that was on disk");
    wait_until("the order is forgotten", || {
        !place.folder().join("a.net.order.json").exists()
    });
}

#[test]
fn a_server_killed_at_any_moment_leaves_nothing_half() {
    let place = Place::new();
    let Some(authority) = Authority::start(place.path(), &Setup::default()) else {
        return;
    };
    let flags = "--https=a.net --acme-retry=0.1 --listen=HTTP";
    // Later and later, until the certificate is there.
    for round in 0..60 {
        let mut server = place.start(&authority, flags);
        std::thread::sleep(Duration::from_millis(30 + 20 * round));
        server.child.kill().unwrap();
        drop(server);
        let state = place.path().join("state");
        let found = fs::read_dir(&state).into_iter().flatten().flatten();
        let folder = found
            .map(|it| it.path())
            .find(|path| path.to_str().unwrap().ends_with("_dir"));
        let Some(folder) = folder else {
            continue;
        };
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let contents = fs::read_to_string(entry.path()).unwrap();
            match name.as_str() {
                _ if name.starts_with('.') => {}
                "account.json" | "a.net.order.json" => {
                    serde_json::from_str::<serde_json::Value>(&contents).unwrap();
                }
                "a.net.pem" => assert!(
                    contents.ends_with("-----END CERTIFICATE-----\n"),
                    "{contents}"
                ),
                other => panic!("what is {other}?"),
            }
        }
        if folder.join("a.net.pem").exists() {
            break;
        }
    }
    let server = place.start(&authority, flags);
    wait_until("there is a certificate", || {
        page(authority.tls(), &authority.root(), "a.net").is_ok()
    });
    drop(server);
}

#[test]
fn several_processes_order_once() {
    let place = Place::new();
    let Some(authority) = Authority::start(place.path(), &Setup::default()) else {
        return;
    };
    for (number, challenge) in ["http-01", "tls-alpn-01"].iter().enumerate() {
        let name = format!("host{number}.net");
        let more = "--processes=3 --acme-retry=0.5 --listen=HTTP";
        let flags = format!("--https={name} --acme-challenge={challenge} {more}");
        let server = place.start(&authority, &flags);
        server.wait_for_line(&format!("got a certificate for {name}"));
        let root = authority.root();
        // Connections arrive at all processes; each has the certificate within about a second.
        let mut in_a_row = 0;
        wait_until("all processes have the certificate", || {
            in_a_row = page(authority.tls(), &root, &name).map_or(0, |_| in_a_row + 1);
            in_a_row == 50
        });
        assert_eq!(authority.orders(), number + 1);
        server.signal(Signal::TERM);
        server.wait_for_success();
    }
}

#[test]
fn names_of_this_machine_need_no_authority() {
    let place = Place::new();
    let [http, tls] = free_ports();
    let [http, tls] = [http, tls].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    // A certificate in files is used for its names.
    let other = rcgen::generate_simple_self_signed(["b.net".to_owned()]).unwrap();
    fs::write(place.path().join("cert.pem"), other.cert.pem()).unwrap();
    fs::write(
        place.path().join("key.pem"),
        other.signing_key.serialize_pem(),
    )
    .unwrap();
    let flags = format!(
        "--https=localhost,127.0.0.1 --listen=tls:{tls} --listen={http} --tls-cert=cert.pem --tls-key=key.pem"
    );
    let mut before = String::new();
    for _ in 0..2 {
        wait_until_free([http, tls]);
        let server = ServerProcess::spawn(&mut place.command(&flags));
        let line = server.wait_for_line("no authority has signed");
        let fingerprint = line.rsplit(' ').next().unwrap().to_owned();
        assert_eq!(fingerprint.len(), 95, "{line}");
        assert!(
            before.is_empty() || before == fingerprint,
            "it stays over a restart"
        );
        let file = place
            .path()
            .join("state/self-signed/localhost+127.0.0.1.pem");
        let certificate = CertificateDer::from_pem_file(file).unwrap();
        for name in ["localhost", "127.0.0.1"] {
            page(tls, &certificate, name).unwrap();
        }
        page(tls, other.cert.der(), "b.net").unwrap();
        before = fingerprint;
    }
}

#[test]
fn sockets_of_systemd_are_found_by_their_names() {
    /// Moves standard output and input to the descriptors 3 and 4.
    const SCRIPT: &str = r#"LISTEN_FDS=2 LISTEN_PID=$$ exec "$@" 3>&1 4<&0 </dev/null >/dev/null"#;
    let place = Place::new();
    let [encrypted, plain] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [tls, http] = [&encrypted, &plain].map(|it| it.local_addr().unwrap());
    let mut command = Command::new("sh");
    command
        .args(["-c", SCRIPT, "sh", env!("CARGO_BIN_EXE_laio"), "serve"])
        .args(["site", "--log=off", "--https=localhost"])
        .current_dir(place.path())
        .env("STATE_DIRECTORY", place.path())
        .env("LISTEN_FDNAMES", "https:http")
        .stdout(Stdio::from(OwnedFd::from(encrypted)))
        .stdin(Stdio::from(OwnedFd::from(plain)));
    let server = ServerProcess::spawn(&mut command);
    server.wait_for_line("no authority has signed");
    let file = place.path().join("acme/self-signed/localhost.pem");
    let certificate = CertificateDer::from_pem_file(file).unwrap();
    page(tls, &certificate, "localhost").unwrap();
    let redirect = get(TcpStream::connect(http).unwrap(), "/").unwrap();
    let location = format!("Location: https://a:{}/", tls.port());
    assert!(redirect.contains(&location), "{redirect}");
}

#[test]
fn options_that_cannot_work_are_refused() {
    let place = Place::new();
    fs::write(place.path().join("ca.pem"), "nothing").unwrap();
    for (flags, words) in [
        ("--https=*.a.net", "DNS"),
        (
            "--https=a.net --listen=tls:127.0.0.1:0",
            "--acme-challenge tls-alpn-01",
        ),
        ("--https=a.net --listen=127.0.0.1:0", "tls:"),
        ("--https=a.net --acme-directory=http://ca/", "https://"),
        ("--https=a.net --acme-ca=missing", "missing"),
        ("--https=a.net --acme-ca=ca.pem", "--acme-ca"),
        ("--https=a.net --acme-eab=ca.pem", "--acme-eab"),
        ("--https=a.net --acme-state=site/keys", "are served"),
        ("--acme-contact=a@b.c", "--https"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_laio"))
            .args(["serve", "site", "--check"])
            .args(flags.split(' '))
            .current_dir(place.path())
            .output()
            .unwrap();
        let messages = text(&output.stderr);
        assert!(
            !output.status.success() && messages.contains(words),
            "{flags:?}: {messages}"
        );
    }
}
