//! Answers the requests of one HTTP/2 or HTTP/3 connection, each as if it had a connection of its own.

use super::from_cache::{Arrival, FromCache, from_cache};
use super::log_lines::log_response;
use super::running::Connections;
use super::state::ConnectionState;
use super::{Connection, SentResponse};
use laio_http::{ByteRange, Output, Request, RequestFields};
use laio_serve_base::addresses::AddressPermit;
use laio_serve_base::clients::Peer;
use laio_serve_base::options::Limits;
use laio_serve_core::files::contents::Contents;
use laio_serve_core::request::redirect_to_https::RedirectToHttps;
use laio_serve_core::request::response::Body;
use laio_serve_core::request::send_response::{Followed, send_response};
use laio_serve_core::services::Services;
use laio_serve_net::buffers::Buffers;
use laio_serve_net::http2_exchange::SentAtOnce;
use laio_serve_net::memory::connection::ConnectionMemory;
use laio_serve_net::stream::Stream;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// What the requests of a connection share.
pub(crate) struct Streams {
    pub(crate) services: Rc<Services>,
    pub(crate) connections: Rc<Connections>,
    pub(crate) peer: Peer,
    /// If it is set, requests are redirected to https.
    pub(crate) to_https: Option<Rc<RedirectToHttps>>,
    /// The value of `Alt-Svc` in the responses, if they have one.
    pub(crate) alt_svc: Option<Rc<str>>,
    /// The memory that the requests share.
    pub(crate) memory: Arc<ConnectionMemory>,
    /// Counts the connection for the limit of its client address, until it is dropped.
    pub(crate) _address_permit: Option<AddressPermit>,
}

/// What became of a request that was to be answered at once.
pub(crate) enum AtOnce {
    /// Only [`Streams::answer`] can answer it. Nothing was sent.
    NotPossible,
    /// It is answered, and the access log has its line. False if the protocol has returned an error.
    Answered(bool),
    /// [`Streams::finish`] must send the rest.
    Begun(BegunResponse),
}

/// What is left to send.
enum Rest {
    /// The protocol has all of it, and flow control does not admit a part yet, which the stream keeps.
    HeldByFlowControl,
    /// The head, unless it is sent, and the body.
    Body(Output, Body),
}

/// A response that is not completely sent.
pub(crate) struct BegunResponse {
    rest: Rest,
    sent: SentResponse,
}

impl Streams {
    /// Answers a request. Returns whether the response was sent completely.
    pub(crate) async fn answer(&self, stream: Stream, head: RequestFields) -> bool {
        let connection = Connection {
            alt_svc: self.alt_svc.clone(),
            ..Connection::new(
                self.services.clone(),
                self.connections.clone(),
                stream,
                self.peer.clone(),
                ConnectionState::for_stream(),
                self.to_https.clone(),
                None,
            )
        };
        connection.answer_one(head).await
    }

    /// Answers a request, which has no body, with a cached file, if nothing but sending can block.
    /// `send` passes the head of a response, and its body, to the protocol as far as flow control admits it.
    pub(crate) fn answer_at_once(
        &self,
        stream: &Stream,
        head: &RequestFields,
        send: impl FnOnce(&mut Output, Option<&[u8]>) -> io::Result<SentAtOnce>,
    ) -> AtOnce {
        let services = &*self.services;
        let arrival = Arrival {
            services,
            peer: &self.peer,
            redirects_to_https: self.to_https.is_some(),
            secure: stream.is_secure(),
            alt_svc: self.alt_svc.as_deref(),
            directory_answers: &self.connections.features.directory_answers,
            is_multiplexed: true,
        };
        let read = || Request::from_fields(head, &services.limits.head()).ok();
        let Some(found) = from_cache(&arrival, read, Limits::STREAM_OUTPUT_BYTES, |_| true) else {
            return AtOnce::NotPossible;
        };
        let FromCache {
            request,
            buffers: Buffers { mut output, name },
            body,
            date,
            sent,
            ..
        } = found;
        let content = match &body {
            Body::Nothing => None,
            Body::File(Contents::Memory(bytes), range) if range.len() == bytes.len() as u64 => {
                Some(&bytes[..])
            }
            _ => {
                let rest = Rest::Body(output, body);
                return AtOnce::Begun(BegunResponse { rest, sent });
            }
        };
        let result = send(&mut output, content);
        services.buffer_pool.put_back(Buffers { output, name });
        let rest = match (result, body) {
            (Ok(SentAtOnce::Part(start)), Body::File(contents, range)) => {
                let start = start as u64;
                let left = Body::File(contents, ByteRange { start, ..range });
                Rest::Body(Output::default(), left)
            }
            (Ok(SentAtOnce::Part(_)), _) => Rest::HeldByFlowControl,
            (result, _) => {
                let client = &self.peer.client;
                log_response(services, stream, (&request, &[]), client, &date, sent, None);
                return AtOnce::Answered(result.is_ok());
            }
        };
        AtOnce::Begun(BegunResponse { rest, sent })
    }

    /// Sends the rest of a response. Returns whether it was sent completely. `head` is that of the request.
    pub(crate) async fn finish(
        &self,
        stream: &Stream,
        head: &RequestFields,
        begun: BegunResponse,
    ) -> bool {
        let BegunResponse { rest, sent } = begun;
        let result = match rest {
            Rest::HeldByFlowControl => stream.flush().await,
            Rest::Body(output, body) => {
                let (services, followed) = (&*self.services, Followed::ByRequest);
                let sending = send_response(services, stream, output, body, followed, None);
                sending.await.map(drop)
            }
        };
        // A request borrows its head, so a task does not get it.
        if let Ok(request) = Request::from_fields(head, &self.services.limits.head()) {
            let (services, client) = (&*self.services, &self.peer.client);
            let date = services.now().0;
            log_response(services, stream, (&request, &[]), client, &date, sent, None);
        }
        result.is_ok()
    }
}
