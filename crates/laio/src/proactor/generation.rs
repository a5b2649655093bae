//! What a proactor has in one process: its drivers, and what is in flight on each descriptor. A
//! forked child makes its own.

use super::busy::Busy;
use super::driver::Driver;
use super::one_shot::OneShots;
use super::stats::ProactorStats;
use crate::operations::Link;
use crate::sys::fork::Life;
use crate::{Errno, Options};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock, Weak};

pub(super) struct Generation {
    pub(super) life: Life,
    /// Started when the first operation is handed over.
    drivers: Box<[OnceLock<Arc<Driver>>]>,
    /// The drivers of threads with filters, where calls have the rights of the process.
    filtered: Box<[OnceLock<Arc<Driver>>]>,
    starting: Mutex<()>,
    /// The driver for the next operation that has no order to keep.
    next: AtomicUsize,
    pub(super) busy: Busy,
    pub(super) one_shots: Arc<OneShots>,
    /// Whether [`Proactor::shut_down`](super::Proactor::shut_down) was called.
    closed: AtomicBool,
    /// Drivers that threads have started for themselves.
    others: Mutex<Vec<Weak<Driver>>>,
    threads: Mutex<Vec<Arc<ThreadCounts>>>,
    pub(super) handed_over: AtomicU64,
    pub(super) direct: AtomicU64,
    pub(super) in_loops: AtomicU64,
    pub(super) cancelled: AtomicU64,
}

/// What one thread has counted. Only that thread writes it.
#[derive(Debug, Default)]
pub(super) struct ThreadCounts {
    pub(super) inline: AtomicU64,
    pub(super) background: AtomicU64,
    pub(super) fallback: AtomicU64,
}

impl Generation {
    pub(super) fn new(drivers: usize, options: &Options) -> Generation {
        let places = || (0..drivers.max(1)).map(|_| OnceLock::new()).collect();
        Generation {
            life: Life::current(),
            drivers: places(),
            filtered: places(),
            starting: Mutex::new(()),
            next: AtomicUsize::new(0),
            busy: Busy::new(),
            one_shots: Arc::new(OneShots::new(options)),
            closed: AtomicBool::new(false),
            others: Mutex::default(),
            threads: Mutex::default(),
            handed_over: AtomicU64::new(0),
            direct: AtomicU64::new(0),
            in_loops: AtomicU64::new(0),
            cancelled: AtomicU64::new(0),
        }
    }

    /// The driver of an operation with these links, which is the same for all operations on a
    /// descriptor. Starts the driver if it does not run. `filtered`: one that was started by a thread
    /// with filters.
    ///
    /// # Errors
    /// Those of [`Driver::start`].
    pub(super) fn driver(
        &self,
        links: &[Link; 2],
        options: &Options,
        filtered: bool,
    ) -> Result<&Arc<Driver>, Errno> {
        let number = match links.iter().find(|link| link.is_used()) {
            Some(link) => link.fd as usize,
            None => self.next.fetch_add(1, Relaxed),
        };
        let drivers = if filtered {
            &self.filtered
        } else {
            &self.drivers
        };
        let place = &drivers[number % drivers.len()];
        if let Some(driver) = place.get() {
            return Ok(driver);
        }
        let _starting = self
            .starting
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        if let Some(driver) = place.get() {
            return Ok(driver);
        }
        if self.is_closed() {
            return Err(Errno::CANCELED);
        }
        let driver = Driver::start(options)?;
        Ok(place.get_or_init(|| driver))
    }

    /// Lists a driver that a thread has started for itself.
    pub(super) fn add_driver(&self, driver: &Arc<Driver>) {
        let mut others = self
            .others
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        others.retain(|other| other.strong_count() > 0);
        others.push(Arc::downgrade(driver));
    }

    /// Lists what a thread counts.
    pub(super) fn add_thread(&self, counts: Arc<ThreadCounts>) {
        let mut threads = self
            .threads
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        threads.push(counts);
    }

    pub(super) fn stats(&self) -> ProactorStats {
        let unanswered = self
            .all_drivers()
            .iter()
            .fold(self.one_shots.unanswered(), |all, driver| {
                all.and(driver.unanswered.get())
            });
        let mut stats = ProactorStats {
            unanswered: unanswered.calls() as u64,
            hung_mounts: unanswered.hung().count() as u64,
            handed_over: self.handed_over.load(Relaxed),
            direct: self.direct.load(Relaxed),
            in_loops: self.in_loops.load(Relaxed),
            one_shots: self.one_shots.started(),
            cancelled: self.cancelled.load(Relaxed),
            ..ProactorStats::default()
        };
        let threads = self
            .threads
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        for counts in threads.iter() {
            stats.inline += counts.inline.load(Relaxed);
            stats.background += counts.background.load(Relaxed);
            stats.fallback += counts.fallback.load(Relaxed);
        }
        stats
    }

    /// The drivers that were started.
    pub(super) fn started(&self) -> impl Iterator<Item = &Arc<Driver>> {
        let places = self.drivers.iter().chain(&self.filtered);
        places.filter_map(OnceLock::get)
    }

    /// These, and the drivers that threads have started for themselves.
    fn all_drivers(&self) -> Vec<Arc<Driver>> {
        let others = self
            .others
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        let others = others.iter().filter_map(Weak::upgrade);
        self.started().cloned().chain(others).collect()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// Lets no operation go to the background any more, and cancels those that are there. Returns the
    /// drivers, which end.
    pub(super) fn close(&self) -> Vec<Arc<Driver>> {
        // With the lock, so that no driver is started afterwards that nothing ends.
        let starting = self
            .starting
            .lock()
            .unwrap_or_else(|error| error.into_inner());
        self.closed.store(true, SeqCst);
        drop(starting);
        let drivers = self.all_drivers();
        drivers.iter().for_each(|driver| driver.stop());
        self.one_shots.cancel_all();
        drivers
    }

    /// Whether anything is in flight on a descriptor.
    #[inline]
    pub(super) fn is_busy(&self, fd: RawFd) -> bool {
        self.busy.is_busy(fd)
    }

    /// Whether an operation with these links must wait for one in flight.
    #[inline]
    pub(super) fn must_wait(&self, links: &[Link; 2]) -> bool {
        links.iter().any(|link| self.busy.must_wait(link))
    }
}
