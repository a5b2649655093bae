//! Perf events of one's own threads: the way by which another thread learns at once that this one has
//! blocked (`PERF_RECORD_SWITCH`).

use super::{Refusal, setting};
use crate::{Errno, sys};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Whether a thread's blocking can be observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfEvents {
    /// Opened, mapped, and seen to report a sleep of the probing thread.
    pub usable: Result<(), Refusal>,
    /// `/proc/sys/kernel/perf_event_paranoid`, where the kernel has it.
    pub paranoid: Option<i32>,
}

impl PerfEvents {
    pub(super) fn probe() -> PerfEvents {
        let paranoid = setting("/proc/sys/kernel/perf_event_paranoid");
        PerfEvents {
            usable: reports_a_sleep().map_err(|errno| refusal(errno, paranoid)),
            paranoid,
        }
    }
}

fn refusal(errno: Errno, paranoid: Option<i32>) -> Refusal {
    let meaning = match errno {
        Errno::NOSYS => "not in this kernel, or hidden by a filter".to_owned(),
        Errno::PERM | Errno::ACCES => match paranoid {
            Some(level) if level > 2 => {
                format!("forbidden by sysctl kernel.perf_event_paranoid = {level}")
            }
            _ => "forbidden by a filter, as in most containers, or by RLIMIT_MEMLOCK".to_owned(),
        },
        Errno::NODEV | Errno::OPNOTSUPP | Errno::NOENT => "not known to this kernel".to_owned(),
        Errno::TIME => "opens, but does not report that a thread sleeps".to_owned(),
        errno => errno.to_string(),
    };
    Refusal::new(errno, meaning)
}

/// `struct perf_event_attr` in its first published version: the kernel takes the rest for zeros.
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
}

const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const WATERMARK: u64 = 1 << 14;
const CONTEXT_SWITCH: u64 = 1 << 26;
const CLOSE_ON_EXEC: usize = 1 << 3;

/// Offset of `data_head` in `struct perf_event_mmap_page`: how many bytes the kernel has written.
const DATA_HEAD: usize = 1024;

/// Opens the event that unprivileged processes may open at the usual setting, and sleeps. Some events
/// open and then never report anything (those that count, with `exclude_kernel`), so opening proves
/// nothing. `ETIME` stands for that.
fn reports_a_sleep() -> Result<(), Errno> {
    let event = open_event()?;
    let page = rustix::param::page_size();
    let ring = Mapping::new(&event, 2 * page)?;
    for _ in 0..8 {
        std::thread::sleep(Duration::from_micros(100));
        if ring.word(DATA_HEAD) > 0 {
            return Ok(());
        }
    }
    Err(Errno::TIME)
}

/// The event of context switches of the calling thread.
fn open_event() -> Result<OwnedFd, Errno> {
    let attributes = Attributes {
        kind: SOFTWARE,
        size: size_of::<Attributes>() as u32,
        config: DUMMY,
        flags: EXCLUDE_KERNEL | WATERMARK | CONTEXT_SWITCH,
        wakeup_watermark: 1,
        ..Attributes::default()
    };
    let (own_thread, any_cpu, no_group) = (0, usize::MAX, usize::MAX);
    let args = [
        (&raw const attributes) as usize,
        own_thread,
        any_cpu,
        no_group,
        CLOSE_ON_EXEC,
    ];
    // SAFETY: the attributes live through the call and have the size that they say.
    let fd = unsafe { sys::raw(libc::SYS_perf_event_open, args)? };
    // SAFETY: the kernel has just made the descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// The event's control page and its ring, mapped.
struct Mapping {
    address: *mut c_void,
    length: usize,
}

impl Mapping {
    /// Writable, as by an owner who tells the kernel how far he has read.
    fn new(event: impl AsFd, length: usize) -> Result<Mapping, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                access,
                MapFlags::SHARED,
                event,
                0,
            )?
        };
        Ok(Mapping { address, length })
    }

    fn word(&self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.length);
        // SAFETY: within the mapping, aligned; volatile, because the kernel writes to it.
        unsafe { self.address.byte_add(offset).cast::<u64>().read_volatile() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and not used again. It cannot fail for a whole mapping.
        let _ = unsafe { munmap(self.address, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_is_the_kernels() {
        assert_eq!(size_of::<Attributes>(), 64);
    }

    #[test]
    fn tells_the_truth_or_a_reason() {
        if let Err(refusal) = PerfEvents::probe().usable {
            assert!(!refusal.meaning.is_empty());
            assert_ne!(refusal.errno, Errno::INVAL, "the attributes are wrong");
        }
    }
}
