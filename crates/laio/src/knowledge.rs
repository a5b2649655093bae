//! What a context knows: of the kernel, of file systems and of descriptors. Attempts decide by it.

pub(crate) mod facts;
pub(crate) mod hints;
pub(crate) mod mounts;

use crate::Errno;
use facts::Facts;
use hints::Hints;
use mounts::{FileKind, Mounts, Place};
use std::os::fd::RawFd;

#[derive(Debug)]
pub(crate) struct Knowledge {
    pub(crate) facts: Facts,
    pub(crate) mounts: Mounts,
    pub(crate) hints: Hints,
}

impl Knowledge {
    pub(crate) fn new() -> Knowledge {
        Knowledge {
            facts: Facts::get(),
            mounts: Mounts::new(),
            hints: Hints::default(),
        }
    }

    /// The kind of file behind a descriptor: from the cached hint, else by one `statx`.
    pub(crate) fn kind(&mut self, fd: RawFd) -> FileKind {
        if let Some(kind) = self.hints.kind(fd) {
            return kind;
        }
        self.look_at(fd).unwrap_or(FileKind::Stream)
    }

    /// Whether the descriptor is a regular file, checked by `statx`. Continuing a read on a stream
    /// would wait for data that never comes, so a cached hint is not enough.
    pub(crate) fn is_regular_file(&mut self, fd: RawFd) -> bool {
        let stream = self.hints.kind(fd).is_some_and(FileKind::is_stream);
        !stream && self.look_at(fd) == Ok(FileKind::Regular)
    }

    /// Whether a call on an open file needs no request to a remote or FUSE file system.
    pub(crate) fn is_local(&mut self, fd: RawFd) -> bool {
        if !self.mounts.any_remote() {
            return true;
        }
        // The hint may be stale, and a wrong guess would block, so the descriptor is examined.
        match self.look_at(fd) {
            Ok(kind) if kind.is_stream() => true,
            Ok(_) => self
                .hints
                .mount(fd)
                .is_some_and(|mount| self.mounts.get(mount).place != Place::Remote),
            // Not a descriptor: the call itself fails.
            Err(_) => true,
        }
    }

    /// Examines a descriptor and caches its kind and mount.
    pub(crate) fn look_at(&mut self, fd: RawFd) -> Result<FileKind, Errno> {
        let (kind, mount) = self.mounts.of(fd)?;
        self.hints.learn(fd, kind, mount);
        Ok(kind)
    }
}
