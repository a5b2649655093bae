//! Early data (0-RTT). The client has no threads and no clock of its own: a test decides which of its packets
//! are sent, and when.

use super::{Fixture, large};
use crate::common::{LONG, until};
use crate::upstreams::backend::Backend;
use bytes::BytesMut;
use laio_serve::{EarlyData, Http3, Observer, Options, QuicCounts, Uploaders, Upstream};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    ReadError, StreamId,
};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A client of QUIC.
struct Client {
    socket: UdpSocket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
}

impl Client {
    fn new(config: &ClientConfig, server: SocketAddr) -> Client {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        socket.connect(server).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        let own = Arc::new(EndpointConfig::default());
        let mut endpoint = Endpoint::new(own, None, true, None);
        let now = Instant::now();
        let (handle, connection) = endpoint
            .connect(now, config.clone(), server, "localhost")
            .unwrap();
        Client {
            socket,
            endpoint,
            handle,
            connection,
        }
    }

    /// Returns the datagrams that are to be sent now.
    fn flight(&mut self) -> Vec<Vec<u8>> {
        let mut flight = Vec::new();
        loop {
            let mut datagram = Vec::new();
            let transmit = self
                .connection
                .poll_transmit(Instant::now(), 1, &mut datagram);
            match transmit {
                Some(transmit) => datagram.truncate(transmit.size),
                None => return flight,
            }
            flight.push(datagram);
        }
    }

    fn send(&mut self) {
        for datagram in self.flight() {
            self.socket.send(&datagram).unwrap();
        }
    }

    /// Receives what has arrived, or waits for a moment. Returns the bytes of it.
    fn receive(&mut self) -> usize {
        let mut buffer = [0; 65536];
        let now = Instant::now();
        while self.connection.poll_timeout().is_some_and(|due| due <= now) {
            self.connection.handle_timeout(now);
        }
        let Ok(length) = self.socket.recv(&mut buffer) else {
            return 0;
        };
        let (data, server) = (
            BytesMut::from(&buffer[..length]),
            self.socket.peer_addr().unwrap(),
        );
        let mut answer = Vec::new();
        let event = self
            .endpoint
            .handle(Instant::now(), server, None, None, data, &mut answer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while self.connection.poll().is_some() {}
        length
    }

    /// Writes a request without sending it. Its body is that of the only DATA frame, if there is one.
    fn ask(&mut self, method: &[u8], path: &str, body: Option<&[u8]>) -> StreamId {
        let id = self.connection.streams().open(Dir::Bi).unwrap();
        // The static table has the two methods, https, and the names of the others.
        let method: &[u8] = match method {
            b"GET" => b"\xd1",
            b"PUT" => b"\xd5",
            _ => panic!("another method"),
        };
        let path = [&[0x51, path.len() as u8], path.as_bytes()].concat();
        let head = [b"\x00\x00", method, b"\xd7\x50\x01a", &path].concat();
        let mut frames = [&[0x01, head.len() as u8], &head[..]].concat();
        if let Some(body) = body {
            frames.extend([&[0x00, body.len() as u8], body].concat());
        }
        let mut stream = self.connection.send_stream(id);
        assert_eq!(stream.write(&frames).unwrap(), frames.len());
        stream.finish().unwrap();
        id
    }

    /// Reads what has arrived of a response. Returns whether it has ended.
    fn read(&mut self, id: StreamId, response: &mut Vec<u8>) -> bool {
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            panic!("the stream was read");
        };
        let ended = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => response.extend_from_slice(&chunk.bytes),
                Ok(None) => break true,
                Err(ReadError::Blocked) => break false,
                Err(error) => panic!("{error}"),
            }
        };
        let _ = chunks.finalize();
        ended
    }

    /// Waits for a response: its frames. Sends further packets only if `sends` is set.
    fn answer(&mut self, id: StreamId, sends: bool) -> Vec<u8> {
        let mut response = Vec::new();
        let end = Instant::now() + LONG;
        while !self.read(id, &mut response) {
            assert!(Instant::now() < end, "no response: {response:?}");
            assert!(!self.connection.is_closed(), "the connection is lost");
            self.receive();
            if sends {
                self.send();
            }
        }
        response
    }

    fn shake_hands(&mut self) {
        self.send();
        while self.connection.is_handshaking() {
            self.receive();
            self.send();
        }
    }

    /// Asks for a file and returns the response, on a connection that has ended its handshake.
    fn get(&mut self, path: &str) -> Vec<u8> {
        let id = self.ask(b"GET", path, None);
        self.send();
        self.answer(id, true)
    }
}

