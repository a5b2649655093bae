//! Stored responses of upstreams (RFC 9111): `policy` decides what may be stored and used, `store` keeps
//! it. Each worker has a cache of its own.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod head;
mod policy;
mod store;

use super::compress::Form;
use super::exchange::{self, UpstreamResponse};
use super::proxy_request::{Caching, EmptyBody, ProxyRequest};
use super::upstream_head::UpstreamHead;
use laio_http::{ByteRange, Method, Output, Status};
use laio_rt::sync::Notify;
use laio_serve_base::messages::print;
use laio_serve_base::observe::upstreams::{self, CacheResult};
use laio_serve_base::options::UpstreamLimits;
use laio_serve_core::files::contents::Contents;
use laio_serve_core::request::auth_state::AuthState;
use laio_serve_core::request::compress::Compressed;
use laio_serve_core::request::pages;
use laio_serve_core::request::response::{Body, RequestContext, Response};
use laio_serve_core::services::Services;
use policy::{Directives, age_on_arrival, elements, freshness, is_known_to_client, values};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Instant;
use store::{Key, Store, Stored, joined};

/// The responses of upstreams that a worker has stored.
pub struct ResponseCache {
    store: RefCell<Store>,
    /// Requests that are on their way to an upstream, and wake up those that wait for their response.
    fills: RefCell<HashMap<Key, Rc<Notify>>>,
    /// Until when responses for a key are known to be uncacheable, so that requests for them do not wait
    /// for each other.
    uncacheable: RefCell<HashMap<Key, Instant>>,
    /// Bytes of responses that are being stored. They are limited like those that are stored.
    recorded: Cell<usize>,
}

/// What the cache has for a request.
pub(super) enum Plan {
    /// The upstream answers as without the cache.
    Bypass,
    /// The client gets what is stored, or a page because it wants nothing else. A stale response is
    /// fetched again afterwards.
    Answer(Response, Option<Fetch>),
    /// The upstream is asked.
    Fetch(Fetch),
}

/// A stored response that answers a request, the text for `Cache-Status`, and what fetches the response
/// again, after the client has got the stale one.
type Usable = (Rc<Stored>, String, Option<Fetch>);

/// A request to an upstream whose response may be stored.
pub struct Fetch {
    cache: Rc<ResponseCache>,
    key: Key,
    /// The stored response that is not fresh.
    stale: Option<Rc<Stored>>,
    /// Why the upstream is asked (RFC 9211, section 2.2).
    reason: &'static str,
    /// Whether the request has an `Authorization` field.
    authorized: bool,
    _fill: Option<Fill>,
}

/// A fetch that other requests wait for, until it is dropped.
struct Fill {
    cache: Rc<ResponseCache>,
    key: Key,
}

impl Drop for Fill {
    fn drop(&mut self) {
        if let Some(others) = self.cache.fills.borrow_mut().remove(&self.key) {
            others.notify_waiters();
        }
    }
}

impl ResponseCache {
    /// Creates a cache, if the limit of bytes is not zero.
    pub fn new(limits: &UpstreamLimits) -> Option<Rc<ResponseCache>> {
        (limits.cache_bytes > 0).then(|| {
            Rc::new(ResponseCache {
                store: RefCell::new(Store::new(limits.cache_bytes)),
                fills: RefCell::default(),
                uncacheable: RefCell::default(),
                recorded: Cell::new(0),
            })
        })
    }

