//! Requests and their responses.

use super::client::{Client, dial, read};
use super::{Fixture, large, run};
use crate::common::certs::{connect, trusting};
use crate::common::multiplexed::{
    Multiplexed, all, answers_as_http_1, answers_each_time, answers_with_changes,
    answers_with_several_ranges_and_compressed, features,
};
use crate::common::{assert_same_lines, asynchronous_backends};
use crate::upstreams::{backend::Backend, http};
use bytes::{Buf, Bytes};
use laio::BackendKind::{Lazy, Threads};
use laio_serve::{LogTarget, Options, Upstream};
use quinn::TransportConfig;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Also on an address of HTTP/1.1, which comes first.
fn features_and_http_1(options: &mut Options) {
    options.listen.push("127.0.0.1:0".parse().unwrap());
    options.listen.reverse();
    features(options);
}

#[test]
fn answers_are_those_of_http_1() {
    for backend in asynchronous_backends() {
        let fixture = Fixture::on(backend, features_and_http_1);
        run(async {
            let client = Client::connect(&fixture).await;
            answers_as_http_1(&client, || fixture.server.connect()).await;
        });
    }
}

#[test]
fn several_ranges_and_compression() {
    let fixture = Fixture::with(features_and_http_1);
    run(async {
        let client = Client::connect(&fixture).await;
        answers_with_several_ranges_and_compressed(&client).await;
    });
}

#[test]
fn many_streams_at_once_and_an_unread_one_does_not_delay_the_others() {
    let fixture = Fixture::start();
    run(async {
        let client = Client::connect(&fixture).await;
        let mut unread = client.begin("GET /large.bin").await;
        unread.finish().await.unwrap();
        // More than may be open at the same time: the client waits for others to end.
        for body in all((0..300).map(|_| client.get("/ten.txt"))).await {
            assert_eq!(body, b"0123456789");
        }
        let other = Client::connect(&fixture).await;
        let large = large();
        for body in all((0..20).map(|_| other.get("/large.bin"))).await {
            assert!(body == large, "it is changed");
        }
        assert!(read(&mut unread).await.unwrap().body == large);
    });
}

#[test]
fn an_unread_answer_is_reset_and_the_connection_continues() {
    let fixture = Fixture::with(|options| {
        options.limits.write_time = Duration::from_millis(300);
    });
    run(async {
        let mut transport = TransportConfig::default();
        transport.stream_receive_window(64_000u32.into());
        let client = Client::configured(&fixture, transport).await;
        let mut stream = client.begin("GET /large.bin").await;
        stream.finish().await.unwrap();
        stream.recv_response().await.unwrap();
        tokio::time::sleep(Duration::from_millis(600)).await;
        let error = loop {
            match stream.recv_data().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended as if it were whole"),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("H3_INTERNAL_ERROR"), "{error}");
        assert_eq!(client.get("/ten.txt").await, b"0123456789");
    });
}

/// Accepts connections, and answers each request with its body.
fn echo() -> std::net::SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let serve = |mut socket: TcpStream| -> std::io::Result<()> {
        let mut input = Vec::new();
        let end = loop {
            let mut piece = [0; 4096];
            let count = socket.read(&mut piece)?;
            input.extend_from_slice(&piece[..count]);
            if let Some(end) = input.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            if count == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&input[..end]).to_ascii_lowercase();
        let mut body = input.split_off(end);
        match head.split_once("content-length: ") {
            Some((_, length)) => {
                let length: usize = length.lines().next().unwrap().parse().unwrap();
                let have = body.len();
                body.resize(length, 0);
                socket.read_exact(&mut body[have..])?;
            }
            None if head.contains("chunked") => {
                while !body.ends_with(b"0\r\n\r\n") {
                    let mut piece = [0; 4096];
                    let count = socket.read(&mut piece)?;
                    body.extend_from_slice(&piece[..count]);
                }
                let answer =
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
                socket.write_all(answer.as_bytes())?;
                return socket.write_all(&body);
            }
            None => {}
        }
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        socket.write_all(answer.as_bytes())?;
        socket.write_all(&body)
    };
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            std::thread::spawn(move || serve(socket));
        }
    });
    address
}

