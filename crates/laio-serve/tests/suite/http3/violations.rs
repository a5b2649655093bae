//! Clients that violate the protocol.

use super::client::{Client, dial};
use super::relay::Random;
use super::{Fixture, run};
use crate::common::multiplexed::Multiplexed;
use quinn::{ConnectionError, ReadError, VarInt};
use std::time::Duration;

/// A head in QPACK: GET https a /ten.txt, with the static table.
const HEAD: &[u8] = b"\x00\x00\xd1\xd7\x50\x01a\x51\x08/ten.txt";
/// The types of a control stream, and of those of QPACK.
const CONTROL: &[u8] = b"\x00";
const ENCODER: &[u8] = b"\x02";
const DECODER: &[u8] = b"\x03";
const SETTINGS: &[u8] = b"\x04\x00";

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, payload.len() as u8], payload].concat()
}

/// Returns the code with which the server closes the connection.
async fn closed(connection: &quinn::Connection) -> u64 {
    match connection.closed().await {
        ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
        error => panic!("{error}"),
    }
}

/// Violations, one in a line: the code of the error, what is wrong, and what a client sends.
macro_rules! cases {
    ($($code:literal $what:literal => $sent:expr;)*) => { vec![$(($code, $what, $sent)),*] };
}

#[test]
fn violations_on_streams_in_one_direction_end_the_connection() {
    let control = |frames: &[&[u8]]| [CONTROL, &frames.concat()].concat();
    let large_settings = [&[0x04, 0x80, 0x01, 0, 0][..], &[0; 100]].concat();
    let cases: Vec<(u64, &str, Vec<Vec<u8>>)> = cases! {
        0x10a "no SETTINGS" => vec![control(&[&frame(0x7, &[0])])];
        0x10a "DATA before SETTINGS" => vec![control(&[&frame(0x0, b""), SETTINGS])];
        0x105 "two SETTINGS" => vec![control(&[SETTINGS, SETTINGS])];
        0x105 "DATA" => vec![control(&[SETTINGS, &frame(0x0, b"a")])];
        0x105 "HEADERS" => vec![control(&[SETTINGS, &frame(0x1, HEAD)])];
        0x105 "a frame of HTTP/2" => vec![control(&[SETTINGS, &frame(0x6, b"")])];
        0x109 "a setting of HTTP/2" => vec![control(&[&frame(0x4, &[0x2, 0])])];
        0x109 "a setting twice" => vec![control(&[&frame(0x4, &[0x6, 1, 0x6, 1])])];
        0x106 "a cut setting" => vec![control(&[&frame(0x4, &[0x6])])];
        0x107 "large SETTINGS" => vec![control(&[&large_settings])];
        0x106 "a longer GOAWAY" => vec![control(&[SETTINGS, &frame(0x7, &[0, 0])])];
        0x108 "a growing GOAWAY" => vec![control(&[SETTINGS, &frame(0x7, &[0]), &frame(0x7, &[4])])];
        0x108 "a shrinking MAX_PUSH_ID" => vec![control(&[SETTINGS, &frame(0xd, &[4]), &frame(0xd, &[0])])];
        0x108 "CANCEL_PUSH" => vec![control(&[SETTINGS, &frame(0x3, &[0])])];
        0x103 "two control streams" => vec![control(&[SETTINGS]), control(&[SETTINGS])];
        0x103 "two encoders" => vec![ENCODER.to_vec(), ENCODER.to_vec()];
        0x103 "a push stream" => vec![b"\x01\x00".to_vec()];
        0x104 "the end of the control stream" => vec![control(&[SETTINGS])];
        0x104 "the end of the encoder" => vec![ENCODER.to_vec()];
        0x201 "an insertion" => vec![[ENCODER, b"\x41a\x01b"].concat()];
        0x201 "a capacity" => vec![[ENCODER, b"\x3f\xe1\x1f"].concat()];
        0x202 "an acknowledgement" => vec![[DECODER, b"\x80"].concat()];
        0x202 "an increment" => vec![[DECODER, b"\x01"].concat()];
    };
    let fixture = Fixture::start();
    run(async {
        for (code, what, streams) in cases {
            println!("{what}");
            let (_endpoint, connection) = dial(&fixture, fixture.address()).await.unwrap();
            let mut open = Vec::new();
            for bytes in streams {
                let mut stream = connection.open_uni().await.unwrap();
                // The server may have closed the connection already.
                let _ = stream.write_all(&bytes).await;
                // H3_CLOSED_CRITICAL_STREAM.
                if code == 0x104 {
                    let _ = stream.finish();
                }
                open.push(stream);
            }
            assert_eq!(closed(&connection).await, code, "{what}");
        }
    });
}

