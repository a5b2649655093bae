//! Descriptors of directories. A bounded number stays open, independent of the tree's depth. A
//! directory that was closed is reopened when it is needed: from a directory below through `..`, or
//! by name from an open directory above. In both cases its device and inode are compared with the
//! recorded ones.

use crate::directory::{Directory, Entry, Handle, Handles, Side};
use crate::identity::{Identity, identity};
use crate::worker::Worker;
use laio::Errno;
use laio::ops::{Name, Open, StatFile};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The descriptors of a directory, if they are open.
#[derive(Debug, Default)]
pub(crate) struct HandleSlot(Mutex<Option<OpenHandles>>);

/// The descriptors of an open directory.
#[derive(Debug)]
struct OpenHandles {
    handles: Handles,
    /// `None`: not counted, and never closed.
    _counted: Option<CountGuard>,
}

/// The number of open directories, and its maximum.
#[derive(Debug)]
pub(crate) struct Descriptors {
    open: Arc<AtomicUsize>,
    max: usize,
}

/// Counts one open directory.
#[derive(Debug)]
struct CountGuard(Arc<AtomicUsize>);

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The directories that a worker opened, oldest first; some may be closed.
pub(crate) type OpenDirectories = VecDeque<Weak<Directory>>;

/// The number of directories that a worker keeps open: the current one and its parent; only the
/// current one if the maximum is 1.
const OPEN_MIN: usize = 2;

impl Descriptors {
    /// Allows at most `max` open directories, with two descriptors each.
    pub(crate) fn new(max: usize) -> Descriptors {
        Descriptors {
            open: Arc::default(),
            max,
        }
    }

    fn are_too_many(&self) -> bool {
        self.open.load(Ordering::Relaxed) > self.max
    }
}

impl HandleSlot {
    /// A slot that is never closed.
    pub(crate) fn always(handles: Handles) -> HandleSlot {
        HandleSlot(Mutex::new(Some(OpenHandles {
            handles,
            _counted: None,
        })))
    }

    pub(crate) fn get(&self) -> Option<Handles> {
        self.lock().as_ref().map(|open| open.handles.clone())
    }

    fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    /// Stores the descriptors; returns `false` if the directory is open already.
    fn set(&self, handles: Handles, count: &Arc<AtomicUsize>) -> bool {
        let mut slot = self.lock();
        if slot.is_some() {
            return false;
        }
        count.fetch_add(1, Ordering::Relaxed);
        *slot = Some(OpenHandles {
            handles,
            _counted: Some(CountGuard(count.clone())),
        });
        true
    }

    /// Closes the descriptors; operations in flight still hold them.
    pub(crate) fn close(&self) {
        // `close` runs after the lock is released.
        let open = self.lock().take();
        drop(open);
    }

    fn lock(&self) -> MutexGuard<'_, Option<OpenHandles>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    /// Returns the descriptors of a directory, which is reopened if necessary.
    pub(crate) fn handles_of(&self, directory: &Arc<Directory>) -> io::Result<Handles> {
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
            let source = self.reopen(&handles.source, &below.source)?;
            let target = self.reopen(&handles.target, &below.target)?;
            handles = Handles { source, target };
        }
        self.keep_open(directory, handles.clone());
        Ok(handles)
    }

    /// Opens the directories of an entry.
    pub(crate) fn open_handles(&self, entry: &mut Entry) -> io::Result<()> {
        if entry.handles.is_none() {
            entry.handles = Some(self.handles_of(&entry.directory)?);
        }
        Ok(())
    }

    /// Opens the destination of a directory that may be finished. It does not stay open.
    pub(crate) fn target_handle_of(&self, directory: &Directory) -> io::Result<Option<Handle>> {
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
            handle = self.reopen_as(&handle, &below.target, libc::O_PATH)?;
        }
        Ok(handle)
    }

    /// Keeps a directory open, and closes older ones above the maximum.
    pub(crate) fn keep_open(&self, directory: &Arc<Directory>, handles: Handles) {
        let descriptors = &self.session.descriptors;
        if !directory.open.set(handles, &descriptors.open) {
            return;
        }
        let mut opened = self.open_directories.borrow_mut();
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
    pub(crate) fn reopen_parent(&self, directory: &Directory, below: &Handles) {
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
            self.reopen(below, &up)
        };
        // On failure the parent is found by name later.
        if let (Ok(source), Ok(target)) = (
            up(&below.source, &above.source),
            up(&below.target, &above.target),
        ) {
            self.keep_open(above, Handles { source, target });
        }
    }

    fn reopen(&self, from: &Option<Handle>, side: &Side) -> io::Result<Option<Handle>> {
        self.reopen_as(from, side, libc::O_RDONLY)
    }

    /// Reopens one side of a directory, if it exists.
    fn reopen_as(
        &self,
        from: &Option<Handle>,
        side: &Side,
        how: i32,
    ) -> io::Result<Option<Handle>> {
        let Some(expected) = side.identity else {
            return Ok(None);
        };
        let mut flags = how | libc::O_DIRECTORY;
        if !side.follows {
            flags |= libc::O_NOFOLLOW;
        }
        let name = Name::from_path_in(from.clone(), &side.name)?;
        let opened = match self.call_blocking(Open::new(name.clone(), flags)) {
            // Search permission is enough for a directory that is only traversed.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.call_blocking(Open::new(name, flags | libc::O_PATH))
            }
            opened => opened,
        };
        let handle = Arc::new(opened?);
        let status = self.call_blocking(StatFile::new(handle.clone()))?;
        let found: Identity = identity(&status);
        match found == expected {
            true => Ok(Some(handle)),
            // Another directory has the name now.
            false => Err(Errno::STALE.into()),
        }
    }
}
