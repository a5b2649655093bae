//! The memory of carriers: each has a slot with its control words, its stack, and a substitute for
//! the C library's thread block. Slots are found by address, so that a signal handler can find the
//! carrier that it interrupted.

use super::carrier::Carrier;
use crate::Errno;
use crate::sys::handoff::thread_pointer;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

/// Bytes of a slot.
const SLOT: usize = 64 * 1024;
/// Offset of the block that the thread pointer points to. The memory below it is a substitute for
/// thread-local variables, which a signal handler may access.
const BLOCK: usize = 16 * 1024;
const CONTROL: usize = 20 * 1024;
/// Offset of the guard page below the stack.
const GUARD: usize = 24 * 1024;
const STACK: usize = 28 * 1024;
const SLOTS_IN_CHUNK: usize = 64;
const CHUNK: usize = SLOT * SLOTS_IN_CHUNK;

/// Chunks of slots, mapped on demand and kept. One bit for each slot in use.
static CHUNKS: [(AtomicUsize, AtomicU64); Slot::MAX / SLOTS_IN_CHUNK] =
    [const { (AtomicUsize::new(0), AtomicU64::new(0)) }; Slot::MAX / SLOTS_IN_CHUNK];

/// A slot in use.
#[derive(Debug)]
pub(super) struct Slot(usize);

impl Slot {
    /// The maximum number of carriers of the process.
    pub(super) const MAX: usize = 4096;

    /// Takes a free slot. Without locks, so that a child forked at any time finds a consistent
    /// state.
    pub(super) fn take() -> Result<Slot, Errno> {
        for (base, used) in &CHUNKS {
            if base.load(SeqCst) == 0 {
                make_chunk(base)?;
            }
            let taken = used.fetch_update(SeqCst, SeqCst, |used| {
                (used != u64::MAX).then(|| used | (used + 1))
            });
            if let Ok(before) = taken {
                let slot = Slot(base.load(SeqCst) + before.trailing_ones() as usize * SLOT);
                slot.prepare()?;
                return Ok(slot);
            }
        }
        Err(Errno::AGAIN)
    }

    fn prepare(&self) -> Result<(), Errno> {
        // SAFETY: the slot is ours; no thread touches its guard page.
        unsafe {
            let guard = (self.0 + GUARD) as *mut _;
            mprotect(guard, STACK - GUARD, MprotectFlags::empty())?;
            // The start of a thread block as the compiler expects it: its own address, the stack
            // protector's canary, the pointer guard.
            let (own, block) = (thread_pointer() as *const usize, self.0 + BLOCK);
            let words = std::slice::from_raw_parts_mut(block as *mut usize, 8);
            words.fill(0);
            (words[0], words[2]) = (block, block);
            (words[5], words[6]) = (*own.add(5), *own.add(6));
        }
        Ok(())
    }

    /// The address of the carrier, which is not initialised.
    pub(super) fn carrier(&self) -> *mut Carrier {
        (self.0 + CONTROL) as *mut Carrier
    }

    /// The address for its thread pointer.
    pub(super) fn thread_pointer(&self) -> usize {
        self.0 + BLOCK
    }

    /// The upper end of its stack. It lies within the slot, so that a thread with an empty stack is
    /// found.
    pub(super) fn stack(&self) -> usize {
        self.0 + SLOT - 64
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if cfg!(laio_sanitized) {
            // Sanitizers do not see a thread end on its stack, and would report its reuse as a
            // race.
            return;
        }
        for (base, used) in &CHUNKS {
            let base = base.load(SeqCst);
            if (base..base + CHUNK).contains(&self.0) {
                used.fetch_and(!(1 << ((self.0 - base) / SLOT)), SeqCst);
            }
        }
    }
}

/// The carrier on whose stack an address lies. Async-signal-safe: it only reads.
pub(super) fn carrier_at(address: usize) -> Option<*mut Carrier> {
    for (base, used) in &CHUNKS {
        let base = base.load(SeqCst);
        if base == 0 {
            return None;
        }
        if (base..base + CHUNK).contains(&address) {
            let index = (address - base) / SLOT;
            let known = used.load(SeqCst) & (1 << index) != 0;
            return known.then_some((base + index * SLOT + CONTROL) as *mut Carrier);
        }
    }
    None
}

fn make_chunk(base: &AtomicUsize) -> Result<(), Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh mapping at an address of the kernel's choice; the one that loses the race is not used.
    unsafe {
        let chunk = mmap_anonymous(std::ptr::null_mut(), CHUNK, access, flags)?;
        if base
            .compare_exchange(0, chunk as usize, SeqCst, SeqCst)
            .is_err()
        {
            munmap(chunk, CHUNK)?;
        }
    }
    Ok(())
}

const _: () = assert!(size_of::<Carrier>() <= GUARD - CONTROL);