#[test]
fn violations_on_request_streams_end_the_connection() {
    let headers = frame(0x1, HEAD);
    let with = |rest: &[u8]| [&headers, rest].concat();
    let cases: Vec<(u64, &str, Vec<u8>)> = cases! {
        0x105 "DATA first" => frame(0x0, b"a");
        0x105 "SETTINGS" => frame(0x4, b"");
        0x105 "PUSH_PROMISE" => frame(0x5, b"\x00\x00\x00");
        0x105 "CANCEL_PUSH" => frame(0x3, b"\x00");
        0x105 "CANCEL_PUSH after the head" => with(&frame(0x3, b"\x00"));
        0x105 "GOAWAY" => frame(0x7, b"\x00");
        0x105 "MAX_PUSH_ID" => frame(0xd, b"\x00");
        0x105 "a frame of HTTP/2" => frame(0x2, b"");
        0x105 "DATA after trailers" => with(&[frame(0x1, b"\x00\x00"), frame(0x0, b"a")].concat());
        0x105 "two trailers" => with(&[frame(0x1, b"\x00\x00"), frame(0x1, b"\x00\x00")].concat());
        0x105 "SETTINGS after the head" => with(&frame(0x4, b""));
        0x106 "a cut head" => headers[..headers.len() - 1].to_vec();
        0x106 "a cut frame" => with(b"\x00\x05abc");
        0x106 "a cut length" => with(b"\x00\x40");
        0x200 "a dynamic table" => frame(0x1, b"\x02\x00\x80");
        0x200 "an unknown index" => frame(0x1, b"\x00\x00\xff\x40");
        0x200 "a wrong Huffman code" => frame(0x1, b"\x00\x00\x50\x82\xff\xff");
        0x200 "an empty section" => frame(0x1, b"");
    };
    let fixture = Fixture::start();
    run(async {
        for (code, what, bytes) in cases {
            println!("{what}");
            let (_endpoint, connection) = dial(&fixture, fixture.address()).await.unwrap();
            let (mut sending, _receiving) = connection.open_bi().await.unwrap();
            let _ = sending.write_all(&bytes).await;
            let _ = sending.finish();
            assert_eq!(closed(&connection).await, code, "{what}");
        }
    });
}

