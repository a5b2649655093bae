//! Networks that lose datagrams, clients that move, and senders of nonsense.

use super::client::{Client, dial};
use super::relay::{Faults, Random, Relay};
use super::{Fixture, large, run};
use crate::common::has;
use crate::common::multiplexed::{Multiplexed, all};
use laio::BackendKind::{Lazy, Uring};
use std::net::UdpSocket;
use std::time::Duration;

#[test]
fn responses_survive_loss_and_reordering() {
    let fixture = Fixture::start();
    let faults = Faults {
        lost: 30,
        repeated: 20,
        delayed: 10,
        changed: 50,
    };
    let relay = Relay::start(fixture.address(), faults);
    run(async {
        let client = Client::to(&fixture, relay.address()).await;
        let large = large();
        for body in all((0..3).map(|_| client.get("/large.bin"))).await {
            assert!(body == large, "it is changed");
        }
        for body in all((0..50).map(|_| client.get("/ten.txt"))).await {
            assert_eq!(body, b"0123456789");
        }
    });
}

#[test]
fn a_client_that_moves_keeps_its_connection() {
    for backend in [Lazy, Uring] {
        if !has(backend) {
            continue;
        }
        let fixture = Fixture::on(backend, |options| options.workers = Some(4));
        run(async {
            let client = Client::connect(&fixture).await;
            let large = large();
            // The kernel chooses a worker by the port, so most moves are to another worker.
            for _ in 0..16 {
                let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
                client.endpoint.rebind(socket).unwrap();
                assert_eq!(client.get("/ten.txt").await, b"0123456789");
            }
            let mut stream = client.begin("GET /large.bin").await;
            stream.finish().await.unwrap();
            stream.recv_response().await.unwrap();
            let mut body = Vec::new();
            while let Some(mut bytes) = stream.recv_data().await.unwrap() {
                use bytes::Buf;
                let before = body.len() / 400_000;
                body.extend_from_slice(&bytes.copy_to_bytes(bytes.remaining()));
                if body.len() / 400_000 > before {
                    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
                    client.endpoint.rebind(socket).unwrap();
                }
            }
            assert!(body == large, "it is changed");
        });
        assert_eq!(fixture.server.stop().connections, 1);
    }
}

#[test]
fn nonsense_is_ignored() {
    let fixture = Fixture::start();
    let mut random = Random(7);
    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    socket.connect(fixture.address()).unwrap();
    for number in 0..5000 {
        let length = random.next() as usize % 1500;
        let mut datagram: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        // Some look like packets: an Initial, a Handshake, a short header, another version.
        let heads: [&[u8]; 5] = [
            &[0xc0, 0, 0, 0, 1, 8],
            &[0xe0, 0, 0, 0, 1, 12],
            &[0x40],
            &[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8],
            &[],
        ];
        let head = heads[number % heads.len()];
        if datagram.len() >= head.len() {
            datagram[..head.len()].copy_from_slice(head);
        }
        let _ = socket.send(&datagram);
    }
    run(async {
        let client = Client::connect(&fixture).await;
        assert_eq!(client.get("/ten.txt").await, b"0123456789");
    });
}

#[test]
fn an_initial_packet_that_is_changed_breaks_nothing() {
    let fixture = Fixture::start();
    let faults = Faults {
        lost: 0,
        repeated: 3,
        delayed: 3,
        changed: 3,
    };
    let relay = Relay::start(fixture.address(), faults);
    run(async {
        for _ in 0..20 {
            // The handshake may fail, or the client may wait for long.
            let dialled = dial(&fixture, relay.address());
            let _ = tokio::time::timeout(Duration::from_millis(100), dialled).await;
        }
        let client = Client::connect(&fixture).await;
        assert_eq!(client.get("/ten.txt").await, b"0123456789");
    });
}
