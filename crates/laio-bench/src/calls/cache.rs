//! Getting a file out of the page cache, and seeing whether it is.

use laio::Errno;
use rustix::fs::{Advice, fadvise, fstat};
use rustix::io::{ReadWriteFlags, preadv2};
use std::fs::File;
use std::io::IoSliceMut;

/// What is known of one file in the cache.
#[derive(Debug)]
pub(super) struct Cache {
    /// The whole system's cache was dropped once.
    dropped_all: Result<(), &'static str>,
    /// Pages looked at after dropping, and those found in the cache.
    looked_at: u64,
    found: u64,
    length: u64,
}

/// Pages looked at after each dropping.
const SAMPLE: u64 = 16;

impl Cache {
    /// Drops the system's cache, if that is wanted and allowed: also the file system's own data, such as
    /// where the file's blocks are. Later droppings are of the file's pages only, which is quick.
    pub(super) fn new(file: &File, drop_all: bool) -> Result<Cache, Errno> {
        // The kernel is not to read ahead what was not asked for.
        fadvise(file, 0, None, Advice::Random)?;
        let pages_only = "1";
        let dropped_all = match drop_all {
            false => Err("as asked"),
            true => std::fs::write("/proc/sys/vm/drop_caches", pages_only).map_err(|_| "not root"),
        };
        Ok(Cache {
            dropped_all,
            looked_at: 0,
            found: 0,
            length: fstat(file)?.st_size as u64,
        })
    }

    /// Drops the file's pages, and looks at a few.
    pub(super) fn drop_pages(&mut self, file: &File) {
        // It is advice: whether it was followed is looked at.
        let _ = fadvise(file, 0, None, Advice::DontNeed);
        let mut byte = [0];
        for part in 0..SAMPLE {
            let offset = self.length / SAMPLE * part;
            let mut vector = [IoSliceMut::new(&mut byte)];
            match preadv2(file, &mut vector, offset, ReadWriteFlags::NOWAIT) {
                Ok(_) => self.found += 1,
                Err(rustix::io::Errno::AGAIN) => {}
                // A file system that does not tell.
                Err(_) => return,
            }
            self.looked_at += 1;
        }
    }

    /// What the reader must know.
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
