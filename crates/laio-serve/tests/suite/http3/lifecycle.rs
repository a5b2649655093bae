//! Limits, stopping, reloading, and options that do not go together.

use super::client::{Client, dial, read};
use super::relay::{Faults, Relay};
use super::{Fixture, large, run, site};
use crate::common::Running;
use crate::common::certs::make;
use crate::common::multiplexed::{Multiplexed, all};
use laio::BackendKind::{Lazy, Sync};
use laio_serve::{Http3, Limits, Options, TlsVersion, Upstream};
use quinn::ConnectionError;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::rc::Rc;
use std::time::Duration;

#[test]
fn what_cannot_be_combined_is_refused() {
    let site = site();
    let made = make(site.path(), "localhost");
    let refused = |backend, change: &dyn Fn(&mut Options)| {
        let server = Running::try_on(backend, site.path(), |options| {
            options.listen = vec!["tls:127.0.0.1:0".parse().unwrap()];
            options.certificates = vec![made.files.clone()];
            options.http3 = Some(Http3::default());
            change(options);
        });
        server
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert_eq!(refused(Lazy, &|_| {}), "");
    assert!(refused(Sync, &|_| {}).contains("back end sync"));
    let old = |options: &mut Options| options.tls.versions = vec![TlsVersion::Tls12];
    assert!(refused(Lazy, &old).contains("--http3 needs TLS 1.3"));
    let plain = |options: &mut Options| {
        options.listen = crate::common::anywhere();
        options.certificates.clear();
    };
    assert!(refused(Lazy, &plain).contains("--http3 needs an internet address with TLS"));
    loop {
        let other = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let address = other.local_addr().unwrap();
        // The port may be in use for TCP too.
        if TcpListener::bind(address).is_err() {
            continue;
        }
        let taken = |options: &mut Options| {
            options.listen = vec![format!("tls:{address}").parse().unwrap()];
        };
        let error = refused(Lazy, &taken);
        assert!(error.contains(&address.to_string()), "{error}");
        if error.contains(&format!("{address} with UDP")) {
            break;
        }
    }
    // Any suite that remains is enough.
    let suites = |options: &mut Options| {
        options.tls.ciphers = vec!["TLS_AES_256_GCM_SHA384".to_owned()];
    };
    assert_eq!(refused(Lazy, &suites), "");
}

#[test]
fn clients_show_their_address_if_they_must() {
    let fixture = Fixture::with(|options| {
        let http3 = options.http3.as_mut().unwrap();
        http3.retry_from = 0;
    });
    run(async {
        for _ in 0..3 {
            let client = Client::connect(&fixture).await;
            assert_eq!(client.get("/ten.txt").await, b"0123456789");
        }
    });
}

#[test]
fn connections_are_limited() {
    let fixture = Fixture::with(|options| {
        options.limits.connections_per_address = Some(2);
    });
    run(async {
        let one = Client::connect(&fixture).await;
        let two = Client::connect(&fixture).await;
        let refused = dial(&fixture, fixture.address()).await.map(drop);
        assert!(
            matches!(&refused, Err(ConnectionError::ConnectionClosed(_))),
            "{refused:?}"
        );
        one.connection.close(0x100u32.into(), b"");
        drop(one);
        loop {
            // The server frees the place when it has received the packet.
            if let Ok((endpoint, connection)) = dial(&fixture, fixture.address()).await {
                let three = Client::on(endpoint, connection).await;
                assert_eq!(three.get("/ten.txt").await, b"0123456789");
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(two.get("/ten.txt").await, b"0123456789");
    });
}

#[test]
fn a_full_worker_closes_an_idle_connection() {
    let fixture = Fixture::with(|options| {
        options.workers = Some(1);
        options.limits.connections = 2;
    });
    run(async {
        let idle = Client::connect(&fixture).await;
        assert_eq!(idle.get("/ten.txt").await, b"0123456789");
        let busy = Client::connect(&fixture).await;
        let mut stream = busy.begin("GET /large.bin").await;
        stream.finish().await.unwrap();
        stream.recv_response().await.unwrap();
        let new = loop {
            // The first one is busy until its client has acknowledged the response.
            if let Ok((endpoint, connection)) = dial(&fixture, fixture.address()).await {
                break Client::on(endpoint, connection).await;
            }
        };
        let end = idle.connection.closed().await;
        assert!(
            matches!(&end, ConnectionError::ApplicationClosed(_)),
            "{end}"
        );
        assert_eq!(new.get("/ten.txt").await, b"0123456789");
        assert!(busy.connection.close_reason().is_none());
    });
}

#[test]
fn a_connection_ends_after_its_last_request() {
    let fixture = Fixture::with(|options| options.limits.requests = 3);
    run(async {
        let client = Client::connect(&fixture).await;
        for _ in 0..3 {
            assert_eq!(client.get("/ten.txt").await, b"0123456789");
        }
        let end = client.connection.closed().await;
        let expected = 0x100u32.into();
        assert!(
            matches!(&end, ConnectionError::ApplicationClosed(close) if close.error_code == expected),
            "{end}"
        );
    });
}

#[test]
fn an_idle_connection_ends() {
    let fixture = Fixture::with(|options| {
        options.limits.idle_time = Duration::from_millis(300);
    });
    run(async {
        let client = Client::connect(&fixture).await;
        assert_eq!(client.get("/ten.txt").await, b"0123456789");
        let end = client.connection.closed().await;
        assert!(
            matches!(&end, ConnectionError::ApplicationClosed(_)),
            "{end}"
        );
    });
}

#[test]
fn a_stopping_server_finishes_its_responses() {
    let fixture = Fixture::start();
    run(async {
        let idle = Client::connect(&fixture).await;
        assert_eq!(idle.get("/ten.txt").await, b"0123456789");
        let client = Client::connect(&fixture).await;
        let mut stream = client.begin("GET /large.bin").await;
        stream.finish().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        let control = fixture.server.control();
        control.stop();
        idle.connection.closed().await;
        let found = read(&mut stream).await.unwrap();
        assert!(found.status == 200 && found.body == large(), "it is cut");
        client.connection.closed().await;
    });
    fixture.server.stop();
}

#[test]
fn a_connection_that_is_cut_says_so() {
    // Answers when it may, with more than the congestion window at the start of a connection.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let upstream = format!("/api=http://{}", listener.local_addr().unwrap());
    let (asked, is_asked) = std::sync::mpsc::channel();
    let (go, may_answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut head = [0; 1000];
        let _ = socket.read(&mut head).unwrap();
        asked.send(()).unwrap();
        may_answer.recv().unwrap();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n";
        socket.write_all(head.as_bytes()).unwrap();
        while socket.write_all(&[b'x'; 10_000]).is_ok() {}
    });
    let fixture = Fixture::with(|options| {
        options.limits.drain_time = Duration::from_millis(300);
        options.site.upstreams.http = vec![Upstream::http(&upstream).unwrap()];
    });
    let relay = Relay::start(fixture.address(), Faults::NONE);
    run(async {
        let client = Client::to(&fixture, relay.address()).await;
        let mut stream = client.begin("GET /api").await;
        stream.finish().await.unwrap();
        tokio::task::spawn_blocking(move || is_asked.recv().unwrap())
            .await
            .unwrap();
        relay.mute();
        go.send(()).unwrap();
        stream.recv_response().await.unwrap();
        // The congestion window is full, because no acknowledgement arrives.
        tokio::time::sleep(Duration::from_millis(200)).await;
        fixture.server.control().stop();
        let end = client.connection.closed().await;
        assert!(
            matches!(&end, ConnectionError::ApplicationClosed(_)),
            "{end}"
        );
    });
}

#[test]
fn a_reload_keeps_the_connections_that_answer() {
    reload(false);
}

#[test]
fn a_server_that_stops_after_a_reload_finishes_its_responses() {
    reload(true);
}

fn reload(stops: bool) {
    let fixture = Fixture::with(|options| options.workers = Some(2));
    run(async {
        let client = Client::connect(&fixture).await;
        let mut stream = client.begin("GET /large.bin").await;
        stream.finish().await.unwrap();
        stream.recv_response().await.unwrap();
        let mut options = fixture.options();
        options.site.listing = true;
        let control = fixture.server.control();
        let reloaded = tokio::task::spawn_blocking(move || control.reload(options));
        reloaded.await.unwrap().unwrap();
        let other = Client::connect(&fixture).await;
        assert!(other.get("/docs/").await.starts_with(b"<!"));
        // The packets of the client arrive at the new workers, which pass them on, until they stop too.
        let mut body = Vec::new();
        while let Some(mut bytes) = stream.recv_data().await.unwrap() {
            use bytes::Buf;
            body.extend_from_slice(&bytes.copy_to_bytes(bytes.remaining()));
            if stops && body.len() > 1_000_000 {
                fixture.server.control().stop();
            }
        }
        assert!(body == large(), "it is changed");
    });
}

#[test]
fn no_client_is_refused_during_reloads() {
    let fixture = Fixture::with(|options| options.workers = Some(2));
    let done = Rc::new(Cell::new(false));
    run(async {
        let reloads = async {
            // Not more than generations may run: the server closes the connections of the oldest of more.
            for _ in 0..Limits::GENERATIONS {
                let (control, options) = (fixture.server.control(), fixture.options());
                let reloaded = tokio::task::spawn_blocking(move || control.reload(options));
                reloaded.await.unwrap().unwrap();
            }
            done.set(true);
        };
        let clients = all((0..4).map(|_| async {
            let mut connected = 0;
            while !done.get() {
                // Each has another port, so that the kernel chooses another worker.
                let (endpoint, connection) = dial(&fixture, fixture.address()).await.unwrap();
                let client = Client::on(endpoint, connection).await;
                assert_eq!(client.get("/ten.txt").await, b"0123456789");
                connected += 1;
            }
            connected
        }));
        let (connected, ()) = laio_rt::future::join(clients, reloads).await;
        assert!(connected.iter().sum::<u32>() >= 4);
    });
}

#[test]
fn handshakes_are_limited() {
    let fixture = Fixture::with(|options| {
        options.workers = Some(1);
        let http3 = options.http3.as_mut().unwrap();
        http3.handshakes = 0;
    });
    run(async {
        let dialled = dial(&fixture, fixture.address());
        let dialled = tokio::time::timeout(Duration::from_millis(500), dialled).await;
        assert!(dialled.is_err(), "the server answers");
    });
}
