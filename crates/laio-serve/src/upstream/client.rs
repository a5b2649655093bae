//! The interface between an upstream exchange and the client's connection.

use super::exchange::{Answered, ask};
use super::spool::Spool;
use super::target::Route;
use super::tunnel::Tunnel;
use super::{Relayed, Trouble, request};
use crate::cors;
use crate::observe::{self, Stage};
use crate::options::Protocol;
use crate::reply::{Asked, Reply};
use crate::stream::Stream;
use crate::worker::Worker;
use laio_http::{Framing, Method, RequestPath, Status};

/// A request to be forwarded to an upstream.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) asked: Asked<'a>,
    pub(crate) path: &'a RequestPath<'a>,
    /// The client's address, or `-` for Unix sockets.
    pub(crate) peer: &'a str,
    /// Whether the client's connection is encrypted.
    pub(crate) secure: bool,
    /// Whether the connection can become a tunnel.
    pub(crate) websocket: bool,
    /// The client's connection.
    pub(crate) stream: &'a Stream,
    /// The length of the body, if the body was spooled.
    pub(crate) spooled: Option<u64>,
    /// Whether the client's forwarding fields are trusted.
    pub(crate) trusts: bool,
}

/// The body of a request.
pub(crate) trait Source {
    /// Appends the next piece of the body, waiting for it. Returns whether it was the last.
    async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Trouble>;
    /// Whether the next piece is available without waiting.
    fn is_ready(&self) -> bool;
    /// Whether the body can still be read from its beginning.
    fn is_untouched(&self) -> bool;
    /// Whether the whole body was read.
    fn is_done(&self) -> bool;
    /// Returns a function that tests whether the client has closed its connection.
    fn watch(&self) -> Box<dyn Fn() -> bool>;
}

/// The answer for the client.
pub(crate) struct Forwarded {
    pub(crate) reply: Reply,
    /// The body, if it comes from the upstream.
    pub(crate) relayed: Option<Box<Relayed>>,
    /// The tunnel that the connection becomes.
    pub(crate) tunnel: Option<Tunnel>,
    /// Whether another request may follow.
    pub(crate) keep_alive: bool,
}

impl Forwarded {
    fn page(reply: Reply, asked: Asked<'_>) -> Forwarded {
        Forwarded {
            reply,
            relayed: None,
            tunnel: None,
            keep_alive: asked.keep_alive,
        }
    }
}

impl Worker {
    /// Forwards a request. The head of the answer is then in `out`. Returns none if the client has
    /// closed its connection.
    pub(crate) async fn forward(
        &self,
        mut asking: Asking<'_>,
        route: &Route,
        source: &mut impl Source,
        out: &mut Vec<u8>,
    ) -> Option<Forwarded> {
        let limits = &self.limits().upstream;
        let asked = asking.asked;
        let ends = Asked {
            keep_alive: asked.keep_alive && source.is_done(),
            ..asked
        };
        // Checked before authentication, because browsers send preflight requests without
        // credentials.
        if asked.site.cors.is_some() && cors::is_preflight(asked.request) {
            let reply = crate::pages::options(ends, out);
            return Some(Forwarded::page(reply, ends));
        }
        let wanted = route.target.wanted(asking.path);
        if let Some(reply) = self.keep_out(ends, out, wanted).await {
            return Some(Forwarded::page(reply, ends));
        }
        asking.trusts = limits.trust_forwarded;
        asking.websocket = asking.websocket && !self.is_sync() && request::wants_websocket(&asking);
        let tunnel = match asking.websocket {
            true => route.pool.tunnel(limits),
            false => None,
        };
        let answered = if asked.request.method == Method::Trace {
            // TRACE would reveal fields to scripts that browsers hide from them.
            Err(Trouble::new(Status::METHOD_NOT_ALLOWED, "TRACE"))
        } else if asking.websocket && tunnel.is_none() {
            Err(Trouble::busy("the limit of tunnels is reached"))
        } else {
            let begun = observe::begin();
            let answered = self.ask(&mut asking, route, source).await;
            observe::end(Stage::Upstream, begun);
            answered
        };
        let asked = Asked {
            keep_alive: asked.keep_alive && source.is_done(),
            ..asked
        };
        match answered {
            Ok(answered) => self.pass_on(asked, answered, tunnel, out).await,
            Err(trouble) if trouble.gone => None,
            Err(trouble) => {
                if trouble.status.code() >= 500 {
                    super::say(format_args!(
                        "{} for {}: {}: {}",
                        route.target.name,
                        asking.path.as_str().escape_debug(),
                        trouble.status,
                        trouble.why
                    ));
                }
                let reply = self
                    .error(asked, out, trouble.status, trouble.detail())
                    .await;
                Some(Forwarded::page(reply, asked))
            }
        }
    }

    /// Sends the request. A FastCGI program gets the length of the body before the body, so a body
    /// without a length is spooled first.
    async fn ask(
        &self,
        asking: &mut Asking<'_>,
        route: &Route,
        source: &mut impl Source,
    ) -> Result<Answered, Trouble> {
        let limits = &self.limits().upstream;
        let chunked = asking.asked.request.framing == Framing::Chunked;
        if !chunked || route.target.protocol != Protocol::FastCgi {
            return ask(asking, route, source, limits).await;
        }
        let mut spool = Spool::fill(source, &route.pool, limits).await?;
        asking.spooled = Some(spool.length());
        ask(asking, route, &mut spool, limits).await
    }

    async fn pass_on(
        &self,
        asked: Asked<'_>,
        answered: Answered,
        tunnel: Option<laio_rt::sync::Permit>,
        out: &mut Vec<u8>,
    ) -> Option<Forwarded> {
        let Answered {
            lease,
            passed,
            whole,
        } = answered;
        let status = passed.status;
        if status == Status::SWITCHING_PROTOCOLS {
            let Some(permit) = tunnel else {
                super::say(format_args!(
                    "{}: the upstream switched protocols although the client did not ask",
                    lease.name
                ));
                let reply = self.error(asked, out, Status::BAD_GATEWAY, BAD).await;
                return Some(Forwarded::page(reply, asked));
            };
            passed.write_upgrade(asked, out);
            return Some(Forwarded {
                reply: Reply::bare(status),
                relayed: None,
                tunnel: Some(Tunnel::new(lease, permit)),
                keep_alive: false,
            });
        }
        if let Some(file) = passed.file.as_ref().filter(|_| status == Status::OK) {
            // The upstream's body is discarded. If it is empty, the connection can be reused.
            let name = lease.name.clone();
            let _ = Relayed::new(lease, &passed, whole, false).take(&mut Vec::new());
            let reply = self.send_named(asked, out, &name, &passed, file).await;
            return Some(Forwarded::page(reply, asked));
        }
        let chunked = asked.sends() && passed.is_chunked(asked.request.version);
        let close = !chunked && asked.sends() && passed.ends_unannounced();
        passed.write(asked, out, chunked, close);
        let relayed = Relayed::new(lease, &passed, whole, chunked);
        Some(Forwarded {
            reply: Reply::bare(status),
            relayed: Some(Box::new(relayed)),
            tunnel: None,
            keep_alive: asked.keep_alive && !close,
        })
    }
}

const BAD: &str = "The upstream server sent no usable answer.";
