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
pub(crate) struct Services {
    pub(crate) sites: Sites,
    pub(crate) trusted_proxies: Arc<TrustedProxies>,
    pub(crate) limits: Limits,
    pub(crate) contexts: IoContexts,
    pub(crate) cache: Option<Cache>,
    pub(crate) log: Log,
    pub(crate) buffer_pool: BufferPool,
    /// The budget of memory that is held for clients.
    pub(crate) memory: Arc<ProcessMemory>,
    /// How bodies are sent.
    pub(crate) io: Io,
    /// Bytes of a file read or sent at a time.
    pub(crate) chunk: usize,
    pub(crate) transfer_pools: Pools,
    pub(crate) password_checks: PasswordChecks,
    pub(crate) compressions: Semaphore,
    /// Limits the zip files sent at the same time.
    pub(crate) archives: Semaphore,
    /// Limits the listings made at the same time.
    pub(crate) listings: Semaphore,
    pub(crate) cpu_pool: Arc<CpuPool>,
    pub(crate) slots: Arc<ConnectionSlots>,
    pub(crate) exhaustion_warning: ExhaustionWarning,
    /// Warns of connections without the header of a trusted proxy.
    pub(crate) proxy_header_warning: ExhaustionWarning,
    pub(crate) clock: Clock,
}

/// The date of responses, and the executor's turn in which the system's clock was read for it.
#[derive(Default)]
pub(crate) struct Clock {
    date: RefCell<DateCache>,
    turn: Cell<Option<u64>>,
}

impl Services {
    /// Returns the date of a response, and its second.
    pub(crate) fn now(&self) -> (HttpDate, i64) {
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
