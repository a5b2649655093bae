//! Opening the file of a name below the root.

use super::{Config, Symlinks};
use crate::submit;
use laio::ops::{Name, Open, OpenFile, OpenStat, StatFile};
use laio::walk::{Walk, WalkStep};
use laio_http::files::{Attributes, Failure, Found};
use libc::{O_NOCTTY, O_NONBLOCK, RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS};
use rustix::fs::{OFlags, fcntl_setfl};
use std::ffi::CString;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

/// Opening a FIFO does not wait for a writer.
const FLAGS: i32 = O_NONBLOCK | O_NOCTTY;

/// How often a name is opened again after a race with a rename.
const RACES: u32 = 16;

/// Opens a name relative to the root.
pub(super) async fn open(config: &Config, name: &[u8]) -> Result<Found<OpenFile>, Failure> {
    let found = try_open(config, name).await;
    found.map_err(|error| Failure::of_errno(error.raw_os_error().unwrap_or(0)))
}

/// # Errors
/// Those of `openat2` and `statx`.
async fn try_open(config: &Config, name: &[u8]) -> io::Result<Found<OpenFile>> {
    let resolve = match config.symlinks {
        Symlinks::Within => RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
        Symlinks::Refuse => RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
        Symlinks::Follow => 0,
    };
    let mut races = 0;
    let opened = loop {
        let below = Name::at(config.root.clone(), CString::new(name)?);
        let open = Open::new(below, FLAGS).resolve(resolve);
        match submit(OpenStat::from(open)).await? {
            Err(error) if Walk::replaces(&error, resolve) => {
                break walked(config, name, resolve).await?.into();
            }
            // A directory of the path was renamed meanwhile, so that the kernel could not verify that
            // the name stays below the root.
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && races < RACES => races += 1,
            result => break result?,
        }
    };
    let (status, ignores_mode) = (opened.status().copied(), opened.is_stored());
    let file = OpenFile::from(opened.into_own_descriptor());
    let status = match status {
        Some(status) => status,
        None => submit(StatFile::new(file.clone())).await??,
    };
    if status.is_dir() {
        return Ok(Found::Directory);
    }
    if !status.is_file() {
        return Ok(Found::Special);
    }
    if !ignores_mode {
        // A read of the file itself may block: that happens in the background.
        fcntl_setfl(&file, OFlags::empty())?;
    }
    let modified = status.modified();
    let attributes = Attributes {
        inode: status.inode(),
        size: status.size(),
        modified: (modified.seconds, modified.nanoseconds),
    };
    Ok(Found::File(file, attributes))
}

/// Opens a name relative to the root, without `openat2`.
async fn walked(config: &Config, name: &[u8], resolve: u64) -> io::Result<OwnedFd> {
    let mut walk = Walk::new(config.root.clone(), &CString::new(name)?, FLAGS, resolve);
    loop {
        let after = match walk.step()? {
            WalkStep::Open(open) => walk.opened(submit(open).await?),
            WalkStep::ReadLink(read) => walk.link_read(submit(read).await?),
        };
        if let ControlFlow::Break(opened) = after {
            return opened;
        }
    }
}