#[test]
fn a_malformed_request_ends_only_its_stream() {
    let line = |name: &[u8], value: &[u8]| {
        let lengths = (0x20 | name.len() as u8, value.len() as u8);
        assert!(name.len() < 7 && value.len() < 127);
        [&[lengths.0], name, &[lengths.1], value].concat()
    };
    let with = |more: &[u8]| frame(0x1, &[HEAD, more].concat());
    let cases: Vec<(u32, &str, Vec<u8>)> = cases! {
        0x10d "nothing" => vec![];
        0x10d "an unknown frame only" => frame(0x21, b"abc");
        0x10e "no pseudo-fields" => frame(0x1, b"\x00\x00");
        0x10e "no path" => frame(0x1, b"\x00\x00\xd1\xd7\x50\x01a");
        0x10e "no authority" => frame(0x1, b"\x00\x00\xd1\xd7\xc1");
        0x10e "upper case" => with(&line(b"Upper", b"a"));
        0x10e "a line break" => with(&line(b"a", b"b\r\nc: d"));
        0x10e "a method twice" => with(b"\xd1");
        0x10e "a pseudo-field later" => with(&[&line(b"a", b"b")[..], b"\xd1"].concat());
        0x10e "a field of a connection" => with(&line(b"te", b"gzip"));
        0x107 "large unknown frames" => b"\x21\x80\x01\x00\x01".to_vec();
    };
    let fixture = Fixture::start();
    run(async {
        let (endpoint, connection) = dial(&fixture, fixture.address()).await.unwrap();
        for (code, what, bytes) in cases {
            println!("{what}");
            let (mut sending, mut receiving) = connection.open_bi().await.unwrap();
            let _ = sending.write_all(&bytes).await;
            if code != 0x107 {
                let _ = sending.finish();
            }
            let error = receiving.read_to_end(1000).await.unwrap_err();
            let expected = ReadError::Reset(VarInt::from_u32(code));
            assert!(
                matches!(&error, quinn::ReadToEndError::Read(it) if *it == expected),
                "{what}: {error}"
            );
        }
        // Unknown frames and streams are ignored, however they are split.
        let mut unknown = connection.open_uni().await.unwrap();
        unknown.write_all(b"\x21 nonsense").await.unwrap();
        let unknown = [
            frame(0x21, b"abc"),
            frame(0x1, HEAD),
            frame(0x40, b"\x03ab"),
        ]
        .concat();
        let unknown = [&unknown[..unknown.len() - 5], b"\x21\x00"].concat();
        let (mut sending, mut receiving) = connection.open_bi().await.unwrap();
        for byte in unknown {
            sending.write_all(&[byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        sending.finish().unwrap();
        let answer = receiving.read_to_end(10_000).await.unwrap();
        assert!(answer.ends_with(b"0123456789"));
        // The connection still serves.
        let client = Client::on(endpoint, connection).await;
        assert_eq!(client.get("/ten.txt").await, b"0123456789");
    });
}

#[test]
fn a_client_that_gives_up_requests_is_served_until_they_are_too_many() {
    let fixture = Fixture::start();
    run(async {
        let client = Client::connect(&fixture).await;
        for _ in 0..20 {
            let mut stream = client.begin("GET /large.bin").await;
            stream.finish().await.unwrap();
            stream.recv_response().await.unwrap();
            stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
        }
        assert_eq!(client.get("/ten.txt").await, b"0123456789");
        for _ in 0..5000 {
            let Ok(mut stream) = client.try_begin("GET /large.bin").await else {
                break;
            };
            stream.stop_stream(h3::error::Code::H3_REQUEST_CANCELLED);
            stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
            tokio::task::yield_now().await;
        }
        let error = client.driver.await.unwrap();
        assert!(error.to_string().contains("H3_EXCESSIVE_LOAD"), "{error}");
        let other = Client::connect(&fixture).await;
        assert_eq!(other.get("/ten.txt").await, b"0123456789");
    });
}

#[test]
fn random_streams_harm_only_their_connection() {
    let fixture = Fixture::start();
    let mut random = Random(11);
    run(async {
        for _ in 0..100 {
            let (_endpoint, connection) = dial(&fixture, fixture.address()).await.unwrap();
            for _ in 0..8 {
                let length = random.next() as usize % 200;
                let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
                // Most begin like a request or a control stream.
                let start: &[u8] = match random.next() % 4 {
                    0 => &frame(0x1, HEAD),
                    1 => &[0x1, 0x20, 0x0, 0x0],
                    2 => &[CONTROL, SETTINGS].concat(),
                    _ => &[],
                };
                bytes.splice(..0, start.iter().copied());
                let stream = match random.next() % 2 {
                    0 => connection.open_uni().await,
                    _ => connection.open_bi().await.map(|(sending, _)| sending),
                };
                let Ok(mut stream) = stream else { break };
                let _ = stream.write_all(&bytes).await;
                let _ = match random.next() % 3 {
                    0 => stream.finish(),
                    1 => stream.reset(VarInt::from_u32(0x10c)),
                    _ => Ok(()),
                };
            }
            connection.close(VarInt::from_u32(0x100), b"");
        }
        let client = Client::connect(&fixture).await;
        assert_eq!(client.get("/ten.txt").await, b"0123456789");
    });
}

#[test]
fn a_slow_head_and_a_silent_handshake_end() {
    let fixture = Fixture::with(|options| {
        options.limits.head_time = Duration::from_millis(300);
    });
    run(async {
        let (_endpoint, connection) = dial(&fixture, fixture.address()).await.unwrap();
        let (mut sending, mut receiving) = connection.open_bi().await.unwrap();
        sending.write_all(&frame(0x1, HEAD)[..5]).await.unwrap();
        let error = receiving.read_to_end(1000).await.unwrap_err();
        let expected = ReadError::Reset(VarInt::from_u32(0x10d));
        assert!(matches!(&error, quinn::ReadToEndError::Read(it) if *it == expected));
    });
}
