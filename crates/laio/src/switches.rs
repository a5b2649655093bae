//! Records of perf about a thread of any process: when it leaves a processor and when it gets one, and
//! the addresses of its page faults that had to wait.
//!
//! For `laio stalls`, which may not contain unsafe code: a program that uses the library does not have
//! this.

use crate::{Errno, sys};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// The pages of records. Unprivileged users may lock 516 KiB for each processor.
const PAGES: usize = 8;

/// `struct perf_event_attr` in its third version, the first with a clock.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
}

const SOFTWARE: u32 = 1;
const MAJOR_FAULTS: u64 = 6;

/// A sample has the instruction, the thread, the time and the address; other records end with the thread and
/// the time.
const SAMPLE: u64 = 1 | 2 | 4 | 8;

const EXCLUDE_KERNEL: u64 = 1 << 5;
const WATERMARK: u64 = 1 << 14;
const TIME_IN_ALL: u64 = 1 << 18;
const USE_CLOCK: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;
const CLOSE_ON_EXEC: usize = 1 << 3;

/// Offsets of `data_head` and `data_tail` in `struct perf_event_mmap_page`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// What the kernel has recorded. Times are of the monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchRecord {
    /// The thread has left its processor; another one may have taken it away.
    Out {
        /// When.
        at: u64,
        /// Whether the thread could have run on.
        is_preemption: bool,
    },
    /// The thread has got a processor.
    In {
        /// When.
        at: u64,
    },
    /// A page fault outside of the kernel is over, which had to wait.
    Fault {
        /// When.
        at: u64,
        /// The address that the program has used.
        address: u64,
    },
    /// The ring was full, and so many records are lost.
    Lost(u64),
}

/// The records of one thread.
#[derive(Debug)]
pub struct SwitchRecords {
    _descriptor: OwnedFd,
    address: *mut c_void,
}

// SAFETY: the mapping belongs to the value, and only a thread that has the value exclusively reads it.
unsafe impl Send for SwitchRecords {}

impl SwitchRecords {
    /// Begins to record.
    ///
    /// # Errors
    /// If the kernel or a filter of system calls does not permit it, the thread does not exist, or this user
    /// has too many records.
    pub fn open(thread: u32) -> Result<SwitchRecords, Errno> {
        let descriptor = open(thread)?;
        // Mapped writable, so that the kernel honours `data_tail`.
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let no_place = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let address =
            unsafe { mmap(no_place, length(), access, MapFlags::SHARED, &descriptor, 0)? };
        Ok(SwitchRecords {
            _descriptor: descriptor,
            address,
        })
    }

    /// Takes the records that have arrived, in their order.
    pub fn take(&mut self, records: &mut Vec<SwitchRecord>) {
        // What the kernel has written before it moved the head is visible.
        let head = self.word(HEAD).load(Ordering::Acquire);
        let tail = self.word(TAIL).load(Ordering::Relaxed);
        let bytes = self.copy(tail, (head - tail) as usize);
        self.word(TAIL).store(head, Ordering::Release);
        parse(&bytes, records);
    }

    fn copy(&self, from: u64, count: usize) -> Vec<u8> {
        let capacity = length() - rustix::param::page_size();
        let count = count.min(capacity);
        let mut bytes = vec![0; count];
        let start = from as usize % capacity;
        let first = count.min(capacity - start);
        let data = self.address.wrapping_byte_add(rustix::param::page_size());
        let data: *const u8 = data.cast();
        // SAFETY: both parts are in the mapping, between the tail and the head, where the kernel does not
        // write until the tail has moved.
        unsafe {
            std::ptr::copy_nonoverlapping(data.add(start), bytes.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, bytes.as_mut_ptr().add(first), count - first);
        }
        bytes
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: within the mapping, aligned, and shared with the kernel as atomics are with a thread.
        unsafe { &*self.address.byte_add(offset).cast() }
    }
}

impl Drop for SwitchRecords {
    fn drop(&mut self) {
        // SAFETY: mapped by `open`, and not used again. It cannot fail for a whole mapping.
        let _ = unsafe { munmap(self.address, length()) };
    }
}

/// The control page, and the records.
fn length() -> usize {
    (1 + PAGES) * rustix::param::page_size()
}

fn open(thread: u32) -> Result<OwnedFd, Errno> {
    let attributes = Attributes {
        kind: SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: MAJOR_FAULTS,
        sample_period: 1,
        sample_type: SAMPLE,
        flags: EXCLUDE_KERNEL | WATERMARK | TIME_IN_ALL | USE_CLOCK | CONTEXT_SWITCH,
        wakeup_watermark: (PAGES * rustix::param::page_size() / 2) as u32,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    let (any_cpu, no_group) = (usize::MAX, usize::MAX);
    let args = [
        (&raw const attributes) as usize,
        thread as usize,
        any_cpu,
        no_group,
        CLOSE_ON_EXEC,
    ];
    // SAFETY: the attributes live through the call and have the size that they say.
    let fd = unsafe { sys::raw(libc::SYS_perf_event_open, args)? };
    // SAFETY: the kernel has just made the descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Each record begins with its type (4 bytes), flags (2) and size (2). Bytes that are no record end the list.
fn parse(mut bytes: &[u8], records: &mut Vec<SwitchRecord>) {
    const HEADER: usize = 8;
    while let Some(head) = word(bytes, 0) {
        let (kind, flags, size) = (head as u32, (head >> 32) as u16, (head >> 48) as usize);
        if size < HEADER || size > bytes.len() {
            return;
        }
        let (record, rest) = bytes.split_at(size);
        records.extend(parse_one(kind, flags, record));
        bytes = rest;
    }
}

fn parse_one(kind: u32, flags: u16, record: &[u8]) -> Option<SwitchRecord> {
    const LOST: u32 = 2;
    const SAMPLED: u32 = 9;
    const SWITCHED: u32 = 14;
    const OUT: u16 = 1 << 13;
    const PREEMPTED: u16 = 1 << 14;
    match kind {
        LOST => Some(SwitchRecord::Lost(word(record, 16)?)),
        SAMPLED => Some(SwitchRecord::Fault {
            at: word(record, 24)?,
            address: word(record, 32)?,
        }),
        SWITCHED if flags & OUT != 0 => Some(SwitchRecord::Out {
            at: word(record, 16)?,
            is_preemption: flags & PREEMPTED != 0,
        }),
        SWITCHED => Some(SwitchRecord::In {
            at: word(record, 16)?,
        }),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_struct_is_the_kernels() {
        assert_eq!(size_of::<Attributes>(), 96);
    }

    #[test]
    fn a_sleep_is_a_record() {
        if laio_testing::lacks("perf") {
            return laio_testing::skip("perf", "records of a thread");
        }
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut records = SwitchRecords::open(thread).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let mut taken = Vec::new();
        records.take(&mut taken);
        let out = taken.iter().position(|record| {
            matches!(
                record,
                SwitchRecord::Out {
                    is_preemption: false,
                    ..
                }
            )
        });
        let after = &taken[out.unwrap()..];
        let is_in = |record: &SwitchRecord| matches!(record, SwitchRecord::In { .. });
        assert!(after.iter().any(is_in), "{taken:?}");
        taken.clear();
        records.take(&mut taken);
        assert!(taken.len() < 3, "{taken:?}");
    }

    #[test]
    fn bytes_that_are_no_record_end_the_list() {
        let mut records = Vec::new();
        parse(&[0; 64], &mut records);
        parse(&[255; 64], &mut records);
        parse(&[14, 0, 0, 0, 0, 0, 8, 0], &mut records);
        assert_eq!(records, []);
    }
}