#[test]
fn bodies_reach_an_upstream_and_come_back() {
    let upstream = echo();
    for backend in [Lazy, Threads] {
        let fixture = Fixture::on(backend, |options| {
            let text = format!("/api=http://{upstream}");
            options.site.upstreams.http = vec![Upstream::http(&text).unwrap()];
        });
        run(async {
            let client = Client::connect(&fixture).await;
            let large = large();
            for has_length in [true, false] {
                for body in [&b""[..], b"small", &large] {
                    let mut post = "POST /api/x".to_owned();
                    if has_length {
                        post += &format!(" | content-length: {}", body.len());
                    }
                    let (mut sending, mut receiving) = client.begin(&post).await.split();
                    let send = async {
                        for piece in body.chunks(10_000) {
                            sending
                                .send_data(Bytes::copy_from_slice(piece))
                                .await
                                .unwrap();
                        }
                        sending.finish().await.unwrap();
                    };
                    let receive = async {
                        let head = receiving.recv_response().await.unwrap();
                        let mut back = Vec::new();
                        while let Some(mut bytes) = receiving.recv_data().await.unwrap() {
                            back.extend_from_slice(&bytes.copy_to_bytes(bytes.remaining()));
                        }
                        (head.status(), back)
                    };
                    let ((), (status, back)) = laio_rt::future::join(send, receive).await;
                    assert_eq!(status, 200);
                    assert!(back == body, "{} {}", back.len(), body.len());
                }
            }
        });
    }
}

#[test]
fn a_body_that_differs_from_its_length_is_malformed() {
    let fixture = Fixture::start();
    run(async {
        let client = Client::connect(&fixture).await;
        for body in ["short", "much too long for it"] {
            let post = "POST /ten.txt | content-length: 10";
            let mut stream = client.begin(post).await;
            let sent = stream.send_data(Bytes::from_static(body.as_bytes())).await;
            let _ = sent.and(stream.finish().await);
            // The response to a method that is not allowed may be faster.
            if let Err(error) = read(&mut stream).await {
                assert!(error.to_string().contains("H3_MESSAGE_ERROR"), "{error}");
            }
        }
        assert_eq!(client.get("/ten.txt").await, b"0123456789");
    });
}

#[test]
fn heads_are_bounded_by_bytes_and_by_fields() {
    let fixture = Fixture::with(|options| {
        options.limits.headers = 10;
        options.limits.head_bytes = 2000;
        options.limits.target_bytes = 100;
    });
    run(async {
        // The client of h3 respects the limit that the server announces, so it must not know it yet.
        let (endpoint, connection) = dial(&fixture, fixture.address()).await.unwrap();
        let client = Client::on(endpoint, connection).await;
        let many: String = (0..20).map(|number| format!(" | x-{number}: a")).collect();
        let asked = [
            (format!("GET /ten.txt | large: {}", "a".repeat(1990)), 431),
            (format!("GET /ten.txt{many}"), 431),
            (format!("GET /{}", "a".repeat(200)), 414),
            ("GET /ten.txt".to_owned(), 200),
        ];
        for (request, expected) in asked {
            match client.try_ask(&request).await {
                Ok(found) => assert_eq!(found.status, expected),
                Err(h3::error::StreamError::HeaderTooBig { .. }) => assert_eq!(expected, 431),
                Err(error) => panic!("{error}"),
            }
        }
    });
}

#[test]
fn responses_over_tcp_announce_it() {
    for port in [None, Some(443)] {
        let fixture = Fixture::with(|options| {
            options.listen.push("127.0.0.1:0".parse().unwrap());
            options.http3.as_mut().unwrap().alt_svc_port = port;
        });
        let own = fixture.address().port();
        let expected = format!("h3=\":{}\"; ma=86400", port.unwrap_or(own));
        let config = Arc::new(trusting(&[&fixture.made], &["http/1.1"]));
        for request in [
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "nonsense\r\n\r\n",
        ] {
            let mut stream = connect(fixture.address(), &config, "localhost");
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            let field = format!("\r\nAlt-Svc: {expected}\r\n");
            assert!(answer.contains(&field), "{answer}");
        }
        let plain = fixture.server.places().iter().find(|it| !it.tls).unwrap();
        let mut stream = TcpStream::connect(plain.inet().unwrap()).unwrap();
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(!answer.contains("Alt-Svc"));
        run(async {
            let client = Client::connect(&fixture).await;
            client.answers("GET / => Alt-Svc: -").await;
        });
    }
}

