//! Connections that begin with the header of a proxy in front (the PROXY protocol).

use crate::common::certs::{make, trusting};
use crate::common::{LONG, Running, until};
use crate::upstreams::backend::Backend;
use crate::upstreams::http;
use laio::BackendKind::{self, Lazy, Sync};
use laio_serve::{LogTarget, Observer, Options};
use rustls::{ClientConnection, StreamOwned};
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const V1: &[u8] = b"PROXY TCP4 192.0.2.7 10.9.9.9 56324 443\r\n";
const V1_LOCAL: &[u8] = b"PROXY UNKNOWN\r\n";
/// 192.0.2.8, with a TLV.
const V2: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x10\xc0\0\x02\x08\x0a\x09\x09\x09\x01\x02\x01\xbb\x04\0\x01\0";
const V2_LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
/// The client is itself a trusted proxy.
const V1_PROXY: &[u8] = b"PROXY TCP6 2001:db8::5 ::1 1 443\r\n";

/// A request whose field counts only if the client that the header names is a trusted proxy.
const REQUEST: &[u8] =
    b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 198.51.100.1\r\nConnection: close\r\n\r\n";

/// Headers, and the clients that requests then have.
const HEADERS: [(&[u8], &str); 5] = [
    (V1, "192.0.2.7"),
    (V2, "192.0.2.8"),
    (V1_LOCAL, "127.0.0.1"),
    (V2_LOCAL, "127.0.0.1"),
    (V1_PROXY, "198.51.100.1"),
];

fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    dir
}

fn serve(site: &TempDir, kind: BackendKind, change: impl FnOnce(&mut Options)) -> Running {
    Running::on(kind, site.path(), |options| {
        options.listen = vec!["proxy:127.0.0.1:0".parse().unwrap()];
        let trusted = ["127.0.0.1", "2001:db8::5"];
        options.clients.proxies = trusted.map(|text| text.parse().unwrap()).to_vec();
        options.log = LogTarget::File(site.path().join("log"));
        change(options);
    })
}

/// Returns the clients that the access log names, and empties it.
fn logged(site: &TempDir) -> Vec<String> {
    let path = site.path().join("log");
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(path).unwrap();
    let lines = text.lines();
    lines
        .map(|line| line.split(' ').next().unwrap().to_owned())
        .collect()
}

fn answer(stream: &mut impl Read) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn is_home(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nhome")
}

#[test]
fn both_versions_name_the_client() {
    let site = site();
    let server = serve(&site, Lazy, |_| {});
    for (header, _) in HEADERS {
        let mut client = server.connect();
        client.send([header, REQUEST].concat());
        assert!(is_home(&answer(&mut client.0)), "{header:?}");
    }
    // Several requests; the header comes once.
    let mut client = server.connect();
    client.send(V2);
    for _ in 0..3 {
        assert_eq!(client.get("/").body, b"home");
    }
    drop(client);
    server.stop();
    let mut expected = HEADERS.map(|(_, client)| client).to_vec();
    expected.extend(["192.0.2.8"; 3]);
    let mut logged = logged(&site);
    expected.sort_unstable();
    logged.sort_unstable();
    assert_eq!(logged, expected);
}

#[test]
fn bytes_may_be_cut_anywhere() {
    let site = site();
    let server = serve(&site, Lazy, |_| {});
    let mut count = 0;
    for header in [V1, V2] {
        let bytes = [header, REQUEST].concat();
        for end in 1..header.len() + 3 {
            let mut client = server.connect();
            client.0.get_ref().set_nodelay(true).unwrap();
            client.send(&bytes[..end]);
            // Lets the server receive the first part alone, mostly.
            std::thread::sleep(Duration::from_millis(1));
            client.send(&bytes[end..]);
            assert!(is_home(&answer(&mut client.0)), "{header:?} {end}");
            count += 1;
        }
    }
    server.stop();
    let logged = logged(&site);
    let named = |client: &&String| ["192.0.2.7", "192.0.2.8"].contains(&client.as_str());
    assert_eq!(logged.iter().filter(named).count(), count);
}

/// A socket that sends a header before the first bytes, up to `cut` of all bytes in a piece of its own.
struct Headed {
    socket: TcpStream,
    header: Vec<u8>,
    cut: usize,
}

impl Write for Headed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.header.is_empty() {
            return self.socket.write(bytes);
        }
        let all = [&std::mem::take(&mut self.header), bytes].concat();
        self.socket.write_all(&all[..self.cut])?;
        std::thread::sleep(Duration::from_millis(1));
        self.socket.write_all(&all[self.cut..])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Headed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }
}

