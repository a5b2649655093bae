//! Step 4: open the file below the root, and look at it.

use crate::contents::Contents;
use crate::lanes;
use crate::observe::{self, Stage};
use crate::options::{Limits, Step};
use crate::shortage;
use crate::site::Site;
use crate::worker::Worker;
use laio::ops::{FileStatus, Name, Open, StatFile};
use laio_rt::Descriptor;
use rustix::fs::OFlags;
use std::cell::OnceCell;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A file that can be served.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) contents: Contents,
    pub(crate) status: Rc<FileStatus>,
    /// If it is kept: the fields of an answer with all of it, once they were written.
    pub(crate) fields: Option<Rc<OnceCell<Box<[u8]>>>>,
}

/// What a name led to.
#[derive(Debug)]
pub(crate) enum Found {
    File(Opened),
    Directory(Descriptor),
    /// A device, FIFO or socket, which is not served.
    Special,
}

impl Worker {
    /// Opens a name relative to the root of a site; an empty name is the root. No name leads out of it unless
    /// the site follows links: not by `..`, not by a link.
    ///
    /// # Errors
    /// Those of opening; `TimedOut` when that takes too long: the file is then left to open by itself, in the
    /// background.
    pub(crate) async fn open(&self, site: &Site, name: &[u8]) -> io::Result<Found> {
        for _ in 0..Limits::ROOM_TRIES {
            match self.try_open(site, name).await {
                Err(error) if self.makes_room(&error).await => {}
                found => return found,
            }
        }
        self.try_open(site, name).await
    }

    async fn try_open(&self, site: &Site, name: &[u8]) -> io::Result<Found> {
        let opening = async {
            let _turn = self.turns.turn(Step::Open).await;
            match self.kept(site, name).await? {
                Some(found) => Ok(found),
                None => look(site, name).await,
            }
        };
        match laio_rt::time::timeout(self.limits().open_time, opening).await {
            Ok(found) => found.inspect_err(|error| {
                if shortage::is_one(error) {
                    self.shortage.tell("files cannot be opened", error);
                }
            }),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Opens a file that belongs to the site's setting, such as an error page. None if it is not there.
    pub(crate) async fn open_file(&self, site: &Site, name: &[u8]) -> Option<Opened> {
        match self.open(site, name).await {
            Ok(Found::File(opened)) => Some(opened),
            _ => None,
        }
    }
}

/// Opens it as if there were no cache.
pub(crate) async fn look(site: &Site, name: &[u8]) -> io::Result<Found> {
    let begun = observe::begin();
    let file = open_below(site, name, flags(), site.resolve).await;
    observe::end(Stage::Open, begun);
    examine(Descriptor::from(file?)).await
}

/// What it is that was opened.
pub(crate) async fn examine(file: Descriptor) -> io::Result<Found> {
    let begun = observe::begin();
    let status = lanes::submit(Step::Stat, StatFile::new(file.clone())).await;
    observe::end(Stage::Stat, begun);
    let status = status?;
    if status.is_dir() {
        return Ok(Found::Directory(file));
    }
    if !status.is_file() {
        return Ok(Found::Special);
    }
    // Reads of the file itself may wait, in the background.
    // Not every file system can be read past the page cache.
    if !lanes::reads_directly() || rustix::fs::fcntl_setfl(&file, OFlags::DIRECT).is_err() {
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    }
    let contents = Contents::File(file);
    let status = Rc::new(status);
    Ok(Found::File(Opened {
        contents,
        status,
        fields: None,
    }))
}

/// Opens a name below the root of a site.
pub(crate) async fn open_below(
    site: &Site,
    name: &[u8],
    flags: OFlags,
    resolve: u64,
) -> io::Result<OwnedFd> {
    let name = if name.is_empty() { b"." } else { name };
    let mut races = 0;
    loop {
        // Names were checked for NUL when they were resolved.
        let name = Name::at(site.root.clone(), CString::new(name)?);
        let open = Open::new(name, flags.bits() as i32).resolve(resolve);
        match lanes::submit(Step::Open, open).await {
            // A directory on the way was renamed at the same moment (openat2), so that the kernel cannot tell
            // whether the name stays below the root.
            Err(error) if is_race(&error) && races < Limits::OPEN_RACES => races += 1,
            result => return result,
        }
    }
}

fn is_race(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::AGAIN.raw_os_error())
}

/// Non-blocking, so that a FIFO does not keep the request until somebody writes to it.
pub(crate) fn flags() -> OFlags {
    OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY
}
