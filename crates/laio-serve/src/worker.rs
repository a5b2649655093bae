//! A worker: one thread with an engine context, an executor and listening sockets.

pub(crate) mod accept;

use crate::connection::running::{AcceptTasks, Connections, WorkerFeatures};
use crate::features::{self, DatagramReceiver, DatagramSockets};
use accept::{Acceptor, accept};
use laio_rt::future::{Either, race};
use laio_rt::sync::Semaphore;
use laio_rt::{Descriptor, Runtime};
use laio_serve_base::addresses::Addresses;
use laio_serve_base::clients::TrustedProxies;
use laio_serve_base::cpu_pool::CpuPool;
use laio_serve_base::observe;
use laio_serve_base::options::{Limits, Options, RedirectPort};
use laio_serve_base::stop::{Level, Stop};
use laio_serve_base::trace;
use laio_serve_base::transfer_pools::Pools;
use laio_serve_core::files::cache::Cache;
use laio_serve_core::log::{Log, SharedLog};
use laio_serve_core::request::redirect_to_https::RedirectToHttps;
use laio_serve_core::services::{Clock, Services};
use laio_serve_core::site::auth::PasswordChecks;
use laio_serve_core::site::{CompiledSites, Sites};
use laio_serve_net::buffers::BufferPool;
use laio_serve_net::idle_eviction::ConnectionSlots;
use laio_serve_net::io_contexts::{ContextPlan, IoContexts};
use laio_serve_net::listen::{Kind, Share};
use laio_serve_net::memory::ProcessMemory;
use laio_serve_net::resource_exhaustion::ExhaustionWarning;
use laio_serve_net::tls::Tls;
use laio_serve_net::tls::published::Published;
use laio_serve_proxy::ProxyServices;
use laio_serve_uploads::{ChangeServices, SharedChanges};
use laio_serve_upstream::health_check::HealthChecks;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// State shared by the workers of a generation.
#[derive(Clone)]
pub(crate) struct GenerationState {
    pub(crate) sites: Arc<CompiledSites>,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) memory: Arc<ProcessMemory>,
    pub(crate) trusted_proxies: Arc<TrustedProxies>,
    pub(crate) slots: Arc<ConnectionSlots>,
    pub(crate) datagrams: Option<Arc<dyn DatagramReceiver>>,
    pub(crate) cpu_pool: Arc<CpuPool>,
    pub(crate) log: Option<Arc<SharedLog>>,
    pub(crate) changes: SharedChanges,
    pub(crate) stop: Arc<Stop>,
    pub(crate) tls: Option<Arc<Tls>>,
}

/// The counts of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Connections accepted.
    pub connections: u64,
    /// Requests answered.
    pub requests: u64,
    /// Requests answered from the file cache.
    pub cache_hits: u64,
    /// Lines of the access log that could not be written.
    pub log_lines_lost: u64,
}

