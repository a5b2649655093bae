//! The server, tested by clients over all back ends.

use crate::common::{Running, asynchronous_backends};
use laio_serve::{Limits, LogTarget};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::write(root.join("index.html"), "<h1>home</h1>").unwrap();
    fs::write(root.join("empty.txt"), "").unwrap();
    // Old enough that its entity tag does not change within the test.
    let ten = fs::File::create(root.join("ten.txt")).unwrap();
    (&ten).write_all(b"0123456789").unwrap();
    ten.set_modified(SystemTime::now() - Duration::from_secs(3600))
        .unwrap();
    fs::write(root.join("large.bin"), large()).unwrap();
    fs::write(root.join(".secret"), "x").unwrap();
    fs::create_dir(root.join("docs")).unwrap();
    fs::write(root.join("docs/index.html"), "docs").unwrap();
    fs::create_dir(root.join("bare")).unwrap();
    std::os::unix::fs::symlink("ten.txt", root.join("inside")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("outside")).unwrap();
    std::os::unix::fs::symlink("loop", root.join("loop")).unwrap();
    dir
}

fn large() -> &'static [u8] {
    static ALL: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let number = |i: u32| i.wrapping_mul(2_654_435_761).to_le_bytes();
        (0..1_250_000).flat_map(number).collect()
    });
    &ALL
}

fn for_each(test: impl Fn(&Running, &Path)) {
    let site = site();
    for backend in asynchronous_backends() {
        println!("{backend}");
        test(&Running::on(backend, site.path(), |_| {}), site.path());
    }
}

#[test]
fn serves_files_indexes_and_types() {
    for_each(|server, _| {
        let home = server.get("/");
        home.is("200 | \"<h1>home</h1>\" | Content-Type: text/html; charset=utf-8 | Accept-Ranges: bytes");
        assert!(home.header("ETag").is_some() && home.header("Last-Modified").is_some());
        assert!(home.header("Date").is_some() && home.header("Server").is_some());
        server.answers(
            r#"
            GET /docs/ => "docs"
            GET /inside => "0123456789"
            GET /empty.txt => ""
            GET /ten.txt?query=ignored => "0123456789"
            "#,
        );
        let large = server.get("/large.bin");
        assert!(large.body == self::large(), "it arrived changed");
        large.is("Content-Type: application/octet-stream");
    });
}

#[test]
fn head_has_the_head_of_get() {
    let site = site();
    let server = Running::start(site.path());
    let mut client = server.connect();
    let get = client.get("/ten.txt");
    let tag = get.header("ETag").unwrap();
    client.answers(&format!(
        "HEAD /ten.txt => 200 | Content-Length: 10 | ETag: {tag}"
    ));
    // Nothing of a body is in between.
    client.answers("GET / => 200");
}

#[test]
fn refuses_clearly() {
    let site = site();
    let server = Running::start(site.path());
    // A page says what is wrong.
    server.answers(
        r#"
        GET /nothing => 404 | has <
        GET /.secret => 404 | has <
        GET /outside => 404 | has <
        GET /loop => 404 | has <
        GET /bare/ => 404 | has <
        GET /ten.txt/x => 404 | has <
        GET /../etc/passwd => 400 | has <
        GET /%2e%2e/%2e%2e/etc/passwd => 400 | has <
        GET /a%00 => 400 | has <
        GET /docs?a=b => 301 | Location: /docs/?a=b
        OPTIONS * => 204
        BREW / => 501
        "#,
    );
    let mut client = server.connect();
    let put = client.request("PUT", "/ten.txt", "Content-Length: 3\r\n");
    assert_eq!(put.status, 405);
    assert!(put.header("Allow").unwrap().contains("GET"));
    client.send("abc");
    // The body is passed over.
    client.answers("GET /ten.txt => 200");
    let long = "a".repeat(10_000);
    let large = "x".repeat(20_000);
    server.answers(&format!(
        r#"
        "GET / HTTP/1.1\r\n\r\n" => 400 | closed
        "GET /\r\n\r\n" => 400 | closed
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" => 400 | closed
        "GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n" => 414 | closed
        "GET / HTTP/1.1\r\nHost: a\r\nX: {large}\r\n" => 431 | closed
        "#
    ));
}