    /// Decides what happens with a request. Waits for another request that fetches the same, within a
    /// limit of time.
    pub(super) async fn plan(
        self: &Rc<Self>,
        services: &Services,
        ctx: RequestContext<'_>,
        proxy_request: &ProxyRequest<'_>,
        out: &mut Output,
    ) -> Plan {
        let request = proxy_request.ctx.request;
        let headers = &request.headers;
        let has = |name: &str| headers.get(name).is_some();
        let wanted = Directives::of(headers.all("Cache-Control"));
        if wanted.no_store || !may_be_stored(proxy_request) {
            return Plan::Bypass;
        }
        let pragma = !has("Cache-Control") && headers.get("Pragma") == Some(b"no-cache");
        let authorized = has("Authorization");
        let key = key(proxy_request, proxy_request.ctx.secure);
        let asks_again = wanted.no_cache || pragma;
        let fetch = |stale: Option<Rc<Stored>>, fill: Option<Fill>| Fetch {
            cache: self.clone(),
            key: key.clone(),
            reason: match &stale {
                None => "uri-miss",
                Some(_) if asks_again || wanted.max_age.is_some() => "request",
                Some(_) => "stale",
            },
            stale,
            authorized,
            _fill: fill,
        };
        let until = Instant::now() + UpstreamLimits::COLLAPSE_TIME;
        loop {
            let stored = self.store.borrow_mut().get(&key, headers);
            let stored = stored.filter(|it| !authorized || it.freshness.for_authorized);
            if let Some(stored) = &stored
                && !asks_again
                && let Some((stored, status, refresh)) = self.usable(stored, wanted.max_age, &fetch)
            {
                return Plan::Answer(write(services, &stored, &status, ctx, out), refresh);
            }
            if wanted.only_if_cached {
                let (status, detail) = (Status::GATEWAY_TIMEOUT, "The response is not stored.");
                let page = Box::pin(pages::error(services, ctx, out, status, detail)).await;
                return Plan::Answer(page, None);
            }
            if request.method == Method::Head {
                return Plan::Bypass;
            }
            if authorized || self.is_uncacheable(&key) {
                return Plan::Fetch(fetch(stored, None));
            }
            let running = match self.begin(&key) {
                Ok(fill) => return Plan::Fetch(fetch(stored, Some(fill))),
                Err(running) => running,
            };
            let left = until.saturating_duration_since(Instant::now());
            let ended = laio_rt::time::timeout(left, running.notified()).await;
            if ended.is_err() {
                return Plan::Fetch(fetch(stored, None));
            }
        }
    }

    /// Returns the answer with a stored response, if it may be used without asking the upstream first.
    fn usable(
        self: &Rc<Self>,
        stored: &Rc<Stored>,
        max_age: Option<u64>,
        fetch: &impl Fn(Option<Rc<Stored>>, Option<Fill>) -> Fetch,
    ) -> Option<Usable> {
        let (age, freshness) = (stored.age(), &stored.freshness);
        if max_age.is_some_and(|most| age > most) || freshness.always_validate {
            return None;
        }
        if age < freshness.lifetime {
            upstreams::cached(CacheResult::Hit);
            let status = format!("hit; ttl={}", freshness.lifetime - age);
            return Some((stored.clone(), status, None));
        }
        let late = age - freshness.lifetime;
        if late >= freshness.while_revalidate {
            return None;
        }
        upstreams::cached(CacheResult::Stale);
        let fill = self.begin(&fetch(None, None).key).ok();
        let refresh = fill.map(|fill| fetch(Some(stored.clone()), Some(fill)));
        Some((stored.clone(), format!("hit; ttl=-{late}"), refresh))
    }

    /// Announces a fetch to other requests, unless there is one.
    fn begin(self: &Rc<Self>, key: &Key) -> Result<Fill, Rc<Notify>> {
        let mut fills = self.fills.borrow_mut();
        if let Some(running) = fills.get(key) {
            return Err(running.clone());
        }
        fills.insert(key.clone(), Rc::new(Notify::new()));
        Ok(Fill {
            cache: self.clone(),
            key: key.clone(),
        })
    }

    fn is_uncacheable(&self, key: &Key) -> bool {
        let mut known = self.uncacheable.borrow_mut();
        let Some(until) = known.get(key) else {
            return false;
        };
        let holds = Instant::now() < *until;
        if !holds {
            known.remove(key);
        }
        holds
    }

    fn note_uncacheable(&self, key: &Key) {
        let mut known = self.uncacheable.borrow_mut();
        if known.len() >= UpstreamLimits::UNCACHEABLE_KEYS {
            known.clear();
        }
        known.insert(
            key.clone(),
            Instant::now() + UpstreamLimits::UNCACHEABLE_TIME,
        );
    }

    /// Drops what is stored for the path of a request that has changed it (RFC 9111, section 4.4).
    pub(super) fn invalidate(&self, proxy_request: &ProxyRequest<'_>, status: Status) {
        let method = &proxy_request.ctx.request.method;
        let is_safe = matches!(
            method,
            Method::Get | Method::Head | Method::Options | Method::Trace
        );
        if !is_safe && (200..400).contains(&status.code()) {
            for secure in [false, true] {
                self.store.borrow_mut().remove(&key(proxy_request, secure));
            }
        }
    }
}

