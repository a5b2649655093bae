//! What a context knows: of the kernel, of file systems and of descriptors. [`crate::attempt`] and
//! [`crate::carry`] decide by it.

mod crossing;
pub(crate) mod dirty;
pub(crate) mod facts;
pub(crate) mod habits;
pub(crate) mod hints;
pub(crate) mod mounts;
pub(crate) mod tracer;

use crate::composition::{Composition, FastPaths};
use crate::table::{Attempt, Class, Row};
use crate::testing::Inject;
use crate::transfer::uses_position;
use crate::{Call, Errno, Options, Rights};
use dirty::DirtyRoom;
use facts::Facts;
use habits::{Habit, Kind};
use hints::Hints;
use mounts::{FileKind, Mounts, Place};
use std::os::fd::RawFd;

#[derive(Debug)]
pub(crate) struct Knowledge {
    pub(crate) facts: Facts,
    pub(crate) mounts: Mounts,
    pub(crate) hints: Hints,
    pub(crate) fast_paths: FastPaths,
    pub(crate) inject: Inject,
    /// See [`Options::trust_names`].
    pub(crate) trust_names: bool,
    /// Where buffered writes are made inline, [`Options::trust_writes`].
    pub(crate) dirty_room: Option<DirtyRoom>,
    /// Whether the rights never change: [`Rights::Settled`].
    pub(crate) settled_rights: bool,
    /// Whether plain calls may block the caller: in the `sync` back end, or if forced by
    /// [`Inject::force_inline`].
    pub(crate) blocks_inline: bool,
}

impl Knowledge {
    pub(crate) fn new(composition: &Composition, options: &Options) -> Knowledge {
        let facts = Facts::get();
        Knowledge {
            facts,
            mounts: Mounts::new(),
            hints: Hints::default(),
            fast_paths: FastPaths::new(&composition.strategies, facts.nowait, options.inject),
            inject: options.inject,
            trust_names: options.trust_names,
            dirty_room: options.trust_writes.then(DirtyRoom::default),
            settled_rights: options.whose_rights() == Rights::Settled,
            blocks_inline: composition.blocks_inline || options.inject.force_inline,
        }
    }

    /// Whether the cached hint says that the call transfers data of a file. If it is wrong, the
    /// program still does not block.
    pub(crate) fn is_known_file(&self, call: &Call) -> bool {
        self.hints.kind(call.descriptor(0)) == Some(FileKind::Regular)
    }

    /// Whether calls of this kind have blocked lately on this descriptor.
    #[inline]
    pub(crate) fn has_blocked(&self, row: &Row, call: &Call) -> bool {
        Kind::for_row(row)
            .is_some_and(|kind| !self.hints.habit(call.descriptor(0), kind).is_empty())
    }

    /// Whether a call on a file is expected to block, because calls of its kind on its descriptor
    /// have blocked nearly every time. If so, it counts as one that was not tried.
    pub(crate) fn skips(&mut self, row: &Row, call: &Call) -> bool {
        let Some(kind) = Kind::for_row(row) else {
            return false;
        };
        let fd = call.descriptor(0);
        let expected = self.hints.habit(fd, kind).is_expected()
            && (row.class != Class::Stream || self.is_known_file(call));
        if expected {
            self.hints.change_habit(fd, kind, Habit::skipped);
        }
        expected
    }

    /// Records whether a call on a file that was tried has blocked.
    #[cold]
    pub(crate) fn note_tried(&mut self, row: &Row, call: &Call, blocked: bool) {
        if let Some(kind) = Kind::for_row(row) {
            let fd = call.descriptor(0);
            self.hints
                .change_habit(fd, kind, |habit| habit.tried(blocked));
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

    /// Whether a short transfer may be continued (see [`InFlight::regular`](crate::operations::InFlight)).
    /// True for positioned calls; otherwise if the call reads or writes a regular file.
    pub(crate) fn may_continue_short(&mut self, row: &Row, call: &Call) -> bool {
        match (row.class, row.attempt) {
            (Class::FileRead | Class::FileWrite, _) if !uses_position(row, call) => true,
            (_, Attempt::NowaitRead | Attempt::NowaitWrite) => {
                self.is_regular_file(call.descriptor(0))
            }
            _ => false,
        }
    }

    /// Whether a call on an open file needs no request to a remote or FUSE file system.
    pub(crate) fn is_local(&mut self, fd: RawFd) -> bool {
        self.is_local_unless(fd, false)
    }

    /// As [`Knowledge::is_local`]. `suspect`: whether to examine the descriptor even if no remote file
    /// system was mounted when the table of mounts was read last.
    pub(crate) fn is_local_unless(&mut self, fd: RawFd, suspect: bool) -> bool {
        if !self.mounts.any_remote() && !suspect {
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

    /// The device number of the remote or FUSE file system that a call asks: 0 for one that is not known
    /// further, `None` for none, as far as can be seen without asking it. `regular`: see
    /// [`InFlight::regular`](crate::operations::InFlight). `suspect`: as for
    /// [`Knowledge::is_local_unless`]. `tried`: an attempt has read the name.
    pub(crate) fn asked_remote(
        &mut self,
        row: &Row,
        call: &Call,
        regular: bool,
        suspect: bool,
        tried: bool,
    ) -> Option<u64> {
        if row.file.is_some() {
            self.mounts.note_lookup();
            let tells = self.mounts.any_remote() && self.facts.cached_open;
            return if tells {
                crossing::remote_of_names(&mut self.mounts, row, call, tried)
            } else {
                None
            };
        }
        let of_file = match row.class {
            Class::FileRead | Class::FileWrite | Class::Path | Class::Instant => true,
            Class::Stream | Class::Waiting | Class::Thread | Class::Refused => regular,
        };
        let fd = call.descriptor(row.descriptors[0].filter(|_| of_file)?.arg);
        if self.is_local_unless(fd, suspect) {
            return None;
        }
        let mount = self.hints.mount(fd);
        Some(mount.map_or(0, |mount| self.mounts.get(mount).device))
    }

    /// Examines a descriptor and caches its kind and mount.
    pub(crate) fn look_at(&mut self, fd: RawFd) -> Result<FileKind, Errno> {
        let (kind, mount) = self.mounts.of(fd)?;
        self.hints.learn(fd, kind, mount);
        Ok(kind)
    }
}