/// A server with early data, whose counts are seen.
struct Early {
    fixture: Fixture,
    observer: Observer,
    config: ClientConfig,
}

impl Early {
    fn start(which: EarlyData, change: impl FnOnce(&mut Options)) -> Early {
        let observer = Observer::new(false);
        let fixture = Fixture::with(|options| {
            options.workers = Some(2);
            options.observer = observer.clone();
            // Clients that never end their handshake do not go away.
            options.limits.drain_time = Duration::from_millis(100);
            options.http3 = Some(Http3 {
                early_data: Some(which),
                ..Http3::default()
            });
            change(options);
        });
        let mut tls = crate::common::certs::trusting(&[&fixture.made], &["h3"]);
        tls.enable_early_data = true;
        let tls = QuicClientConfig::try_from(tls).unwrap();
        Early {
            fixture,
            observer,
            config: ClientConfig::new(Arc::new(tls)),
        }
    }

    fn counts(&self) -> QuicCounts {
        self.observer.seen().quic
    }

    fn client(&self) -> Client {
        Client::new(&self.config, self.fixture.address())
    }

    /// Connects once, so that the next client can resume its session.
    fn visit(&self) {
        let mut client = self.client();
        client.shake_hands();
        // The tickets arrive before.
        assert!(client.get("/ten.txt").ends_with(b"0123456789"));
    }

    /// Returns a client that comes back, and may send early data.
    fn returning(&self) -> Client {
        self.visit();
        let client = self.client();
        assert!(client.connection.has_0rtt(), "there is no early data");
        client
    }

    fn reload(&self, change: impl FnOnce(&mut Options)) {
        let mut options = self.fixture.options();
        change(&mut options);
        self.fixture.server.control().reload(options).unwrap();
    }
}

#[test]
fn a_file_is_sent_before_the_handshake_is_complete() {
    let early = Early::start(EarlyData::Files, |_| {});
    let mut client = early.returning();
    let id = client.ask(b"GET", "/ten.txt", None);
    let first_flight = client.flight();
    for datagram in &first_flight {
        client.socket.send(datagram).unwrap();
    }
    // The client sends nothing more, so the server cannot know the end of the handshake.
    assert!(client.answer(id, false).ends_with(b"0123456789"));
    until("the counts", || early.counts().early_requests == 1);
    let counts = early.counts();
    assert_eq!((counts.early_accepted, counts.early_rejected), (1, 0));
    assert_eq!(counts.early_waits, 0);
    client.send();
    assert!(client.get("/ten.txt").ends_with(b"0123456789"));
    assert!(client.connection.accepted_0rtt());
    assert_eq!(early.counts().early_requests, 1);
}

#[test]
fn early_data_is_off_by_default() {
    let early = Early::start(EarlyData::Files, |options| {
        options.http3.as_mut().unwrap().early_data = None;
    });
    early.visit();
    let mut client = early.client();
    assert!(!client.connection.has_0rtt());
    client.shake_hands();
    assert!(client.get("/ten.txt").ends_with(b"0123456789"));
}

#[test]
fn a_change_waits_for_the_end_of_the_handshake() {
    let early = Early::start(EarlyData::Files, |options| {
        options.site.uploads.who = Some(Uploaders::Anyone);
        options.site.uploads.keep_free = 0;
    });
    let path = early
        .fixture
        .options()
        .site
        .root
        .as_ref()
        .unwrap()
        .join("new.txt");
    let mut client = early.returning();
    let put = client.ask(b"PUT", "/new.txt", Some(b"new"));
    let empty = client.ask(b"PUT", "/empty-file.txt", None);
    let get = client.ask(b"GET", "/ten.txt", None);
    client.send();
    assert!(client.answer(get, false).ends_with(b"0123456789"));
    until("both wait", || early.counts().early_waits == 2);
    assert!(!path.exists() && !path.with_file_name("empty-file.txt").exists());
    client.send();
    client.answer(put, true);
    client.answer(empty, true);
    assert_eq!(fs::read(path).unwrap(), b"new");
}

