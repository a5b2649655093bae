//! inotify watches on files and directories.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;

/// An inotify instance and its watches.
pub(super) struct Watches {
    queue: OwnedFd,
    /// The number of [`Watch`]es for each kernel watch: inotify has one per inode, whatever its
    /// names.
    shared: RefCell<HashMap<i32, usize>>,
    event_count: Cell<u64>,
}

/// A watched file or directory, unwatched on drop.
pub(in crate::files) struct Watch {
    number: i32,
    watches: Rc<Watches>,
}

/// An inotify event.
pub(super) enum FileEvent<'a> {
    /// The entry with this name in the watched directory changed.
    Name(i32, &'a [u8]),
    /// The watched file or directory itself changed, or the kernel removed the watch (`IGNORED`,
    /// `UNMOUNT`).
    Itself(i32),
    /// The kernel dropped events (`fs.inotify.max_queued_events`).
    Overflow,
}

impl Watches {
    /// Events that can mean a changed file. Includes `CLOSE_WRITE`, because writes through mapped
    /// memory cause no `MODIFY`.
    pub(super) const FILE: WatchFlags = WatchFlags::MODIFY
        .union(WatchFlags::ATTRIB)
        .union(WatchFlags::CLOSE_WRITE)
        .union(WatchFlags::MOVE_SELF)
        .union(WatchFlags::DELETE_SELF);
    /// Events that can change what a name refers to. `CREATE` is not needed: a name that did not
    /// exist cannot be cached.
    pub(super) const DIRECTORY: WatchFlags = WatchFlags::MOVED_FROM
        .union(WatchFlags::MOVED_TO)
        .union(WatchFlags::DELETE)
        .union(WatchFlags::ATTRIB)
        .union(WatchFlags::MOVE_SELF)
        .union(WatchFlags::DELETE_SELF);

    /// Creates an inotify instance.
    ///
    /// # Errors
    /// `EMFILE` also when the user has too many instances (`fs.inotify.max_user_instances`).
    pub(super) fn new() -> io::Result<Watches> {
        Ok(Watches {
            queue: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?,
            shared: RefCell::default(),
            event_count: Cell::new(0),
        })
    }

    /// Watches an open file. Uses its name below `/proc/self/fd`, whose lookup cannot block.
    ///
    /// # Errors
    /// `ENOSPC` when the user has too many watches (`fs.inotify.max_user_watches`), `EACCES` for
    /// unreadable files, `ENOENT` without `/proc`.
    pub(super) fn watch(self: &Rc<Self>, file: impl AsFd, what: WatchFlags) -> io::Result<Watch> {
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        let number = inotify::add_watch(&self.queue, path, what)?;
        *self.shared.borrow_mut().entry(number).or_default() += 1;
        let watches = self.clone();
        Ok(Watch { number, watches })
    }

    /// Returns the number of events so far.
    pub(super) fn event_count(&self) -> u64 {
        self.event_count.get()
    }

    /// Counts an event, to invalidate everything that is being cached.
    pub(super) fn count_event(&self) {
        self.event_count.set(self.event_count.get() + 1);
    }

    /// Passes all pending events to `changed`.
    pub(super) fn drain(&self, mut changed: impl FnMut(FileEvent<'_>)) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.queue, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    // No known error. Drop everything, because events may be lost.
                    self.count_event();
                    return changed(FileEvent::Overflow);
                }
            };
            self.count_event();
            changed(if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                FileEvent::Overflow
            } else if let Some(name) = event.file_name() {
                FileEvent::Name(event.wd(), name.to_bytes())
            } else {
                FileEvent::Itself(event.wd())
            });
        }
    }
}

impl Watch {
    /// Returns the kernel's watch descriptor.
    pub(super) fn number(&self) -> i32 {
        self.number
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut shared = self.watches.shared.borrow_mut();
        let Some(count) = shared.get_mut(&self.number) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            shared.remove(&self.number);
            // EINVAL: the kernel removed the watch together with the file.
            let _ = inotify::remove_watch(&self.watches.queue, self.number);
        }
    }
}
