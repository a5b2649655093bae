//! Descriptors of directories. A bounded number stays open, independent of the tree's depth. A
//! directory that was closed is reopened when it is needed: from a directory below through `..`, or
//! by name from an open directory above. In both cases its device and inode are compared with the
//! recorded ones.

use super::directory::{Directory, Entry, Side};
use super::handles::{Descriptors, Handle, Handles};
use super::identity::{Identity, identity};
use crate::io::Io;
use laio::Errno;
use laio::ops::{Name, Open, StatFile};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Weak};

/// The directories that a worker opened, oldest first; some may be closed.
pub(crate) struct OpenDirectories {
    opened: RefCell<VecDeque<Weak<Directory>>>,
    descriptors: Descriptors,
}

/// The number of directories that a worker keeps open: the current one and its parent; only the
/// current one if the maximum is 1.
const OPEN_MIN: usize = 2;

impl OpenDirectories {
    pub(crate) fn new(descriptors: Descriptors) -> OpenDirectories {
        OpenDirectories {
            opened: RefCell::default(),
            descriptors,
        }
    }

    /// Returns the descriptors of a directory, which is reopened if necessary.
    pub(crate) fn handles_of(&self, io: &Io, directory: &Arc<Directory>) -> io::Result<Handles> {
        if let Some(handles) = directory.open.get() {
            return Ok(handles);
        }
        let mut closed = vec![directory];
        let mut handles = loop {
            let above = closed.last().and_then(|below| below.parent.as_ref());
            let above = above.expect("the directory above all others is open");
            match above.open.get() {
                Some(handles) => break handles,
                None => closed.push(above),
            }
        };
        for below in closed.into_iter().rev() {
            let source = reopen(io, &handles.source, &below.source)?;
            let target = reopen(io, &handles.target, &below.target)?;
            handles = Handles { source, target };
        }
        self.keep_open(directory, handles.clone());
        Ok(handles)
    }

    /// Opens the directories of an entry.
    pub(crate) fn open_entry(&self, io: &Io, entry: &mut Entry) -> io::Result<()> {
        if entry.handles.is_none() {
            entry.handles = Some(self.handles_of(io, &entry.directory)?);
        }
        Ok(())
    }

    /// Keeps a directory open, and closes older ones above the maximum.
    pub(crate) fn keep_open(&self, directory: &Arc<Directory>, handles: Handles) {
        let descriptors = &self.descriptors;
        if !directory.open.set(handles, descriptors) {
            return;
        }
        let mut opened = self.opened.borrow_mut();
        opened.push_back(Arc::downgrade(directory));
        let alive = |directory: &Weak<Directory>| directory.upgrade();
        let min = OPEN_MIN.min(descriptors.max);
        while descriptors.are_too_many() && opened.len() > min {
            if let Some(oldest) = opened.pop_front().as_ref().and_then(alive) {
                oldest.open.close();
            }
        }
        if opened.len() > 2 * descriptors.max {
            opened.retain(|one| alive(one).is_some_and(|one| one.open.is_open()));
        }
    }

    /// Reopens the parent of a directory that is about to be closed: the parent is most likely
    /// needed next.
    pub(crate) fn reopen_parent(&self, io: &Io, directory: &Directory, below: &Handles) {
        let Some(above) = directory.parent.as_ref() else {
            return;
        };
        if above.open.is_open() {
            return;
        }
        let up = |below: &Option<Handle>, side: &Side| {
            let up = Side {
                name: "..".into(),
                ..side.clone()
            };
            reopen(io, below, &up)
        };
        // On failure the parent is found by name later.
        if let (Ok(source), Ok(target)) = (
            up(&below.source, &above.source),
            up(&below.target, &above.target),
        ) {
            self.keep_open(above, Handles { source, target });
        }
    }
}

/// Opens the destination of a directory that may be finished. It does not stay open.
pub(crate) fn target_handle_of(io: &Io, directory: &Directory) -> io::Result<Option<Handle>> {
    let mut closed = Vec::new();
    let mut handle = None;
    for directory in directory.self_and_ancestors() {
        if let Some(handles) = directory.open.get() {
            handle = handles.target;
            break;
        }
        closed.push(directory);
    }
    for below in closed.into_iter().rev() {
        // The directory may have its final permissions, which may not allow reading.
        handle = reopen_as(io, &handle, &below.target, libc::O_PATH)?;
    }
    Ok(handle)
}

fn reopen(io: &Io, from: &Option<Handle>, side: &Side) -> io::Result<Option<Handle>> {
    reopen_as(io, from, side, libc::O_RDONLY)
}

/// Reopens one side of a directory, if it exists.
fn reopen_as(io: &Io, from: &Option<Handle>, side: &Side, how: i32) -> io::Result<Option<Handle>> {
    let Some(expected) = side.identity else {
        return Ok(None);
    };
    let mut flags = how | libc::O_DIRECTORY;
    if !side.follows {
        flags |= libc::O_NOFOLLOW;
    }
    let name = Name::from_path_in(from.clone(), &side.name)?;
    let opened = match io.call_blocking(Open::new(name.clone(), flags)) {
        // Search permission is enough for a directory that is only traversed.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            io.call_blocking(Open::new(name, flags | libc::O_PATH))
        }
        opened => opened,
    };
    let handle = Arc::new(opened?);
    let status = io.call_blocking(StatFile::new(handle.clone()))?;
    let found: Identity = identity(&status);
    if found == expected {
        Ok(Some(handle))
    } else {
        // Another directory has the name now.
        Err(Errno::STALE.into())
    }
}
