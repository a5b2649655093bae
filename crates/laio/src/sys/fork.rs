//! Detects, with one load, that this process is a forked child that inherited a context.

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The identity of this process: it changes with every kind of `fork` that copies memory, including
/// those that bypass the C library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    word: &'static AtomicU32,
    generation: u32,
}

impl Life {
    /// Returns the identity of the current process.
    pub(crate) fn current() -> Life {
        let word = word();
        let mut generation = word.load(Relaxed);
        if generation == 0 {
            // A child, or the first use. Several threads may get here; all must agree.
            let next = NEXT.fetch_add(1, Relaxed);
            generation = match word.compare_exchange(0, next, Relaxed, Relaxed) {
                Ok(_) => next,
                Err(theirs) => theirs,
            };
        }
        Life { word, generation }
    }

    /// Whether the process is still the one in which this was made.
    #[inline(always)]
    pub(crate) fn is_current(&self) -> bool {
        self.word.load(Relaxed) == self.generation
    }
}

/// Never 0, and copied into children, so that their generation differs from every ancestor's.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// A word on a page that the kernel replaces by zeros in a child (`MADV_WIPEONFORK`, Linux 4.14).
fn word() -> &'static AtomicU32 {
    static WORD: OnceLock<&'static AtomicU32> = OnceLock::new();
    WORD.get_or_init(|| {
        use rustix::mm;
        // Not the auxiliary vector that rustix reads: valgrind does not show it.
        // SAFETY: sysconf takes no pointers.
        let length = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice is never unmapped, is
        // aligned for any word, and is used as one atomic only.
        unsafe {
            let page = mm::mmap_anonymous(
                std::ptr::null_mut(),
                length,
                mm::ProtFlags::READ | mm::ProtFlags::WRITE,
                mm::MapFlags::PRIVATE,
            );
            match page {
                Ok(page) if mm::madvise(page, length, mm::Advice::LinuxWipeOnFork).is_ok() => {
                    NonNull::new_unchecked(page.cast::<AtomicU32>()).as_ref()
                }
                // Without the page or its wiping a child is not detected, which only matters to
                // programs that use laio in a forked child.
                _ => Box::leak(Box::new(AtomicU32::new(0))),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_another_life() {
        if laio_testing::lacks("wipe-on-fork") {
            return;
        }
        let life = Life::current();
        assert!(life.is_current());
        // SAFETY: the child only reads memory and leaves by _exit.
        unsafe {
            let pid = libc::fork();
            assert!(pid >= 0);
            if pid == 0 {
                let noticed =
                    !life.is_current() && Life::current().is_current() && !life.is_current();
                libc::_exit(if noticed { 0 } else { 1 });
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            assert_eq!(status, 0);
        }
        assert!(life.is_current());
    }
}
