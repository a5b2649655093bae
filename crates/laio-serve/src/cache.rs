//! Files that are asked for often: in memory if they are small, else open, and never served when they have changed.
//!
//! A file is kept when it is asked for a second time. First the directories on its way are watched, then the file is
//! opened and watched, then it is read: so whatever changes it, or leads its name elsewhere, is told by the
//! kernel (inotify) from before it was looked at. What was told is heard before a request that came after it is
//! answered. Files whose changes are not told are not kept: those of file systems with a server behind them, and those
//! whose names go through symbolic links.

mod doorkeeper;
mod shelf;
mod watches;

use crate::contents::Contents;
use crate::open::{Found, Opened, examine, open_below};
use crate::options::Cache as Limits;
use crate::resident::Open;
use crate::resolve::enter;
use crate::site::Site;
use crate::worker::Worker;
use doorkeeper::{Doorkeeper, Sight};
use laio_rt::Descriptor;
use rustix::fs::{OFlags, ResolveFlags};
use shelf::{Kept, Shelf};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Instant;
use watches::{Told, Watch, Watches};

impl Worker {
    /// What a name is for, if it is kept, or is worth keeping from now on.
    ///
    /// # Errors
    /// Those of opening.
    pub(crate) async fn kept(&self, site: &Site, name: &[u8]) -> io::Result<Option<Found>> {
        let Some(cache) = &self.cache else {
            return Ok(None);
        };
        match cache.seek(site.number, name) {
            Sought::Kept(opened) => Ok(Some(Found::File(opened))),
            Sought::Seldom => Ok(None),
            Sought::Often => {
                let found = self.keep(cache, site, name).await;
                if !matches!(found, Ok(Some(Found::File(_)))) {
                    let state = &mut *cache.state.borrow_mut();
                    state.doorkeeper.refuse(name);
                    state.shelf.remove(site.number, name);
                }
                found
            }
        }
    }

