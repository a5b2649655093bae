//! A cache of files that are requested often: the contents of small files, the descriptors of
//! larger ones. A changed file is never served from it, except after changes that cause no inotify
//! event (see [`CacheOptions::MAX_AGE`]).
//!
//! A file is cached when its name was requested before, in this order: watch the directories of its
//! path, open the file, watch it, read it. So the kernel queues an inotify event for every change
//! of the path since before the file was opened, and for every change of the contents since before
//! they were read. Pending inotify events are processed before answering any request received after
//! them. Files without reliable inotify events are not cached: only files on the local file system
//! types that `fill` lists are, and none whose path contains symbolic links.

mod admission;
mod inotify;
mod store;

use super::contents::{Contents, OpenFile, Opened};
use super::resolve::enter;
use admission::{Admission, AdmissionFilter};
use inotify::{FileEvent, Watch, Watches};
use laio::ops::FileStatus;
use laio_rt::Descriptor;
use laio_serve_base::options::Cache as CacheOptions;
use laio_serve_net::arrivals;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Instant;
use store::{CachedFile, CachedFiles};

/// The cache of one worker.
pub struct Cache {
    limits: CacheOptions,
    watches: Rc<Watches>,
    state: RefCell<State>,
    /// The last executor turn in which pending inotify events were processed.
    turn: Cell<u64>,
    hits: Cell<u64>,
}

/// A directory of a site, by name.
type Directory = (usize, Box<[u8]>);

struct State {
    files: CachedFiles,
    admission: AdmissionFilter,
    /// The watched directories of each site, by name.
    directories: Vec<HashMap<Box<[u8]>, Watch>>,
    /// The same directories by watch: bind mounts and overlapping sites can give a directory
    /// several names.
    names: HashMap<i32, Vec<Directory>>,
    cleared_at: Option<Instant>,
    /// The number of mount changes processed so far.
    mounts: u64,
    now: Instant,
}

/// The result of looking up a name.
pub(crate) enum CacheLookup<'a> {
    Hit(Opened),
    /// Not cached, but requested before; or cached for too long.
    Admit(Refill<'a>),
    Miss,
}

/// One request's attempt to cache a file. On drop, removes an expired entry of the name that the
/// attempt has not replaced, so that an expired entry is refilled or removed.
pub struct Refill<'a> {
    pub(super) cache: &'a Cache,
    site: usize,
    pub(super) name: &'a [u8],
}

impl Drop for Refill<'_> {
    fn drop(&mut self) {
        let files = &mut self.cache.state.borrow_mut().files;
        let file = files.get(self.site, self.name);
        if file.is_some_and(|file| file.expired.get()) {
            files.remove(self.site, self.name);
        }
    }
}

impl Cache {
    /// Returns `None` if the cache is disabled or the kernel has no more inotify instances.
    pub fn new(limits: &CacheOptions, sites: usize, workers: usize) -> Option<Cache> {
        if limits.files == 0 {
            return None;
        }
        let mut limits = limits.clone();
        // The caches of all workers together may use an eighth of all descriptors.
        let most = laio_serve_base::descriptors::limit() / 8 / workers.max(1);
        limits.descriptors = limits.descriptors.min(most);
        Some(Cache {
            watches: Rc::new(Watches::new().ok()?),
            state: RefCell::new(State {
                files: CachedFiles::new(&limits, sites),
                admission: AdmissionFilter::new(CacheOptions::NAMES),
                directories: (0..sites).map(|_| HashMap::new()).collect(),
                names: HashMap::new(),
                cleared_at: None,
                mounts: 0,
                now: Instant::now(),
            }),
            limits,
            turn: Cell::new(u64::MAX),
            hits: Cell::new(0),
        })
    }

    pub(super) fn limits(&self) -> &CacheOptions {
        &self.limits
    }

    /// Returns the number of requests answered from the cache.
    pub fn hits(&self) -> u64 {
        self.hits.get()
    }

    /// Counts a request answered from the cache.
    pub(crate) fn count_hit(&self) {
        self.hits.set(self.hits.get() + 1);
    }