/// Runs a worker on the calling thread until the server stops it and its connections have ended.
pub(crate) fn run(
    runtime: Runtime,
    contexts: IoContexts,
    options: &Options,
    shared: GenerationState,
    listeners: Vec<Share>,
) -> io::Result<Served> {
    runtime.block_on(async {
        let _observed = options.observer.observe_thread(contexts.all());
        let log = Log::start(shared.log.clone())?;
        let backend = laio_rt::with_context(|context| context.info().backend());
        let most = ContextPlan::new(options, backend)?.connections(options);
        let sites = Sites::new(shared.sites)?;
        let limits = options.limits.clone();
        let change_services = ChangeServices::new(shared.changes, &limits);
        let proxy_services = ProxyServices::new(&limits.upstream);
        let services = Rc::new(Services {
            cache: Cache::new(&options.cache, sites.count(), options.workers(backend)),
            sites,
            trusted_proxies: shared.trusted_proxies,
            contexts,
            log,
            buffer_pool: BufferPool::default(),
            memory: shared.memory,
            io: options.io,
            chunk: options.io.chunk.unwrap_or(Limits::CHUNK),
            transfer_pools: Pools::default(),
            password_checks: PasswordChecks::new(limits.auth_checks, shared.cpu_pool.clone()),
            compressions: Semaphore::new(limits.compressions),
            listings: Semaphore::new(Limits::LISTINGS),
            cpu_pool: shared.cpu_pool,
            slots: shared.slots,
            exhaustion_warning: ExhaustionWarning::default(),
            proxy_header_warning: ExhaustionWarning::default(),
            clock: Clock::default(),
            limits,
        });
        observe::upstreams::watch(
            services
                .sites
                .targets()
                .map(|target| target.health.clone() as _),
        );
        // A worker that explains a request asks no upstream; with the back end sync a check would block it.
        let checks = !trace::is_on() && !services.contexts.sync;
        let checked = services.sites.targets().filter(|_| checks);
        let _checks = HealthChecks::start(checked, &services.limits.upstream);
        let stop = shared.stop;
        let datagram_receiver = shared.datagrams.as_ref();
        let connections = Connections::new(
            services.clone(),
            WorkerFeatures {
                change_services,
                proxy_services,
                directory_answers: features::directory_answers(options),
                passes_early: datagram_receiver.is_some_and(|it| it.passes_early()),
            },
            stop.clone(),
            most,
            options.http2(backend),
        );
        let (listeners, datagrams): (Vec<_>, Vec<_>) = listeners
            .into_iter()
            .partition(|it| it.kind == Kind::Stream);
        let interruptible = listeners
            .iter()
            .map(|it| connections.interruptible(&it.socket));
        let _interruptible: Vec<_> = interruptible.collect();
        listeners
            .iter()
            .try_for_each(|it| accept::prepare(&it.socket, services.contexts.sync))?;
        let received = datagram_receiver.map(|it| {
            it.receive(DatagramSockets {
                sockets: datagrams.into_iter().map(|share| share.socket).collect(),
                services: services.clone(),
                connections: connections.clone(),
                addresses: shared.addresses.clone(),
            })
        });
        let mut receiving = AcceptTasks(received.transpose()?.unwrap_or_default());
        let accept = |Share {
                          socket,
                          tls,
                          proxy_header,
                          https_port,
                          datagram_port,
                          ..
                      }| {
            let published = shared.tls.as_ref().and_then(|tls| tls.published.clone());
            laio_rt::spawn(accept(Acceptor {
                services: services.clone(),
                connections: connections.clone(),
                addresses: shared.addresses.clone(),
                listener: Descriptor::from(socket),
                proxy_header,
                tls: shared
                    .tls
                    .as_ref()
                    .filter(|_| tls)
                    .map(|tls| tls.config.clone()),
                to_https: redirect_to_https(options, https_port, published.filter(|_| !tls)),
                alt_svc: datagram_receiver
                    .zip(datagram_port)
                    .map(|(it, port)| it.announcement(port).into()),
            }))
        };
        let mut accepting = AcceptTasks(listeners.into_iter().map(accept).collect());
        let hand_over = stop.reached(Level::HandingOver);
        let ended = async {
            if receiving.0.is_empty() {
                accepting.ended().await
            } else {
                match race(accepting.ended(), receiving.ended()).await {
                    Either::Left(ended) | Either::Right(ended) => ended,
                }
            }
        };
        if let Either::Left(Err(aborted)) = race(ended, hand_over).await {
            let text = format!("the worker accepts no more connections: {aborted}");
            return Err(io::Error::other(text));
        }
        let deadline = connections.drain(accepting).await;
        receiving.abort();
        services.log.finish(deadline).await;
        Ok(Served {
            connections: connections.accepted(),
            requests: services.log.lines(),
            cache_hits: services.cache.as_ref().map_or(0, Cache::hits),
            log_lines_lost: services.log.lost(),
        })
    })
}

/// Returns what redirects the requests of an address without TLS, and answers those of an authority. `own`: the port of
/// https for its clients.
fn redirect_to_https(
    options: &Options,
    own: Option<u16>,
    published: Option<Arc<Published>>,
) -> Option<Rc<RedirectToHttps>> {
    let port = own.zip(options.redirect_http());
    let port = port.and_then(|(own, port)| match port {
        RedirectPort::OfListener => Some(own),
        RedirectPort::Number(port) => Some(port),
        RedirectPort::Off => None,
    });
    let needed = port.is_some() || published.is_some();
    needed.then(|| Rc::new(RedirectToHttps { port, published }))
}