/// Whether a stored response may answer a request like this one.
fn may_be_stored(proxy_request: &ProxyRequest<'_>) -> bool {
    let request = proxy_request.ctx.request;
    let partial = ["Range", "If-Range", "If-Match", "If-Unmodified-Since"];
    // What an auth server lets in depends on more than what a key contains.
    let is_private = proxy_request.ctx.auth.is_some_and(AuthState::has_let_in);
    matches!(request.method, Method::Get | Method::Head)
        && !is_private
        && request.framing.is_none()
        && proxy_request.script.is_none()
        && !proxy_request.websocket
        && partial
            .iter()
            .all(|name| request.headers.get(name).is_none())
}

/// Returns the key of a request.
fn key(proxy_request: &ProxyRequest<'_>, secure: bool) -> Key {
    let request = proxy_request.ctx.request;
    let site = proxy_request.ctx.site.number;
    let host = request.host.unwrap_or_default().to_ascii_lowercase();
    let path = proxy_request.path.as_str();
    let query = request.query.map(|query| format!("?{query}"));
    let query = query.unwrap_or_default();
    let mut key = format!("{site} {secure} {host}{path}{query}").into_bytes();
    if proxy_request.peer.is_trusted {
        // The upstream may use them in place of those of the request itself.
        for name in [
            "X-Forwarded-Host",
            "X-Forwarded-Prefix",
            "X-Forwarded-Proto",
        ] {
            key.push(b' ');
            key.extend(joined(&request.headers, name.as_bytes()));
        }
        // The other parts of this field are about the client.
        let forwarded = joined(&request.headers, b"Forwarded").to_ascii_lowercase();
        let pairs = elements(&forwarded).flat_map(|element| element.split(|&byte| byte == b';'));
        for pair in pairs.map(<[u8]>::trim_ascii) {
            if pair.starts_with(b"host=") || pair.starts_with(b"proto=") {
                key.push(b' ');
                key.extend(pair);
            }
        }
    }
    key.into()
}

/// Writes the head of a stored response, and its body if that is short.
fn write(
    services: &Services,
    stored: &Stored,
    status: &str,
    ctx: RequestContext<'_>,
    out: &mut Output,
) -> Response {
    let headers = &ctx.request.headers;
    let age = stored.age().to_string();
    let status = format!("laio; {status}");
    let more = [("Age", age.as_bytes()), ("Cache-Status", status.as_bytes())];
    let tags = headers
        .get("If-None-Match")
        .map(|_| joined(headers, b"If-None-Match"));
    let since = headers.only("If-Modified-Since");
    let is_ok = stored.head.status == Status::OK;
    if is_ok && is_known_to_client(tags, since, stored.head.fields()) {
        let head = stored.head.not_modified();
        head.write_with(ctx, out, false, false, &more);
        return Response::bare(Status::NOT_MODIFIED);
    }
    let length = stored.body.len() as u64;
    let may_compress = ctx.site.compresses_upstreams;
    let form = may_compress
        .then(|| Form::of(services, ctx, &stored.head))
        .flatten();
    if let Some(Form::Encoded(coding, permit)) = form {
        let head = stored.head.in_form(Some(coding));
        head.write_with(ctx, out, ctx.sends_body(), false, &more);
        let mut response = ctx.response(stored.head.status, length);
        if response.length > 0 {
            let body = Contents::Memory(stored.body.clone());
            response.body =
                Body::Generated(Box::new(Compressed::new(body, length, coding, permit)));
        }
        return response;
    }
    let head = match form {
        Some(_) => &stored.head.in_form(None),
        None => &stored.head,
    };
    head.write_with(ctx, out, false, false, &more);
    let mut response = ctx.response(stored.head.status, length);
    if response.length == 0 {
        return response;
    }
    if stored.body.len() <= UpstreamLimits::CHUNK {
        out.bytes.extend_from_slice(&stored.body);
    } else {
        let whole = ByteRange {
            start: 0,
            end: length,
        };
        response.body = Body::File(Contents::Memory(stored.body.clone()), whole);
    }
    response
}