    /// Returns a cached file, and counts the hit. Of a file that is not cached, records the request,
    /// which decides whether it is admitted.
    pub(crate) fn get_or_admit<'a>(&'a self, site: usize, name: &'a [u8]) -> CacheLookup<'a> {
        self.drain_events();
        let refill = || Refill {
            cache: self,
            site,
            name,
        };
        let state = &mut *self.state.borrow_mut();
        if let Some(file) = state.files.get(site, name) {
            if let Some(opened) = self.fresh(file, state.now) {
                self.count_hit();
                return CacheLookup::Hit(opened);
            }
            // This request reopens the file; until then, other requests may use the cached one, but
            // only once for `MAX_AGE`.
            if !file.expired.replace(true) {
                file.since.set(state.now);
            }
            return CacheLookup::Admit(refill());
        }
        match state.admission.record(site, name, state.now) {
            Admission::First | Admission::Refused => CacheLookup::Miss,
            Admission::Again => CacheLookup::Admit(refill()),
        }
    }

    /// Returns a cached file, and does not record the request. If the caller answers with it, it
    /// calls `Cache::count_hit`.
    pub fn get(&self, site: usize, name: &[u8]) -> Option<Opened> {
        self.drain_events();
        let state = self.state.borrow();
        self.fresh(state.files.get(site, name)?, state.now)
    }

    fn fresh(&self, file: &CachedFile, now: Instant) -> Option<Opened> {
        if now.saturating_duration_since(file.since.get()) >= CacheOptions::MAX_AGE {
            return None;
        }
        file.requested.set(true);
        Some(file.opened.clone())
    }

    /// Processes the pending inotify events. A receive that finished in the background delivered
    /// its bytes before this turn, so one drain per turn covers it. A receive that finished inline
    /// needs another drain ([`arrivals`]).
    fn drain_events(&self) {
        let turn = laio_rt::turn();
        if self.turn.replace(turn) == turn && !arrivals::take() {
            return;
        }
        self.drain_now();
    }

    /// Notes that this worker has changed files: the next look-up processes the inotify events of the change, also
    /// in the same turn.
    pub fn note_change(&self) {
        self.turn.set(u64::MAX);
    }

    /// Processes the pending inotify events, even if this turn has done so before.
    fn drain_now(&self) {
        self.turn.set(laio_rt::turn());
        arrivals::take();
        let state = &mut *self.state.borrow_mut();
        state.now = Instant::now();
        let mounts = laio_rt::with_context(|context| context.mount_changes());
        if mounts != state.mounts {
            state.mounts = mounts;
            self.watches.count_event();
            state.clear();
        }
        self.watches.drain(|event| state.apply_event(event));
    }

    /// Drains the inotify queue and returns the number of events so far.
    pub(super) fn event_count(&self) -> u64 {
        self.drain_events();
        self.watches.event_count()
    }

    pub(super) fn watches(&self, site: usize, directory: &[u8]) -> bool {
        self.state.borrow().directories[site].contains_key(directory)
    }

    /// Watches a directory. Returns false if it cannot be watched, or if any event was processed
    /// since `events_before`: the directory may have been renamed between open and watch.
    pub(super) fn watch_directory(
        &self,
        events_before: u64,
        site: usize,
        directory: &[u8],
        opened: &Descriptor,
    ) -> bool {
        let state = &mut *self.state.borrow_mut();
        if state.names.len() >= CacheOptions::DIRECTORIES {
            let soon = |cleared_at| {
                state.now.saturating_duration_since(cleared_at) < CacheOptions::CLEAR_INTERVAL
            };
            if !state.cleared_at.is_some_and(soon) {
                self.watches.count_event();
                state.clear();
            }
            return false;
        }
        let Ok(watch) = self.watches.watch(opened, Watches::DIRECTORY) else {
            return false;
        };
        if self.watches.event_count() != events_before {
            return false;
        }
        let name: Box<[u8]> = directory.into();
        let names = state.names.entry(watch.number()).or_default();
        names.push((site, name.clone()));
        state.directories[site].insert(name, watch);
        true
    }

    /// Watches a file.
    ///
    /// # Errors
    /// Like [`Watches::watch`].
    pub(super) fn watch_file(&self, file: &Descriptor) -> io::Result<Watch> {
        self.watches.watch(file, Watches::FILE)
    }

    /// The open file that is cached under a name, if it is the one with this status: then it is still
    /// known which of its chunks are in the page cache.
    pub(super) fn open_file(
        &self,
        site: usize,
        name: &[u8],
        status: &FileStatus,
    ) -> Option<Rc<OpenFile>> {
        let state = self.state.borrow();
        let cached = &state.files.get(site, name)?.opened;
        let identity = |status: &FileStatus| (status.device(), status.inode(), status.size());
        match &cached.contents {
            Contents::Open(open) if identity(&cached.status) == identity(status) => {
                Some(open.clone())
            }
            _ => None,
        }
    }

    /// Records that caching a file failed.
    pub(super) fn refuse(&self, site: usize, name: &[u8]) {
        let state = &mut *self.state.borrow_mut();
        state.admission.refuse(site, name);
        state.files.remove(site, name);
    }

