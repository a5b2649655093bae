//! The stages of a request: which part of the server answers it. Their order is the table [`STAGES`].

use super::Connection;
use super::page_memory::hold_page;
use super::state::Next;
use laio_http::{BodySkip, Framing, Method, Rejection, RequestPath};
use laio_serve_base::options::Limits;
use laio_serve_base::trace;
use laio_serve_core::request::answer::answer;
use laio_serve_core::request::answer_from_cache::answer_from_cache;
use laio_serve_core::request::body::{BodyTime, ClientBody};
use laio_serve_core::request::early_answer::EarlyAnswer;
use laio_serve_core::request::early_hints::early_hints;
use laio_serve_core::request::lookup::{Answerer, LookedUp, Script, answerer};
use laio_serve_core::request::response::{RequestContext, Response};
use laio_serve_core::request::send_response::Followed;
use laio_serve_net::buffers::Buffers;
use laio_serve_proxy::ProxyRequest;
use laio_serve_uploads::{Change, answer_change};
use laio_serve_upstream::route::Route;
use std::io;
use std::time::{Duration, Instant};

/// The stages, in the order in which they see a request. `--explain` prints the stages that decide something.
const STAGES: &[RequestStage] = &[
    RequestStage::Handshake,
    RequestStage::Early,
    RequestStage::Hints,
    RequestStage::Upstream,
    RequestStage::Application,
    RequestStage::Change,
    RequestStage::Site,
];

/// A part of the server that may answer a request, or delays it.
#[derive(Clone, Copy, Debug)]
enum RequestStage {
    Handshake,
    Early,
    Hints,
    Upstream,
    Application,
    Change,
    Site,
}

impl RequestStage {
    /// Returns its name, and what it answers. The documentation has these texts.
    fn text(self) -> &'static str {
        match self {
            RequestStage::Handshake => {
                "handshake: early data waits for the end of the handshake, unless repeating it does no harm"
            }
            RequestStage::Early => {
                "early: challenges of a certificate authority, refused networks, used-up rates, \
                 redirects to https"
            }
            RequestStage::Hints => {
                "hints: the interim response 103, which names what the page needs"
            }
            RequestStage::Upstream => "upstream: the upstream of the path's prefix",
            RequestStage::Application => {
                "application: candidates of --try, scripts, and upstreams that answer where there is no file"
            }
            RequestStage::Change => "change: uploads and WebDAV",
            RequestStage::Site => "site: files, listings and pages, for every request that is left",
        }
    }
}

/// Returns the stages of a request in their order, each as `name: what it answers`.
pub fn request_stages() -> impl Iterator<Item = &'static str> {
    STAGES.iter().map(|stage| stage.text())
}

/// A request whose head has been received, on its way through the stages.
pub(super) struct Exchange<'a> {
    pub(super) ctx: RequestContext<'a>,
    /// The bytes received after the head.
    pub(super) after_head: &'a [u8],
    /// When the first bytes arrived.
    pub(super) started: Instant,
    /// What [`RequestStage::Application`] has found for [`RequestStage::Site`].
    looked_up: Option<LookedUp>,
}

/// What a stage has done with a request.
enum Step {
    /// The next stage sees it.
    Pass,
    Answered(Exchanged),
}

/// How the answer to a request has ended.
pub(super) enum Exchanged {
    Over(Next),
    /// The body, of which some bytes follow the head, has not been read.
    BodyUnread {
        keep_alive: bool,
        body: BodySkip,
        body_len: usize,
    },
    /// The rest of the body has not been read; `input` begins with it.
    InputLeft {
        keep_alive: bool,
        body: BodySkip,
        input: Vec<u8>,
    },
}

impl<'a> Exchange<'a> {
    pub(super) fn new(
        ctx: RequestContext<'a>,
        after_head: &'a [u8],
        started: Instant,
    ) -> Exchange<'a> {
        Exchange {
            ctx,
            after_head,
            started,
            looked_up: None,
        }
    }
}

impl Connection {
    /// Lets each stage see a request, until one answers it.
    pub(super) async fn run_stages(&mut self, mut exchange: Exchange<'_>) -> io::Result<Exchanged> {
        for stage in STAGES {
            trace::note_stage(stage.text());
            // The futures of upstreams and changes are boxed, because they are larger than all others together.
            let step = match stage {
                RequestStage::Handshake => self.finish_handshake(exchange.ctx).await?,
                RequestStage::Early => self.answer_early(&exchange).await?,
                RequestStage::Hints => self.send_hints(exchange.ctx).await?,
                RequestStage::Upstream => self.answer_by_prefix(&exchange).await?,
                RequestStage::Application => self.answer_by_application(&mut exchange).await?,
                RequestStage::Change => self.answer_by_change(&exchange).await?,
                RequestStage::Site => {
                    let looked_up = exchange.looked_up.take();
                    let answered = self.answer_from_site(&exchange, None, looked_up);
                    Step::Answered(answered.await?)
                }
            };
            if let Step::Answered(exchanged) = step {
                return Ok(exchanged);
            }
        }
        unreachable!("the last stage answers every request")
    }