#[test]
fn the_header_comes_before_tls() {
    let (site, keys) = (site(), tempfile::tempdir().unwrap());
    let made = make(keys.path(), "localhost");
    let config = Arc::new(trusting(&[&made], &["http/1.1"]));
    for kind in [Lazy, BackendKind::Threads, Sync] {
        let server = serve(&site, kind, |options| {
            options.listen = vec!["proxy:tls:127.0.0.1:0".parse().unwrap()];
            options.certificates = vec![made.files.clone()];
        });
        let address = server.places()[0].inet().unwrap();
        assert!(
            server.places()[0]
                .to_string()
                .starts_with("proxy:tls:127.0.0.1:")
        );
        let mut expected = Vec::new();
        for (header, client) in HEADERS {
            for cut in [
                0,
                1,
                header.len() - 1,
                header.len(),
                header.len() + 1,
                header.len() + 7,
            ] {
                let socket = TcpStream::connect(address).unwrap();
                socket.set_nodelay(true).unwrap();
                socket.set_read_timeout(Some(LONG)).unwrap();
                let header = header.to_vec();
                let headed = Headed {
                    socket,
                    header,
                    cut,
                };
                let name = "localhost".try_into().unwrap();
                let tls = ClientConnection::new(config.clone(), name).unwrap();
                let mut stream = StreamOwned::new(tls, headed);
                stream.write_all(REQUEST).unwrap();
                assert!(is_home(&answer(&mut stream)), "{kind} {client} {cut}");
                expected.push(client);
            }
        }
        // HTTP without TLS, after the header.
        let mut clear = server.connect();
        clear.send([V1, REQUEST].concat());
        assert_eq!(clear.answer(false).status, 400);
        expected.push("192.0.2.7");
        server.stop();
        let mut logged = logged(&site);
        expected.sort_unstable();
        logged.sort_unstable();
        assert_eq!(logged, expected, "{kind}");
    }
}

#[test]
fn connections_without_a_valid_header_are_closed() {
    let site = site();
    for kind in [Lazy, Sync] {
        let observer = Observer::new(false);
        let server = serve(&site, kind, |options| options.observer = observer.clone());
        let garbage: [&[u8]; 6] = [
            REQUEST,
            b"\x16\x03\x01\x02\0\x01",
            b"PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
            &[b'x'; 5000],
            &[V2_LOCAL, V1, REQUEST].concat(),
            b"\r\n\r\n\0\r\nQUIT\n\x31\0\0\0",
        ];
        for bytes in garbage {
            let mut client = server.connect();
            client.send(bytes);
            let mut answer = Vec::new();
            // The rest that the server has not read may reset the connection.
            let _ = client.0.read_to_end(&mut answer);
            let is_second = bytes.starts_with(V2_LOCAL);
            assert_eq!(answer.is_empty(), !is_second, "{kind} {bytes:?}");
        }
        // The end within a header, and before it, which is no mistake.
        for bytes in [&V1[..9], b""] {
            let mut client = server.connect();
            client.send(bytes);
            client
                .0
                .get_ref()
                .shutdown(std::net::Shutdown::Write)
                .unwrap();
            assert!(client.is_closed());
        }
        server.stop();
        assert_eq!(observer.seen().refused_proxy_headers, 6, "{kind}");
        // A second header is a malformed request of the first one's client.
        assert_eq!(logged(&site), ["127.0.0.1"]);
    }
}

#[test]
fn headers_that_do_not_arrive_in_time() {
    let site = site();
    let observer = Observer::new(false);
    let server = serve(&site, Lazy, |options| {
        options.observer = observer.clone();
        options.limits.head_time = Duration::from_millis(100);
    });
    let mut client = server.connect();
    client.send(&V1[..20]);
    assert!(client.is_closed());
    server.stop();
    assert_eq!(observer.seen().refused_proxy_headers, 1);
}

#[test]
fn other_peers_are_not_believed() {
    let site = site();
    for kind in [Lazy, Sync] {
        let observer = Observer::new(false);
        let server = serve(&site, kind, |options| {
            options.observer = observer.clone();
            options.clients.proxies = vec!["10.0.0.0/8".parse().unwrap()];
        });
        let mut client = server.connect();
        let _ = client.0.get_mut().write_all(&[V1, REQUEST].concat());
        assert!(client.is_closed());
        server.stop();
        assert_eq!(observer.seen().refused_proxy_headers, 1);
        assert!(logged(&site).is_empty());
    }
}

