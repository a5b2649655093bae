//! The cached files, within limits. Files not requested recently are evicted (CLOCK algorithm).

use super::inotify::Watch;
use crate::files::contents::{Contents, Opened};
use laio_serve_base::options::Cache as CacheOptions;
use std::cell::Cell;
use std::collections::HashMap;
use std::time::Instant;

/// A cached file.
pub(super) struct CachedFile {
    pub(super) site: usize,
    pub(super) name: Box<[u8]>,
    pub(super) opened: Opened,
    pub(super) watch: Watch,
    /// When the file was inserted, or when a request began to reopen it because it had expired.
    pub(super) since: Cell<Instant>,
    /// The file has expired, and a request is reopening it.
    pub(super) expired: Cell<bool>,
    /// Requested since the clock hand last passed.
    pub(super) requested: Cell<bool>,
}

/// The cached files of all sites.
pub(super) struct CachedFiles {
    limits: CacheOptions,
    slots: Vec<Option<CachedFile>>,
    free: Vec<usize>,
    /// Indexes by name, for each site.
    names: Vec<HashMap<Box<[u8]>, usize>>,
    /// Indexes by inotify watch descriptor.
    watched: HashMap<i32, Vec<usize>>,
    bytes: usize,
    descriptors: usize,
    hand: usize,
}

impl CachedFiles {
    pub(super) fn new(limits: &CacheOptions, sites: usize) -> CachedFiles {
        CachedFiles {
            limits: limits.clone(),
            slots: Vec::new(),
            free: Vec::new(),
            names: (0..sites).map(|_| HashMap::new()).collect(),
            watched: HashMap::new(),
            bytes: 0,
            descriptors: 0,
            hand: 0,
        }
    }

    pub(super) fn get(&self, site: usize, name: &[u8]) -> Option<&CachedFile> {
        let slot = *self.names[site].get(name)?;
        self.slots[slot].as_ref()
    }

    /// Adds a file, replacing the one with its name.
    pub(super) fn insert(&mut self, file: CachedFile) {
        self.remove(file.site, &file.name);
        let (bytes, descriptors) = cost(&file.opened.contents);
        if bytes > self.limits.bytes || descriptors > self.limits.descriptors {
            return;
        }
        while self.count() >= self.limits.files
            || self.bytes + bytes > self.limits.bytes
            || self.descriptors + descriptors > self.limits.descriptors
        {
            self.evict_one();
        }
        self.bytes += bytes;
        self.descriptors += descriptors;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.names[file.site].insert(file.name.clone(), slot);
        let watched = self.watched.entry(file.watch.number()).or_default();
        watched.push(slot);
        self.slots[slot] = Some(file);
    }

    fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Evicts a file that was not requested since the clock hand last passed.
    fn evict_one(&mut self) {
        loop {
            self.hand = (self.hand + 1) % self.slots.len();
            match &self.slots[self.hand] {
                Some(file) if !file.requested.take() => return self.remove_slot(self.hand),
                _ => {}
            }
        }
    }

    pub(super) fn remove(&mut self, site: usize, name: &[u8]) {
        if let Some(&slot) = self.names[site].get(name) {
            self.remove_slot(slot);
        }
    }

    /// Removes all names of a watched file.
    pub(super) fn remove_watched(&mut self, watch: i32) {
        for slot in self.watched.remove(&watch).unwrap_or_default() {
            self.remove_slot(slot);
        }
    }

    pub(super) fn remove_if(&mut self, matches: impl Fn(&CachedFile) -> bool) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].as_ref().is_some_and(&matches) {
                self.remove_slot(slot);
            }
        }
    }

    fn remove_slot(&mut self, slot: usize) {
        let Some(file) = self.slots[slot].take() else {
            return;
        };
        self.names[file.site].remove(&file.name);
        if let Some(watched) = self.watched.get_mut(&file.watch.number()) {
            watched.retain(|&other| other != slot);
            if watched.is_empty() {
                self.watched.remove(&file.watch.number());
            }
        }
        let (bytes, descriptors) = cost(&file.opened.contents);
        self.bytes -= bytes;
        self.descriptors -= descriptors;
        self.free.push(slot);
    }
}

/// Returns the bytes and descriptors that a file uses.
fn cost(contents: &Contents) -> (usize, usize) {
    match contents {
        Contents::File(_) | Contents::Open(_) => (0, 1),
        Contents::Memory(bytes) => (bytes.len(), 0),
    }
}
