//! Who may use a site, and how much of it: networks, trusted proxies, limits of requests and bytes.

use crate::common::{Client, Response, Running, every_backend};
use crate::upstreams::backend::Backend;
use crate::upstreams::http;
use laio::BackendKind::{self, Lazy};
use laio_serve::{LogTarget, NetworkRule, Options, RateRule, SpeedRule};
use std::fs;
use std::io::{BufReader, Read};
use std::os::unix::net::UnixStream;
use std::str::FromStr;
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::write(root.join("index.html"), "home").unwrap();
    fs::create_dir(root.join("admin")).unwrap();
    fs::write(root.join("admin/index.html"), "admin").unwrap();
    fs::write(root.join("large"), vec![b'x'; 300_000]).unwrap();
    dir
}

fn parsed<T: FromStr<Err: std::fmt::Debug>>(texts: &[&str]) -> Vec<T> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn serve(dir: &TempDir, kind: BackendKind, change: impl FnOnce(&mut Options)) -> Running {
    Running::on(kind, dir.path(), change)
}

fn from(client: &mut Client, target: &str, address: &str) -> Response {
    client.request("GET", target, &format!("X-Forwarded-For: {address}\r\n"))
}

#[test]
fn networks_are_let_in_or_refused() {
    let dir = site();
    let server = serve(&dir, Lazy, |options| {
        options.clients.proxies = parsed(&["127.0.0.1"]);
        options.site.access.deny = parsed::<NetworkRule>(&["10.0.0.0/8"]);
        options.site.access.allow =
            parsed::<NetworkRule>(&["10.1.0.0/16", "0.0.0.0/0", "/admin/**=192.0.2.0/24"]);
    });
    let mut client = server.connect();
    // Twice, because the second answer comes from the cache.
    for _ in 0..3 {
        for (address, root, admin) in [
            ("198.51.100.1", 200, 403),
            ("10.2.0.1", 403, 403),
            ("10.1.0.1", 200, 403),
            ("192.0.2.9", 200, 200),
            ("2001:db8::1", 403, 403),
        ] {
            let status = from(&mut client, "/", address).status;
            assert_eq!(status, root, "{address}");
            for path in ["/admin/", "/%61dmin/", "/admin/index.html"] {
                let status = from(&mut client, path, address).status;
                assert_eq!(status, admin, "{address} {path}");
            }
        }
    }
}

#[test]
fn an_upstream_is_not_asked_for_a_refused_client() {
    let dir = site();
    let backend = Backend::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    let server = serve(&dir, Lazy, |options| {
        options.site.access.deny = parsed::<NetworkRule>(&["127.0.0.1", "/a/**=::/0"]);
        options.site.upstreams = vec![http("/", &backend)].into();
    });
    assert_eq!(server.get("/b").status, 403);
    assert!(backend.heads().is_empty());
}

#[test]
fn clients_of_trusted_proxies() {
    let dir = site();
    let log = dir.path().join("log");
    let socket = dir.path().join("socket");
    let cases = r#"
        127.0.0.1 X-Forwarded-For | X-Forwarded-For: 6.6.6.6, 192.0.2.7 => 192.0.2.7
        127.0.0.1 Forwarded | Forwarded: for="[2001:db8::1]" => 2001:db8::1
        127.0.0.1 X-Real-IP | X-Real-IP: 192.0.2.7 | X-Forwarded-For: 6.6.6.6 => 192.0.2.7
        127.0.0.1 X-Forwarded-For => 127.0.0.1
        10.0.0.0/8,unix X-Forwarded-For | X-Forwarded-For: 192.0.2.7 => 127.0.0.1
        - X-Forwarded-For | X-Forwarded-For: 192.0.2.7 => 127.0.0.1
    "#;
    for case in cases.trim().lines() {
        let (case, expected) = case.trim().split_once(" => ").unwrap();
        let (options_of_case, fields) = case.split_once(" | ").unwrap_or((case, ""));
        let (trusted, field) = options_of_case.split_once(' ').unwrap();
        let trusted: Vec<_> = trusted.split(',').filter(|it| *it != "-").collect();
        let fields = fields.split(" | ").filter(|field| !field.is_empty());
        let fields: String = fields.map(|field| format!("{field}\r\n")).collect();
        let _ = fs::remove_file(&log);
        let server = serve(&dir, Lazy, |options| {
            options.clients.proxies = parsed(&trusted);
            options.clients.field = field.to_owned();
            options.log = LogTarget::File(log.clone());
        });
        for _ in 0..3 {
            assert_eq!(server.connect().request("GET", "/", &fields).status, 200);
        }
        server.stop();
        let text = fs::read_to_string(&log).unwrap();
        assert_eq!(text.lines().count(), 3);
        for line in text.lines() {
            let start = format!("{expected} - - ");
            assert!(line.starts_with(&start), "{expected}: {line}");
        }
    }
    let _ = fs::remove_file(&log);
    let server = serve(&dir, Lazy, |options| {
        options.listen = vec![format!("unix:{}", socket.display()).parse().unwrap()];
        options.clients.proxies = parsed(&["unix"]);
        options.log = LogTarget::File(log.clone());
    });
    use std::io::Write;
    let mut stream = UnixStream::connect(&socket).unwrap();
    let request =
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.8\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"));
    server.stop();
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.starts_with("192.0.2.8 - - "), "{text}");
}

