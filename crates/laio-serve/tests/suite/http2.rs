//! HTTP/2, with a client of another library.

use crate::common::certs::{connect, make, trusting};
use crate::common::http2::{Client, read, send};
use crate::common::multiplexed::{
    Multiplexed, all, answers_as_http_1, answers_each_time, answers_with_changes,
    answers_with_several_ranges_and_compressed, features, large, run, site, text,
};
use crate::common::{Running, assert_same_lines, has};
use crate::upstreams::{backend::Backend, http};
use bytes::Bytes;
use h2::Reason;
use laio::BackendKind::{Hybrid, Lazy, Sync, Threads, Uring};
use laio_http::Coding;
use laio_serve::{LogTarget, Zip};
use std::fs;
use std::future::Future;
use std::io::Read;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

#[test]
fn answers_are_those_of_http_1() {
    let site = site();
    for backend in [Lazy, Hybrid, Uring, Threads] {
        if !has(backend) {
            continue;
        }
        let server = Running::on(backend, site.path(), features);
        run(async {
            let client = Client::connect(&server).await;
            answers_as_http_1(&client, || server.connect()).await;
        });
    }
}

#[test]
fn several_ranges_and_compression() {
    let site = site();
    let server = Running::with(site.path(), features);
    run(async {
        let client = Client::connect(&server).await;
        answers_with_several_ranges_and_compressed(&client).await;
    });
}

#[test]
fn many_streams_at_once_and_an_unread_one_does_not_delay_the_others() {
    let site = site();
    let server = Running::start(site.path());
    run(async {
        let client = Client::connect(&server).await;
        let unread = client.begin("GET /large.bin").await.unwrap();
        // The connection's window is larger than that of the unread stream.
        let small = (0..200).map(|_| client.get("/ten.txt"));
        for body in all(small).await {
            assert_eq!(body, b"0123456789");
        }
        let other = Client::connect(&server).await;
        let large = large();
        for body in all((0..20).map(|_| other.get("/large.bin"))).await {
            assert!(body == large, "it is changed");
        }
        drop(unread);
    });
}

#[test]
fn a_cached_file_gets_the_same_answer_and_line_each_time() {
    const TIMES: usize = 5;
    let site = site();
    for window in [65_535, 4] {
        let log = tempfile::NamedTempFile::new().unwrap();
        let server = Running::with(site.path(), |options| {
            options.log = LogTarget::File(log.path().to_owned());
        });
        let asked = [
            ("GET", "/ten.txt"),
            ("HEAD", "/ten.txt"),
            ("GET", "/"),
            ("GET", "/empty.txt"),
            ("GET", "/text.txt"),
        ];
        // With the small window the large file would take thousands of updates.
        let asked = &asked[..if window < 100 { 4 } else { 5 }];
        run(async {
            let mut builder = h2::client::Builder::new();
            builder.initial_window_size(window);
            let client = Client::try_connect(&server, &builder).await.unwrap();
            answers_each_time(&client, asked, TIMES).await;
            let stopping = tokio::task::spawn_blocking(move || server.stop());
            let total = (TIMES * asked.len()) as u64;
            assert_eq!(stopping.await.unwrap().requests, total);
        });
        let lines = fs::read_to_string(log.path()).unwrap();
        assert_same_lines(&lines, asked, "HTTP/2.0", TIMES);
    }
}

#[test]
fn a_changed_file_is_noticed_between_two_requests() {
    let site = site();
    let server = Running::start(site.path());
    run(async {
        let client = Client::connect(&server).await;
        answers_with_changes(&client, site.path()).await;
    });
}

#[test]
fn an_unread_answer_is_reset_and_the_connection_continues() {
    let site = site();
    let server = Running::with(site.path(), |options| {
        options.limits.write_time = Duration::from_millis(200);
    });
    run(async {
        let client = Client::connect(&server).await;
        let found = client.begin("GET /large.bin").await.unwrap();
        let mut body = found.into_body();
        let error = loop {
            match body.data().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error,
                None => panic!("it ended as if it were whole"),
            }
        };
        assert!(error.is_reset(), "{error}");
        assert_eq!(client.get("/ten.txt").await, b"0123456789");
    });
}

#[test]
fn a_client_that_resets_too_many_streams_is_disconnected() {
    let site = site();
    let server = Running::start(site.path());
    run(async {
        let client = Client::connect(&server).await;
        for _ in 0..2000 {
            let Ok((_, mut stream)) = client.open("GET /large.bin", true).await else {
                break;
            };
            stream.send_reset(Reason::CANCEL);
            tokio::task::yield_now().await;
        }
        let end = client.connection.await.unwrap();
        assert_eq!(end.unwrap_err().reason(), Some(Reason::ENHANCE_YOUR_CALM));
        ping(&server).await;
    });
}