    /// Caches a file, unless any event was processed since `events_before`.
    pub(super) fn insert(
        &self,
        events_before: u64,
        site: usize,
        name: &[u8],
        opened: &Opened,
        watch: Watch,
    ) {
        self.drain_now();
        if self.watches.event_count() != events_before {
            return;
        }
        let state = &mut *self.state.borrow_mut();
        let since = state.now;
        state.files.insert(CachedFile {
            site,
            name: name.into(),
            opened: opened.clone(),
            watch,
            since: Cell::new(since),
            expired: Cell::new(false),
            requested: Cell::new(false),
        });
    }
}

impl State {
    /// Drops the cached files that an event invalidates.
    fn apply_event(&mut self, event: FileEvent<'_>) {
        match event {
            FileEvent::Overflow => self.clear(),
            FileEvent::Name(watch, file) => {
                let directories = self.names.get(&watch).cloned().unwrap_or_default();
                for (site, directory) in directories {
                    let mut name = directory.to_vec();
                    enter(&mut name, file);
                    self.files.remove(site, &name);
                    self.drop_directory(site, &name);
                }
            }
            FileEvent::Itself(watch) => {
                self.files.remove_watched(watch);
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
        self.files
            .remove_if(|file| file.site == site && is_below(&file.name));
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

    fn clear(&mut self) {
        self.files.remove_if(|_| true);
        self.directories.iter_mut().for_each(HashMap::clear);
        self.names.clear();
        self.cleared_at = Some(self.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::contents::FileKind;
    use crate::files::uncached::examine;
    use laio::BackendKind;
    use laio_serve_net::io_contexts::ContextPlan;
    use std::fs::File;
    use std::os::fd::OwnedFd;

    #[test]
    fn a_site_does_not_decide_what_another_one_caches() {
        let runtime = laio_rt::Runtime::new(laio::Options::new()).unwrap();
        runtime.block_on(async {
            let cache = Cache::new(&CacheOptions::default(), 2, 1).unwrap();
            let is_admitted =
                |site| matches!(cache.get_or_admit(site, b"f"), CacheLookup::Admit(_));
            assert!(!is_admitted(0));
            assert!(!is_admitted(1), "its first request on this site");
            assert!(is_admitted(0));
            cache.refuse(0, b"f");
            assert!(!is_admitted(0));
            assert!(is_admitted(1), "the other site can cache its file");
        });
    }

    #[test]
    fn an_expired_file_that_is_not_refilled_is_removed() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "contents").unwrap();
        let options = laio_serve_base::options::Options::default();
        let plan = ContextPlan::new(&options, BackendKind::Lazy).unwrap();
        let (runtime, contexts) = plan.create(&options).unwrap();
        runtime.block_on(async {
            let cache = Cache::new(&CacheOptions::default(), 1, 1).unwrap();
            let insert = async |events_before| {
                let file = Descriptor::from(OwnedFd::from(File::open(&path).unwrap()));
                let watch = cache.watches.watch(&file, Watches::FILE).unwrap();
                let Ok(FileKind::File(opened)) = examine(&contexts, file).await else {
                    panic!("the file is a regular one");
                };
                cache.insert(events_before, 0, b"file", &opened, watch);
            };
            let expire = || {
                let state = cache.state.borrow();
                let file = state.files.get(0, b"file").unwrap();
                file.since
                    .set(state.now.checked_sub(CacheOptions::MAX_AGE).unwrap());
            };
            let is_hit = || matches!(cache.get_or_admit(0, b"file"), CacheLookup::Hit(_));
            insert(cache.event_count()).await;
            assert!(is_hit());

            expire();
            let lookup = cache.get_or_admit(0, b"file");
            assert!(matches!(lookup, CacheLookup::Admit(_)));
            assert!(is_hit(), "other requests use the file during the refill");
            insert(cache.event_count()).await;
            drop(lookup);
            assert!(is_hit(), "refilled");
            let hits = cache.hits();
            assert!(cache.get(0, b"file").is_some());
            assert_eq!(cache.hits(), hits, "only the response counts");

            expire();
            let lookup = cache.get_or_admit(0, b"file");
            assert!(matches!(lookup, CacheLookup::Admit(_)));
            let events_before = cache.event_count();
            cache.watches.count_event();
            insert(events_before).await;
            drop(lookup);
            assert!(!is_hit(), "not refilled, because of an event");
            assert!(cache.get(0, b"file").is_none());
        });
    }
}
