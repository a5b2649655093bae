//! The structs of a request for ranges, and its results in memory of the program.

use crate::sized::{self, Sized32};
use laio::Errno;
use laio::ranges::{RangeStats, RequestedRanges};
use libc::{c_char, c_int, c_long, c_void, timespec};
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::slice;

/// One range, and its result.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct laio_range {
    /// Where it begins in the file.
    pub offset: u64,
    /// Where its bytes go.
    pub buffer: *mut c_void,
    /// Their number.
    pub length: usize,
    /// The number of bytes that were read, or -1.
    pub laio_return_value: c_long,
    /// 0, or the error.
    pub laio_errno: c_int,
    /// 0.
    pub laio_reserved: c_int,
}

/// Ranges of one file.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct laio_ranges {
    /// The size of the struct.
    pub size: u32,
    /// Whether to read past the page cache.
    pub flags: u32,
    /// The file.
    pub fd: c_int,
    /// The number of reads in flight at a time; 0 is the default.
    pub depth: u32,
    /// The ranges.
    pub ranges: *mut laio_range,
    /// Their number.
    pub count: usize,
    /// Handed back with the completion.
    pub user: *mut c_void,
    /// Null, or the time after which the request is cancelled.
    pub timeout: *const timespec,
    /// Null, or where the statistics go.
    pub stats: *mut laio_range_stats,
}

/// What a request has done.
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct laio_range_stats {
    /// The size of the struct.
    pub size: u32,
    /// 1 if reads were direct where possible.
    pub direct: u32,
    /// Why, or why not.
    pub reason: *const c_char,
    /// The reads that served the ranges.
    pub reads: u64,
    /// Reads from the device.
    pub direct_reads: u64,
    /// Their bytes.
    pub direct_bytes: u64,
    /// Reads through the page cache.
    pub cached_reads: u64,
    /// Their bytes.
    pub cached_bytes: u64,
    /// Cached reads of what was in the cache.
    pub found_in_cache: u64,
    /// Cached reads of what was read from the device before.
    pub read_before: u64,
    /// Cached reads of the partial block at the end of a file.
    pub file_ends: u64,
    /// Cached reads that repeat direct ones.
    pub repeated: u64,
}

const _: () = assert!(size_of::<laio_range>() == 40 && align_of::<laio_range>() == 8);
const _: () = assert!(size_of::<laio_ranges>() == 56 && align_of::<laio_ranges>() == 8);
const _: () = assert!(size_of::<laio_range_stats>() == 88 && align_of::<laio_range_stats>() == 8);

// SAFETY: begins with its size; numbers and pointers that are checked before use.
unsafe impl Sized32 for laio_ranges {
    const FIRST: usize = 56;
}

// SAFETY: begins with its size; numbers and a pointer that is only written.
unsafe impl Sized32 for laio_range_stats {
    const FIRST: usize = 88;
}

/// A range, and the memory for it.
pub(crate) type Wanted = (Range<u64>, NonNull<u8>);

/// Where the results of a request go: memory of the program, which belongs to the request.
#[derive(Debug)]
pub(crate) struct Results {
    ranges: NonNull<laio_range>,
    count: usize,
    stats: *mut laio_range_stats,
}

impl Results {
    /// # Safety
    /// The ranges and the statistics are null, or as `laio.h` says until the request is over.
    pub(crate) unsafe fn new(given: &laio_ranges) -> Result<Results, Errno> {
        let ranges = match NonNull::new(given.ranges) {
            Some(ranges) => ranges,
            None if given.count == 0 => NonNull::dangling(),
            None => return Err(Errno::FAULT),
        };
        if given.count > isize::MAX as usize / size_of::<laio_range>() {
            return Err(Errno::INVAL);
        }
        if !given.stats.is_null() {
            // SAFETY: by the caller.
            unsafe { sized::check(given.stats)? };
        }
        let (count, stats) = (given.count, given.stats);
        Ok(Results {
            ranges,
            count,
            stats,
        })
    }

    /// The ranges, and the memory for each.
    pub(crate) fn wanted(&self) -> Result<Vec<Wanted>, Errno> {
        // SAFETY: by the caller of `new`.
        let ranges = unsafe { slice::from_raw_parts(self.ranges.as_ptr(), self.count) };
        let one = |range: &laio_range| {
            let length = i64::try_from(range.length).map_err(|_| Errno::INVAL)?;
            let end = range.offset.checked_add_signed(length);
            let buffer = match NonNull::new(range.buffer.cast()) {
                Some(buffer) => buffer,
                None if length == 0 => NonNull::dangling(),
                None => return Err(Errno::FAULT),
            };
            Ok((range.offset..end.ok_or(Errno::INVAL)?, buffer))
        };
        ranges.iter().map(one).collect()
    }

    /// Writes the results of all ranges. Returns the result of the request: the number of bytes, or the first
    /// error.
    pub(crate) fn write(&self, read: io::Result<RequestedRanges>) -> Result<usize, Errno> {
        let (bytes, stats) = match read {
            Ok(read) => (read.bytes, read.stats),
            // Of the whole request: no range was read.
            Err(error) => {
                let errors = vec![Err(Errno::from(error)); self.count];
                (errors, RangeStats::default())
            }
        };
        let mut total = Ok(0);
        for (index, bytes) in bytes.iter().enumerate() {
            let (value, errno) = match bytes {
                Ok(bytes) => (bytes.len() as c_long, 0),
                Err(errno) => (-1, errno.raw()),
            };
            // SAFETY: by the caller of `new`: there is a range for each, and it may be written.
            unsafe {
                let range = self.ranges.add(index).as_ptr();
                (*range).laio_return_value = value;
                (*range).laio_errno = errno;
                (*range).laio_reserved = 0;
            }
            total = match (total, bytes) {
                (Ok(total), Ok(bytes)) => Ok(total + bytes.len()),
                (Ok(_), Err(errno)) => Err(*errno),
                (total, _) => total,
            };
        }
        if !self.stats.is_null() {
            // SAFETY: by the caller of `new`, which has checked the size, so that this does not fail.
            let _ = unsafe { sized::write(self.stats, &stats_in_c(&stats)) };
        }
        total
    }
}

fn stats_in_c(stats: &RangeStats) -> laio_range_stats {
    laio_range_stats {
        size: size_of::<laio_range_stats>() as u32,
        direct: stats.reason.is_direct().into(),
        reason: stats.reason.text().as_ptr(),
        reads: stats.reads,
        direct_reads: stats.direct_reads,
        direct_bytes: stats.direct_bytes,
        cached_reads: stats.cached_reads,
        cached_bytes: stats.cached_bytes,
        found_in_cache: stats.found_in_cache,
        read_before: stats.read_before,
        file_ends: stats.file_ends,
        repeated: stats.repeated,
    }
}
