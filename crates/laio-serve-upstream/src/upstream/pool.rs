//! The connections of a worker to an upstream: a limited number at a time, some kept idle for
//! later, and a limited number of waiting requests.

use super::error::{Progress, UpstreamError};
use super::link::Link;
use laio_rt::sync::{Permit, Semaphore};
use laio_serve_base::options::UpstreamLimits;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Instant;

#[derive(Default)]
pub struct Pool {
    /// Idle connections, the most recently used last.
    idle: RefCell<Vec<(Link, Instant)>>,
    sweeping: Cell<bool>,
    permits: OnceCell<Semaphore>,
    waiting: Cell<usize>,
}

/// Counts a waiting request until dropped.
struct QueuedRequest<'a>(&'a Cell<usize>);

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Pool {
    /// Waits for a permit for a connection.
    ///
    /// With HTTP/2 it is for one of the requests, `each`, that a connection carries at the same time.
    pub async fn permit(
        &self,
        limits: &UpstreamLimits,
        each: usize,
    ) -> Result<Permit, UpstreamError> {
        let all = limits.connections.max(1).saturating_mul(each.max(1));
        let permits = self.permits.get_or_init(|| Semaphore::new(all));
        if let Some(permit) = permits.try_acquire() {
            return Ok(permit);
        }
        if self.waiting.get() >= limits.queue {
            let text = format!(
                "{} requests are already waiting for a connection",
                limits.queue
            );
            return Err(UpstreamError::busy(text).at(Progress::NotConnected));
        }
        self.waiting.set(self.waiting.get() + 1);
        let _queued = QueuedRequest(&self.waiting);
        let permit = laio_rt::time::timeout(limits.queue_time, permits.acquire()).await;
        permit.map_err(|_| {
            UpstreamError::busy("no connection became free in time").at(Progress::NotConnected)
        })
    }

    /// Returns an idle connection that began with this header of the PROXY protocol, is still open, and on
    /// which the upstream has sent nothing.
    pub fn take(&self, limits: &UpstreamLimits, proxy_header: &[u8]) -> Option<Link> {
        loop {
            let mut idle = self.idle.borrow_mut();
            let fitting = |(link, _): &(Link, Instant)| link.proxy_header == proxy_header;
            let index = idle.iter().rposition(fitting)?;
            let (link, since) = idle.remove(index);
            drop(idle);
            if since.elapsed() < limits.idle_time && link.is_quiet() {
                return Some(link);
            }
        }
    }

    /// Puts a connection back for later requests.
    pub fn keep(self: &Rc<Self>, link: Link, limits: &UpstreamLimits) {
        let mut idle = self.idle.borrow_mut();
        if !link.input.is_empty() {
            return;
        }
        if idle.len() >= limits.idle {
            // Only one client can use the connections that begin with its addresses, so a newer one
            // replaces the oldest.
            if link.proxy_header.is_empty() || idle.is_empty() {
                return;
            }
            idle.remove(0);
        }
        idle.push((link, Instant::now()));
        if !self.sweeping.replace(true) {
            let pool = Rc::downgrade(self);
            laio_rt::spawn(sweep(pool, limits.idle_time)).detach();
        }
    }

    /// Closes all idle connections, because the upstream has restarted.
    pub fn forget(&self) {
        let idle = self.idle.take();
        drop(idle);
    }
}

/// Closes connections that have been idle for too long.
async fn sweep(pool: Weak<Pool>, time: std::time::Duration) {
    loop {
        laio_rt::time::sleep(time).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle.borrow_mut();
        let (old, young): (Vec<_>, Vec<_>) = std::mem::take(&mut *idle)
            .into_iter()
            .partition(|(_, since)| since.elapsed() >= time);
        *idle = young;
        if idle.is_empty() {
            pool.sweeping.set(false);
        }
        let over = idle.is_empty();
        drop(idle);
        drop(old);
        if over {
            return;
        }
    }
}
