//! HTTP/2, with a client of another library.

use crate::common::{Running, assert_same_lines, has};
use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, StatusCode};
use laio::BackendKind::{Hybrid, Lazy, Sync, Threads, Uring};
use laio_serve::{Limits, LogTarget, Options, Redirect, Status};
use std::fs;
use std::future::Future;
use std::io::Read;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

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

fn features(options: &mut Options) {
    options.site.listing = true;
    options.site.compress = vec![laio_http::Coding::Gzip];
    options.site.redirects = vec![Redirect {
        from: "/old".to_owned(),
        to: "/ten.txt".to_owned(),
        status: Status::PERMANENT_REDIRECT,
    }];
    options.site.message_fields.response =
        ["set X-All: 1", "ext=txt add X-Text: 1", "remove Server"]
            .map(|rule| rule.parse().unwrap())
            .into();
}

/// Runs a test with a time limit.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let limit = Duration::from_secs(300);
    let done = runtime.block_on(async { tokio::time::timeout(limit, test).await });
    done.expect("it takes for ever");
}

struct Client {
    requests: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

impl Client {
    async fn connect(server: &Running) -> Client {
        let address = server.places()[0].inet().unwrap();
        Client::on(TcpStream::connect(address).await.unwrap()).await
    }

    async fn on(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Client {
        Client::try_on(stream).await.unwrap()
    }

    async fn try_on(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Client, h2::Error> {
        let mut builder = h2::client::Builder::new();
        // Window for other streams in addition to one that is not read.
        builder.initial_connection_window_size(1 << 20);
        Client::built(&builder, stream).await
    }

    async fn built(
        builder: &h2::client::Builder,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Client, h2::Error> {
        let (requests, connection) = builder.handshake(stream).await?;
        Ok(Client {
            requests,
            connection: tokio::spawn(connection),
        })
    }

    async fn begin(&self, request: Request<()>) -> Result<http::Response<RecvStream>, h2::Error> {
        let mut requests = self.requests.clone().ready().await?;
        requests.send_request(request, true)?.0.await
    }

    async fn ask(&self, request: Request<()>) -> (StatusCode, HeaderMap, Vec<u8>) {
        let response = self.begin(request).await.unwrap();
        let (head, body) = response.into_parts();
        (head.status, head.headers, read(body).await.unwrap())
    }

    async fn get(&self, path: &str) -> Vec<u8> {
        let (status, _, body) = self.ask(request("GET", path, &[])).await;
        assert_eq!(status, 200, "{path}");
        body
    }
}

fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> Request<()> {
    let uri = format!("http://test{path}");
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

async fn read(mut body: RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut all = Vec::new();
    while let Some(bytes) = body.data().await {
        let bytes = bytes?;
        body.flow_control().release_capacity(bytes.len())?;
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

#[test]
fn answers_are_those_of_http_1() {
    let site = site();
    type Asked<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
    let requests: &[Asked<'_>] = &[
        ("GET", "/", &[]),
        ("HEAD", "/ten.txt", &[]),
        ("GET", "/empty.txt", &[]),
        ("GET", "/large.bin", &[]),
        ("GET", "/large.bin", &[("Range", "bytes=100000-1900000")]),
        ("GET", "/ten.txt", &[("Range", "bytes=2-4")]),
        ("GET", "/ten.txt", &[("Range", "bytes=20-")]),
        (
            "GET",
            "/ten.txt",
            &[("If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT")],
        ),
        ("GET", "/ten.txt", &[("If-None-Match", "*")]),
        ("GET", "/ten.txt", &[("If-Match", "\"x\"")]),
        ("GET", "/docs", &[]),
        ("GET", "/docs/", &[]),
        ("GET", "/docs/", &[("Accept", "application/json")]),
        ("GET", "/old", &[]),
        ("GET", "/nothing?x=y", &[]),
        ("GET", "/%00", &[]),
        ("OPTIONS", "/", &[]),
        ("PUT", "/ten.txt", &[]),
        ("BREW", "/ten.txt", &[]),
        ("GET", "/ten.txt", &[("Expect", "a miracle")]),
    ];
    for backend in [Lazy, Hybrid, Uring, Threads] {
        if !has(backend) {
            continue;
        }
        let server = Running::on(backend, site.path(), features);
        run(async {
            let client = Client::connect(&server).await;
            for &(method, path, fields) in requests {
                println!("{backend} {method} {path} {fields:?}");
                let (status, head, body) = client.ask(request(method, path, fields)).await;
                let lines: String = fields
                    .iter()
                    .map(|(n, v)| format!("{n}: {v}\r\n"))
                    .collect();
                let other = server.connect().request(method, path, &lines);
                assert_eq!(status.as_u16(), other.status);
                assert!(body == other.body, "the bodies differ");
                let own = head.keys().map(|name| name.as_str());
                let known = other
                    .head
                    .lines()
                    .skip(1)
                    .filter_map(|line| line.split_once(": "));
                let known = known.map(|(name, _)| name.to_ascii_lowercase());
                let mut known: Vec<_> = known.filter(|name| name != "connection").collect();
                let mut own: Vec<_> = own.map(str::to_owned).collect();
                own.sort();
                known.sort();
                assert_eq!(own, known);
                for name in own.iter().filter(|name| *name != "date") {
                    assert_eq!(head[name].to_str().ok(), other.header(name), "{name}");
                }
            }
        });
    }
}

#[test]
fn several_ranges_and_compression() {
    let site = site();
    let server = Running::with(site.path(), features);
    run(async {
        let client = Client::connect(&server).await;
        let ranges = [("Range", "bytes=0-1,1000000-1000001")];
        let (status, head, body) = client.ask(request("GET", "/large.bin", &ranges)).await;
        assert_eq!(status, 206);
        assert!(
            head["content-type"]
                .to_str()
                .unwrap()
                .starts_with("multipart/byteranges")
        );
        assert_eq!(head["content-length"], body.len().to_string());
        let takes = [("Accept-Encoding", "gzip")];
        let (_, head, body) = client.ask(request("GET", "/text.txt", &takes)).await;
        assert_eq!(head["content-encoding"], "gzip");
        assert!(!head.contains_key("transfer-encoding"));
        let mut text = String::new();
        let mut unpacked = flate2::read::GzDecoder::new(&body[..]);
        unpacked.read_to_string(&mut text).unwrap();
        assert!(text == "laio ".repeat(100_000));
    });
}

#[test]
fn many_streams_at_once_and_an_unread_one_does_not_delay_the_others() {
    let site = site();
    let server = Running::start(site.path());
    run(async {
        let client = Client::connect(&server).await;
        let unread = client
            .begin(request("GET", "/large.bin", &[]))
            .await
            .unwrap();
        // The connection's window is larger than that of the unread stream.
        let small = (0..200).map(|_| client.get("/ten.txt"));
        for body in futures(small).await {
            assert_eq!(body, b"0123456789");
        }
        let other = Client::connect(&server).await;
        let large = large();
        for body in futures((0..20).map(|_| other.get("/large.bin"))).await {
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
            let address = server.places()[0].inet().unwrap();
            let stream = TcpStream::connect(address).await.unwrap();
            let mut builder = h2::client::Builder::new();
            builder.initial_window_size(window);
            let client = Client::built(&builder, stream).await.unwrap();
            for &(method, path) in asked {
                let mut first = None;
                for _ in 0..TIMES {
                    let mut answer = client.ask(request(method, path, &[])).await;
                    answer.1.remove("date");
                    let expected = first.get_or_insert_with(|| answer.clone());
                    assert!(answer == *expected, "{method} {path}: it differs");
                }
            }
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
        for number in 0..50 {
            let text = number.to_string();
            fs::write(site.path().join("ten.txt"), &text).unwrap();
            for _ in 0..3 {
                assert_eq!(client.get("/ten.txt").await, text.as_bytes());
            }
        }
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
        let request = request("GET", "/large.bin", &[]);
        let mut body = client.begin(request).await.unwrap().into_body();
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

async fn futures<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in all.iter_mut().filter(|(_, output)| output.is_none()) {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                *output = Some(value);
            }
        }
        if all.iter().all(|(_, output)| output.is_some()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    all.into_iter().filter_map(|(_, output)| output).collect()
}

#[test]
fn a_client_that_resets_too_many_streams_is_disconnected() {
    let site = site();
    let server = Running::start(site.path());
    run(async {
        let client = Client::connect(&server).await;
        for _ in 0..2000 {
            let Ok(mut requests) = client.requests.clone().ready().await else {
                break;
            };
            let Ok((_, mut stream)) =
                requests.send_request(request("GET", "/large.bin", &[]), true)
            else {
                break;
            };
            stream.send_reset(Reason::CANCEL);
            tokio::task::yield_now().await;
        }
        let end = client.connection.await.unwrap();
        assert_eq!(end.unwrap_err().reason(), Some(Reason::ENHANCE_YOUR_CALM));
        assert_eq!(
            Client::connect(&server).await.get("/ten.txt").await,
            b"0123456789"
        );
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
        let names: Vec<_> = (0..20).map(|number| format!("x-{number}")).collect();
        let many: Vec<_> = names.iter().map(|name| (&**name, "a")).collect();
        let (status, ..) = client.ask(request("GET", "/", &many[..5])).await;
        assert_eq!(status, 200);
        let (status, ..) = client.ask(request("GET", "/", &many)).await;
        assert_eq!(status, 431);
        let (status, ..) = client
            .ask(request("GET", "/", &[("x", &*"a".repeat(3000))]))
            .await;
        assert_eq!(status, 431);
        let long = format!("/{}", "a".repeat(200));
        let (status, ..) = client.ask(request("GET", &long, &[])).await;
        assert_eq!(status, 414);
        assert_eq!(client.get("/ten.txt").await, b"0123456789");
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
            held.push(
                client
                    .begin(request("GET", "/large.bin", &[]))
                    .await
                    .unwrap(),
            );
        }
        assert_eq!(client.requests.current_max_send_streams(), 3);
        let mut requests = client.requests.clone();
        let (fourth, _) = requests
            .send_request(request("GET", "/ten.txt", &[]), true)
            .unwrap();
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
    assert_eq!(
        Client::connect(server).await.get("/ten.txt").await,
        b"0123456789"
    );
}

#[test]
fn bodies_of_requests_are_not_waited_for() {
    let site = site();
    let server = Running::start(site.path());
    run(async {
        let client = Client::connect(&server).await;
        for fields in [&[][..], &[("Content-Length", "1000")]] {
            let mut requests = client.requests.clone().ready().await.unwrap();
            let post = request("POST", "/ten.txt", fields);
            let (answer, mut body) = requests.send_request(post, false).unwrap();
            let _ = body.send_data(Bytes::from_static(b"some"), false);
            assert_eq!(answer.await.unwrap().status(), 405);
        }
        let too_much = request("POST", "/ten.txt", &[("Content-Length", "99999999999999")]);
        let mut requests = client.requests.clone().ready().await.unwrap();
        let (answer, _body) = requests.send_request(too_much, false).unwrap();
        assert_eq!(answer.await.unwrap().status(), 413);
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
        let begun = client
            .begin(request("GET", "/large.bin", &[]))
            .await
            .unwrap();
        let stopping = tokio::task::spawn_blocking(move || server.stop());
        assert!(read(begun.into_body()).await.unwrap() == large());
        assert_eq!(stopping.await.unwrap().requests, 1);
        client.connection.await.unwrap().unwrap();
    });
    let line = fs::read_to_string(log.path()).unwrap();
    assert!(
        line.contains("\"GET /large.bin HTTP/2.0\" 200 2000000"),
        "{line}"
    );
}

#[test]
fn idle_connections_and_those_at_their_limit_end_with_goaway() {
    let site = site();
    let server = Running::with(site.path(), |options| {
        options.limits = Limits {
            idle_time: Duration::from_millis(200),
            ..options.limits.clone()
        };
    });
    run(async {
        // On a busy machine the time may be over before a request was sent.
        let idle = loop {
            let address = server.places()[0].inet().unwrap();
            let stream = TcpStream::connect(address).await.unwrap();
            let Ok(client) = Client::try_on(stream).await else {
                continue;
            };
            if let Ok(answer) = client.begin(request("GET", "/ten.txt", &[])).await {
                assert_eq!(read(answer.into_body()).await.unwrap(), b"0123456789");
                break client;
            }
        };
        idle.connection.await.unwrap().unwrap();
    });
    let server = Running::with(site.path(), |options| options.limits.requests = 3);
    run(async {
        let busy = Client::connect(&server).await;
        let mut answers = 0;
        while busy.begin(request("GET", "/ten.txt", &[])).await.is_ok() {
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
    let made = crate::common::certs::make(keys.path(), "localhost");
    let start = |backend| {
        Running::on(backend, site.path(), |options| {
            options.listen = vec!["tls:127.0.0.1:0".parse().unwrap()];
            options.certificates = vec![made.files.clone()];
        })
    };
    let chosen = |server: &Running, offers: &[&str]| {
        let address = server.places()[0].inet().unwrap();
        let config = Arc::new(crate::common::certs::trusting(&[&made], offers));
        let mut stream = crate::common::certs::connect(address, &config, "localhost");
        stream.conn.complete_io(&mut stream.sock).unwrap();
        stream.conn.alpn_protocol().map(<[u8]>::to_vec)
    };
    let server = start(Lazy);
    assert_eq!(
        chosen(&server, &["http/1.1", "h2"]).as_deref(),
        Some(&b"h2"[..])
    );
    assert_eq!(
        chosen(&server, &["http/1.1"]).as_deref(),
        Some(&b"http/1.1"[..])
    );
    assert_eq!(chosen(&server, &[]), None);
    let waits = start(Sync);
    assert_eq!(
        chosen(&waits, &["h2", "http/1.1"]).as_deref(),
        Some(&b"http/1.1"[..])
    );
    let config = Arc::new(crate::common::certs::trusting(&[&made], &["h2"]));
    run(async {
        let address = server.places()[0].inet().unwrap();
        let socket = TcpStream::connect(address).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let connector = tokio_rustls::TlsConnector::from(config);
        let client = Client::on(connector.connect(name, socket).await.unwrap()).await;
        let large = large();
        for body in futures((0..8).map(|_| client.get("/large.bin"))).await {
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

/// Sends a request, and returns the heads of its interim responses and its final status.
async fn with_interim(client: &Client, request: Request<()>) -> (Vec<HeaderMap>, StatusCode) {
    let mut requests = client.requests.clone().ready().await.unwrap();
    let (mut response, _) = requests.send_request(request, true).unwrap();
    let mut interim = Vec::new();
    let ended = std::future::poll_fn(|context| {
        while let Poll::Ready(Some(head)) = response.poll_informational(context) {
            let head = head.unwrap();
            assert_eq!(head.status(), 103);
            interim.push(head.headers().clone());
        }
        std::pin::Pin::new(&mut response).poll(context)
    })
    .await;
    (interim, ended.unwrap().status())
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
        let hinted = async |path: &str, fields: &[(&str, &str)]| {
            let (interim, status) = with_interim(&client, request("GET", path, fields)).await;
            assert!(status.is_success());
            let links = interim.iter().flat_map(|head| head.get_all("link"));
            links
                .map(|link| link.to_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(hinted("/", &[]).await, links);
        assert_eq!(hinted("/", &[("Sec-Fetch-Mode", "navigate")]).await, links);
        assert_eq!(hinted("/ten.txt", &[]).await, [links[1]]);
        assert_eq!(hinted("/docs/a.txt", &[]).await, [links[1], "</docs.css>"]);
        assert!(
            hinted("/", &[("Sec-Fetch-Mode", "no-cors")])
                .await
                .is_empty()
        );
        assert!(hinted("/", &[("Range", "bytes=0-")]).await.is_empty());
        let (interim, _) = with_interim(&client, request("HEAD", "/", &[])).await;
        assert!(interim.is_empty());
    });
    // Clients of HTTP/1.1 might take it for the response.
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn early_hints_of_an_upstream_are_passed_on() {
    let site = site();
    let backend = crate::upstreams::backend::Backend::answering(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nX-Other: x\r\n\r\n\
         HTTP/1.1 103 Early Hints\r\nX-No-Link: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    );
    let server = Running::with(site.path(), |options| {
        let upstream = format!("/=http://{}", backend.address());
        let upstream = laio_serve::Upstream::http(&upstream).unwrap();
        options.site.upstreams.http = vec![upstream];
    });
    run(async {
        let client = Client::connect(&server).await;
        let (interim, status) = with_interim(&client, request("GET", "/", &[])).await;
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
        let begin = async |client: &Client, path: &str, fields: &[(&str, &str)]| {
            let mut requests = client.requests.clone().ready().await.unwrap();
            let sent = requests.send_request(request("PUT", path, fields), false);
            sent.unwrap()
        };
        run(async {
            let client = Client::connect(&server).await;
            let length = large().len().to_string();
            for fields in [&[("Content-Length", length.as_str())][..], &[]] {
                let (response, mut body) = begin(&client, "/new.bin", fields).await;
                let mut rest = Bytes::from(large());
                while !rest.is_empty() {
                    body.reserve_capacity(rest.len());
                    let granted = std::future::poll_fn(|context| body.poll_capacity(context));
                    let granted = granted.await.unwrap().unwrap();
                    let piece = rest.split_to(granted.min(rest.len()));
                    body.send_data(piece, rest.is_empty()).unwrap();
                }
                let status = response.await.unwrap().status().as_u16();
                assert_eq!(
                    status,
                    if fields.is_empty() { 204 } else { 201 },
                    "{backend}"
                );
                assert!(client.get("/new.bin").await == large(), "{backend}");
            }
            // A client that resets its request changes nothing.
            let (response, mut body) = begin(&client, "/ten.txt", &[]).await;
            body.send_data(Bytes::from_static(b"part"), false).unwrap();
            body.send_reset(Reason::CANCEL);
            assert!(response.await.is_err());
            assert_eq!(client.get("/ten.txt").await, b"0123456789");
            let listed = client
                .ask(request("PROPFIND", "/", &[("Depth", "1")]))
                .await;
            assert_eq!(listed.0, 207);
            let deleted = client.ask(request("DELETE", "/new.bin", &[])).await;
            assert_eq!(deleted.0, 204);
        });
    }
}

#[test]
fn zip_files() {
    let site = site();
    for zip in [laio_serve::Zip::Store, laio_serve::Zip::Deflate] {
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
        options.site.compress = vec![
            laio_http::Coding::Zstd,
            laio_http::Coding::Brotli,
            laio_http::Coding::Gzip,
        ];
    });
    let plain = fs::read(site.path().join("text.txt")).unwrap();
    run(async {
        let client = Client::connect(&server).await;
        for (coding, decode) in [
            (
                "zstd",
                (|bytes| zstd::decode_all(bytes).unwrap()) as fn(&[u8]) -> Vec<u8>,
            ),
            ("br", |bytes| {
                let mut out = Vec::new();
                let mut decoder = brotli::Decompressor::new(bytes, 4096);
                decoder.read_to_end(&mut out).unwrap();
                out
            }),
            ("gzip", |bytes| {
                let mut out = Vec::new();
                let mut decoder = flate2::read::GzDecoder::new(bytes);
                decoder.read_to_end(&mut out).unwrap();
                out
            }),
        ] {
            let accept = ("Accept-Encoding", coding);
            let got = client.ask(request("GET", "/text.txt", &[accept])).await;
            let (status, head, body) = got;
            assert_eq!(status, 200, "{coding}");
            assert_eq!(head["content-encoding"], coding);
            assert!(!head.contains_key("content-length"), "{coding}");
            assert!(decode(&body) == plain, "{coding}");
            let tag = head["etag"].to_str().unwrap();
            assert!(tag.starts_with("W/"), "its bytes may vary");
            let same = [accept, ("If-None-Match", tag)];
            let (status, head, body) = client.ask(request("GET", "/text.txt", &same)).await;
            assert_eq!((status.as_u16(), body.len()), (304, 0), "{coding}");
            assert_eq!(head["etag"], tag);
            assert_eq!(head["vary"], "Accept-Encoding");
            let (status, head, body) = client.ask(request("HEAD", "/text.txt", &[accept])).await;
            assert_eq!((status.as_u16(), body.len()), (200, 0), "{coding}");
            assert_eq!(head["content-encoding"], coding);
            // A range is one of the plain file.
            let range = [accept, ("Range", "bytes=0-3")];
            let (status, head, body) = client.ask(request("GET", "/text.txt", &range)).await;
            assert_eq!(
                (status.as_u16(), &body[..]),
                (206, &b"laio"[..]),
                "{coding}"
            );
            assert!(!head.contains_key("content-encoding"));
        }
    });
}
