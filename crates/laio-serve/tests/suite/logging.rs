//! The access log: its fields, which requests it has, and its targets, also those that are slow, absent or gone.

use crate::common::certs::{connect, make, trusting};
use crate::common::http2::Client;
use crate::common::multiplexed::{Multiplexed, run};
use crate::common::{LONG, Running, until};
use crate::upstreams::backend::Backend;
use laio_serve::{LogField, LogFormat, LogTarget, Observer, Options, SyslogAddress, Upstream};
use rustix::net::{AddressFamily, SocketType};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn site() -> TempDir {
    let dir = tempfile::Builder::new().prefix("site").tempdir().unwrap();
    fs::create_dir(dir.path().join("health")).unwrap();
    for name in ["file", "other.css", "health/live"] {
        fs::write(dir.path().join(name), "0123456789").unwrap();
    }
    dir
}

fn fields(names: &str) -> Vec<LogField> {
    names.split(',').map(|name| name.parse().unwrap()).collect()
}

/// Returns the lines of the log that the requests of `ask` leave.
fn logged(change: impl FnOnce(&mut Options), ask: impl FnOnce(&Running)) -> Vec<String> {
    let (root, log) = (site(), tempfile::NamedTempFile::new().unwrap());
    let server = Running::with(root.path(), |options| {
        options.log = LogTarget::File(log.path().to_owned());
        options.log_format = LogFormat::Logfmt;
        options.workers = Some(1);
        change(options);
    });
    ask(&server);
    server.stop();
    let text = fs::read_to_string(log.path()).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn chosen_fields() {
    let names = "method,path,query,host,status,bytes,referer,user_agent,req:X-A,resp:Content-Type,resp:etag,tls_version";
    let change = |options: &mut Options| options.log_options.fields = fields(names);
    let lines = logged(change, |server| {
        let mut client = server.connect();
        client.request(
            "GET",
            "/file?a=b",
            "X-A: \"quoted\" \t\u{e9}\r\nUser-Agent: me\r\n",
        );
        // From the cache, at once.
        client.get("/file");
        client.get("/file");
        client.request("HEAD", "/no%20such", "");
        client.send("nonsense\r\n\r\n");
        client.answer(false);
    });
    let etag = |line: &str| {
        line.split("resp:etag=")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .to_owned()
    };
    let known = etag(&lines[0]);
    assert!(known.starts_with('"'), "{lines:#?}");
    let file = |query: &str, agent: &str, x_a: &str| {
        format!(
            "method=GET path=/file query={query} host=test status=200 bytes=10 referer=- user_agent={agent} req:X-A={x_a} \
             resp:Content-Type=application/octet-stream resp:etag={known} tls_version=-"
        )
    };
    assert_eq!(
        lines[0],
        file(
            "a=b".replace("a=b", "\"a=b\"").as_str(),
            "me",
            r#""\x22quoted\x22 \x09\xc3\xa9""#
        )
    );
    assert_eq!(lines[1], file("-", "-", "-"));
    assert_eq!(lines[2], lines[1]);
    assert!(
        lines[3].starts_with("method=HEAD path=/no%20such query=- host=test status=404 bytes=0 ")
            && lines[3].contains(r#" resp:Content-Type="text/html; charset=utf-8" resp:etag=- "#),
        "{}",
        lines[3]
    );
    assert!(
        lines[4].starts_with("method=- path=\"\" query=- host=- status=400 "),
        "{}",
        lines[4]
    );
    assert_eq!(lines.len(), 5);
}

/// The same line over TLS in both versions of HTTP, and for the response of an upstream.
#[test]
fn properties_of_connections() {
    let keys = tempfile::tempdir().unwrap();
    let made = make(keys.path(), "localhost");
    let upstream =
        Backend::answering("HTTP/1.1 200 OK\r\nX-From: there\r\nContent-Length: 2\r\n\r\nhi");
    let address = upstream.address();
    let change = |options: &mut Options| {
        options.log_options.fields =
            fields("path,version,tls_version,tls_cipher,upstream,resp:x-from");
        options.listen = vec!["tls:127.0.0.1:0".parse().unwrap()];
        options.certificates = vec![made.files.clone()];
        options.site.upstreams =
            vec![Upstream::http(&format!("/up=http://{address}")).unwrap()].into();
    };
    let lines = logged(change, |server| {
        let place = server.places()[0].inet().unwrap();
        let config = Arc::new(trusting(&[&made], &["http/1.1"]));
        for target in ["/file", "/up"] {
            let mut stream = connect(place, &config, "localhost");
            write!(
                stream,
                "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            )
            .unwrap();
            let _ = stream.read_to_string(&mut String::new());
        }
        run(async {
            let client = Client::encrypted(server, trusting(&[&made], &["h2"])).await;
            client.answers("GET /file => 200").await;
        });
    });
    let (_, cipher) = lines[0].split_once("tls_cipher=").unwrap();
    let (cipher, _) = cipher.split_once(' ').unwrap();
    assert!(cipher.starts_with("TLS_"), "{cipher}");
    let tls = format!("tls_version=TLSv1.3 tls_cipher={cipher}");
    let up = format!("upstream=http://{address} resp:x-from=there");
    for (line, (start, end)) in lines.iter().zip([
        ("path=/file version=HTTP/1.1", "upstream=- resp:x-from=-"),
        ("path=/up version=HTTP/1.1", &up),
        ("path=/file version=HTTP/2.0", "upstream=- resp:x-from=-"),
    ]) {
        assert_eq!(*line, format!("{start} {tls} {end}"));
    }
    assert_eq!(lines.len(), 3);
}

#[test]
fn samples_and_paths_that_are_left_out() {
    let change = |options: &mut Options| {
        options.log_options.fields = fields("path,status");
        options.log_options.sample = Some(3.try_into().unwrap());
        options.log_options.skip = vec!["/health/**".to_owned(), "*.css".to_owned()];
    };
    let lines = logged(change, |server| {
        let mut client = server.connect();
        for _ in 0..7 {
            client.get("/file");
            client.get("/health/live?x");
            client.get("/other.css");
            client.get("/health/absent");
        }
        client.get("/absent");
        client.get("/absent");
    });
    let count = |line: &str| lines.iter().filter(|own| *own == line).count();
    assert_eq!(
        (
            count("path=/file status=200"),
            count("path=/absent status=404")
        ),
        (3, 2),
        "{lines:#?}"
    );
    assert_eq!(lines.len(), 5);
}

#[test]
fn options_that_make_no_sense() {
    let root = site();
    let part = "--log-fields needs --log-format json or logfmt";
    Running::refuses(root.path(), part, |options| {
        options.log = LogTarget::Stdout;
        options.log_options.fields = fields("path");
    });
    Running::refuses(root.path(), "is not a valid glob", |options| {
        options.log = LogTarget::Stdout;
        options.log_options.skip = vec!["[".to_owned()];
    });
    for target in ["syslog:/no/such/socket", "journald:/no/such/socket"] {
        let part = format!("cannot open the log {target}");
        Running::refuses(root.path(), &part, |options| {
            options.log = target.parse().unwrap()
        });
    }
}

/// Starts a server that logs to a target.
fn logging_to(root: &Path, target: LogTarget, change: impl FnOnce(&mut Options)) -> Running {
    Running::with(root, |options| {
        options.log = target;
        change(options);
    })
}

/// A hostile header field appears escaped, on the one line of its request.
const HOSTILE: &str = "User-Agent: a\tb\"<34>1 forged\u{2028}\r\n";

fn check_message(message: &str, path: &str, severity: u32) {
    let header = format!("<{}>1 ", 23 * 8 + severity);
    assert!(message.starts_with(&header), "{message}");
    let parts: Vec<&str> = message.splitn(8, ' ').collect();
    assert!(parts[1].len() == 20 && parts[1].ends_with('Z'), "{message}");
    assert_eq!(
        (parts[3], parts[5], parts[6]),
        ("laio", "access", "-"),
        "{message}"
    );
    assert!(
        parts[7].contains(&format!("\"GET {path} HTTP/1.1\"")),
        "{message}"
    );
    assert!(!message.chars().any(char::is_control), "{message:?}");
}

#[test]
fn a_syslog_on_this_machine() {
    let (root, dir) = (site(), tempfile::tempdir().unwrap());
    let path = dir.path().join("log");
    let syslog = UnixDatagram::bind(&path).unwrap();
    syslog.set_read_timeout(Some(LONG)).unwrap();
    let target = LogTarget::Syslog(SyslogAddress::Local(path));
    let server = logging_to(root.path(), target, |_| {});
    let mut client = server.connect();
    client.request("GET", "/file", HOSTILE);
    client.get("/absent");
    let mut buffer = [0; 4096];
    for (path, severity) in [("/file", 6), ("/absent", 4)] {
        let length = syslog.recv(&mut buffer).unwrap();
        let message = std::str::from_utf8(&buffer[..length]).unwrap();
        check_message(message, path, severity);
        assert_eq!(
            message.contains(r#""a\x09b\x22<34>1 forged\xe2\x80\xa8""#),
            path == "/file",
            "{message}"
        );
    }
    assert_eq!(server.stop().log_lines_lost, 0);
}

#[test]
fn a_syslog_by_udp() {
    let root = site();
    let syslog = UdpSocket::bind("127.0.0.1:0").unwrap();
    syslog.set_read_timeout(Some(LONG)).unwrap();
    let target = format!("syslog:udp://{}", syslog.local_addr().unwrap());
    let server = logging_to(root.path(), target.parse().unwrap(), |_| {});
    server.get("/file");
    let mut buffer = [0; 4096];
    let length = syslog.recv(&mut buffer).unwrap();
    check_message(std::str::from_utf8(&buffer[..length]).unwrap(), "/file", 6);
}

/// Reads a message with its length before it.
fn counted(stream: &mut BufReader<TcpStream>) -> String {
    let mut length = Vec::new();
    stream.read_until(b' ', &mut length).unwrap();
    let length = std::str::from_utf8(&length)
        .unwrap()
        .trim_end()
        .parse()
        .unwrap();
    let mut message = vec![0; length];
    stream.read_exact(&mut message).unwrap();
    String::from_utf8(message).unwrap()
}

fn accepted(syslog: &TcpListener) -> BufReader<TcpStream> {
    let (stream, _) = syslog.accept().unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    BufReader::new(stream)
}

/// A syslog that is started after the server, and again after it was gone.
#[test]
fn a_syslog_by_tcp_that_comes_and_goes() {
    let root = site();
    // Bound, so that no other test takes the port, and not listening yet.
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = rustix::net::getsockname(&socket).unwrap();
    let address = SocketAddr::try_from(address).unwrap();
    let target = format!("syslog:tcp://{address}").parse().unwrap();
    let server = logging_to(root.path(), target, |_| {});
    assert_eq!(server.get("/file").status, 200);
    rustix::net::listen(&socket, 8).unwrap();
    let syslog = TcpListener::from(socket);
    let mut stream = accepted(&syslog);
    check_message(&counted(&mut stream), "/file", 6);
    assert_eq!(server.get("/other.css").status, 200);
    check_message(&counted(&mut stream), "/other.css", 6);
    drop(stream);
    // What is sent before the server notices may be lost, but later messages arrive, each of them whole.
    syslog.set_nonblocking(true).unwrap();
    let mut again = None;
    until("the server connects again", || {
        assert_eq!(server.get("/absent").status, 404);
        again = again.take().or_else(|| syslog.accept().ok());
        again.is_some()
    });
    let (stream, _) = again.unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    check_message(&counted(&mut BufReader::new(stream)), "/absent", 4);
}

/// Splits an entry of the journal into its fields.
fn entry(mut bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut fields = BTreeMap::new();
    while !bytes.is_empty() {
        let end = bytes.iter().position(|&byte| byte == b'\n').unwrap();
        let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
        let (name, value, rest) = match line.iter().position(|&byte| byte == b'=') {
            Some(at) => (&line[..at], &line[at + 1..], rest),
            None => {
                let (length, rest) = rest.split_at(8);
                let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
                assert_eq!(rest[length], b'\n');
                (line, &rest[..length], &rest[length + 1..])
            }
        };
        let known = fields.insert(String::from_utf8(name.to_vec()).unwrap(), value.to_vec());
        assert!(known.is_none(), "{name:?} occurs twice");
        bytes = rest;
    }
    fields
}

#[test]
fn the_journal() {
    let (root, dir) = (site(), tempfile::tempdir().unwrap());
    let path = dir.path().join("socket");
    let journal = UnixDatagram::bind(&path).unwrap();
    journal.set_read_timeout(Some(LONG)).unwrap();
    let server = logging_to(root.path(), LogTarget::Journald(path), |options| {
        options.log_options.fields = fields("status,path,user_agent,resp:Content-Length,referer");
    });
    let mut client = server.connect();
    client.request("GET", "/file", HOSTILE);
    client.get("/absent");
    let next = || {
        let mut buffer = [0; 4096];
        let length = journal.recv(&mut buffer).unwrap();
        entry(&buffer[..length])
    };
    let first = next();
    let text = |name: &str| std::str::from_utf8(&first[name]).unwrap();
    assert_eq!((text("PRIORITY"), text("SYSLOG_IDENTIFIER")), ("6", "laio"));
    assert_eq!((text("LAIO_STATUS"), text("LAIO_PATH")), ("200", "/file"));
    assert_eq!(text("LAIO_RESP_CONTENT_LENGTH"), "10");
    assert_eq!(text("LAIO_USER_AGENT"), "a\tb\"<34>1 forged\u{2028}");
    assert!(
        text("MESSAGE").contains("\"GET /file HTTP/1.1\" 200 10"),
        "{}",
        text("MESSAGE")
    );
    assert_eq!(first.len(), 7, "{first:?}");
    assert_eq!(next()["PRIORITY"], b"4");
}

/// A log that nobody reads delays no response. What does not fit into the queue is dropped and counted.
#[test]
fn a_target_that_takes_nothing() {
    let (root, dir) = (site(), tempfile::tempdir().unwrap());
    let path = dir.path().join("log");
    let silent = UnixDatagram::bind(&path).unwrap();
    let observer = Observer::new(false);
    let target = LogTarget::Syslog(SyslogAddress::Local(path));
    let server = logging_to(root.path(), target, |options| {
        options.observer = observer.clone();
        options.workers = Some(1);
    });
    let mut client = server.connect();
    // Each byte takes four in a line.
    let agent = format!("User-Agent: {}\r\n", "\u{e9}".repeat(6000));
    for _ in 0..300 {
        assert_eq!(client.request("GET", "/file", &agent).status, 200);
    }
    drop(client);
    let served = server.stop();
    drop(silent);
    assert_eq!(served.requests, 300);
    assert!(served.log_lines_lost > 50, "{}", served.log_lines_lost);
    assert_eq!(observer.seen().log_lines_lost, served.log_lines_lost);
}

/// A target whose socket is gone does not delay the end of the server beyond its limit, and the lines are counted.
#[test]
fn a_target_that_is_gone() {
    let (root, dir) = (site(), tempfile::tempdir().unwrap());
    let path = dir.path().join("log");
    let syslog = UnixDatagram::bind(&path).unwrap();
    let target = LogTarget::Syslog(SyslogAddress::Local(path.clone()));
    let server = logging_to(root.path(), target, |_| {});
    drop(syslog);
    fs::remove_file(&path).unwrap();
    for _ in 0..10 {
        assert_eq!(server.get("/file").status, 200);
    }
    // It comes back under the same name.
    let syslog = UnixDatagram::bind(&path).unwrap();
    syslog.set_read_timeout(Some(LONG)).unwrap();
    let mut buffer = [0; 4096];
    for _ in 0..10 {
        let length = syslog.recv(&mut buffer).unwrap();
        check_message(std::str::from_utf8(&buffer[..length]).unwrap(), "/file", 6);
    }
    assert_eq!(server.stop().log_lines_lost, 0);
}