#[test]
fn a_change_of_a_client_that_never_ends_the_handshake_is_not_made() {
    let early = Early::start(EarlyData::Files, |options| {
        options.site.uploads.who = Some(Uploaders::Anyone);
        options.site.uploads.keep_free = 0;
        options.limits.drain_time = Duration::from_millis(100);
    });
    let path = early
        .fixture
        .options()
        .site
        .root
        .as_ref()
        .unwrap()
        .join("new.txt");
    let mut client = early.returning();
    client.ask(b"PUT", "/new.txt", Some(b"new"));
    client.send();
    until("it waits", || early.counts().early_waits == 1);
    early.fixture.server.stop();
    assert!(!path.exists());
}

/// Counts requests, and refuses those in early data for `/api/late`.
fn upstream() -> Backend {
    Backend::start(|peer| {
        while let Some(head) = peer.request() {
            let is_early =
                head.contains("\r\nearly-data: 1\r\n") || head.contains("\r\nEarly-Data: 1\r\n");
            peer.send(if is_early && head.starts_with("GET /api/late ") {
                "HTTP/1.1 425 Too Early\r\nContent-Length: 0\r\n\r\n"
            } else {
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
            });
        }
    })
}

fn with_upstream(options: &mut Options, backend: &Backend) {
    let url = format!("/api=http://{}", backend.address());
    options.site.upstreams.http = vec![Upstream::http(&url).unwrap()];
}

#[test]
fn an_upstream_that_understands_early_data_gets_it() {
    let backend = upstream();
    let early = Early::start(EarlyData::Upstreams, |options| {
        with_upstream(options, &backend)
    });
    let mut client = early.returning();
    let [one, late] = ["/api/one", "/api/late"].map(|path| client.ask(b"GET", path, None));
    let put = client.ask(b"PUT", "/api/put", None);
    client.send();
    assert!(client.answer(one, false).ends_with(b"ok"));
    let refused = client.answer(late, false);
    // The status 425 is number 70 of the static table.
    assert!(
        refused.windows(4).any(|four| four == b"\x00\x00\xff\x07"),
        "{refused:?}"
    );
    client.send();
    client.answer(put, true);
    assert!(client.get("/api/late").ends_with(b"ok"));
    let heads = backend.heads();
    let is_early = |head: &String| head.to_ascii_lowercase().contains("early-data: 1");
    assert_eq!(heads.len(), 4);
    assert_eq!(heads.iter().filter(|head| is_early(head)).count(), 2);
    let put = heads.iter().find(|head| head.starts_with("PUT")).unwrap();
    assert!(!is_early(put));
}

#[test]
fn an_upstream_gets_no_early_data_by_default() {
    let backend = upstream();
    let early = Early::start(EarlyData::Files, |options| with_upstream(options, &backend));
    let mut client = early.returning();
    let id = client.ask(b"GET", "/api/late", None);
    client.send();
    until("it waits", || early.counts().early_waits == 1);
    assert!(backend.heads().is_empty());
    client.receive();
    assert!(client.answer(id, true).ends_with(b"ok"));
    assert_eq!(backend.heads().len(), 1);
}

#[test]
fn rules_for_client_addresses_wait_for_a_real_address() {
    let rules: [fn(&mut Options); 3] = [
        |options| options.site.access.deny = vec!["10.0.0.0/8".parse().unwrap()],
        |options| options.site.access.rates = vec!["100/s".parse().unwrap()],
        |options| options.clients.proxies = vec!["127.0.0.1".parse().unwrap()],
    ];
    for change in rules {
        let early = Early::start(EarlyData::Files, change);
        let mut client = early.returning();
        let id = client.ask(b"GET", "/ten.txt", None);
        client.send();
        until("it waits", || early.counts().early_waits == 1);
        assert!(client.answer(id, true).ends_with(b"0123456789"));
        assert_eq!(early.counts().early_requests, 0);
    }
}

