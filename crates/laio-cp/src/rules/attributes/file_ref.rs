//! A file whose attributes are read or set: an open file or a name.

use crate::io::Io;
use crate::tree::Handle;
use laio::Errno;
use laio::ops::{Name, Open, RemoveAttribute, SetMode, SetOwner, SetTimes};
use laio_rt::fs::Metadata;
use std::ffi::CStr;
use std::io;
use std::sync::Arc;

/// A file whose attributes are read or set.
#[derive(Clone, Debug)]
pub(crate) enum FileRef {
    /// An open file.
    Open(Handle),
    /// A name; a symbolic link is not followed.
    Named(Name<Handle>),
}

/// Makes a blocking call on a [`FileRef`].
macro_rules! call_on {
    ($io:expr, $file:expr, $operation:ident, $($argument:expr),+) => {
        match $file {
            FileRef::Open(file) => $io.call_blocking($operation::new(file.clone(), $($argument),+)),
            FileRef::Named(name) => {
                $io.call_blocking($operation::named(name.clone(), $($argument),+))
            }
        }
    };
}
pub(super) use call_on;

impl FileRef {
    pub(crate) fn set_owner(
        &self,
        io: &Io,
        user: Option<u32>,
        group: Option<u32>,
    ) -> io::Result<()> {
        call_on!(io, self, SetOwner, user, group)
    }

    pub(crate) fn set_mode(&self, io: &Io, mode: u32) -> io::Result<()> {
        match (call_on!(io, self, SetMode, mode), self) {
            // `fchmodat2` needs Linux 6.6.
            (Err(error), FileRef::Named(name)) if errno(&error) == Some(Errno::NOSYS) => {
                let open = Open::new(name.clone(), libc::O_PATH | libc::O_NOFOLLOW);
                let file = Arc::new(io.call_blocking(open)?);
                io.call_blocking(SetMode::named(Name::of_open(file), mode).follow())
            }
            (result, _) => result,
        }
    }

    /// Sets access and modification time to those of `source`.
    pub(crate) fn set_times(&self, io: &Io, source: &Metadata) -> io::Result<()> {
        let (accessed, modified) = (Some(source.accessed()), Some(source.modified()));
        call_on!(io, self, SetTimes, accessed, modified)
    }

    pub(super) fn remove_attribute(&self, io: &Io, attribute: &CStr) -> io::Result<()> {
        call_on!(io, self, RemoveAttribute, attribute)
    }
}

/// The errno of a failed call.
pub(super) fn errno(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw)
}
