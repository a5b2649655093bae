//! What the kernel tells of files and directories (inotify).

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;

/// The queue of what is told, and who is told of.
pub(super) struct Watches {
    queue: OwnedFd,
    /// How many watches of ours stand for one of the kernel's: it has one for each file, whatever its names.
    shared: RefCell<HashMap<i32, usize>>,
    told: Cell<u64>,
}

/// A file or directory watched, until dropped.
pub(super) struct Watch {
    number: i32,
    watches: Rc<Watches>,
}

/// Something that has changed.
pub(super) enum Told<'a> {
    /// What has this name in the watched directory.
    Name(i32, &'a [u8]),
    /// What is watched.
    Itself(i32),
    /// More than the kernel keeps (`fs.inotify.max_queued_events`).
    Lost,
}

impl Watches {
    /// What can change a file: also when it is closed, since what was written through mapped memory is not told.
    pub(super) const FILE: WatchFlags = WatchFlags::MODIFY
        .union(WatchFlags::ATTRIB)
        .union(WatchFlags::CLOSE_WRITE)
        .union(WatchFlags::MOVE_SELF)
        .union(WatchFlags::DELETE_SELF);
    /// What can lead a name elsewhere. That a name is made is none of it: it was not there before.
    pub(super) const DIRECTORY: WatchFlags = WatchFlags::MOVED_FROM
        .union(WatchFlags::MOVED_TO)
        .union(WatchFlags::DELETE)
        .union(WatchFlags::ATTRIB)
        .union(WatchFlags::MOVE_SELF)
        .union(WatchFlags::DELETE_SELF);

    /// # Errors
    /// `EMFILE` also when the user has too many queues (`fs.inotify.max_user_instances`).
    pub(super) fn new() -> io::Result<Watches> {
        Ok(Watches {
            queue: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?,
            shared: RefCell::default(),
            told: Cell::new(0),
        })
    }

    /// Watches what is open: by the descriptor's own name, which needs no look-up that could wait.
    ///
    /// # Errors
    /// `ENOSPC` when the user has too many watches (`fs.inotify.max_user_watches`), `EACCES` for what may not be
    /// read, `ENOENT` where there is no `/proc`.
    pub(super) fn watch(self: &Rc<Self>, file: impl AsFd, what: WatchFlags) -> io::Result<Watch> {
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        let number = inotify::add_watch(&self.queue, path, what)?;
        *self.shared.borrow_mut().entry(number).or_default() += 1;
        let watches = self.clone();
        Ok(Watch { number, watches })
    }

    /// How much was told so far.
    pub(super) fn told(&self) -> u64 {
        self.told.get()
    }

    /// As if something were told.
    pub(super) fn count(&self) {
        self.told.set(self.told.get() + 1);
    }

    /// Hands over all that was told since the last time.
    pub(super) fn hear(&self, mut changed: impl FnMut(Told<'_>)) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.queue, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    // Not known to happen: then nothing may be trusted.
                    self.count();
                    return changed(Told::Lost);
                }
            };
            self.count();
            changed(if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                Told::Lost
            } else if let Some(name) = event.file_name() {
                Told::Name(event.wd(), name.to_bytes())
            } else {
                Told::Itself(event.wd())
            });
        }
    }
}

impl Watch {
    /// The kernel's number for it.
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
            // EINVAL: it has ended by itself, with the file.
            let _ = inotify::remove_watch(&self.watches.queue, self.number);
        }
    }
}