    async fn finish_handshake(&self, ctx: RequestContext<'_>) -> io::Result<Step> {
        if self.stream.is_early() && self.needs_handshake(ctx) {
            self.stream.confirmed().await?;
        }
        Ok(Step::Pass)
    }

    async fn answer_early(&mut self, exchange: &Exchange<'_>) -> io::Result<Step> {
        let to_https = self.to_https.as_deref();
        if to_https.is_none() && exchange.ctx.site.fast_path.admits_all {
            return Ok(Step::Pass);
        }
        let now = self.services.contexts.now();
        let Some(early) = EarlyAnswer::to(exchange.ctx, to_https, now) else {
            return Ok(Step::Pass);
        };
        let answered = self.answer_from_site(exchange, Some(early), None);
        Ok(Step::Answered(Box::pin(answered).await?))
    }

    async fn send_hints(&self, ctx: RequestContext<'_>) -> io::Result<Step> {
        if let Some(hints) = &ctx.site.early_hints
            && let Some(head) = early_hints(hints, ctx, &self.stream)
        {
            self.stream.send_output(head).await.0?;
        }
        Ok(Step::Pass)
    }

    async fn answer_by_prefix(&mut self, exchange: &Exchange<'_>) -> io::Result<Step> {
        let Some(to) = exchange.ctx.route() else {
            return Ok(Step::Pass);
        };
        let answered = Box::pin(self.answer_by_upstream(exchange, to, None)).await?;
        Ok(Step::Answered(answered))
    }

    async fn answer_by_application(&mut self, exchange: &mut Exchange<'_>) -> io::Result<Step> {
        let ctx = exchange.ctx;
        let Some(application) = &ctx.site.application else {
            return Ok(Step::Pass);
        };
        let answerer = answerer(&self.services, ctx, application).await;
        if let Some((to, script)) = answerer.upstream(ctx) {
            if script.is_some() || !self.connections.features.passes_early {
                self.stream.confirmed().await?;
            }
            let answered = Box::pin(self.answer_by_upstream(exchange, to, script)).await?;
            return Ok(Step::Answered(answered));
        }
        if let Answerer::Site(found) = answerer {
            exchange.looked_up = found;
        }
        Ok(Step::Pass)
    }

    async fn answer_by_change(&mut self, exchange: &Exchange<'_>) -> io::Result<Step> {
        let Some(change) =
            Change::from_request(&self.connections.features.change_services, exchange.ctx)
        else {
            return Ok(Step::Pass);
        };
        let answered = Box::pin(self.change_files(exchange, change)).await?;
        Ok(Step::Answered(answered))
    }

