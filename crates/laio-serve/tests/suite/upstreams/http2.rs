//! Upstreams in HTTP/2, with a server of another library.

use super::*;
use crate::common::certs::make;
use crate::common::http2::{Client, read, send};
use crate::common::multiplexed::run;
use crate::common::{asynchronous_backends, until};
use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use laio_serve::Trust;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A server that lives as long as the process.
pub(crate) struct Server2 {
    address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    heads: Mutex<Vec<Request<()>>>,
    /// Requests that were reset by the server under test.
    resets: AtomicUsize,
}

pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<(), h2::Error>> + Send>>;

/// How the server treats connections.
#[derive(Clone, Copy)]
struct Manner {
    /// Requests at the same time, as announced.
    streams: u32,
    /// Requests after which a connection ends gracefully.
    requests: usize,
}

const USUAL: Manner = Manner {
    streams: 1000,
    requests: usize::MAX,
};

impl Server2 {
    pub(crate) fn start(
        handle: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> Answer + Send + Sync + 'static,
    ) -> Server2 {
        Server2::with(USUAL, None, handle)
    }

    fn with(
        manner: Manner,
        tls: Option<tokio_rustls::TlsAcceptor>,
        handle: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> Answer + Send + Sync + 'static,
    ) -> Server2 {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::<Seen>::default();
        let (counted, handle) = (seen.clone(), Arc::new(handle));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                loop {
                    let (socket, _) = listener.accept().await.unwrap();
                    seen.connections.fetch_add(1, Ordering::SeqCst);
                    let (seen, handle, tls) = (seen.clone(), handle.clone(), tls.clone());
                    tokio::spawn(async move {
                        let handle = move |request: Request<RecvStream>, respond| {
                            let (head, body) = request.into_parts();
                            let own = Request::from_parts(head.clone(), ());
                            seen.heads.lock().unwrap().push(own);
                            let answered = handle(Request::from_parts(head, body), respond);
                            let seen = seen.clone();
                            tokio::spawn(async move {
                                let result = answered.await;
                                if result.is_err_and(|it| it.reason() == Some(Reason::CANCEL)) {
                                    seen.resets.fetch_add(1, Ordering::SeqCst);
                                }
                            });
                        };
                        match tls {
                            Some(tls) => {
                                if let Ok(stream) = tls.accept(socket).await {
                                    serve_connection(stream, manner, handle).await;
                                }
                            }
                            None => serve_connection(socket, manner, handle).await,
                        }
                    });
                }
            });
        });
        Server2 {
            address,
            seen: counted,
        }
    }

    fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    fn requests(&self) -> usize {
        self.seen.heads.lock().unwrap().len()
    }

    pub(crate) fn upstream(&self, prefix: &str) -> Upstream {
        Upstream::http(&format!("{prefix}=h2c://{}", self.address)).unwrap()
    }
}

async fn serve_connection(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    manner: Manner,
    handle: impl Fn(Request<RecvStream>, SendResponse<Bytes>),
) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(manner.streams);
    let Ok(mut connection) = builder.handshake(stream).await else {
        return;
    };
    let mut count = 0;
    while let Some(Ok((request, respond))) = connection.accept().await {
        handle(request, respond);
        count += 1;
        if count == manner.requests {
            connection.graceful_shutdown();
        }
    }
}

fn ok() -> Response<()> {
    Response::new(())
}

