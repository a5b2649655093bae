//! Descriptors of directories: as many as there is room for stay open, whatever the depth of the tree. A
//! directory whose descriptors were given up is opened again when it is needed: from the directory below, which
//! knows it as `..`, or by its name from one above that is open. Either way it must be the one that it was.

use crate::directory::{Directory, Entry, Handle, Handles, Side};
use crate::made::{Identity, identity};
use crate::worker::Worker;
use laio::Errno;
use laio::ops::{Name, Open, StatFile};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The descriptors of a directory, if they are open.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<Option<Kept>>);

#[derive(Debug)]
struct Kept {
    handles: Handles,
    /// None: it is not counted, and stays.
    _counted: Option<Counted>,
}

/// Directories that are open.
#[derive(Debug)]
pub(crate) struct Descriptors {
    open: Arc<AtomicUsize>,
    most: usize,
}

/// One of them.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Those that a worker has opened, the oldest first; some may be closed by now.
pub(crate) type Opened = VecDeque<Weak<Directory>>;

/// A worker keeps this many open: where it is, and what is above; only where it is, if that is all that there may be.
const LEAST: usize = 2;

impl Descriptors {
    /// At most so many directories are to be open; each has two descriptors.
    pub(crate) fn new(most: usize) -> Descriptors {
        Descriptors {
            open: Arc::default(),
            most,
        }
    }

    fn are_too_many(&self) -> bool {
        self.open.load(Ordering::Relaxed) > self.most
    }
}

impl Slot {
    /// Open for as long as the copy takes.
    pub(crate) fn always(handles: Handles) -> Slot {
        Slot(Mutex::new(Some(Kept {
            handles,
            _counted: None,
        })))
    }

    pub(crate) fn get(&self) -> Option<Handles> {
        self.lock().as_ref().map(|kept| kept.handles.clone())
    }

    fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    /// False if it is open already.
    fn set(&self, handles: Handles, count: &Arc<AtomicUsize>) -> bool {
        let mut slot = self.lock();
        if slot.is_some() {
            return false;
        }
        count.fetch_add(1, Ordering::Relaxed);
        *slot = Some(Kept {
            handles,
            _counted: Some(Counted(count.clone())),
        });
        true
    }

    /// Gives the descriptors up; operations in flight still hold them.
    pub(crate) fn close(&self) {
        // Closed without the lock.
        let kept = self.lock().take();
        drop(kept);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worker {
    /// The descriptors of a directory, which is opened again if need be.
    pub(crate) fn open(&self, directory: &Arc<Directory>) -> io::Result<Handles> {
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
            let source = self.find(&handles.source, &below.source)?;
            let target = self.find(&handles.target, &below.target)?;
            handles = Handles { source, target };
        }
        self.keep_open(directory, handles.clone());
        Ok(handles)
    }

    /// The same for an entry of it.
    pub(crate) fn hold(&self, entry: &mut Entry) -> io::Result<()> {
        if entry.held.is_none() {
            entry.held = Some(self.open(&entry.directory)?);
        }
        Ok(())
    }

    /// The destination of a directory that may be done with already: it does not stay open.
    pub(crate) fn open_target(&self, directory: &Directory) -> io::Result<Option<Handle>> {
        let mut closed = Vec::new();
        let mut handle = None;
        for directory in directory.chain() {
            if let Some(handles) = directory.open.get() {
                handle = handles.target;
                break;
            }
            closed.push(directory);
        }
        for below in closed.into_iter().rev() {
            // It may have the permissions of its source by now.
            handle = self.find_as(&handle, &below.target, libc::O_PATH)?;
        }
        Ok(handle)
    }

    /// Keeps a directory open, and closes others if they are too many.
    pub(crate) fn keep_open(&self, directory: &Arc<Directory>, handles: Handles) {
        let descriptors = &self.shared.descriptors;
        if !directory.open.set(handles, &descriptors.open) {
            return;
        }
        let mut opened = self.opened.borrow_mut();
        opened.push_back(Arc::downgrade(directory));
        let alive = |directory: &Weak<Directory>| directory.upgrade();
        let least = LEAST.min(descriptors.most);
        while descriptors.are_too_many() && opened.len() > least {
            if let Some(oldest) = opened.pop_front().as_ref().and_then(alive) {
                oldest.open.close();
            }
        }
        if opened.len() > 2 * descriptors.most {
            opened.retain(|one| alive(one).is_some_and(|one| one.open.is_open()));
        }
    }

    /// Opens the directory above one that is to be closed, if it was given up: most likely it comes next.
    pub(crate) fn open_above(&self, directory: &Directory, below: &Handles) {
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
            self.find(below, &up)
        };
        // If not, it is found by its name.
        if let (Ok(source), Ok(target)) = (
            up(&below.source, &above.source),
            up(&below.target, &above.target),
        ) {
            self.keep_open(above, Handles { source, target });
        }
    }

    fn find(&self, from: &Option<Handle>, side: &Side) -> io::Result<Option<Handle>> {
        self.find_as(from, side, libc::O_RDONLY)
    }

    /// Opens one side of a directory again, if it was there.
    fn find_as(&self, from: &Option<Handle>, side: &Side, how: i32) -> io::Result<Option<Handle>> {
        let Some(expected) = side.identity else {
            return Ok(None);
        };
        let mut flags = how | libc::O_DIRECTORY;
        if !side.follows {
            flags |= libc::O_NOFOLLOW;
        }
        let name = Name::from_path_in(from.clone(), &side.name)?;
        let opened = match self.plainly(Open::new(name.clone(), flags)) {
            // It may be one that is only passed through.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.plainly(Open::new(name, flags | libc::O_PATH))
            }
            opened => opened,
        };
        let handle = Arc::new(opened?);
        let status = self.plainly(StatFile::new(handle.clone()))?;
        let found: Identity = identity(&status);
        match found == expected {
            true => Ok(Some(handle)),
            // Somebody has put another one in its place.
            false => Err(Errno::STALE.into()),
        }
    }
}
