//! A cache of files that are requested often: the contents of small files, the descriptors of
//! larger ones. A changed file is never served from it.
//!
//! A file is cached at its second request, in this order: watch the directories of its path, open
//! the file, watch it, read it. So the kernel queues an inotify event for every change of the file
//! or its path since before the file was opened. Pending inotify events are processed before
//! answering any request received after them. Files without reliable inotify events are not cached:
//! those on network and FUSE file systems, and those whose path contains symbolic links.

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
    /// Returns the cached file of a name, or caches it if it is requested often.
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

    /// Opens a file and caches it, if inotify reports its changes. Returns none if the caller
    /// should open it without the cache.
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
            // The path may contain a symbolic link that the site follows.
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

    /// Reads the contents of a small file. Returns none if its length has changed.
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
    /// The last executor turn in which pending inotify events were processed.
    turn: Cell<u64>,
    hits: Cell<u64>,
}

/// A directory of a site, by name.
type Directory = (usize, Box<[u8]>);

struct State {
    shelf: Shelf,
    doorkeeper: Doorkeeper,
    /// The watched directories of each site, by name.
    directories: Vec<HashMap<Box<[u8]>, Watch>>,
    /// The same directories by watch: bind mounts and overlapping sites can give a directory
    /// several names.
    names: HashMap<i32, Vec<Directory>>,
    forgot: Option<Instant>,
    /// The number of mount changes processed so far.
    mounts: u64,
    now: Instant,
}

/// The result of looking up a name.
enum Sought {
    Kept(Opened),
    /// Not cached, but requested before.
    Often,
    Seldom,
}

impl Cache {
    /// Returns none if the cache is disabled or the kernel has no more inotify instances.
    pub(crate) fn new(limits: &Limits, sites: usize, workers: usize) -> Option<Cache> {
        if limits.files == 0 {
            return None;
        }
        let mut limits = limits.clone();
        // The caches of all workers together may use an eighth of all descriptors.
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

    /// Returns the number of requests answered from the cache.
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
            // This request reopens the file; until then, other requests may use the cached one.
            kept.since.set(state.now);
            return Sought::Often;
        }
        match state.doorkeeper.see(name, state.now) {
            Sight::First | Sight::Refused => Sought::Seldom,
            Sight::Again => Sought::Often,
        }
    }

    /// Returns a cached file.
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

    /// Drains the inotify queue once per executor turn. Requests that completed in the background
    /// arrived before the turn started, so one drain covers them.
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

    /// Drains the inotify queue and returns the number of events so far.
    fn heard(&self) -> u64 {
        self.hear();
        self.watches.told()
    }

    fn watches(&self, site: usize, directory: &[u8]) -> bool {
        self.state.borrow().directories[site].contains_key(directory)
    }

    /// Watches a directory. Returns false if the event number is no longer `begun`, because the
    /// opened directory may have lost its name, or if the directory cannot be watched.
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

    /// Caches a file, if the event number is still `begun`.
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
    /// Drops the cached files that an event invalidates.
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
            }
            Told::Itself(watch) => {
                self.shelf.remove_watched(watch);
                for (site, directory) in self.names.get(&watch).cloned().unwrap_or_default() {
                    self.drop_directory(site, &directory);
                }
            }
        }
    }

    /// Drops a watched directory and everything below it.
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

/// Returns the directories of the path of a file, the root first.
fn directories(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    std::iter::once(&name[..0]).chain(slashes.map(|(at, _)| &name[..at]))
}

/// Whether inotify reports all changes of a file. On network and FUSE file systems other clients
/// can change it without an event.
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
    /// Bytes were received during this executor turn, not before it.
    static RECEIVED: Cell<bool> = const { Cell::new(false) };
}

/// Records that bytes from a client arrived, if `turn` is the current executor turn. The inotify
/// queue must then be drained again in this turn, because the file may have changed after the last
/// drain and before the request.
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