/// Answers with the body of the request, piece by piece, and with trailers as gRPC has them.
pub(crate) fn echo(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) -> Answer {
    Box::pin(async move {
        let mut body = request.into_body();
        let mut stream = respond.send_response(ok(), false)?;
        while let Some(bytes) = body.data().await {
            let bytes = bytes?;
            body.flow_control().release_capacity(bytes.len())?;
            send(&mut stream, bytes, false).await?;
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        stream.send_trailers(trailers)
    })
}

/// Answers with the body of the request when all of it has arrived.
fn repeat(request: Request<RecvStream>, mut respond: SendResponse<Bytes>) -> Answer {
    Box::pin(async move {
        let body = read(&mut request.into_body()).await?;
        let mut stream = respond.send_response(ok(), false)?;
        send(&mut stream, Bytes::from(body), false).await?;
        stream.send_data(Bytes::new(), true)
    })
}

/// Answers with a text and its length.
fn say(text: &'static str) -> impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> Answer {
    move |request, mut respond| {
        Box::pin(async move {
            read(&mut request.into_body()).await?;
            let response = Response::builder().header("content-length", text.len());
            let mut stream = respond.send_response(response.body(()).unwrap(), false)?;
            stream.send_data(Bytes::from(text), true)
        })
    }
}

#[test]
fn requests_of_clients_in_http_1() {
    let large: String = (0..100_000).map(|number| format!("{number} ")).collect();
    for kind in asynchronous_backends() {
        let backend = Server2::start(repeat);
        let upstream = Upstream::http(&format!("/a=h2c://{}/b", backend.address)).unwrap();
        let (server, _root) = serve_with(kind, vec![upstream], |options| options.workers = Some(1));
        let head = "POST /a/c?d=e HTTP/1.1\r\nHost: site.example:9\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nTE: gzip\r\nX-Own: v\r\n";
        let length = format!("{head}Content-Length: {}\r\n\r\n{large}", large.len());
        let chunked = format!(
            "{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{large}\r\n0\r\n\r\n",
            large.len()
        );
        for request in [length, chunked] {
            let answer = exchange(&server, request);
            assert_eq!(status(&answer), "200", "{kind}");
            assert!(forwarding::unchunked(body(&answer)) == large, "{kind}");
            assert!(answer.contains("\r\nVia: 1.1 laio\r\n"), "{kind}");
        }
        assert_eq!(backend.connections(), 1, "{kind}");
        let heads = backend.seen.heads.lock().unwrap();
        let [first, second] = &heads[..] else {
            panic!("{heads:?}")
        };
        assert_eq!(first.uri(), "http://site.example:9/b/c?d=e");
        for (name, value) in [
            ("x-own", "v"),
            ("x-forwarded-for", "127.0.0.1"),
            ("content-length", &large.len().to_string()),
        ] {
            assert_eq!(first.headers()[name], value);
        }
        assert!(!second.headers().contains_key("content-length"));
        for name in ["connection", "x-hop", "te", "transfer-encoding", "host"] {
            assert!(!first.headers().contains_key(name), "{name}");
        }
    }
}

#[test]
fn answers_without_a_body() {
    let backend = Server2::start(|request, mut respond| {
        Box::pin(async move {
            let status = request.uri().path()[1..].parse::<u16>().unwrap();
            let response = Response::builder().status(status).header("x-a", "b");
            respond.send_response(response.body(()).unwrap(), true)?;
            Ok(())
        })
    });
    let (server, _root) = serve(vec![backend.upstream("/")], |_| {});
    server.connect().answers(
        "
        GET /200 => 200 | x-a: b | Content-Length: 0
        GET /204 => 204 | x-a: b | Content-Length: -
        GET /304 => 304 | x-a: b | Content-Length: -
        GET /404 => 404 | x-a: b | Content-Length: 0
        GET /503 => 503 | x-a: b | Content-Length: 0
        HEAD /200 => 200
        GET /200 => 200
        ",
    );
    assert_eq!(backend.connections(), 1);
}

#[test]
fn requests_share_connections_up_to_a_limit() {
    let open = Arc::new(AtomicBool::new(false));
    for (limit, announced, expected) in [(100, 1000, 1), (4, 1000, 3), (100, 6, 2)] {
        open.store(false, Ordering::SeqCst);
        let flag = open.clone();
        let manner = Manner {
            streams: announced,
            ..USUAL
        };
        let backend = Server2::with(manner, None, move |_, mut respond| {
            let flag = flag.clone();
            Box::pin(async move {
                while !flag.load(Ordering::SeqCst) {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                respond.send_response(ok(), true).map(drop)
            })
        });
        let (server, _root) = serve(vec![backend.upstream("/")], |options| {
            options.limits.upstream.streams = limit;
        });
        // The settings of the upstream have arrived with the first answer.
        open.store(true, Ordering::SeqCst);
        assert_eq!(server.get("/").status, 200);
        open.store(false, Ordering::SeqCst);
        let mut clients: Vec<_> = (0..12).map(|_| server.connect()).collect();
        clients
            .iter_mut()
            .for_each(|client| client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        until("all requests have arrived", || backend.requests() == 13);
        open.store(true, Ordering::SeqCst);
        for client in &mut clients {
            assert_eq!(client.answer(false).status, 200);
        }
        assert_eq!(backend.connections(), expected, "{limit} {announced}");
    }
}

/// Runs a client of HTTP/2.
fn with_client<F: Future<Output = ()>>(server: &Running, test: impl FnOnce(Client) -> F) {
    run(async { test(Client::connect(server).await).await });
}

/// The fields of a request of gRPC.
const GRPC: &str = "content-type: application/grpc | te: trailers";

/// Begins a request of gRPC.
async fn call(client: &Client, path: &str, ends: bool) -> (ResponseFuture, SendStream<Bytes>) {
    let request = format!("POST {path} | {GRPC}");
    client.open(&request, ends).await.unwrap()
}

#[test]
fn trailers_reach_clients_in_http_2() {
    let backend = Server2::start(|request, mut respond| {
        // A response of gRPC that is only an error has no body and no trailers.
        if request.uri().path() == "/error" {
            return Box::pin(async move {
                let response = Response::builder().header("grpc-status", "5").body(());
                respond.send_response(response.unwrap(), true).map(drop)
            });
        }
        echo(request, respond)
    });
    let (server, _root) = serve(vec![backend.upstream("/")], |_| {});
    with_client(&server, |client| async move {
        let (response, mut stream) = call(&client, "/x", false).await;
        stream.send_data(Bytes::from("message"), true).unwrap();
        let mut body = response.await.unwrap().into_body();
        assert_eq!(read(&mut body).await.unwrap(), b"message");
        let trailers = body.trailers().await.unwrap().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
        let response = call(&client, "/error", true).await.0.await.unwrap();
        assert_eq!(response.headers()["grpc-status"], "5");
        assert!(response.body().is_end_stream());
    });
    let heads = backend.seen.heads.lock().unwrap();
    assert!(heads.iter().all(|head| head.headers()["te"] == "trailers"));
    drop(heads);
    // A client in HTTP/1.1 gets the same without the trailers.
    let answer = exchange(
        &server,
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
    );
    assert!(answer.ends_with("2\r\nhi\r\n0\r\n\r\n"), "{answer}");
}

#[test]
fn messages_go_both_ways_at_the_same_time() {
    let backend = Server2::start(echo);
    let (server, _root) = serve(vec![backend.upstream("/")], |_| {});
    with_client(&server, |client| async move {
        let (response, mut stream) = call(&client, "/", false).await;
        let mut body = response.await.unwrap().into_body();
        for number in 0..5 {
            let message = format!("message {number}");
            stream
                .send_data(Bytes::from(message.clone()), false)
                .unwrap();
            let mut echoed = Vec::new();
            while echoed.len() < message.len() {
                let bytes = body.data().await.unwrap().unwrap();
                body.flow_control().release_capacity(bytes.len()).unwrap();
                echoed.extend_from_slice(&bytes);
            }
            assert_eq!(echoed, message.as_bytes());
        }
        stream.send_data(Bytes::new(), true).unwrap();
        assert!(body.data().await.is_none());
        assert_eq!(body.trailers().await.unwrap().unwrap()["grpc-status"], "0");
    });
}

#[test]
fn a_request_that_the_client_resets_is_reset_at_the_upstream() {
    let backend = Server2::start(echo);
    let (server, _root) = serve(vec![backend.upstream("/")], |_| {});
    with_client(&server, |client| async move {
        let (response, mut stream) = call(&client, "/", false).await;
        response.await.unwrap();
        stream.send_reset(Reason::CANCEL);
        tokio::task::yield_now().await;
        let resets = backend.seen.clone();
        while resets.resets.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn what_the_upstream_has_not_looked_at_is_repeated() {
    // Each connection announces its end with the first request, and answers that.
    let manner = Manner {
        requests: 1,
        ..USUAL
    };
    let backend = Server2::with(manner, None, say("ok"));
    let (server, _root) = serve(vec![backend.upstream("/")], |_| {});
    let mut client = server.connect();
    for _ in 0..5 {
        client.answers(r#"POST / | Content-Length: 0 => "ok""#);
    }
    assert_eq!(backend.connections(), 5);
    // A refused stream goes to another upstream.
    let refusing = Server2::start(|_, mut respond| {
        respond.send_reset(Reason::REFUSED_STREAM);
        Box::pin(async { Ok(()) })
    });
    let willing = Server2::start(say("ok"));
    let upstreams = vec![refusing.upstream("/"), willing.upstream("/")];
    let (server, _root) = serve(upstreams, |_| {});
    let mut client = server.connect();
    for _ in 0..4 {
        client.answers(r#"POST / | Content-Length: 0 => "ok""#);
    }
    assert!(refusing.requests() > 0);
    let (server, _root) = serve(vec![refusing.upstream("/")], |_| {});
    assert_eq!(server.get("/").status, 503);
}

#[test]
fn a_broken_answer_is_not_taken_for_complete() {
    let backend = Server2::start(|request, mut respond| {
        Box::pin(async move {
            if request.uri().path() == "/nothing" {
                respond.send_reset(Reason::INTERNAL_ERROR);
                return Ok(());
            }
            let mut stream = respond.send_response(ok(), false)?;
            send(&mut stream, Bytes::from("begun"), false).await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
            stream.send_reset(Reason::INTERNAL_ERROR);
            Ok(())
        })
    });
    let (server, _root) = serve(vec![backend.upstream("/")], |_| {});
    let answer = exchange(&server, get("/"));
    assert!(
        status(&answer) == "200" && !answer.ends_with("0\r\n\r\n"),
        "{answer}"
    );
    assert_eq!(status(&exchange(&server, get("/nothing"))), "502");
}

#[test]
fn a_client_that_does_not_read_delays_no_other() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let backend = Server2::start(move |request, mut respond| {
        if request.uri().path() != "/large" {
            return say("ok")(request, respond);
        }
        let count = count.clone();
        Box::pin(async move {
            let mut stream = respond.send_response(ok(), false)?;
            loop {
                send(&mut stream, Bytes::from(vec![b'x'; 10_000]), false).await?;
                count.fetch_add(10_000, Ordering::SeqCst);
            }
        })
    });
    let (server, _root) = serve(vec![backend.upstream("/")], |_| {});
    let mut stuck: Vec<_> = (0..5).map(|_| connect(&server)).collect();
    for client in &mut stuck {
        client.write_all(get("/large").as_bytes()).unwrap();
    }
    // Until all windows are full.
    let mut last = 0;
    until("the upstream is stopped", || {
        std::thread::sleep(Duration::from_millis(100));
        let now = sent.load(Ordering::SeqCst);
        let stopped = now > 0 && now == last;
        last = now;
        stopped
    });
    let mut client = server.connect();
    for _ in 0..5 {
        assert_eq!(client.get("/").text(), "ok");
    }
    assert_eq!(backend.connections(), 1);
}

#[test]
fn upstreams_that_speak_no_http_2() {
    let backend = Backend::answering("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let upstream = Upstream::http(&format!("/=h2c://{}", backend.address())).unwrap();
    let (server, _root) = serve(vec![upstream], |_| {});
    assert_eq!(server.get("/").status, 502);
    let root = tempfile::tempdir().unwrap();
    let started = Running::try_on(BackendKind::Sync, root.path(), |options| {
        options.site.upstreams = vec![Upstream::http("/=h2c://127.0.0.1:1").unwrap()].into();
    });
    let error = started.map(drop).unwrap_err().to_string();
    assert!(error.contains("sync"), "{error}");
}

/// Returns an upstream with TLS that is trusted if it shows this certificate.
fn encrypted(address: SocketAddr, trusted: &Path) -> Upstream {
    let mut upstream = Upstream::http(&format!("/=h2://localhost:{}", address.port())).unwrap();
    upstream.tls = Some(Trust::File(trusted.to_owned()));
    upstream
}

#[test]
fn over_tls_the_upstream_must_choose_http_2() {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let keys = tempfile::tempdir().unwrap();
    let made = make(keys.path(), "localhost");
    for (offers, expected) in [(&["h2", "http/1.1"][..], 200), (&[], 502)] {
        let key = PrivateKeyDer::from_pem_file(&made.files.key).unwrap();
        let chain = vec![CertificateDer::from_pem_file(&made.files.chain).unwrap()];
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = offers.iter().map(|name| name.as_bytes().to_vec()).collect();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let backend = Server2::with(USUAL, Some(acceptor), say("ok"));
        let upstream = encrypted(backend.address, &made.files.chain);
        let (server, _root) = serve(vec![upstream], |_| {});
        let mut client = server.connect();
        for _ in 0..3 {
            assert_eq!(client.get("/").status, expected);
        }
        if expected == 200 {
            assert_eq!(backend.connections(), 1);
            let heads = backend.seen.heads.lock().unwrap();
            assert_eq!(heads[0].uri().scheme_str(), Some("https"));
        }
    }
}

#[test]
fn checks_use_http_2_too() {
    let sick = Arc::new(AtomicBool::new(true));
    let flag = sick.clone();
    let checked = Server2::start(move |request, mut respond| {
        if request.uri().path() == "/up" {
            let status = if flag.load(Ordering::SeqCst) {
                500
            } else {
                204
            };
            return Box::pin(async move {
                let response = Response::builder().status(status).body(()).unwrap();
                respond.send_response(response, true).map(drop)
            });
        }
        say("checked")(request, respond)
    });
    let other = Server2::start(say("ok"));
    let upstreams = vec![checked.upstream("/"), other.upstream("/")];
    let (server, _root) = serve(upstreams, |options| {
        options.site.upstreams.health_paths = vec!["/up".parse().unwrap()];
        options.limits.upstream.health_interval = Duration::from_millis(10);
        options.limits.upstream.slow_start = Duration::ZERO;
    });
    let mut client = server.connect();
    let mut answers = || {
        let mut answers = [0; 6].map(|_| client.get("/").text().to_owned());
        answers.sort();
        answers
    };
    until("it is left out", || answers()[0] == "ok");
    sick.store(false, Ordering::SeqCst);
    until("it comes back", || answers()[0] == "checked");
}

#[test]
fn trailers_reach_clients_in_http_1_that_take_them() {
    let backend = Server2::start(echo);
    let chunked = Backend::answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\n\
         Set-Cookie: a=b\r\n\r\n",
    );
    let upstreams = vec![backend.upstream("/h2"), http("/h1", &chunked)];
    let (server, _root) = serve(upstreams, |_| {});
    let ask = |path: &str, fields: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n{fields}");
        exchange(&server, format!("{head}Connection: close\r\n\r\nhi"))
    };
    for fields in ["TE: trailers\r\n", "TE: gzip;q=0.5, Trailers\r\n"] {
        for (path, end) in [
            ("/h2", "2\r\nhi\r\n0\r\ngrpc-status: 0\r\n\r\n"),
            // Fields that frame the message, or that a client needs before the body, are left out.
            ("/h1", "2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n"),
        ] {
            let answer = ask(path, fields);
            assert!(answer.ends_with(end), "{answer}");
        }
    }
    for path in ["/h1", "/h2"] {
        let answer = ask(path, "TE: gzip\r\n");
        assert!(answer.ends_with("\r\n0\r\n\r\n"), "{answer}");
    }
    with_client(&server, |client| async move {
        let response = call(&client, "/h1", true).await.0;
        let mut body = response.await.unwrap().into_body();
        assert_eq!(read(&mut body).await.unwrap(), b"ok");
        let trailers = body.trailers().await.unwrap().unwrap();
        assert_eq!(
            (trailers.len(), &trailers["x-sum"]),
            (1, &"1".parse().unwrap())
        );
    });
}

#[test]
fn early_hints_reach_clients_in_http_2() {
    let hints = |link: &str| {
        let response = Response::builder().status(103).header("x-other", "x");
        response.header("link", link).body(()).unwrap()
    };
    let backend = Server2::start(move |request, mut respond| {
        Box::pin(async move {
            let count = match request.uri().path() {
                "/many" => 100,
                _ => 2,
            };
            for number in 0..count {
                respond.send_informational(hints(&format!("</{number}.css>")))?;
            }
            respond.send_response(ok(), true).map(drop)
        })
    });
    let (server, _root) = serve(vec![backend.upstream("/")], |_| {});
    with_client(&server, |client| async move {
        for (path, expected) in [("/x", 2), ("/many", 8)] {
            let request = format!("POST {path} | {GRPC}");
            let (interim, status) = client.interim(&request).await;
            assert!(interim.iter().all(|head| !head.contains_key("x-other")));
            let links: Vec<_> = interim.iter().map(|head| &head["link"]).collect();
            assert_eq!(links.len(), expected, "{links:?}");
            assert_eq!(links[..2], ["</0.css>", "</1.css>"]);
            assert_eq!(status, if path == "/x" { 200 } else { 502 });
        }
    });
    // Clients of HTTP/1.1 might take them for the response.
    assert!(exchange(&server, get("/x")).starts_with("HTTP/1.1 200 "));
}
