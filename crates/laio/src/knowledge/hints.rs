//! Hints: what a context remembers of each descriptor.
//!
//! A hint may be stale, because a descriptor can be closed behind the context's back. Hints
//! therefore only choose which of several safe attempts is made first; see [`crate::attempt`].
//!
//! The order of [`crate::Context::set_ordered`] is no hint, but the program's wish. It is kept
//! here because it ends with the hints: when the descriptor is closed, and with [`crate::Context::forget`].

use super::habits::{Habit, Kind};
use super::mounts::{FileKind, MountIndex};
use crate::fd_table::FdTable;
use std::os::fd::RawFd;

/// The hints of all descriptors, by number.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    entries: FdTable<Hint>,
}

/// What is remembered of one descriptor.
#[derive(Clone, Copy, Debug, Default)]
struct Hint {
    kind: Option<FileKind>,
    mount: Option<MountIndex>,
    not_direct_io: bool,
    writes_to_cache: bool,
    ordered: bool,
    habits: [Habit; Kind::COUNT],
}

impl Hints {
    /// The cached kind of file of the descriptor.
    #[inline]
    pub(crate) fn kind(&self, fd: RawFd) -> Option<FileKind> {
        self.entries.get(fd)?.kind
    }

    /// The cached mount of the descriptor.
    #[inline]
    pub(crate) fn mount(&self, fd: RawFd) -> Option<MountIndex> {
        self.entries.get(fd)?.mount
    }

    /// Caches the kind and the mount of a descriptor.
    pub(crate) fn learn(&mut self, fd: RawFd, kind: FileKind, mount: Option<MountIndex>) {
        if let Some(hint) = self.entries.track(fd) {
            // No attempt depends on directories.
            hint.kind = (kind != FileKind::Directory).then_some(kind);
            hint.mount = mount;
        }
    }

    /// Whether the descriptor is known to use the page cache (no `O_DIRECT`).
    #[inline]
    pub(crate) fn not_direct_io(&self, fd: RawFd) -> bool {
        self.entries.get(fd).is_some_and(|hint| hint.not_direct_io)
    }

    /// Sets or clears the hint that the descriptor uses the page cache.
    pub(crate) fn set_not_direct_io(&mut self, fd: RawFd, not_direct_io: bool) {
        if let Some(hint) = self.entries.track(fd) {
            hint.not_direct_io = not_direct_io;
            hint.writes_to_cache &= not_direct_io;
        }
    }

    /// Whether writes are known to end in the page cache (no `O_DIRECT`, `O_SYNC` or `O_DSYNC`).
    pub(crate) fn writes_to_cache(&self, fd: RawFd) -> bool {
        self.entries
            .get(fd)
            .is_some_and(|hint| hint.writes_to_cache)
    }

    /// Sets the hint that writes end in the page cache.
    pub(crate) fn set_writes_to_cache(&mut self, fd: RawFd) {
        if let Some(hint) = self.entries.track(fd) {
            hint.writes_to_cache = true;
        }
    }

    /// How calls of a kind on the descriptor have ended.
    #[inline]
    pub(crate) fn habit(&self, fd: RawFd, kind: Kind) -> Habit {
        let hint = self.entries.get(fd);
        hint.map_or(Habit::default(), |hint| hint.habits[kind as usize])
    }

    /// Changes how calls of a kind on the descriptor have ended.
    pub(crate) fn change_habit(&mut self, fd: RawFd, kind: Kind, change: impl FnOnce(&mut Habit)) {
        if let Some(hint) = self.entries.track(fd) {
            change(&mut hint.habits[kind as usize]);
        }
    }

    /// Whether the program wants all calls on the descriptor to run in order.
    pub(crate) fn is_ordered(&self, fd: RawFd) -> bool {
        self.entries.get(fd).is_some_and(|hint| hint.ordered)
    }

    /// Makes all later calls on the descriptor run in order, or no longer.
    pub(crate) fn set_ordered(&mut self, fd: RawFd, ordered: bool) {
        if let Some(hint) = self.entries.track(fd) {
            hint.ordered = ordered;
        }
    }

    /// Clears the hints of a descriptor that is closed or replaced.
    #[inline]
    pub(crate) fn forget(&mut self, fd: RawFd) {
        if let Some(hint) = self.entries.get_mut(fd) {
            *hint = Hint::default();
        }
    }

    /// Clears the hints of a range of descriptors.
    pub(crate) fn forget_range(&mut self, first: RawFd, last: RawFd) {
        for fd in self.entries.tracked(first, last) {
            self.forget(fd);
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.entries.memory()
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use crate::{BackendKind, Call, Context, Errno, Options, Outcome};
    use std::os::fd::{AsRawFd, IntoRawFd, RawFd};

    fn call<const N: usize>(
        context: &mut Context,
        number: libc::c_long,
        args: [usize; N],
    ) -> Result<usize, Errno> {
        // SAFETY: none of the calls here has a pointer.
        match unsafe { context.call(Call::new(number, args)) } {
            Outcome::Done(result) => result,
            Outcome::Pending(_) => {
                let mut found = Vec::new();
                context.poll(&mut found, None).unwrap();
                found[0].result
            }
        }
    }

    /// A descriptor with hints.
    fn hinted(context: &mut Context) -> RawFd {
        let fd = std::io::pipe().unwrap().0.into_raw_fd();
        context.set_ordered(fd, true).unwrap();
        fd
    }

    #[test]
    fn hints_end_when_a_call_closes_the_descriptor() {
        // A table of descriptors of its own: other tests must not get the numbers meanwhile.
        let body = || {
            // SAFETY: only this thread's table changes.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
            for backend in [BackendKind::Sync, BackendKind::Threads, BackendKind::Lazy] {
                let mut context = Context::new(Options::new().backend(backend)).unwrap();
                let other = std::io::pipe().unwrap().0;
                let from = other.as_raw_fd() as usize;
                let unshare = libc::CLOSE_RANGE_UNSHARE as usize;
                for number in [libc::SYS_close, libc::SYS_close_range, libc::SYS_dup3] {
                    for flags in [0, unshare] {
                        let fd = hinted(&mut context);
                        let word = fd as usize;
                        let args = match number {
                            libc::SYS_close => [word, 0, 0],
                            libc::SYS_close_range => [word, word, flags],
                            _ => [from, word, 0],
                        };
                        assert!(call(&mut context, number, args).is_ok());
                        let ordered = context.knowledge.hints.is_ordered(fd);
                        assert!(!ordered, "{backend} {number} {flags}");
                    }
                }
                // A call that fails closes nothing.
                let fd = hinted(&mut context);
                let cloexec = libc::O_CLOEXEC as usize;
                for (number, args) in [
                    (libc::SYS_dup3, [usize::MAX, fd as usize, cloexec]),
                    (libc::SYS_dup3, [from, fd as usize, usize::MAX]),
                    (libc::SYS_close_range, [fd as usize, 0, 0]),
                ] {
                    assert!(call(&mut context, number, args).is_err());
                    let ordered = context.knowledge.hints.is_ordered(fd);
                    assert!(ordered, "{backend} {number}");
                }
            }
        };
        std::thread::spawn(body).join().unwrap();
    }
}