impl Fetch {
    /// Returns the request for the upstream.
    pub(super) fn request<'a>(&'a self, proxy_request: ProxyRequest<'a>) -> ProxyRequest<'a> {
        let caching = match &self.stale {
            Some(stale) => Caching::Revalidate {
                etag: stale.field("ETag"),
                modified: stale.field("Last-Modified"),
            },
            None => Caching::Store,
        };
        ProxyRequest {
            caching,
            ..proxy_request
        }
    }

    /// Returns the stored response for a client, if the upstream has confirmed it or may be replaced by it
    /// because it fails.
    pub(super) fn settle(
        &self,
        services: &Services,
        answered: &UpstreamHead,
        ctx: RequestContext<'_>,
        out: &mut Output,
    ) -> Option<Response> {
        let stale = self.stale.as_ref()?;
        if answered.status == Status::NOT_MODIFIED {
            upstreams::cached(CacheResult::Revalidated);
            let fresh = self.confirm(stale, answered, ctx);
            let text = format!("fwd={}; fwd-status=304; stored", self.reason);
            return Some(write(services, &fresh, &text, ctx, out));
        }
        (answered.status.code() >= 500)
            .then(|| self.instead_of_error(services, ctx, out, answered.status))?
    }

    /// Returns the stored response for a client, if it may be used because the upstream has failed.
    pub(super) fn instead_of_error(
        &self,
        services: &Services,
        ctx: RequestContext<'_>,
        out: &mut Output,
        status: Status,
    ) -> Option<Response> {
        let stale = self.stale.as_ref()?;
        let late = stale.age().saturating_sub(stale.freshness.lifetime);
        if late >= stale.freshness.if_error {
            return None;
        }
        upstreams::cached(CacheResult::Stale);
        let text = format!("fwd=stale; fwd-status={}; ttl=-{late}", status.code());
        Some(write(services, stale, &text, ctx, out))
    }

    /// Stores a response again that the upstream has confirmed, with its new fields.
    fn confirm(
        &self,
        stale: &Rc<Stored>,
        answered: &UpstreamHead,
        ctx: RequestContext<'_>,
    ) -> Rc<Stored> {
        let mut head = stale.head.clone();
        head.update(answered, ctx);
        let now = ctx.second;
        let found = freshness(head.status.code(), head.fields(), now);
        let stored = Rc::new(Stored {
            age_on_arrival: age_on_arrival(head.fields(), now),
            freshness: found.unwrap_or(stale.freshness),
            head: head.for_store(ctx),
            body: stale.body.clone(),
            arrived: Instant::now(),
            vary: stale.vary.clone(),
        });
        let mut store = self.cache.store.borrow_mut();
        match found {
            Some(_) => store.insert(&self.key, stored.clone()),
            None => drop(store.remove(&self.key)),
        }
        stored
    }

    /// Returns what stores a response while it is passed on, if it may be stored, and the text for
    /// `Cache-Status`.
    pub(super) fn record(
        self,
        answered: &UpstreamHead,
        ctx: RequestContext<'_>,
    ) -> (Option<Recorder>, String) {
        let mut status = format!("fwd={}", self.reason);
        if self.stale.is_some() {
            status += &format!("; fwd-status={}", answered.status.code());
        }
        let found = freshness(answered.status.code(), answered.fields(), ctx.second);
        let found = found.filter(|it| !self.authorized || it.for_authorized);
        let fits = answered
            .announced()
            .is_none_or(|length| length <= Recorder::most(&self.cache));
        let Some(freshness) = found.filter(|_| answered.file.is_none() && fits) else {
            self.refuse(answered.status);
            return (None, status);
        };
        let vary = values(answered.fields(), "Vary").flat_map(elements);
        let vary = vary.map(|name| {
            let value = joined(&ctx.request.headers, name);
            (name.to_ascii_lowercase().into(), value)
        });
        let recorder = Recorder {
            head: answered.for_store(ctx),
            freshness,
            age_on_arrival: age_on_arrival(answered.fields(), ctx.second),
            arrived: Instant::now(),
            vary: vary.collect(),
            body: RecordedBody {
                cache: self.cache.clone(),
                bytes: Vec::new(),
            },
            fetch: self,
        };
        status += "; stored";
        (Some(recorder), status)
    }