#[test]
fn conditions_and_ranges() {
    let site = site();
    let server = Running::start(site.path());
    let first = server.get("/ten.txt");
    let etag = first.header("ETag").unwrap();
    let date = first.header("Last-Modified").unwrap();
    server.answers(&format!(
        r#"
        GET /ten.txt | If-None-Match: {etag} => 304 | ""
        GET /ten.txt | If-Modified-Since: {date} => 304
        GET /ten.txt | If-Match: "other" => 412
        GET /ten.txt | Range: bytes=2-4 => 206 | "234" | Content-Range: bytes 2-4/10
        GET /ten.txt | Range: bytes=7- => 206 | "789" | Content-Range: bytes 7-9/10
        GET /ten.txt | Range: bytes=-3 => 206 | "789" | Content-Range: bytes 7-9/10
        GET /ten.txt | Range: bytes=0-99 => 206 | "0123456789" | Content-Range: bytes 0-9/10
        GET /ten.txt | Range: bytes=10- => 416 | Content-Range: bytes */10
        GET /ten.txt | Range: lines=1-2 => 200 | "0123456789"
        "#
    ));
}

#[test]
fn a_large_range_arrives_as_it_is() {
    for_each(|server, _| {
        let mut client = server.connect();
        let part = client.request("GET", "/large.bin", "Range: bytes=1000000-3999999\r\n");
        assert_eq!(part.status, 206);
        assert!(part.body == large()[1_000_000..4_000_000]);
    });
}

