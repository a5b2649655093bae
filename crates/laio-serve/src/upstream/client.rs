//! Where an upstream meets a client: what the client asks, its body, and what it gets.

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

/// A request that is for an upstream.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) asked: Asked<'a>,
    pub(crate) path: &'a RequestPath<'a>,
    /// The client's address; `-` if it has none.
    pub(crate) peer: &'a str,
    /// Whether it came over TLS.
    pub(crate) secure: bool,
    /// Whether the connection can become a tunnel.
    pub(crate) websocket: bool,
    /// What the client is connected by.
    pub(crate) stream: &'a Stream,
    /// Bytes of the body, if it was kept until they were known.
    pub(crate) spooled: Option<u64>,
    /// Whether what it says of itself is believed.
    pub(crate) trusts: bool,
}

/// The body of a request, from whatever carries it.
pub(crate) trait Source {
    /// Appends the next piece of content, waiting for it; whether it was the last.
    async fn next(&mut self, out: &mut Vec<u8>) -> Result<bool, Trouble>;
    /// Whether the next piece is there already.
    fn is_ready(&self) -> bool;
    /// Whether nothing was taken of it that could not be taken again.
    fn is_untouched(&self) -> bool;
    /// Whether all of it was taken.
    fn is_done(&self) -> bool;
    /// Something that tells whether the client has gone.
    fn watch(&self) -> Box<dyn Fn() -> bool>;
}

/// What the client gets.
pub(crate) struct Forwarded {
    pub(crate) reply: Reply,
    /// The body, if it comes from the upstream.
    pub(crate) relayed: Option<Box<Relayed>>,
    /// What the connection becomes.
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
    /// Has an upstream answer. The head is in `out`. None: the client has gone.
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
        // Before any question for a password: a browser that asks for permission sends none.
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
            // It would tell scripts what the browser hides from them.
            Err(Trouble::new(Status::METHOD_NOT_ALLOWED, "TRACE"))
        } else if asking.websocket && tunnel.is_none() {
            Err(Trouble::busy("there are too many tunnels"))
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

    /// A program gets the length of a body before the body: where the client does not say it, the whole body
    /// is read first.
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
                    "{}: it switches protocols unasked",
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
            // What it says besides is not sent; if that is nothing, the connection can be kept.
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

const BAD: &str = "The server behind gave no answer that could be passed on.";