#[test]
fn unix_sockets() {
    let site = site();
    let path = site.path().join("socket");
    let server = serve(&site, Lazy, |options| {
        let listen = format!("proxy:unix:{}", path.display());
        options.listen = vec![listen.parse().unwrap()];
        options.clients.proxies = vec!["unix".parse().unwrap()];
    });
    for header in [V1, V2_LOCAL] {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(&[header, REQUEST].concat()).unwrap();
        assert!(is_home(&answer(&mut stream)));
    }
    server.stop();
    let mut logged = logged(&site);
    logged.sort_unstable();
    assert_eq!(logged, ["-", "192.0.2.7"]);
}

#[test]
fn connections_count_for_the_named_client() {
    let site = site();
    let server = serve(&site, Lazy, |options| {
        options.limits.connections_per_address = Some(1)
    });
    let connect = |header: &[u8]| {
        let mut client = server.connect();
        client.send(header);
        client
    };
    let mut first = connect(V1);
    assert_eq!(first.get("/").status, 200);
    assert!(connect(V1).is_closed());
    // Others, and those that the proxy does not name.
    let mut others = [V2, V1_LOCAL, V1_LOCAL, V1_PROXY, V1_PROXY].map(connect);
    for other in &mut others {
        assert_eq!(other.get("/").status, 200);
    }
    drop(first);
    until("there is room for another connection", || {
        let mut next = server.connect();
        let asked = next.0.get_mut().write_all(&[V1, REQUEST].concat());
        asked.is_ok() && next.0.read(&mut [0; 1]).is_ok_and(|count| count == 1)
    });
}

#[test]
fn rules_and_upstreams_get_the_named_client() {
    let site = site();
    let backend = Backend::start(|peer| {
        let line = peer.line();
        while peer.request().is_some() {
            let length = line.len();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{line}"
            ));
        }
    });
    let server = serve(&site, Lazy, |options| {
        options.site.upstreams = vec![http("/up", &backend)].into();
        options.site.upstreams.proxy_protocol = vec!["v1".parse().unwrap()];
        options.site.access.deny = vec!["192.0.2.8".parse().unwrap()];
    });
    let connect = |header: &[u8]| {
        let mut client = server.connect();
        client.send(header);
        client
    };
    let port = server.places()[0].inet().unwrap().port();
    let answer = connect(V1).request("GET", "/up", "X-Forwarded-For: 6.6.6.6\r\n");
    assert_eq!(
        answer.text(),
        format!("PROXY TCP4 192.0.2.7 127.0.0.1 0 {port}")
    );
    let head = backend.heads().concat().to_ascii_lowercase();
    assert!(head.contains("x-forwarded-for: 192.0.2.7\r\n"), "{head}");
    assert_eq!(connect(V2).get("/").status, 403);
}

#[test]
fn a_server_that_trusts_no_proxy_does_not_start() {
    let site = site();
    let listen = "proxy:127.0.0.1:0";
    let started = Running::try_with(site.path(), |options| {
        options.listen = vec![listen.parse().unwrap()];
    });
    let text = started.err().unwrap().to_string();
    assert!(
        text.contains(listen) && text.contains("--trust-proxy"),
        "{text}"
    );
    // Nor does a reload.
    let mut options = Options::default();
    let server = serve(&site, Lazy, |own| options = own.clone());
    options.clients.proxies = Vec::new();
    let refused = server.control().reload(options).unwrap_err().to_string();
    assert!(refused.contains("--trust-proxy"), "{refused}");
    let mut client = server.connect();
    client.send([V1, REQUEST].concat());
    assert!(is_home(&answer(&mut client.0)));
}

#[test]
fn http3_has_no_such_header() {
    let (site, keys) = (site(), tempfile::tempdir().unwrap());
    let made = make(keys.path(), "localhost");
    let started = Running::try_with(site.path(), |options| {
        options.listen = vec!["proxy:tls:127.0.0.1:0".parse().unwrap()];
        options.clients.proxies = vec!["127.0.0.1".parse().unwrap()];
        options.certificates = vec![made.files.clone()];
        options.http3 = Some(laio_serve::Http3::default());
    });
    let text = started.err().unwrap().to_string();
    assert!(text.contains("without proxy:"), "{text}");
}