#[test]
fn connections_are_kept_and_pipelined() {
    for_each(|server, _| {
        let mut client = server.connect();
        client.send("GET /ten.txt HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        client.send(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        );
        client.send("GET /docs/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(client.answer(false).body, b"0123456789");
        assert_eq!(client.answer(true).status, 200);
        assert_eq!(client.answer(false).status, 405);
        client.answer(false).is(r#""docs" | Connection: close"#);
        assert!(client.is_closed());

        // Byte by byte, like a slow client.
        let mut client = server.connect();
        for byte in b"GET /ten.txt HTTP/1.1\r\nHost: a\r\n\r\n" {
            client.send([*byte]);
        }
        assert_eq!(client.answer(false).status, 200);

        server.answers(r#""GET /ten.txt HTTP/1.0\r\n\r\n" => 200 | closed"#);
    });
}

#[test]
fn a_special_file_is_not_found_and_does_not_block() {
    for_each(|server, root| {
        let fifo = root.join("fifo");
        let _ = fs::remove_file(&fifo);
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).unwrap();
        assert_eq!(server.get("/fifo").status, 404);
        fs::remove_file(&fifo).unwrap();
    });
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_does_not_look_whole() {
    for_each(|server, root| {
        let path = root.join("shrinks.bin");
        fs::write(&path, vec![7; 64 << 20]).unwrap();
        let mut client = server.connect();
        client.send("GET /shrinks.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut start = [0; 1000];
        client.0.read_exact(&mut start).unwrap();
        let file = fs::File::options().write(true).open(&path);
        file.unwrap().set_len(1000).unwrap();
        let mut rest = Vec::new();
        let _ = client.0.read_to_end(&mut rest);
        assert!(rest.len() < 64 << 20, "the connection ended early");
        fs::remove_file(&path).unwrap();
    });
}

#[test]
fn many_connections_at_once() {
    for_each(|server, _| {
        let mut clients: Vec<_> = (0..200).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send("GET /ten.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        for client in &mut clients {
            assert_eq!(client.answer(false).body, b"0123456789");
        }
    });
}

#[test]
fn stopping_finishes_the_answer_and_closes_idle_connections() {
    let site = site();
    for backend in asynchronous_backends() {
        let server = Running::on(backend, site.path(), |_| {});
        let mut idle = server.connect();
        assert_eq!(idle.get("/ten.txt").status, 200);
        let mut busy = server.connect();
        busy.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut start = [0; 100];
        busy.0.read_exact(&mut start).unwrap();
        let stopping = std::thread::spawn(move || server.stop());
        assert!(idle.is_closed(), "{backend}");
        let mut rest = Vec::new();
        busy.0.read_to_end(&mut rest).unwrap();
        let length = rest.len() + start.len();
        assert!(length > 5_000_000, "{backend}: the answer was finished");
        let served = stopping.join().unwrap();
        assert_eq!((served.connections, served.requests), (2, 2), "{backend}");
    }
}

/// Each limit in turn, with the others too large to be reached on a busy machine.
#[test]
fn connections_are_served_after_they_gave_back_their_buffers() {
    let site = site();
    for backend in asynchronous_backends() {
        let server = Running::on(backend, site.path(), |options| {
            options.limits.idle_time = Duration::from_secs(3600);
        });
        let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.get("/ten.txt").status, 200, "{backend}");
        }
        for round in 0..2 {
            // Some requests come shortly before the buffers are given back, and some after.
            std::thread::sleep(Limits::IDLE_BUFFER_TIME * 9 / 10);
            for client in &mut clients {
                std::thread::sleep(Limits::IDLE_BUFFER_TIME / 40);
                client.send("GET /ten.txt HT");
                client.send("TP/1.1\r\nHost: a\r\n\r\n");
                let answer = client.answer(false);
                assert_eq!(answer.status, 200, "{backend}, round {round}");
            }
        }
    }
}

#[test]
fn limits_end_what_takes_too_long() {
    const SOON: Duration = Duration::from_millis(200);
    let site = site();
    for backend in asynchronous_backends() {
        let with = |change: &dyn Fn(&mut Limits)| {
            Running::on(backend, site.path(), |options| {
                options.workers = Some(1);
                change(&mut options.limits);
            })
        };
        let server = with(&|limits| limits.idle_time = SOON);
        assert!(server.connect().is_closed(), "{backend}: idle");

        let server = with(&|limits| limits.head_time = SOON);
        let mut slow = server.connect();
        slow.send("GET / HTTP/1.1\r\nHost:");
        assert_eq!(slow.answer(false).status, 408, "{backend}: half a head");
        assert!(slow.is_closed(), "{backend}: half a head");

        let server = with(&|limits| {
            limits.body_time = SOON;
            limits.body_rate = 1 << 30;
        });
        let mut slow = server.connect();
        slow.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
        assert_eq!(slow.answer(false).status, 405, "{backend}: half a body");
        assert!(slow.is_closed(), "{backend}: half a body");

        // Beyond the limit connections wait, and are then served.
        let server = with(&|limits| limits.connections = 3);
        let mut clients: Vec<_> = (0..6).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send("GET /ten.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        }
        for client in &mut clients {
            assert_eq!(client.answer(false).status, 200, "{backend}");
        }
    }
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let site = site();
    for backend in asynchronous_backends() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let server = Running::on(backend, site.path(), |options| {
            options.limits.write_time = Duration::from_millis(300);
            options.limits.write_rate = 1 << 30;
            options.log = LogTarget::File(log.path().to_owned());
        });
        let mut deaf = server.connect();
        deaf.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        // The log line is written when the request ends.
        let written = || fs::read_to_string(log.path()).unwrap();
        crate::common::until("it is over", || written().contains("large.bin"));
        let mut all = Vec::new();
        let _ = deaf.0.read_to_end(&mut all);
        assert!(all.len() < 5_000_000, "{backend}");
    }
}

#[test]
fn every_request_gets_a_line_in_the_log() {
    let site = site();
    let log = tempfile::NamedTempFile::new().unwrap();
    let server = Running::with(site.path(), |options| {
        options.log = LogTarget::File(log.path().to_owned());
    });
    let mut client = server.connect();
    client.ask("GET /ten.txt | User-Agent: a \"quoted\" one | Referer: http://x/");
    client.get("/nothing");
    client.send("nonsense\r\n\r\n");
    assert_eq!(client.answer(false).status, 400);
    drop(client);
    server.stop();
    let text = fs::read_to_string(log.path()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].starts_with("127.0.0.1 - - ["), "{}", lines[0]);
    let expected = "\"GET /ten.txt HTTP/1.1\" 200 10 \"http://x/\"";
    assert!(lines[0].contains(expected), "{}", lines[0]);
    assert!(lines[1].contains("\" 404 "), "{}", lines[1]);
    assert!(lines[2].contains("400"), "{}", lines[2]);
}

#[test]
fn errors_at_the_start_say_what_was_tried() {
    let site = site();
    let server = Running::start(site.path());
    let mut taken = server.connect();
    taken.0.get_mut().write_all(b"").unwrap();
    let address = taken.0.get_ref().peer_addr().unwrap();
    let options = |root: &Path, listen: std::net::SocketAddr| laio_serve::Options {
        site: laio_serve::Site {
            root: Some(root.to_owned()),
            ..Default::default()
        },
        listen: vec![listen.into()],
        log: LogTarget::Off,
        ..Default::default()
    };
    let error = laio_serve::Server::start(options(site.path(), address)).unwrap_err();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    let missing = Path::new("/nonexistent/site");
    let error =
        laio_serve::Server::start(options(missing, ([127, 0, 0, 1], 0).into())).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/site"), "{error}");
}