#[test]
fn heads_are_bounded_by_bytes_and_by_fields() {
    let site = site();
    let server = Running::with(site.path(), |options| {
        options.limits.headers = 10;
        options.limits.head_bytes = 2000;
        options.limits.target_bytes = 100;
    });
    run(async {
        let client = Client::connect(&server).await;
        let many = |count| (0..count).map(|number| format!(" | x-{number}: a"));
        let [five, twenty] = [5, 20].map(|count| many(count).collect::<String>());
        let [a200, a3000] = [200, 3000].map(|count| "a".repeat(count));
        let table = format!(
            r#"
            GET /{five} => 200
            GET /{twenty} => 431
            GET / | x: {a3000} => 431
            GET /{a200} => 414
            GET /ten.txt => "0123456789"
            "#
        );
        client.answers(&table).await;
    });
}

#[test]
fn no_more_requests_at_a_time_than_announced() {
    let site = site();
    let server = Running::with(site.path(), |options| {
        options.http2.as_mut().unwrap().streams = 3;
    });
    run(async {
        let client = Client::connect(&server).await;
        // An unread stream counts as one.
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(client.begin("GET /large.bin").await.unwrap());
        }
        assert_eq!(client.requests.current_max_send_streams(), 3);
        let (fourth, _) = client.open("GET /ten.txt", true).await.unwrap();
        let mut fourth = std::pin::pin!(fourth);
        // The server has answered this request, and would have answered the other.
        ping(&server).await;
        let waits =
            |context: &mut Context<'_>| Poll::Ready(fourth.as_mut().poll(context).is_pending());
        assert!(std::future::poll_fn(waits).await);
        held.pop();
        assert_eq!(fourth.await.unwrap().status(), 200);
    });
}

/// Sends a request on another connection.
async fn ping(server: &Running) {
    let client = Client::connect(server).await;
    assert_eq!(client.get("/ten.txt").await, b"0123456789");
}

#[test]
fn bodies_of_requests_are_not_waited_for() {
    let site = site();
    let server = Running::start(site.path());
    run(async {
        let client = Client::connect(&server).await;
        for (request, expected) in [
            ("POST /ten.txt", 405),
            ("POST /ten.txt | Content-Length: 1000", 405),
            ("POST /ten.txt | Content-Length: 99999999999999", 413),
        ] {
            let (answer, mut body) = client.open(request, false).await.unwrap();
            if expected == 405 {
                let _ = body.send_data(Bytes::from_static(b"some"), false);
            }
            assert_eq!(answer.await.unwrap().status(), expected);
        }
        assert_eq!(client.get("/ten.txt").await, b"0123456789");
    });
}

#[test]
fn stopping_finishes_answers_and_logs_their_lines() {
    let site = site();
    let log = tempfile::NamedTempFile::new().unwrap();
    let server = Running::with(site.path(), |options| {
        options.log = LogTarget::File(log.path().to_owned());
    });
    run(async {
        let client = Client::connect(&server).await;
        let begun = client.begin("GET /large.bin").await.unwrap();
        let stopping = tokio::task::spawn_blocking(move || server.stop());
        assert!(read(&mut begun.into_body()).await.unwrap() == large());
        assert_eq!(stopping.await.unwrap().requests, 1);
        client.connection.await.unwrap().unwrap();
    });
    let line = fs::read_to_string(log.path()).unwrap();
    let expected = "\"GET /large.bin HTTP/2.0\" 200 2000000";
    assert!(line.contains(expected), "{line}");
}

#[test]
fn idle_connections_and_those_at_their_limit_end_with_goaway() {
    let site = site();
    let server = Running::with(site.path(), |options| {
        options.limits.idle_time = Duration::from_millis(200);
    });
    run(async {
        // On a busy machine the time may be over before a request was sent.
        let idle = loop {
            let builder = h2::client::Builder::new();
            let Ok(client) = Client::try_connect(&server, &builder).await else {
                continue;
            };
            if let Ok(mut answer) = client.begin("GET /ten.txt").await {
                assert_eq!(read(answer.body_mut()).await.unwrap(), b"0123456789");
                break client;
            }
        };
        idle.connection.await.unwrap().unwrap();
    });
    let server = Running::with(site.path(), |options| options.limits.requests = 3);
    run(async {
        let busy = Client::connect(&server).await;
        let mut answers = 0;
        while busy.begin("GET /ten.txt").await.is_ok() {
            answers += 1;
            assert!(answers < 1000, "it goes on for ever");
        }
        assert!(answers >= 3);
    });
}

