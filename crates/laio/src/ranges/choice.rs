//! Whether ranges are read from the device (`O_DIRECT`) or through the page cache, and what was done.

use std::ffi::CStr;
use std::fmt;

/// Whether [reads of ranges](crate::ranges) bypass the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direct {
    /// All reads go through the page cache.
    #[default]
    Never,
    /// Files that are larger than half of the memory are read from the device, except what is in the page
    /// cache, and what was read from the device a short time ago: that is read through the cache, which
    /// keeps it.
    Auto,
    /// All reads bypass the page cache, where the file system can do that.
    Always,
}

/// Why the reads of one request were direct, or were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DirectReason {
    /// Not direct: [`Direct::Never`].
    #[default]
    NotAsked,
    /// Not direct: by [`Direct::Auto`], because the file is at most half as large as the memory.
    FitsMemory,
    /// Not direct: the file is no regular file that is open for reading.
    NoFile,
    /// Not direct: the file system is in memory, or on another machine, or says that it has no direct reads.
    FileSystem,
    /// Not direct: the file could not be opened a second time with `O_DIRECT`: no `/proc`, no right to read
    /// the file any more, or a file system without direct reads.
    Refused,
    /// Direct: by [`Direct::Auto`], because the file is larger than half of the memory.
    LargerThanMemory,
    /// Direct: [`Direct::Always`].
    Asked,
}

impl DirectReason {
    /// Whether there were direct reads, unless all were served otherwise.
    pub fn is_direct(self) -> bool {
        matches!(self, DirectReason::LargerThanMemory | DirectReason::Asked)
    }

    /// The reason in words, as it is printed, for programs in C.
    pub fn text(self) -> &'static CStr {
        match self {
            DirectReason::NotAsked => c"not direct: not asked for",
            DirectReason::FitsMemory => c"not direct: the file fits into half of the memory",
            DirectReason::NoFile => c"not direct: no regular file that is open for reading",
            DirectReason::FileSystem => c"not direct: not on this file system",
            DirectReason::Refused => c"not direct: the file cannot be opened with O_DIRECT",
            DirectReason::LargerThanMemory => c"direct: the file is larger than half of the memory",
            DirectReason::Asked => c"direct: asked for",
        }
    }
}

impl fmt::Display for DirectReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text().to_str().map_err(|_| fmt::Error)?)
    }
}

/// What one request for ranges has done, or several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeStats {
    /// The ranges that were asked for.
    pub ranges: u64,
    /// The reads that served them, after near ranges were joined and large ones split.
    pub reads: u64,
    /// Reads from the device.
    pub direct_reads: u64,
    /// The bytes of these, with what was added to fill blocks.
    pub direct_bytes: u64,
    /// Reads through the page cache.
    pub cached_reads: u64,
    /// The bytes of these.
    pub cached_bytes: u64,
    /// Of the cached reads: what [`Direct::Auto`] has found in the page cache.
    pub found_in_cache: u64,
    /// Of the cached reads: what [`Direct::Auto`] had read from the device before.
    pub read_before: u64,
    /// Of the cached reads: the end of a file that is no whole number of blocks.
    pub file_ends: u64,
    /// Of the cached reads: direct reads that failed or ended early, and were repeated.
    pub repeated: u64,
    /// Why the last request was direct or not.
    pub reason: DirectReason,
}

impl RangeStats {
    /// Adds what another request has done.
    pub fn add(&mut self, other: &RangeStats) {
        self.ranges += other.ranges;
        self.reads += other.reads;
        self.direct_reads += other.direct_reads;
        self.direct_bytes += other.direct_bytes;
        self.cached_reads += other.cached_reads;
        self.cached_bytes += other.cached_bytes;
        self.found_in_cache += other.found_in_cache;
        self.read_before += other.read_before;
        self.file_ends += other.file_ends;
        self.repeated += other.repeated;
        self.reason = other.reason;
    }
}

/// What is known about the pages of a piece in the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages {
    /// All are there.
    pub all: bool,
    /// Some have not been written to the device yet.
    pub dirty: bool,
}

/// Where one piece is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    Device,
    Cache,
    /// The cache, for one of the reasons that are counted.
    FoundInCache,
    ReadBefore,
    FileEnd,
    Repeated,
}

/// Decides where a piece of a direct request is read. `pages` and `read_before` are asked only where they
/// matter.
pub(super) fn place(
    is_auto: bool,
    ends_in_block: bool,
    pages: impl FnOnce() -> Pages,
    read_before: impl FnOnce() -> bool,
) -> From {
    if ends_in_block {
        return From::FileEnd;
    }
    if !is_auto {
        return From::Device;
    }
    let pages = pages();
    if pages.all || pages.dirty {
        // A direct read would first write the dirty pages, and wait for that.
        From::FoundInCache
    } else if read_before() {
        From::ReadBefore
    } else {
        From::Device
    }
}

/// Whether [`Direct`] asks for direct reads of a file of this size, in so much memory.
pub(super) fn is_wanted(direct: Direct, size: u64, memory: u64) -> Result<(), DirectReason> {
    match direct {
        Direct::Never => Err(DirectReason::NotAsked),
        Direct::Auto if size <= memory / 2 => Err(DirectReason::FitsMemory),
        Direct::Auto | Direct::Always => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_fits_stays_in_the_cache() {
        assert_eq!(
            is_wanted(Direct::Never, 100, 10),
            Err(DirectReason::NotAsked)
        );
        assert_eq!(
            is_wanted(Direct::Auto, 50, 100),
            Err(DirectReason::FitsMemory)
        );
        assert_eq!(is_wanted(Direct::Auto, 51, 100), Ok(()));
        assert_eq!(is_wanted(Direct::Always, 0, 100), Ok(()));
    }

    #[test]
    fn each_piece_has_its_place() {
        let pages = |all, dirty| Pages { all, dirty };
        let never = || unreachable!("not asked");
        let unknown = || -> Pages { unreachable!("not asked") };
        assert_eq!(place(true, true, unknown, never), From::FileEnd);
        assert_eq!(place(false, true, unknown, never), From::FileEnd);
        assert_eq!(place(false, false, unknown, never), From::Device);
        let found = |pages, before| place(true, false, || pages, || before);
        assert_eq!(found(pages(true, false), false), From::FoundInCache);
        assert_eq!(found(pages(false, true), false), From::FoundInCache);
        assert_eq!(found(pages(false, false), true), From::ReadBefore);
        assert_eq!(found(pages(false, false), false), From::Device);
    }
}
