//! Memory of carriers: each has a slot with its control words, its stack, and what stands in for a C library's
//! thread block. Slots are found by address, so that a signal handler can tell where it has come.

use super::carrier::Carrier;
use crate::Errno;
use crate::sys::handoff::thread_pointer;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

/// Bytes of a slot.
const SLOT: usize = 64 * 1024;
/// Where the block is that the thread pointer points to. What lies below stands in for thread-local variables: a
/// signal handler may touch them.
const BLOCK: usize = 16 * 1024;
const CONTROL: usize = 20 * 1024;
/// A page that nobody may touch, below the stack.
const GUARD: usize = 24 * 1024;
const STACK: usize = 28 * 1024;
const SLOTS_IN_CHUNK: usize = 64;
const CHUNK: usize = SLOT * SLOTS_IN_CHUNK;

/// Slots in chunks, which are made as they are needed and kept. A bit for each slot in use.
static CHUNKS: [(AtomicUsize, AtomicU64); Slot::MAX / SLOTS_IN_CHUNK] =
    [const { (AtomicUsize::new(0), AtomicU64::new(0)) }; Slot::MAX / SLOTS_IN_CHUNK];

/// A slot in use.
#[derive(Debug)]
pub(super) struct Slot(usize);

impl Slot {
    /// Carriers of the process at most.
    pub(super) const MAX: usize = 4096;

    /// Takes a free one. Without locks, so that a child forked at any time finds this in order.
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
        // SAFETY: the slot is ours; nobody touches its guard page.
        unsafe {
            let guard = (self.0 + GUARD) as *mut _;
            mprotect(guard, STACK - GUARD, MprotectFlags::empty())?;
            // The beginning of a thread's block as the compiler knows it: its own address, the stack protector's
            // canary, the key of stored pointers.
            let (own, block) = (thread_pointer() as *const usize, self.0 + BLOCK);
            let words = std::slice::from_raw_parts_mut(block as *mut usize, 8);
            words.fill(0);
            (words[0], words[2]) = (block, block);
            (words[5], words[6]) = (*own.add(5), *own.add(6));
        }
        Ok(())
    }

    /// The place of the carrier; it is not initialised.
    pub(super) fn carrier(&self) -> *mut Carrier {
        (self.0 + CONTROL) as *mut Carrier
    }

    /// Where its thread pointer points.
    pub(super) fn thread_pointer(&self) -> usize {
        self.0 + BLOCK
    }

    /// The upper end of its stack; itself in the slot, so that a thread which has not pushed anything is found.
    pub(super) fn stack(&self) -> usize {
        self.0 + SLOT - 64
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if cfg!(laio_sanitized) {
            // Sanitizers do not see how a thread ends on its stack, and would take the next one for a race.
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

/// The carrier on whose stack an address lies. For signal handlers: it reads, and nothing else.
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
