//! A connection: receives requests and answers them, one after the other.

mod client;
pub(crate) mod exchange;
mod forward;
mod http2;
mod http2_preface;
pub(crate) mod running;
pub(crate) mod state;

use crate::net::stream::Stream;
use crate::net::tls::session::is_plain_http;
use crate::request::body::send;
use crate::request::pages;
use crate::request::receive::{handshake, linger, send_close_notify};
use crate::request::reply::Body;
use exchange::{Connection, Next, ReceivedMore};
use state::DrainState;
use std::io;

/// Serves until the client closes, violates the protocol or reaches a limit. An I/O error ends
/// the connection, because no answer can be sent.
pub(crate) async fn serve(mut connection: Connection) {
    match handshake(&connection.services.limits, &connection.stream).await {
        Ok(false) => {}
        Ok(true) => return multiplex(connection).await,
        Err(error) if is_plain_http(&error) => return refuse_plain_http(connection).await,
        Err(_) => return,
    }
    for count in 1.. {
        match wait_for_request(&mut connection).await {
            Ok(true) => {}
            Ok(false) => {
                send_close_notify(&connection.services.limits, &connection.stream).await;
                break;
            }
            Err(_) => break,
        }
        // Boxed, so that idle connections do not reserve memory for this future.
        match Box::pin(connection.exchange(count)).await {
            Ok(Next::Request) => {}
            Ok(Next::Multiplex) => return multiplex(connection).await,
            Ok(Next::End) => {
                send_close_notify(&connection.services.limits, &connection.stream).await;
                break;
            }
            Err(_) => break,
            Ok(Next::Linger) => {
                connection.connection_state.mark_evictable();
                linger(&connection.services, &connection.stream).await;
                break;
            }
        }
        // With the back end sync nothing else suspends this task; let the log writer and the
        // stop signal run.
        if connection.services.contexts.sync {
            laio_rt::yield_now().await;
        }
    }
}

/// Waits until a request begins. Returns false if the connection should end first: the client
/// closed it, it was idle for too long, it was evicted, or the worker closes idle connections.
async fn wait_for_request(connection: &mut Connection) -> io::Result<bool> {
    if !connection.input.is_empty() {
        connection
            .connection_state
            .set_drain_state(DrainState::InRequest);
        return Ok(true);
    }
    let drain_state = if connection.answered {
        DrainState::Between
    } else {
        DrainState::New
    };
    connection.connection_state.set_drain_state(drain_state);
    if connection.connections.closes_when(drain_state) {
        return Ok(false);
    }
    let input = std::mem::take(&mut connection.input);
    match connection.receive_more(input, None).await? {
        ReceivedMore::Bytes(input) => connection.input = input,
        ReceivedMore::Closed | ReceivedMore::TooSlow => return Ok(false),
    }
    Ok(true)
}

/// Continues in HTTP/2. Boxed, because HTTP/1.1 connections do not need this memory.
async fn multiplex(connection: Connection) {
    let Connection {
        services,
        connections,
        stream,
        peer,
        input,
        connection_state,
        _address_permit,
        ..
    } = connection;
    Box::pin(http2::serve(
        services,
        connections,
        stream,
        input,
        peer,
        connection_state,
    ))
    .await;
}

/// Answers a client that sends plain HTTP to a TLS port, without encryption, and ends the
/// connection.
async fn refuse_plain_http(connection: Connection) {
    let Some(socket) = connection.stream.socket() else {
        return;
    };
    let (date, _) = connection.services.clock.now();
    let mut output = Vec::new();
    let reply = pages::plain_http_on_tls_port(&mut output, &date);
    connection.log_unread(&reply, &date);
    let clear = Stream::Plain(socket);
    let sent = send(&connection.services, &clear, output, Body::Nothing).await;
    if sent.is_ok() {
        linger(&connection.services, &clear).await;
    }
}
