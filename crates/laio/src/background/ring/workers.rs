//! The worker threads that io_uring has for files and names: four for each processor, which the rings of a
//! thread share. An operation by name always takes one. If those that some take for long left none, no file
//! could be opened, read from a disk or synchronised through the ring.
//!
//! Operations by name that are known to ask a remote file system do not come here. These may still wait:
//! what a symbolic link names that is not in the caches, an automount, a disk that does not answer.

use crate::knowledge::mounts::coarse_milliseconds;
use crate::table::{Class, Row};
use io_uring::IoUring;

/// How many operations by name occupy workers of a ring, and for how long.
#[derive(Debug)]
pub(super) struct Workers {
    /// The number of workers.
    most: u32,
    epoch: u32,
    /// In milliseconds of the coarse clock.
    epoch_began: i64,
    /// The operations begun in this epoch, in the one before, and earlier.
    begun: [u32; 3],
}

impl Workers {
    /// Milliseconds. An operation is slow if it has lasted for a whole epoch.
    const EPOCH: i64 = 100;
    /// The workers that slow operations leave to others.
    const RESERVED: u32 = 2;

    pub(super) fn for_ring(ring: &IoUring, entries: u32) -> Workers {
        let mut most = [0, 0];
        // Since Linux 5.15. Zeros only ask.
        let asked = ring.submitter().register_iowq_max_workers(&mut most);
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        let most = match asked {
            Ok(()) if most[0] > 0 => most[0],
            _ => entries.min(4 * processors),
        };
        Workers::with(most, coarse_milliseconds())
    }

    fn with(most: u32, now: i64) -> Workers {
        Workers {
            most,
            epoch: 0,
            epoch_began: now,
            begun: [0; 3],
        }
    }

    /// An operation by name begins. Returns what [`Workers::end`] needs.
    pub(super) fn begin(&mut self) -> u32 {
        self.advance(coarse_milliseconds());
        self.begun[0] += 1;
        self.epoch
    }

    /// An operation has ended that began in this epoch.
    pub(super) fn end(&mut self, epoch: u32) {
        let age = self.epoch.wrapping_sub(epoch).min(2);
        self.begun[age as usize] -= 1;
    }

    /// Whether slow operations leave so few workers that operations on files and names must go elsewhere.
    /// `rings`: how many share the workers.
    pub(super) fn are_occupied(&mut self, rings: usize) -> bool {
        if self.begun == [0; 3] {
            return false;
        }
        self.advance(coarse_milliseconds());
        let share = self.most.saturating_sub(Workers::RESERVED) / rings.max(1) as u32;
        self.begun[2] >= share.max(1)
    }

    fn advance(&mut self, now: i64) {
        let epochs = ((now - self.epoch_began) / Workers::EPOCH).min(2);
        for _ in 0..epochs {
            let [new, before, earlier] = self.begun;
            self.begun = [0, new, before + earlier];
            self.epoch = self.epoch.wrapping_add(1);
            self.epoch_began = now;
        }
    }
}

/// Whether operations of this row are by name, and so occupy a worker.
pub(super) fn occupies_one(row: &Row) -> bool {
    row.class == Class::Path
}

/// Whether operations of this row may need a worker. `regular`: see [`crate::operations::InFlight::regular`].
pub(super) fn may_need_one(row: &Row, regular: bool) -> bool {
    regular || matches!(row.class, Class::Path | Class::FileRead | Class::FileWrite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_operations_leave_workers_to_others() {
        let start = 1000;
        let mut workers = Workers::with(8, start);
        let occupied = |workers: &Workers| workers.begun[2] >= workers.most - Workers::RESERVED;
        let mut begun: Vec<u32> = (0..6)
            .map(|_| {
                workers.begun[0] += 1;
                workers.epoch
            })
            .collect();
        workers.advance(start + Workers::EPOCH);
        assert!(!occupied(&workers), "they may have begun a moment ago");
        workers.begun[0] += 1;
        begun.push(workers.epoch);
        workers.advance(start + 2 * Workers::EPOCH);
        assert_eq!(workers.begun, [0, 1, 6]);
        assert!(occupied(&workers));
        workers.end(begun[0]);
        assert!(!occupied(&workers));
        workers.advance(start + 100 * Workers::EPOCH);
        assert!(occupied(&workers));
        begun.drain(..).skip(1).for_each(|epoch| workers.end(epoch));
        assert_eq!(workers.begun, [0; 3]);
        assert!(!workers.are_occupied(1));
    }
}