#[test]
fn the_name_of_the_field_is_checked() {
    let dir = site();
    let why = "\"A B\" is not the name of a header field";
    Running::refuses(dir.path(), why, |options| {
        options.clients.field = "A B".to_owned()
    });
}

#[test]
fn requests_beyond_a_rate() {
    let dir = site();
    for kind in every_backend() {
        let server = serve(&dir, kind, |options| {
            options.clients.proxies = parsed(&["127.0.0.1"]);
            options.site.access.rates =
                parsed::<RateRule>(&["3/h", "/admin/**=1/h", "9/h,by=header:X-Key"]);
        });
        let mut client = server.connect();
        let statuses = |client: &mut Client, target: &str, address: &str, count: usize| {
            (0..count)
                .map(|_| from(client, target, address).status)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            statuses(&mut client, "/", "192.0.2.1", 4),
            [200, 200, 200, 429],
            "{kind}"
        );
        // Another connection, perhaps to another worker, has the same bucket.
        let answer = from(&mut server.connect(), "/", "192.0.2.1");
        assert_eq!(answer.status, 429);
        let seconds: u64 = answer.header("Retry-After").unwrap().parse().unwrap();
        assert!((1..=1200).contains(&seconds), "{seconds}");
        assert_eq!(
            statuses(&mut client, "/%61dmin/", "192.0.2.2", 2),
            [200, 429]
        );
        assert_eq!(statuses(&mut client, "/missing", "192.0.2.2", 1), [404]);
        // A whole /64 is one client.
        assert_eq!(statuses(&mut client, "/", "2001:db8::1", 2), [200, 200]);
        assert_eq!(statuses(&mut client, "/", "2001:db8::2", 2), [200, 429]);
    }
}

#[test]
fn a_header_may_have_a_rate() {
    let dir = site();
    let server = serve(&dir, Lazy, |options| {
        options.site.access.rates = parsed::<RateRule>(&["1/h,by=header:X-Key"]);
    });
    let mut client = server.connect();
    let mut status = |fields: &str| client.request("GET", "/", fields).status;
    assert_eq!([status("X-Key: a\r\n"), status("X-Key: a\r\n")], [200, 429]);
    assert_eq!([status("X-Key: b\r\n"), status("X-Key: b\r\n")], [200, 429]);
    assert_eq!([status(""), status("")], [200, 429]);
}

#[test]
fn responses_are_sent_no_faster_than_allowed() {
    let dir = site();
    let backend = Backend::answering(
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n{}",
            "y".repeat(60_000)
        )
        .leak(),
    );
    for kind in every_backend() {
        let server = serve(&dir, kind, |options| {
            options.site.access.speeds =
                parsed::<SpeedRule>(&["/large=400000,after=100000", "/up/**=100000"]);
            options.site.upstreams = vec![http("/up/", &backend)].into();
        });
        let started = Instant::now();
        let answer = server.get("/large");
        assert_eq!(answer.body, vec![b'x'; 300_000], "{kind}");
        // The last of the pieces need not be waited for, and is a quarter of the rate.
        assert!(started.elapsed() >= Duration::from_millis(250), "{kind}");
        assert_eq!(server.get("/up/x").body, vec![b'y'; 60_000], "{kind}");
        assert_eq!(server.get("/").text(), "home");
    }
}