    /// Notes that the response is not stored.
    fn refuse(&self, status: Status) {
        // An error of the upstream says nothing about other responses.
        if status.code() < 500 {
            self.cache.note_uncacheable(&self.key);
            if self.stale.is_some() {
                self.cache.store.borrow_mut().remove(&self.key);
            }
        }
    }
}

/// What stores a response while it is passed on.
pub(crate) struct Recorder {
    fetch: Fetch,
    head: UpstreamHead,
    freshness: policy::Freshness,
    age_on_arrival: u64,
    arrived: Instant,
    vary: Vec<(Box<[u8]>, Vec<u8>)>,
    body: RecordedBody,
}

/// The content so far, which counts as recorded until it is dropped.
struct RecordedBody {
    cache: Rc<ResponseCache>,
    bytes: Vec<u8>,
}

impl Drop for RecordedBody {
    fn drop(&mut self) {
        let recorded = &self.cache.recorded;
        recorded.set(recorded.get() - self.bytes.len());
    }
}

impl Recorder {
    /// Returns the bytes of the largest body that is stored.
    fn most(cache: &ResponseCache) -> u64 {
        let most = cache.store.borrow().limit() / 4;
        most.min(UpstreamLimits::CACHED_BODY) as u64
    }

    /// Adds content, and stores the response with the last. Returns `None` after that, or if it is too much.
    pub(super) fn record(self, content: &[u8], last: bool) -> Option<Recorder> {
        let recorder = self.add(content)?;
        if !last {
            return Some(recorder);
        }
        recorder.finish();
        None
    }

    /// Adds content. Returns `None` if it is too much.
    fn add(mut self, content: &[u8]) -> Option<Recorder> {
        let cache = &self.fetch.cache;
        if (self.body.bytes.len() + content.len()) as u64 > Recorder::most(cache) {
            self.fetch.refuse(self.head.status);
            return None;
        }
        let recorded = cache.recorded.get() + content.len();
        if recorded > cache.store.borrow().limit() {
            return None;
        }
        cache.recorded.set(recorded);
        self.body.bytes.extend_from_slice(content);
        Some(self)
    }

    /// Stores the complete response.
    fn finish(mut self) {
        self.head.set_length(self.body.bytes.len());
        let stored = Stored {
            head: self.head,
            body: self.body.bytes.as_slice().into(),
            freshness: self.freshness,
            age_on_arrival: self.age_on_arrival,
            arrived: self.arrived,
            vary: self.vary,
        };
        let cache = &self.fetch.cache;
        cache
            .store
            .borrow_mut()
            .insert(&self.fetch.key, Rc::new(stored));
        cache.uncacheable.borrow_mut().remove(&self.fetch.key);
    }
}

/// Fetches a response again, whose stale form the client has got.
pub async fn refresh(services: &Services, mut proxy_request: ProxyRequest<'_>, fetch: Fetch) {
    let limits = &services.limits.upstream;
    let ctx = proxy_request.ctx;
    proxy_request.websocket = false;
    let request = fetch.request(proxy_request);
    let refreshed = match exchange::ask(&request, &mut EmptyBody, limits).await {
        Ok(answered) => store_again(fetch, answered, ctx).await,
        Err(error) => Err(io::Error::other(error.why)),
    };
    if let Err(error) = refreshed {
        print(format_args!(
            "{} for {}: the stored response could not be refreshed: {error}",
            proxy_request.route.group.name(),
            proxy_request.path.as_str().escape_debug(),
        ));
    }
}

async fn store_again(
    fetch: Fetch,
    answered: UpstreamResponse,
    ctx: RequestContext<'_>,
) -> io::Result<()> {
    let UpstreamResponse { head, mut body, .. } = answered;
    let recorder = match (&fetch.stale, head.status) {
        (Some(stale), Status::NOT_MODIFIED) => {
            fetch.confirm(stale, &head, ctx);
            None
        }
        _ => fetch.record(&head, ctx).0,
    };
    let mut recorder = recorder;
    let mut content = Vec::new();
    loop {
        let last = body.take(&mut content, usize::MAX)?;
        recorder = recorder.and_then(|it| it.record(&content, last));
        if last {
            return Ok(());
        }
        content.clear();
        body.wait().await?;
    }
}