    /// Opens a file and keeps it, if it can be told when it changes. None if it is to be opened as if there were no
    /// cache.
    async fn keep(&self, cache: &Cache, site: &Site, name: &[u8]) -> io::Result<Option<Found>> {
        let begun = cache.heard();
        let resolve = site.resolve | ResolveFlags::NO_SYMLINKS.bits();
        for directory in directories(name) {
            if cache.watches(site.number, directory) {
                continue;
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let Ok(opened) = open_below(site, directory, flags, resolve).await else {
                return Ok(None);
            };
            let opened = Descriptor::from(opened);
            if !is_told(&opened) || !cache.watch(begun, site.number, directory, &opened) {
                return Ok(None);
            }
        }
        let Ok(file) = open_below(site, name, crate::open::flags(), resolve).await else {
            // By a link, perhaps, that may be followed.
            return Ok(None);
        };
        let file = Descriptor::from(file);
        if !is_told(&file) {
            return examine(file).await.map(Some);
        }
        let Ok(watch) = cache.watches.watch(&file, Watches::FILE) else {
            return examine(file).await.map(Some);
        };
        let mut opened = match examine(file).await? {
            Found::File(opened) => opened,
            other => return Ok(Some(other)),
        };
        let size = opened.status.size();
        if let Contents::File(file) = &opened.contents
            && size > cache.limits.file_bytes as u64
        {
            opened.contents = Contents::Open(Rc::new(Open::new(file.clone(), size)));
        } else {
            let Some(contents) = self.whole(&opened).await? else {
                return Ok(None);
            };
            opened.contents = contents;
        }
        opened.fields = Some(Rc::default());
        cache.insert(begun, site.number, name, &opened, watch);
        Ok(Some(Found::File(opened)))
    }

    /// The contents of a small file. None if it has another length than it had.
    async fn whole(&self, opened: &Opened) -> io::Result<Option<Contents>> {
        let size = opened.status.size() as usize;
        let mut bytes = Vec::with_capacity(size);
        while bytes.len() < size {
            let (left, offset) = (size - bytes.len(), bytes.len() as u64);
            match self.read(&opened.contents, bytes, left, offset).await {
                Ok(more) => bytes = more,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(Contents::Memory(bytes.into())))
    }
}

/// The cache of one worker.
pub(crate) struct Cache {
    limits: Limits,
    watches: Rc<Watches>,
    state: RefCell<State>,
    /// The turn at whose beginning, or later, everything was heard.
    turn: Cell<u64>,
    hits: Cell<u64>,
}

/// A directory of a site, by name.
type Directory = (usize, Box<[u8]>);

struct State {
    shelf: Shelf,
    doorkeeper: Doorkeeper,
    /// The directories watched, by name, of each site.
    directories: Vec<HashMap<Box<[u8]>, Watch>>,
    /// And by watch: one directory may have several names, by bind mounts or by sites that overlap.
    names: HashMap<i32, Vec<Directory>>,
    forgot: Option<Instant>,
    /// Changes of mounts known of.
    mounts: u64,
    now: Instant,
}

/// What is known of a name.
enum Sought {
    Kept(Opened),
    /// Asked for before, and not kept.
    Often,
    Seldom,
}

impl Cache {
    /// None if there is to be none, or if the kernel has no more watches to give.
    pub(crate) fn new(limits: &Limits, sites: usize, workers: usize) -> Option<Cache> {
        if limits.files == 0 {
            return None;
        }
        let mut limits = limits.clone();
        // An eighth of all descriptors, for the caches of all workers together.
        let most = crate::descriptors::limit() / 8 / workers.max(1);
        limits.descriptors = limits.descriptors.min(most);
        Some(Cache {
            watches: Rc::new(Watches::new().ok()?),
            state: RefCell::new(State {
                shelf: Shelf::new(&limits, sites),
                doorkeeper: Doorkeeper::new(Limits::NAMES),
                directories: (0..sites).map(|_| HashMap::new()).collect(),
                names: HashMap::new(),
                forgot: None,
                mounts: 0,
                now: Instant::now(),
            }),
            limits,
            turn: Cell::new(u64::MAX),
            hits: Cell::new(0),
        })
    }

    /// Files that were asked for and had been kept.
    pub(crate) fn hits(&self) -> u64 {
        self.hits.get()
    }

    fn seek(&self, site: usize, name: &[u8]) -> Sought {
        self.hear();
        let state = &mut *self.state.borrow_mut();
        if let Some(kept) = state.shelf.get(site, name) {
            if let Some(opened) = self.fresh(kept, state.now) {
                return Sought::Kept(opened);
            }
            // This one renews it; until it has, others need not.
            kept.since.set(state.now);
            return Sought::Often;
        }
        match state.doorkeeper.see(name, state.now) {
            Sight::First | Sight::Refused => Sought::Seldom,
            Sight::Again => Sought::Often,
        }
    }

    /// A file that is kept.
    pub(crate) fn get(&self, site: usize, name: &[u8]) -> Option<Opened> {
        self.hear();
        let state = self.state.borrow();
        self.fresh(state.shelf.get(site, name)?, state.now)
    }

    fn fresh(&self, kept: &Kept, now: Instant) -> Option<Opened> {
        if now.saturating_duration_since(kept.since.get()) >= Limits::KEEPS {
            return None;
        }
        kept.asked.set(true);
        self.hits.set(self.hits.get() + 1);
        Some(kept.opened.clone())
    }

    /// Hears what has changed, once a turn: what has come from clients in the background had come before the turn
    /// began.
    fn hear(&self) {
        let turn = laio_rt::turn();
        if self.turn.replace(turn) == turn && !RECEIVED.take() {
            return;
        }
        RECEIVED.set(false);
        let state = &mut *self.state.borrow_mut();
        state.now = Instant::now();
        let mounts = laio_rt::with_context(|context| context.mount_changes());
        if mounts != state.mounts {
            state.mounts = mounts;
            self.watches.count();
            state.forget();
        }
        self.watches.hear(|told| state.changed(told));
    }

    /// A number that is another one when anything was told since.
    fn heard(&self) -> u64 {
        self.hear();
        self.watches.told()
    }

    fn watches(&self, site: usize, directory: &[u8]) -> bool {
        self.state.borrow().directories[site].contains_key(directory)
    }

    /// Watches a directory. False if something has changed since `begun`, so that it may not be the one of that
    /// name, or if it cannot be watched.
    fn watch(&self, begun: u64, site: usize, directory: &[u8], opened: &Descriptor) -> bool {
        let state = &mut *self.state.borrow_mut();
        if state.names.len() >= Limits::DIRECTORIES {
            let soon = |forgot| state.now.saturating_duration_since(forgot) < Limits::FORGETS;
            if !state.forgot.is_some_and(soon) {
                self.watches.count();
                state.forget();
            }
            return false;
        }
        let Ok(watch) = self.watches.watch(opened, Watches::DIRECTORY) else {
            return false;
        };
        if self.watches.told() != begun {
            return false;
        }
        let name: Box<[u8]> = directory.into();
        let names = state.names.entry(watch.number()).or_default();
        names.push((site, name.clone()));
        state.directories[site].insert(name, watch);
        true
    }

    /// Keeps a file, if nothing has changed since `begun`.
    fn insert(&self, begun: u64, site: usize, name: &[u8], opened: &Opened, watch: Watch) {
        self.turn.set(u64::MAX);
        self.hear();
        if self.watches.told() != begun {
            return;
        }
        let state = &mut *self.state.borrow_mut();
        let since = state.now;
        state.shelf.insert(Kept {
            site,
            name: name.into(),
            opened: opened.clone(),
            watch,
            since: Cell::new(since),
            asked: Cell::new(false),
        });
    }
}

impl State {
    /// Drops what a change is about.
    fn changed(&mut self, told: Told<'_>) {
        match told {
            Told::Lost => self.forget(),
            Told::Name(watch, file) => {
                let directories = self.names.get(&watch).cloned().unwrap_or_default();
                for (site, directory) in directories {
                    let mut name = directory.to_vec();
                    enter(&mut name, file);
                    self.shelf.remove(site, &name);
                    self.drop_directory(site, &name);
                }
                // A file that is watched itself is told of by its own watch too.
            }
            Told::Itself(watch) => {
                self.shelf.remove_watched(watch);
                for (site, directory) in self.names.get(&watch).cloned().unwrap_or_default() {
                    self.drop_directory(site, &directory);
                }
            }
        }
    }

    /// Drops a directory that is watched, and all below it.
    fn drop_directory(&mut self, site: usize, name: &[u8]) {
        if !self.directories[site].contains_key(name) {
            return;
        }
        let is_below = |other: &[u8]| {
            let rest = other.strip_prefix(name);
            rest.is_some_and(|rest| name.is_empty() || rest.is_empty() || rest[0] == b'/')
        };
        self.shelf
            .remove_if(|kept| kept.site == site && is_below(&kept.name));
        let names = &mut self.names;
        self.directories[site].retain(|directory, watch| {
            let stays = !is_below(directory);
            if !stays && let Some(own) = names.get_mut(&watch.number()) {
                own.retain(|(of, name)| (*of, name) != (site, directory));
                if own.is_empty() {
                    names.remove(&watch.number());
                }
            }
            stays
        });
    }

    fn forget(&mut self) {
        self.shelf.remove_if(|_| true);
        self.directories.iter_mut().for_each(HashMap::clear);
        self.names.clear();
        self.forgot = Some(self.now);
    }
}

/// The directories on the way to a file, the root first.
fn directories(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    std::iter::once(&name[..0]).chain(slashes.map(|(at, _)| &name[..at]))
}

/// Whether all changes of a file pass through this kernel, which tells of them: not where a server may be asked to
/// make them by others.
fn is_told(file: &Descriptor) -> bool {
    laio_rt::with_context(|context| {
        context.mount_of(file).is_some_and(|mount| {
            matches!(
                &mount.fstype[..],
                "ext2"
                    | "ext3"
                    | "ext4"
                    | "xfs"
                    | "btrfs"
                    | "f2fs"
                    | "bcachefs"
                    | "tmpfs"
                    | "overlay"
                    | "squashfs"
                    | "erofs"
                    | "iso9660"
            )
        })
    })
}

std::thread_local! {
    /// Something was received in this turn, rather than before it.
    static RECEIVED: Cell<bool> = const { Cell::new(false) };
}

/// Notes that a client's bytes have come in the turn that `turn` was the number of, if they have: what has
/// changed before they were sent must be heard then, though this turn's changes were.
pub(crate) fn note_received(turn: u64) {
    if laio_rt::turn() == turn {
        RECEIVED.set(true);
    }
}

#[cfg(test)]
mod tests {
    use super::directories;

    #[test]
    fn the_way_to_a_file() {
        let all = |name: &'static str| -> Vec<&str> {
            let each = directories(name.as_bytes());
            each.map(|name| std::str::from_utf8(name).unwrap())
                .collect()
        };
        assert_eq!(all("file"), [""]);
        assert_eq!(all("a/b/file"), ["", "a", "a/b"]);
    }
}