    /// Lets an upstream answer, with a script if it executes one.
    async fn answer_by_upstream(
        &mut self,
        exchange: &Exchange<'_>,
        to: (&Route, &RequestPath<'_>),
        script: Option<&Script>,
    ) -> io::Result<Exchanged> {
        let ctx = exchange.ctx;
        let limits = &self.services.limits.upstream;
        let body = match BodySkip::new(ctx.request.framing, limits.body_bytes) {
            Ok(body) => body,
            Err(rejection) => return self.refuse_body(rejection).await,
        };
        let mut body = ClientBody {
            services: &self.services,
            stream: &self.stream,
            peer: &self.peer,
            input: exchange.after_head.to_vec(),
            body,
            waited: Duration::ZERO,
            time: BodyTime::Whole,
            bytes: 0,
            expects_continue: ctx.request.expects_continue,
            room: 0,
        };
        let proxy_services = &self.connections.features.proxy_services;
        let request = ProxyRequest::new(ctx, (&self.stream, &self.peer), to, script);
        let answered =
            laio_serve_proxy::answer(proxy_services, request, exchange.started, &mut body);
        let Some(keep_alive) = answered.await? else {
            return Ok(Exchanged::Over(Next::End));
        };
        Ok(Exchanged::InputLeft {
            keep_alive,
            body: body.body,
            input: body.input,
        })
    }

    /// Makes a change of files, and sends the response.
    async fn change_files(
        &mut self,
        exchange: &Exchange<'_>,
        change: Change,
    ) -> io::Result<Exchanged> {
        let (ctx, after_head) = (exchange.ctx, exchange.after_head);
        let services = self.services.clone();
        let (framing, limits) = (ctx.request.framing, &services.limits);
        let body = match BodySkip::new(framing, change.body_limit(ctx, limits)) {
            Ok(body) => body,
            Err(rejection) => return self.refuse_body(rejection).await,
        };
        let mut body = ClientBody {
            services: &services,
            stream: &self.stream,
            peer: &self.peer,
            input: after_head.to_vec(),
            body,
            waited: Duration::ZERO,
            time: BodyTime::Whole,
            bytes: 0,
            expects_continue: ctx.request.expects_continue && after_head.is_empty(),
            room: change.receive_room(framing),
        };
        let Buffers {
            mut output,
            mut name,
        } = services.buffer_pool.take();
        let changes = &self.connections.features.change_services;
        let answered = answer_change(changes, ctx, change, &mut body, &mut output, &mut name).await;
        let Some((response, keep_alive)) = answered else {
            return Ok(Exchanged::Over(Next::End));
        };
        let of_change = RequestContext { keep_alive, ..ctx };
        let held = hold_page(&services, &self.stream, of_change, response, &mut output);
        let (response, _held) = held.await;
        ctx.apply_rules(&response, &name, &mut output);
        let (input, body) = (body.input, body.body);
        let followed = Followed::ByRequest;
        let sending = self.send_and_log(ctx, output, response, followed, exchange.started);
        let output = sending.await?.into();
        services.buffer_pool.put_back(Buffers { output, name });
        Ok(Exchanged::InputLeft {
            keep_alive,
            body,
            input,
        })
    }

    /// Answers a request with a file, a listing or a page, and writes its line of the access log.
    async fn answer_from_site(
        &mut self,
        exchange: &Exchange<'_>,
        early: Option<EarlyAnswer>,
        looked_up: Option<LookedUp>,
    ) -> io::Result<Exchanged> {
        let mut ctx = exchange.ctx;
        let request = ctx.request;
        // Parse the received part of the body before answering, so that bad framing can be refused.
        let begun = begin_body(&self.services.limits, request.framing, exchange.after_head);
        let (body, body_len) = match begun {
            Ok(begun) => begun,
            Err(rejection) => return self.refuse_body(rejection).await,
        };
        let waits = request.expects_continue && exchange.after_head.is_empty();
        ctx.keep_alive &= !waits || (ctx.auth.is_none() && may_continue(request.method));
        let services = &*self.services;
        let Buffers {
            mut output,
            mut name,
        } = services.buffer_pool.take();
        if waits && ctx.keep_alive {
            output.push_continue();
        }
        let response: Option<Response> = match early {
            Some(early) => Some(Box::pin(early.write(services, ctx, &mut output)).await),
            None if looked_up.is_some() => None,
            None => answer_from_cache(services, ctx, &mut output, &mut name),
        };
        let response = match response {
            Some(response) => response,
            None => answer(services, ctx, looked_up, &mut output, &mut name).await,
        };
        let held = hold_page(services, &self.stream, ctx, response, &mut output);
        let (response, _held) = held.await;
        ctx.apply_rules(&response, &name, &mut output);
        let followed = Followed::after(request);
        let sending = self.send_and_log(ctx, output, response, followed, exchange.started);
        let output = sending.await?.into();
        services.buffer_pool.put_back(Buffers { output, name });
        Ok(Exchanged::BodyUnread {
            keep_alive: ctx.keep_alive,
            body,
            body_len,
        })
    }

    /// Refuses a body that is malformed or too long.
    async fn refuse_body(&mut self, rejection: Rejection) -> io::Result<Exchanged> {
        let refused = self.refuse(rejection.status(), rejection.detail()).await;
        refused.map(Exchanged::Over)
    }

    /// Whether a request in early data must wait for the end of the handshake: it may have been repeated, or sent
    /// from a forged address.
    fn needs_handshake(&self, ctx: RequestContext<'_>) -> bool {
        self.peer.is_trusted
            || ctx.site.treats_clients_differently()
            || ctx.auth.is_some()
            || (ctx.route().is_some() && !self.connections.features.passes_early)
    }
}

/// Parses the received part of a body, which is discarded. Returns its parser and its length.
fn begin_body(
    limits: &Limits,
    framing: Framing,
    input: &[u8],
) -> Result<(BodySkip, usize), Rejection> {
    let mut body = BodySkip::new(framing, limits.body_bytes)?;
    let length = body.advance(input)?;
    Ok((body, length))
}

/// Whether a client that waits for 100 Continue gets it. No response needs the body: with GET and
/// HEAD it is discarded, so that the connection can be reused. Other methods get only a final
/// response, after which only the client knows whether it still sends the body (RFC 9110, section
/// 10.1.1), so the connection cannot be reused.
fn may_continue(method: Method<'_>) -> bool {
    matches!(method, Method::Get | Method::Head)
}
