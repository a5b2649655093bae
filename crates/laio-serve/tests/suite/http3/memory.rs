//! The memory that clients make the server hold who do not read their responses.

use super::client::Client;
use super::{Fixture, large, run};
use crate::common::multiplexed::Multiplexed;
use crate::common::until;
use laio_serve::{Http3, Memory, Observer};
use laio_testing::extent;
use std::time::Duration;

const STREAMS: u64 = 100;

/// Begins requests on a connection whose streams have this window, and reads the heads of the responses.
async fn hostile(fixture: &Fixture, window: u32) -> (Client, Vec<super::client::Stream>) {
    let mut transport = quinn::TransportConfig::default();
    transport.stream_receive_window(window.into());
    let client = Client::configured(fixture, transport).await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let mut stream = client.begin("GET /large.bin").await;
        stream.finish().await.unwrap();
        streams.push(stream);
    }
    for stream in &mut streams {
        assert_eq!(stream.recv_response().await.unwrap().status(), 200);
    }
    (client, streams)
}

#[test]
fn unread_responses_hold_no_more_than_flow_control_has_admitted() {
    let observer = Observer::new(false);
    let own = observer.clone();
    let fixture = Fixture::with(|options| options.observer = own);
    let held = || observer.seen().memory.held;
    let connections = extent::cases(10, 3);
    run(async {
        // The head of a response, and a few bytes of its body.
        let mut clients = Vec::new();
        for _ in 0..connections {
            clients.push(hostile(&fixture, 1000).await);
        }
        // A piece that flow control has admitted in part stays until it is acknowledged, by which the heads of
        // the next responses arrive.
        let requests = STREAMS * (Memory::REQUEST + 1024);
        let most = requests + Http3::SEND_BUFFER_MAX + 3 * Memory::GRAIN;
        assert!(held() > 0 && held() <= connections * most, "{}", held());
        until("only requests are held", || {
            held() <= connections * (requests + 3 * Memory::GRAIN)
        });
    });
    until("all is given back", || held() == 0);
}

/// A client stops its requests in the middle of the responses. The server takes back what they hold, and goes on.
#[test]
fn stopped_requests_give_back_what_they_hold() {
    let observer = Observer::new(false);
    let own = observer.clone();
    let fixture = Fixture::with(|options| options.observer = own);
    let held = || observer.seen().memory.held;
    run(async {
        let (client, mut streams) = hostile(&fixture, 50_000).await;
        assert!(held() >= STREAMS * Memory::REQUEST, "{}", held());
        for stream in &mut streams {
            stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
        }
        while held() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(client.get("/large.bin").await == large(), "it is changed");
        assert!(client.connection.close_reason().is_none());
    });
}

#[test]
fn a_budget_that_is_used_up_stops_no_other_client() {
    let observer = Observer::new(false);
    let own = observer.clone();
    let fixture = Fixture::with(|options| {
        options.observer = own;
        options.limits.memory = 0;
    });
    run(async {
        let client = Client::connect(&fixture).await;
        for _ in 0..3 {
            assert!(client.get("/large.bin").await == large(), "it is changed");
        }
        // The reserve has room for one request, so that others at the same time are rejected.
        let first = client.begin("GET /large.bin").await;
        let second = client.try_ask("GET /large.bin").await;
        let third = client.try_ask("GET /large.bin").await;
        assert!(second.is_err() || third.is_err(), "both were admitted");
        drop(first);
    });
    assert!(observer.seen().memory.refused > 0);
}
