//! Sockets and pipes, over the back ends in which one task may wait while another runs.

use crate::common::{each, eventually_async, waiting};
use laio::ops::{Limit, Part};
use laio_rt::fs::File;
use laio_rt::net::{
    ListenOptions, Shutdown, Stream, TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream,
};
use laio_rt::pipe::pipe;
use laio_rt::{future, spawn};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

const HERE: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

async fn read_exactly<K>(stream: &Stream<K>, count: usize) -> Vec<u8> {
    let mut buffer = Limit::new(Vec::with_capacity(count), count);
    while buffer.left() > 0 {
        let (result, filled) = stream.read(buffer).await;
        buffer = filled;
        if result.unwrap() == 0 {
            break;
        }
    }
    buffer.into_inner()
}

async fn echo<K>(stream: Stream<K>) {
    let mut buffer = Vec::with_capacity(16 * 1024);
    loop {
        let (result, filled) = stream.read(buffer).await;
        if result.unwrap() == 0 {
            break;
        }
        let (result, sent) = stream.write_all(filled).await;
        result.unwrap();
        buffer = sent;
        buffer.clear();
    }
}

#[test]
fn two_hundred_connections_echo() {
    each(waiting(), async |_| {
        let listener = TcpListener::bind(HERE).unwrap();
        let address = listener.local_addr().unwrap();
        let server = spawn(async move {
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                assert_eq!(stream.peer_addr().unwrap(), peer);
                spawn(echo(stream)).detach();
            }
        });
        let clients: Vec<_> = (0..200u32)
            .map(|client| {
                spawn(async move {
                    let stream = TcpStream::connect(address).await.unwrap();
                    stream.set_nodelay(true).unwrap();
                    for round in 0..10u32 {
                        let message = (client * 1000 + round).to_le_bytes();
                        stream.write_all(message).await.0.unwrap();
                        assert_eq!(read_exactly(&stream, 4).await, message);
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
        server.abort();
        assert!(!server.await.unwrap_err().is_panic());
    });
}

#[test]
fn writes_are_complete_and_reads_take_what_is_there() {
    each(waiting(), async |_| {
        let (one, other) = UnixStream::pair().unwrap();
        // Far more than the socket's buffers hold: the write ends only when the peer has read.
        let contents: Rc<[u8]> = (0..5_000_000u32).map(|i| (i / 3) as u8).collect();
        let sent = contents.clone();
        let writer = spawn(async move {
            one.write_all(Part::new(sent, 1..)).await.0.unwrap();
            one.write_more("a").await.0.unwrap();
            one.write_all("b").await.0.unwrap();
            one
        });
        assert_eq!(read_exactly(&other, 4_999_999).await, contents[1..]);
        assert_eq!(read_exactly(&other, 2).await, b"ab");
        let one = writer.await.unwrap();
        one.write_all("xyz").await.0.unwrap();
        let (result, buffer) = other.peek(Vec::with_capacity(2)).await;
        assert_eq!((result.unwrap(), &buffer[..]), (2, &b"xy"[..]));
        let (result, buffer) = other.read(Vec::with_capacity(100)).await;
        assert_eq!((result.unwrap(), &buffer[..]), (3, &b"xyz"[..]));
    });
}

#[test]
fn vectors_go_out_whole() {
    each(waiting(), async |_| {
        let (one, other) = UnixStream::pair().unwrap();
        let body: Rc<[u8]> = (0..2_000_000u32).map(|i| i as u8).collect();
        let sent = body.clone();
        let writer = spawn(async move {
            let (result, sources) = one
                .write_vectored((String::from("header "), sent, "end"))
                .await;
            result.unwrap();
            assert_eq!(sources.0, "header ");
            let many: Vec<&'static str> = vec!["0123456789"; 1000];
            one.write_vectored(many).await.0.unwrap();
        });
        assert_eq!(read_exactly(&other, 7).await, b"header ");
        assert_eq!(read_exactly(&other, body.len()).await, *body);
        assert_eq!(read_exactly(&other, 3).await, b"end");
        assert_eq!(
            read_exactly(&other, 10_000).await,
            b"0123456789".repeat(1000)
        );
        writer.await.unwrap();
    });
}

#[test]
fn a_peer_that_is_gone_is_an_error() {
    each(waiting(), async |_| {
        let (one, other) = UnixStream::pair().unwrap();
        other.close().await.unwrap();
        // A process that another test has just forked holds a copy of the socket until its `exec`; a read waits for
        // that too.
        assert_eq!(one.read(Vec::with_capacity(1)).await.0.unwrap(), 0);
        let (result, buffer) = one.write_all(vec![1u8; 10]).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(buffer.len(), 10);
        let (result, _) = one.write_vectored(("a", "b")).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(one.read(Vec::with_capacity(1)).await.0.unwrap(), 0);

        // In the middle of a transfer.
        for vectored in [false, true] {
            let (one, other) = UnixStream::pair().unwrap();
            let writer = spawn(async move {
                let bytes = vec![0u8; 3_000_000];
                if vectored {
                    one.write_vectored((bytes, "more")).await.0
                } else {
                    one.write_all(bytes).await.0
                }
            });
            read_exactly(&other, 10_000).await;
            drop(other);
            let kind = writer.await.unwrap().unwrap_err().kind();
            assert!(
                matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
                "{kind}"
            );
        }

        let listener = TcpListener::bind(HERE).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        // A helper may still be making the close.
        eventually_async("connections are refused", async || {
            let connected = TcpStream::connect(address).await;
            connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        })
        .await;
    });
}

#[test]
fn files_are_sent() {
    each(waiting(), async |_| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let contents: Vec<u8> = (0..3_500_000u32).map(|i| (i / 5) as u8).collect();
        std::fs::write(&path, &contents).unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        let sender = spawn(async move {
            let file = File::open(&path).await.unwrap();
            let (result, sent) = one.send_file(&file, 100, u64::MAX).await;
            result.unwrap();
            sent
        });
        assert_eq!(read_exactly(&other, contents.len()).await, contents[100..]);
        assert_eq!(sender.await.unwrap(), contents.len() as u64 - 100);
    });
}

#[test]
fn directions_end_one_by_one() {
    each(waiting(), async |_| {
        let (one, other) = UnixStream::pair().unwrap();
        let server = spawn(echo(other));
        let (reader, writer) = one.into_split();
        let sender = spawn(async move {
            for _ in 0..100 {
                writer.write_all("some bytes ").await.0.unwrap();
            }
            // The writer is dropped here: the server reads the end, and closes.
        });
        let mut all = Vec::with_capacity(64);
        loop {
            let (result, filled) = reader.read(all).await;
            all = filled;
            all.reserve(64);
            if result.unwrap() == 0 {
                break;
            }
        }
        assert_eq!(all, b"some bytes ".repeat(100));
        sender.await.unwrap();
        server.await.unwrap();

        let (one, other) = UnixStream::pair().unwrap();
        let waits = spawn(async move { other.read(Vec::with_capacity(1)).await.0 });
        one.shutdown(Shutdown::Write).await.unwrap();
        assert_eq!(waits.await.unwrap().unwrap(), 0);
    });
}

#[test]
fn unix_sockets_have_paths() {
    each(waiting(), async |_| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(
            listener.local_addr().unwrap().to_string(),
            format!("unix:{}", path.display())
        );
        let server = spawn(async move {
            let stream = listener.accept().await.unwrap();
            echo(stream).await;
        });
        let stream = UnixStream::connect(&path).await.unwrap();
        assert!(stream.peer_addr().unwrap() == laio::ops::Address::unix(&path).unwrap());
        stream.write_all("hello").await.0.unwrap();
        assert_eq!(read_exactly(&stream, 5).await, b"hello");
        drop(stream);
        server.await.unwrap();
    });
}

#[test]
fn ports_are_shared_on_request() {
    each(waiting(), async |_| {
        let shared = ListenOptions::new().reuse_port(true).backlog(16);
        let one = TcpListener::bind_with(HERE, shared).unwrap();
        let address = one.local_addr().unwrap();
        let _other = TcpListener::bind_with(address, shared).unwrap();
        let error = TcpListener::bind(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    });
}

#[test]
fn datagrams_keep_their_bounds() {
    each(waiting(), async |_| {
        let one = UdpSocket::bind(HERE).unwrap();
        let other = UdpSocket::bind(HERE).unwrap();
        let (address, sender) = (one.local_addr().unwrap(), other.local_addr().unwrap());
        let receiver = spawn(async move {
            let (result, buffer) = one.recv_from(Vec::with_capacity(100)).await;
            let received = result.unwrap();
            assert_eq!((received.count, received.truncated), (3, false));
            assert_eq!(received.from.unwrap().inet(), Some(sender));
            assert_eq!(buffer, b"one");
            let (result, buffer) = one.recv_from(Limit::new(Vec::with_capacity(100), 2)).await;
            let received = result.unwrap();
            assert_eq!((received.count, received.truncated), (2, true));
            assert_eq!(buffer.into_inner(), b"tw");
            one.send_to("answer", sender).await.0.unwrap();
        });
        assert_eq!(other.send_to("one", address).await.0.unwrap(), 3);
        other.connect(address).await.unwrap();
        assert_eq!(other.send("two").await.0.unwrap(), 3);
        let (result, buffer) = other.recv(Vec::with_capacity(100)).await;
        assert_eq!((result.unwrap(), &buffer[..]), (6, &b"answer"[..]));
        receiver.await.unwrap();
    });
}

#[test]
fn pipes_carry_bytes() {
    each(waiting(), async |_| {
        let (reader, writer) = pipe().unwrap();
        let sender = spawn(async move {
            writer.write_all(vec![7u8; 1_000_000]).await.0.unwrap();
        });
        let mut all = Vec::with_capacity(1 << 20);
        loop {
            let (result, filled) = reader.read(all).await;
            all = filled;
            if result.unwrap() == 0 {
                break;
            }
        }
        assert_eq!(all, vec![7u8; 1_000_000]);
        sender.await.unwrap();
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        eventually_async("the reader is closed", async || {
            let written = writer.write_all("x").await.0;
            written.is_err_and(|error| error.kind() == ErrorKind::BrokenPipe)
        })
        .await;
    });
}

#[test]
fn reading_and_writing_at_the_same_time() {
    each(waiting(), async |_| {
        let (one, other) = UnixStream::pair().unwrap();
        let server = spawn(echo(other));
        let message = vec![5u8; 1_000_000];
        // The buffers are too small to write everything before reading the echo.
        let read = read_exactly(&one, message.len());
        let ((result, message), answer) = future::join(one.write_all(message), read).await;
        result.unwrap();
        assert!(answer == message);
        drop(one);
        server.await.unwrap();
    });
}

#[test]
fn addresses_of_both_families() {
    each(waiting(), async |_| {
        let localhost: SocketAddr = "[::1]:0".parse().unwrap();
        let options = ListenOptions::new().only_v6(true);
        let listener = match TcpListener::bind_with(localhost, options) {
            Ok(listener) => listener,
            Err(error) => return laio_testing::skip("ipv6", format!("{localhost}: {error}")),
        };
        let address = listener.local_addr().unwrap();
        let (stream, accepted) = future::join(TcpStream::connect(address), listener.accept()).await;
        let (_, peer) = accepted.unwrap();
        assert_eq!(stream.unwrap().local_addr().unwrap(), peer);
    });
}