#[test]
fn a_repeated_first_flight_does_nothing() {
    let backend = upstream();
    let early = Early::start(EarlyData::Upstreams, |options| {
        with_upstream(options, &backend)
    });
    let mut client = early.returning();
    let id = client.ask(b"GET", "/api/once", None);
    let flight = client.flight();
    for datagram in &flight {
        client.socket.send(datagram).unwrap();
    }
    assert!(client.answer(id, false).ends_with(b"ok"));
    let repeat = |count: usize| {
        for _ in 0..count {
            let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
            for datagram in &flight {
                socket.send_to(datagram, early.fixture.address()).unwrap();
            }
        }
    };
    // The kernel chooses a worker by the port: about half of them reach another worker than that of the
    // connection, which still exists.
    repeat(32);
    until("another worker rejects it", || {
        early.counts().early_rejected > 0
    });
    client.send();
    assert!(client.get("/ten.txt").ends_with(b"0123456789"));
    // The new workers know the session of the old ones, and that it was taken. A worker sees one connection in
    // several of these first flights, because the client's ID of it is the same.
    early.reload(|_| {});
    let before = early.counts();
    repeat(32);
    until("a new worker rejects it", || {
        early.counts().early_rejected > before.early_rejected
    });
    assert_eq!(early.counts().early_accepted, 1);
    early.fixture.server.stop();
    assert_eq!(backend.heads().len(), 1);
}

#[test]
fn early_data_after_a_reload() {
    let early = Early::start(EarlyData::Files, |_| {});
    let early_answer = || {
        let mut client = early.client();
        assert!(client.connection.has_0rtt());
        let id = client.ask(b"GET", "/ten.txt", None);
        client.shake_hands();
        let is_accepted = client.connection.accepted_0rtt();
        let answer = if is_accepted {
            client.answer(id, true)
        } else {
            client.get("/ten.txt")
        };
        assert!(answer.ends_with(b"0123456789"));
        is_accepted
    };
    early.visit();
    early.reload(|options| options.site.listing = true);
    assert!(early_answer());
    early.visit();
    // Larger limits keep what the session has promised, smaller ones do not.
    early.reload(|options| {
        options.limits.head_bytes *= 2;
        options.http3.as_mut().unwrap().streams += 1;
    });
    assert!(early_answer());
    early.visit();
    early.reload(|options| options.limits.head_bytes /= 2);
    assert!(!early_answer());
    early.visit();
    assert!(early_answer());
    early.reload(|options| options.http3.as_mut().unwrap().streams -= 1);
    assert!(!early_answer());
    early.reload(|options| options.http3.as_mut().unwrap().early_data = None);
    assert!(!early_answer());
}

#[test]
fn an_early_response_to_a_forged_address_is_no_amplification() {
    let early = Early::start(EarlyData::Files, |_| {});
    let mut client = early.returning();
    client.ask(b"GET", "/large.bin", None);
    let flight = client.flight();
    let sent: usize = flight.iter().map(Vec::len).sum();
    for datagram in &flight {
        client.socket.send(datagram).unwrap();
    }
    let (mut received, start) = (0, Instant::now());
    // Until the server repeats its packets, which it may not either.
    while start.elapsed() < Duration::from_millis(1500) {
        received += client.receive();
    }
    // quinn-proto checks the limit before it begins a packet, and then sends that packet whole.
    assert!(
        received > 0 && received < 3 * sent + 1200,
        "{received} for {sent}"
    );
    client.send();
    let id = client.ask(b"GET", "/large.bin", None);
    client.send();
    let large = large();
    assert!(
        client
            .answer(id, true)
            .ends_with(&large[large.len() - 100..])
    );
}

#[test]
fn early_data_needs_clients_without_certificates() {
    let fixture = Fixture::start();
    let mut options = fixture.options();
    options.tls.client_ca = Some(fixture.made.files.chain.clone());
    options.http3.as_mut().unwrap().early_data = Some(EarlyData::Files);
    let error = laio_serve::check(&options).unwrap_err().to_string();
    assert!(
        error.contains("--early-data cannot be combined with --client-ca"),
        "{error}"
    );
}