/// A client that reads also sends window updates. These must not make the kernel reset the
/// connection and discard the rest of the answer after the server has closed.
#[test]
fn an_answer_arrives_whole_though_the_server_ends_the_connection() {
    let site = site();
    let server = Running::with(site.path(), |options| options.limits.requests = 1);
    let mut client = server.connect();
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        [
            &[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream],
            payload,
        ]
        .concat()
    };
    let ping = |flags| frame(6, flags, 0, &[0; 8]);
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    // SETTINGS and WINDOW_UPDATE, so that flow control never blocks, and HEADERS.
    client.send(frame(4, 0, 0, &[0, 4, 0, 0x40, 0, 0]));
    client.send(frame(8, 0, 0, &[0, 0x40, 0, 0]));
    client.send(frame(1, 5, 1, b"\x82\x86\x04\x0a/large.bin\x01\x04test"));
    let (mut body, mut ended) = (Vec::new(), false);
    while !ended {
        let mut head = [0; 9];
        client.0.read_exact(&mut head).unwrap();
        let [a, b, c, kind, flags, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        client.0.read_exact(&mut payload).unwrap();
        match kind {
            0 => body.extend(payload),
            // The server pings to find out whether the client has received the GOAWAY.
            6 if flags & 1 == 0 => {
                let same = frame(6, 1, 0, &payload);
                client.send(same);
            }
            _ => {}
        }
        ended = kind == 0 && flags & 1 == 1;
        if kind == 0 {
            client.send(ping(0));
        }
    }
    assert!(body == large());
    client.0.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn over_tls_the_client_chooses() {
    let (site, keys) = (site(), tempfile::tempdir().unwrap());
    let made = make(keys.path(), "localhost");
    let start = |backend| {
        Running::on(backend, site.path(), |options| {
            options.listen = vec!["tls:127.0.0.1:0".parse().unwrap()];
            options.certificates = vec![made.files.clone()];
        })
    };
    let chosen = |server: &Running, offers: &[&str]| {
        let address = server.places()[0].inet().unwrap();
        let config = Arc::new(trusting(&[&made], offers));
        let mut stream = connect(address, &config, "localhost");
        stream.conn.complete_io(&mut stream.sock).unwrap();
        stream.conn.alpn_protocol().map(<[u8]>::to_vec)
    };
    let (server, waits) = (start(Lazy), start(Sync));
    for (server, offers, expected) in [
        (&server, &["http/1.1", "h2"][..], Some("h2")),
        (&server, &["http/1.1"], Some("http/1.1")),
        (&server, &[], None),
        (&waits, &["h2", "http/1.1"], Some("http/1.1")),
    ] {
        let expected = expected.map(str::as_bytes);
        assert_eq!(chosen(server, offers).as_deref(), expected, "{offers:?}");
    }
    run(async {
        let config = trusting(&[&made], &["h2"]);
        let client = Client::encrypted(&server, config).await;
        let large = large();
        for body in all((0..8).map(|_| client.get("/large.bin"))).await {
            assert!(body == large, "it is changed");
        }
    });
}

#[test]
fn without_http_2_the_refusal_is_http_1() {
    let site = site();
    let off = Running::with(site.path(), |options| options.http2 = None);
    let waits = Running::on(Sync, site.path(), |_| {});
    for server in [off, waits] {
        let mut client = server.connect();
        client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        assert_eq!(client.answer(false).status, 505);
    }
}

#[test]
fn early_hints() {
    let site = site();
    let links = [
        "</a.css>; rel=preload; as=style",
        "<https://b.example>; rel=preconnect",
    ];
    let server = Running::with(site.path(), |options| {
        let hint = |glob: &str, link: &str| format!("{glob}={link}").parse().unwrap();
        options.site.early_hints = vec![
            hint("*.html", links[0]),
            hint("/**", links[1]),
            hint("/docs/*", "</docs.css>"),
        ];
    });
    run(async {
        let client = Client::connect(&server).await;
        for (request, expected) in [
            ("GET /", &links[..]),
            ("GET / | Sec-Fetch-Mode: navigate", &links),
            ("GET /ten.txt", &links[1..]),
            ("GET /docs/a.txt", &[links[1], "</docs.css>"]),
            ("GET / | Sec-Fetch-Mode: no-cors", &[]),
            ("GET / | Range: bytes=0-", &[]),
        ] {
            let (interim, status) = client.interim(request).await;
            assert!(status.is_success());
            let hinted = interim.iter().flat_map(|head| head.get_all("link"));
            let hinted: Vec<_> = hinted.map(|link| link.to_str().unwrap()).collect();
            assert_eq!(hinted, expected, "{request}");
        }
        assert!(client.interim("HEAD /").await.0.is_empty());
    });
    // Clients of HTTP/1.1 might take it for the response.
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn early_hints_of_an_upstream_are_passed_on() {
    let site = site();
    let backend = Backend::answering(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX-Other: x\r\n\r\n\
         HTTP/1.1 103 Early Hints\r\nX-No-Link: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    );
    let server = Running::with(site.path(), |options| {
        options.site.upstreams.http = vec![http("/", &backend)];
    });
    run(async {
        let client = Client::connect(&server).await;
        let (interim, status) = client.interim("GET /").await;
        assert_eq!((interim.len(), status.as_u16()), (1, 200));
        assert_eq!(interim[0]["link"], "</a>");
        assert!(!interim[0].contains_key("x-other"));
    });
    assert_eq!(server.get("/").text(), "ok");
}

#[test]
fn uploads() {
    for backend in [Lazy, Hybrid, Uring, Threads] {
        if !has(backend) {
            continue;
        }
        let site = site();
        let server = Running::on(backend, site.path(), |options| {
            options.site.uploads.who = Some(laio_serve::Uploaders::Anyone);
            options.site.uploads.keep_free = 0;
            options.site.uploads.webdav = true;
        });
        run(async {
            let client = Client::connect(&server).await;
            let sized = format!("PUT /new.bin | Content-Length: {}", large().len());
            for (request, expected) in [(&*sized, 201), ("PUT /new.bin", 204)] {
                let (response, mut body) = client.open(request, false).await.unwrap();
                send(&mut body, Bytes::from(large()), true).await.unwrap();
                assert_eq!(response.await.unwrap().status(), expected, "{backend}");
                assert!(client.get("/new.bin").await == large(), "{backend}");
            }
            // A client that resets its request changes nothing.
            let (response, mut body) = client.open("PUT /ten.txt", false).await.unwrap();
            body.send_data(Bytes::from_static(b"part"), false).unwrap();
            body.send_reset(Reason::CANCEL);
            assert!(response.await.is_err());
            let table = r#"
                GET /ten.txt => 200 | "0123456789"
                PROPFIND / | Depth: 1 => 207
                DELETE /new.bin => 204
            "#;
            client.answers(table).await;
        });
    }
}

#[test]
fn zip_files() {
    let site = site();
    for zip in [Zip::Store, Zip::Deflate] {
        let server = Running::with(site.path(), |options| {
            options.site.archives.zip = Some(zip);
        });
        run(async {
            let client = Client::connect(&server).await;
            let body = client.get("/?zip").await;
            assert!(body.starts_with(b"PK\x03\x04") && body[body.len() - 22..].starts_with(b"PK"));
            assert!(client.get("/?zip").await == body);
        });
    }
}

/// The codings of --compress over HTTP/2, with HEAD and 304.
#[test]
fn compressed_while_sent() {
    let site = site();
    let server = Running::with(site.path(), |options| {
        options.site.compress = vec![Coding::Zstd, Coding::Brotli, Coding::Gzip];
    });
    run(async {
        let client = Client::connect(&server).await;
        for (coding, decode) in CODINGS {
            let request = format!("/text.txt | Accept-Encoding: {coding}");
            let found = client.ask(&format!("GET {request}")).await;
            // Its bytes may vary.
            found.is(&format!(
                "200 | Content-Encoding: {coding} | Content-Length: - | ETag: W/*"
            ));
            assert!(decode(&found.body) == text(), "{coding}");
            let tag = found.header("ETag").unwrap();
            let table = format!(
                r#"
                GET {request} | If-None-Match: {tag} => 304 | "" | ETag: {tag} | Vary: Accept-Encoding
                HEAD {request} => 200 | "" | Content-Encoding: {coding}
                # A range is one of the plain file.
                GET {request} | Range: bytes=0-3 => 206 | "laio" | Content-Encoding: -
                "#
            );
            client.answers(&table).await;
        }
    });
}

type Decode = fn(&[u8]) -> Vec<u8>;

const CODINGS: [(&str, Decode); 3] = [
    ("zstd", |bytes| zstd::decode_all(bytes).unwrap()),
    ("br", |bytes| whole(brotli::Decompressor::new(bytes, 4096))),
    ("gzip", |bytes| whole(flate2::read::GzDecoder::new(bytes))),
];

fn whole(mut decoder: impl Read) -> Vec<u8> {
    let mut out = Vec::new();
    decoder.read_to_end(&mut out).unwrap();
    out
}
