//! The cached files, within limits. Files not requested recently are evicted (CLOCK algorithm).

use super::watches::Watch;
use crate::contents::Contents;
use crate::open::Opened;
use crate::options::Cache as Limits;
use std::cell::Cell;
use std::collections::HashMap;
use std::time::Instant;

/// A cached file.
pub(super) struct Kept {
    pub(super) site: usize,
    pub(super) name: Box<[u8]>,
    pub(super) opened: Opened,
    pub(super) watch: Watch,
    /// When the file was opened, or when a request began to reopen it.
    pub(super) since: Cell<Instant>,
    /// Requested since the clock hand last passed.
    pub(super) asked: Cell<bool>,
}

/// The cached files of all sites.
pub(super) struct Shelf {
    limits: Limits,
    places: Vec<Option<Kept>>,
    free: Vec<usize>,
    /// Indexes by name, for each site.
    names: Vec<HashMap<Box<[u8]>, usize>>,
    /// Indexes by inotify watch descriptor.
    watched: HashMap<i32, Vec<usize>>,
    bytes: usize,
    descriptors: usize,
    hand: usize,
}

impl Shelf {
    pub(super) fn new(limits: &Limits, sites: usize) -> Shelf {
        Shelf {
            limits: limits.clone(),
            places: Vec::new(),
            free: Vec::new(),
            names: (0..sites).map(|_| HashMap::new()).collect(),
            watched: HashMap::new(),
            bytes: 0,
            descriptors: 0,
            hand: 0,
        }
    }

    pub(super) fn get(&self, site: usize, name: &[u8]) -> Option<&Kept> {
        let place = *self.names[site].get(name)?;
        self.places[place].as_ref()
    }

    /// Adds a file, replacing the one with its name.
    pub(super) fn insert(&mut self, kept: Kept) {
        self.remove(kept.site, &kept.name);
        let (bytes, descriptors) = cost(&kept.opened.contents);
        if bytes > self.limits.bytes || descriptors > self.limits.descriptors {
            return;
        }
        while self.count() >= self.limits.files
            || self.bytes + bytes > self.limits.bytes
            || self.descriptors + descriptors > self.limits.descriptors
        {
            self.make_room();
        }
        self.bytes += bytes;
        self.descriptors += descriptors;
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.names[kept.site].insert(kept.name.clone(), place);
        let watched = self.watched.entry(kept.watch.number()).or_default();
        watched.push(place);
        self.places[place] = Some(kept);
    }

    fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Evicts a file that was not requested since the clock hand last passed.
    fn make_room(&mut self) {
        loop {
            self.hand = (self.hand + 1) % self.places.len();
            match &self.places[self.hand] {
                Some(kept) if !kept.asked.take() => return self.take(self.hand),
                _ => {}
            }
        }
    }

    pub(super) fn remove(&mut self, site: usize, name: &[u8]) {
        if let Some(&place) = self.names[site].get(name) {
            self.take(place);
        }
    }

    /// Removes all names of a watched file.
    pub(super) fn remove_watched(&mut self, watch: i32) {
        for place in self.watched.remove(&watch).unwrap_or_default() {
            self.take(place);
        }
    }

    pub(super) fn remove_if(&mut self, goes: impl Fn(&Kept) -> bool) {
        for place in 0..self.places.len() {
            if self.places[place].as_ref().is_some_and(&goes) {
                self.take(place);
            }
        }
    }

    fn take(&mut self, place: usize) {
        let Some(kept) = self.places[place].take() else {
            return;
        };
        self.names[kept.site].remove(&kept.name);
        if let Some(watched) = self.watched.get_mut(&kept.watch.number()) {
            watched.retain(|&other| other != place);
            if watched.is_empty() {
                self.watched.remove(&kept.watch.number());
            }
        }
        let (bytes, descriptors) = cost(&kept.opened.contents);
        self.bytes -= bytes;
        self.descriptors -= descriptors;
        self.free.push(place);
    }
}

/// Returns the bytes and descriptors that a file uses.
fn cost(contents: &Contents) -> (usize, usize) {
    match contents {
        Contents::File(_) | Contents::Open(_) => (0, 1),
        Contents::Memory(bytes) => (bytes.len(), 0),
    }
}
