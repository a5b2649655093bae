//! Opening a file and reading its status, with as few system calls as a program that may block.

use super::outputs::descriptor;
use super::status::FileStatus;
use super::{Name, Open};
use crate::Examined;
use rustix::fs::{OFlags, fcntl_setfl};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

operation! {
    /// Opens a file, and reads its status if that does not wait.
    ///
    /// An attempt costs two system calls. That of [`Open`] costs three: it also has to tell a file from a FIFO
    /// or device, which the status does here, and to remove `O_NONBLOCK`, for which see
    /// [`Opened::has_surplus_mode`].
    pub struct OpenStat<F: AsFd = OwnedFd> {
        open: Open<F>,
        load: usize,
        found: Found,
    }

    // SAFETY: the call is that of `open`, which is part of the operation.
    unsafe call(self) { self.open.call() }

    /// The open file. The errors are those of [`Open`].
    finish(self, result) -> io::Result<Opened> {
        let flags = OFlags::from_bits_retain(self.open.flags() as u32);
        Ok(Opened { descriptor: descriptor(result)?, flags, found: self.found })
    }

    fn wants_status(&self) -> bool {
        true
    }

    fn wants_loaded(&self) -> usize {
        self.load
    }

    fn examined(&mut self, examined: &Examined) {
        self.found = Found {
            status: examined.status().map(FileStatus::new),
            is_stored: examined.is_stored(),
            loaded: examined.loaded(),
            has_surplus_mode: examined.has_surplus_mode(),
        };
    }
}

/// What the attempt, or the helper, has learned of the file.
#[derive(Debug, Default)]
struct Found {
    status: Option<FileStatus>,
    is_stored: bool,
    loaded: usize,
    has_surplus_mode: bool,
}

impl<F> OpenStat<F> {
    /// Opens with `O_*` flags, as [`Open::new`].
    pub fn new(name: Name<F>, flags: i32) -> Self {
        Open::new(name, flags).into()
    }

    /// Where opening waits, a helper opens the file, reads its status, and brings at most this many bytes
    /// at its beginning into memory, for a program that will read or send them. The program waits once.
    pub fn load(mut self, bytes: usize) -> Self {
        self.load = bytes;
        self
    }

    /// [`OpenStat::load`] for a program that reads the whole file: at most [`OpenStat::WHOLE`] bytes of
    /// it, because a larger one is read in several steps anyway.
    pub fn load_whole(self) -> Self {
        self.load(Self::WHOLE)
    }

    /// How many bytes [`OpenStat::load_whole`] brings into memory at most.
    pub const WHOLE: usize = 1024 * 1024;
}

impl<F> From<Open<F>> for OpenStat<F> {
    fn from(open: Open<F>) -> Self {
        OpenStat {
            open,
            load: 0,
            found: Found::default(),
        }
    }
}

/// A file that was opened otherwise: of it nothing is known.
impl From<OwnedFd> for Opened {
    fn from(descriptor: OwnedFd) -> Self {
        Opened {
            descriptor,
            flags: OFlags::empty(),
            found: Found::default(),
        }
    }
}

/// A file that [`OpenStat`] has opened.
#[derive(Debug)]
pub struct Opened {
    descriptor: OwnedFd,
    /// The flags of the operation.
    flags: OFlags,
    found: Found,
}

impl Opened {
    /// Returns the status when the file was opened. `None` if the background has opened it, without
    /// [`OpenStat::load`], or its status could not be read without waiting:
    /// [`StatFile`](super::StatFile) reads it.
    pub fn status(&self) -> Option<&FileStatus> {
        self.found.status.as_ref()
    }

    /// Returns how many bytes at the beginning of the file were brought into memory: see
    /// [`OpenStat::load`].
    pub fn loaded(&self) -> usize {
        self.found.loaded
    }

    /// Whether it is known to be a file or directory of a file system that stores files on a device of
    /// this machine or in memory, and on which `O_NONBLOCK` has no effect (ext4, xfs, btrfs, f2fs,
    /// tmpfs). A file's size then is the number of bytes in it.
    pub fn is_stored(&self) -> bool {
        self.found.is_stored
    }

    /// Whether the descriptor is in non-blocking mode although the flags do not ask for it. Only
    /// where [`Opened::is_stored`].
    pub fn has_surplus_mode(&self) -> bool {
        self.found.has_surplus_mode
    }

    /// Returns the descriptor in the mode for which the flags ask, as [`Open`] does.
    ///
    /// # Errors
    /// Those of `fcntl`; there are none for such a descriptor.
    pub fn into_descriptor(self) -> io::Result<OwnedFd> {
        if self.has_surplus_mode() {
            fcntl_setfl(&self.descriptor, self.flags)?;
        }
        Ok(self.descriptor)
    }

    /// Returns the descriptor as it is, for a program that keeps it to itself: see
    /// [`Opened::has_surplus_mode`]. The mode changes no result of a read, write or status.
    pub fn into_own_descriptor(self) -> OwnedFd {
        self.descriptor
    }
}
