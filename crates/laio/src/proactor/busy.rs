//! What is in flight on each descriptor.

use crate::operations::Link;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// The operations in flight, by descriptor and direction. Descriptors whose numbers differ by a
/// multiple of [`Busy::PLACES`] share a place: then an attempt is omitted that could have been made.
#[derive(Clone)]
pub(super) struct Busy(Arc<[[AtomicU32; 2]]>);

impl Busy {
    const PLACES: usize = 1024;

    pub(super) fn new() -> Busy {
        Busy((0..Busy::PLACES).map(|_| Default::default()).collect())
    }

    /// Whether anything is in flight on a descriptor.
    #[inline]
    pub(super) fn is_busy(&self, fd: RawFd) -> bool {
        let [reads, writes] = self.place(fd);
        reads.load(Acquire) > 0 || writes.load(Acquire) > 0
    }

    #[inline]
    fn place(&self, fd: RawFd) -> &[AtomicU32; 2] {
        &self.0[fd as usize % Busy::PLACES]
    }

    #[inline]
    pub(super) fn must_wait(&self, link: &Link) -> bool {
        let locked = link.access.directions();
        let busy = |(locks, count): (bool, &AtomicU32)| locks && count.load(Acquire) > 0;
        link.is_used() && locked.into_iter().zip(self.place(link.fd)).any(busy)
    }

    fn count(&self, link: &Link, by: impl Fn(&AtomicU32)) {
        if link.is_used() {
            let counts = self.place(link.fd).iter();
            let locked = link.access.directions().into_iter().zip(counts);
            locked
                .filter(|(locks, _)| *locks)
                .for_each(|(_, count)| by(count));
        }
    }
}

/// An operation in flight counts on its descriptors as long as this lives.
pub(super) struct Hold {
    busy: Busy,
    links: [Link; 2],
}

impl Hold {
    pub(super) fn new(busy: &Busy, links: [Link; 2]) -> Hold {
        for link in &links {
            busy.count(link, |count| {
                count.fetch_add(1, AcqRel);
            });
        }
        Hold {
            busy: busy.clone(),
            links,
        }
    }

    pub(super) fn links(&self) -> [Link; 2] {
        self.links
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        for link in &self.links {
            self.busy.count(link, |count| {
                count.fetch_sub(1, AcqRel);
            });
        }
    }
}
