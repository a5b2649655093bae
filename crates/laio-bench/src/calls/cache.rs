//! Evicts a file from the page cache, and checks whether it is evicted.

use laio::Errno;
use rustix::fs::{Advice, fadvise, fstat};
use rustix::io::{ReadWriteFlags, preadv2};
use std::fs::File;
use std::io::IoSliceMut;

/// The cache state of one file.
#[derive(Debug)]
pub(super) struct Cache {
    /// Whether the whole system's cache was dropped once.
    dropped_all: Result<(), &'static str>,
    /// The number of pages checked after dropping, and of those found in the cache.
    looked_at: u64,
    found: u64,
    length: u64,
}

/// The number of pages checked after each drop.
const SAMPLE: u64 = 16;

impl Cache {
    /// Drops the system's cache, if requested and permitted, which includes file system metadata such as
    /// block maps. Later calls drop only the file's pages, which is fast.
    pub(super) fn new(file: &File, drop_all: bool) -> Result<Cache, Errno> {
        // Disables read-ahead.
        fadvise(file, 0, None, Advice::Random)?;
        let pages_only = "1";
        let dropped_all = if drop_all {
            std::fs::write("/proc/sys/vm/drop_caches", pages_only).map_err(|_| "not root")
        } else {
            Err("as asked")
        };
        Ok(Cache {
            dropped_all,
            looked_at: 0,
            found: 0,
            length: fstat(file)?.st_size as u64,
        })
    }

    /// Drops the file's pages, and checks some of them.
    pub(super) fn drop_pages(&mut self, file: &File) {
        // The kernel may ignore this advice, so the result is checked.
        let _ = fadvise(file, 0, None, Advice::DontNeed);
        let mut byte = [0];
        for part in 0..SAMPLE {
            let offset = self.length / SAMPLE * part;
            let mut vector = [IoSliceMut::new(&mut byte)];
            match preadv2(file, &mut vector, offset, ReadWriteFlags::NOWAIT) {
                Ok(_) => self.found += 1,
                Err(rustix::io::Errno::AGAIN) => {}
                // The file system does not support `RWF_NOWAIT`.
                Err(_) => return,
            }
            self.looked_at += 1;
        }
    }

    /// Returns notes for the reader of the results.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        notes.push(match self.dropped_all {
            Ok(()) => "cold reads: the system's page cache was dropped first, the file's before \
                       each block"
                .to_owned(),
            Err(reason) => format!(
                "cold reads: only the file's pages were dropped before each block ({reason}); the \
                 system's cache was not"
            ),
        });
        if self.found * 50 > self.looked_at {
            let part = 100 * self.found / self.looked_at;
            notes.push(format!(
                "cold reads are not cold: {part} % of the pages looked at stayed in the cache"
            ));
        }
        notes
    }
}
