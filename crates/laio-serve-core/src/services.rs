//! What the steps of a request need from their worker.

use crate::files::cache::Cache;
use crate::log::Log;
use crate::site::Sites;
use crate::site::auth::PasswordChecks;
use laio_http::{DateCache, HttpDate};
use laio_rt::sync::Semaphore;
use laio_serve_base::clients::TrustedProxies;
use laio_serve_base::cpu_pool::CpuPool;
use laio_serve_base::options::{Io, Limits};
use laio_serve_base::transfer_pools::Pools;
use laio_serve_net::buffers::BufferPool;
use laio_serve_net::idle_eviction::ConnectionSlots;
use laio_serve_net::io_contexts::IoContexts;
use laio_serve_net::memory::ProcessMemory;
use laio_serve_net::resource_exhaustion::ExhaustionWarning;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The services of a worker that several steps use; the fields do not know each other. What only one step needs is
/// passed to that step.
pub struct Services {
    pub sites: Sites,
    pub trusted_proxies: Arc<TrustedProxies>,
    pub limits: Limits,
    pub contexts: IoContexts,
    pub cache: Option<Cache>,
    pub log: Log,
    pub buffer_pool: BufferPool,
    /// The budget of memory that is held for clients.
    pub memory: Arc<ProcessMemory>,
    /// How bodies are sent.
    pub io: Io,
    /// Bytes of a file read or sent at a time.
    pub chunk: usize,
    pub transfer_pools: Pools,
    pub password_checks: PasswordChecks,
    pub compressions: Semaphore,
    /// Limits the listings made at the same time.
    pub listings: Semaphore,
    pub cpu_pool: Arc<CpuPool>,
    pub slots: Arc<ConnectionSlots>,
    pub exhaustion_warning: ExhaustionWarning,
    /// Warns of connections without the header of a trusted proxy.
    pub proxy_header_warning: ExhaustionWarning,
    pub clock: Clock,
}

/// The date of responses, and the executor's turn in which the system's clock was read for it.
#[derive(Default)]
pub struct Clock {
    date: RefCell<DateCache>,
    turn: Cell<Option<u64>>,
}

impl Services {
    /// Returns the date of a response, and its second.
    pub fn now(&self) -> (HttpDate, i64) {
        let mut date = self.clock.date.borrow_mut();
        let turn = Some(laio_rt::turn());
        // With the back end sync, a turn may take long, because calls block the thread.
        if self.clock.turn.replace(turn) != turn || self.contexts.sync {
            date.now();
        }
        let second = date.second();
        (*date.at(second), second)
    }
}