#[test]
fn a_cached_file_gets_the_same_answer_and_line_each_time() {
    const TIMES: usize = 5;
    // The small window holds not even the head of a response.
    for window in [1_000_000u32, 40] {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let fixture = Fixture::with(|options| options.log = LogTarget::File(log.clone()));
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
            let mut transport = TransportConfig::default();
            transport.stream_receive_window(window.into());
            let client = Client::configured(&fixture, transport).await;
            answers_each_time(&client, asked, TIMES).await;
        });
        drop(fixture);
        let lines = std::fs::read_to_string(log).unwrap();
        assert_same_lines(&lines, asked, "HTTP/3.0", TIMES);
    }
}

#[test]
fn a_changed_file_is_noticed_between_two_requests() {
    let fixture = Fixture::start();
    run(async {
        let client = Client::connect(&fixture).await;
        answers_with_changes(&client, fixture.root()).await;
    });
}

#[test]
fn the_access_log_names_the_version() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let fixture = Fixture::with(|options| options.log = LogTarget::File(log.clone()));
    run(async {
        let client = Client::connect(&fixture).await;
        client.get("/ten.txt").await;
    });
    assert_eq!(fixture.server.stop().requests, 1);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.starts_with("127.0.0.1 ") && log.contains("\"GET /ten.txt HTTP/3.0\" 200 10 "));
}

#[test]
fn trailers_of_upstreams_and_messages_both_ways() {
    use crate::upstreams::http2::{Server2, echo};
    let backend = Server2::start(echo);
    let fixture = Fixture::with(|options| {
        options.site.upstreams = vec![backend.upstream("/")].into();
    });
    run(async {
        let client = Client::connect(&fixture).await;
        let mut stream = client.begin("POST /").await;
        assert_eq!(stream.recv_response().await.unwrap().status(), 200);
        for number in 0..3 {
            let message = format!("message {number}");
            stream
                .send_data(Bytes::from(message.clone()))
                .await
                .unwrap();
            let mut echoed = Vec::new();
            while echoed.len() < message.len() {
                let mut bytes = stream.recv_data().await.unwrap().unwrap();
                echoed.extend_from_slice(&bytes.copy_to_bytes(bytes.remaining()));
            }
            assert_eq!(echoed, message.as_bytes());
        }
        stream.finish().await.unwrap();
        assert!(stream.recv_data().await.unwrap().is_none());
        let trailers = stream.recv_trailers().await.unwrap().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
    });
}

#[test]
fn an_auth_server_lets_requests_in() {
    let auth = Backend::start(|peer| {
        while let Some(head) = peer.request() {
            peer.send(if head.contains("\r\ncookie: ann\r\n") {
                "HTTP/1.1 200 OK\r\nRemote-User: ann\r\nSet-Cookie: new\r\nContent-Length: 0\r\n\r\n"
            } else {
                "HTTP/1.1 302 Found\r\nLocation: /login\r\nSet-Cookie: state\r\nContent-Length: 2\r\n\r\ngo"
            });
        }
    });
    let app = Backend::answering("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\napp");
    let fixture = Fixture::with(|options| {
        let rule = format!("http://{}/check", auth.address());
        options.site.auth_requests.rules = vec![rule.parse().unwrap()];
        options.site.auth_requests.copy = vec!["Remote-User".parse().unwrap()];
        options.site.auth_requests.cookies = true;
        options.site.upstreams.http = vec![http("/app", &app)];
    });
    run(async {
        let client = Client::connect(&fixture).await;
        let table = r#"
            GET /ten.txt => 302 | "go" | Location: /login | Set-Cookie: state
            GET /app => 302 | "go" | Location: /login | Set-Cookie: state
        "#;
        client.answers(table).await;
        // The body of this one is never sent.
        let mut stream = client.begin("POST /app").await;
        assert_eq!(read(&mut stream).await.unwrap().status, 302);
        assert!(app.heads().is_empty());
        let request = "GET /app | cookie: ann | remote-user: eve | remote_user: eve";
        let found = client.ask(request).await;
        found.is(r#"200 | "app" | Set-Cookie: new | Cache-Control: private"#);
        // The end of the empty body follows.
        let head = app.heads().swap_remove(0);
        assert!(
            head.contains("\r\nRemote-User: ann\r\n") && !head.contains("eve"),
            "{head}"
        );
        assert!(auth.heads()[0].contains("\r\nX-Forwarded-Proto: https\r\n"));
    });
}
