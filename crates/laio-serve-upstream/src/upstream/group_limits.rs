//! What the upstreams of a prefix share in a worker: tunnels, and the memory for spooled bodies.

use laio_rt::sync::{Permit, Semaphore};
use laio_serve_base::options::UpstreamLimits;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// The limits of a group, as a worker applies them.
#[derive(Default)]
pub struct GroupLimits {
    tunnels: OnceCell<Semaphore>,
    /// Bytes of request bodies spooled in memory.
    spooled: Cell<u64>,
}

impl GroupLimits {
    /// Returns a permit for a tunnel, if the limit allows.
    pub fn tunnel(&self, limits: &UpstreamLimits) -> Option<Permit> {
        let tunnels = self.tunnels.get_or_init(|| Semaphore::new(limits.tunnels));
        tunnels.try_acquire()
    }
}

/// A share of the memory for spooled bodies, released on drop.
pub struct SpoolMemory {
    limits: Rc<GroupLimits>,
    bytes: u64,
}

impl SpoolMemory {
    /// Returns memory of which nothing is held.
    pub fn new(limits: &Rc<GroupLimits>) -> SpoolMemory {
        SpoolMemory {
            limits: limits.clone(),
            bytes: 0,
        }
    }

    /// Reserves memory. Returns false, and reserves none, if the limit would be exceeded.
    pub fn take(&mut self, bytes: u64) -> bool {
        let all = self.limits.spooled.get() + bytes;
        let fits = all <= UpstreamLimits::SPOOLED;
        if fits {
            self.limits.spooled.set(all);
            self.bytes += bytes;
        }
        fits
    }
}

impl Drop for SpoolMemory {
    fn drop(&mut self) {
        let spooled = &self.limits.spooled;
        spooled.set(spooled.get() - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_bodies_is_shared_and_given_back() {
        let limits = Rc::<GroupLimits>::default();
        let (mut one, mut other) = (SpoolMemory::new(&limits), SpoolMemory::new(&limits));
        assert!(one.take(UpstreamLimits::SPOOLED - 1) && !other.take(2) && other.take(1));
        drop(one);
        assert!(other.take(UpstreamLimits::SPOOLED - 1) && !other.take(1));
        drop(other);
        assert_eq!(limits.spooled.get(), 0);
    }
}
