//! Files with several names: the first that is met is copied, the others become links to the copy.

use crate::directory::{Directory, Entry, Handle};
use crate::existing::Place;
use crate::made::Identity;
use crate::verify::Digest;
use crate::worker::Worker;
use laio::ops::Name;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Forgotten as soon as all names of a file have been met, so that it stays small.
#[derive(Debug, Default)]
pub(crate) struct Links(Mutex<HashMap<Identity, Known>>);

#[derive(Debug)]
struct Known {
    /// Names that have not been met yet.
    left: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The first name is being copied; these wait for it.
    Copying(Vec<Waiting>),
    Made(Arc<First>),
}

/// A name that waits until the copy is there that it is to be a link to.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) entry: Entry,
    pub(crate) place: Place,
}

/// What becomes of a name of a file that has several.
pub(crate) enum Claim {
    /// It is the first: it is copied.
    Copy,
    /// It becomes a link to this.
    Link(Arc<First>),
    /// Whoever copies the first name makes it.
    Later,
}

/// The copy that others become links to. Its directory may be done with and closed: descriptors of all
/// directories with linked files would be too many.
#[derive(Debug)]
pub(crate) struct First {
    directory: Arc<Directory>,
    name: OsString,
    pub(crate) digest: Option<Digest>,
}

impl First {
    pub(crate) fn of(entry: &Entry, digest: Option<Digest>) -> First {
        First {
            directory: entry.directory.clone(),
            name: entry.new_name().to_owned(),
            digest,
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.target_path().join(&self.name)
    }

    /// Its name, in the directory that it was made in.
    pub(crate) fn find(&self, worker: &Worker) -> io::Result<Name<Handle>> {
        Name::from_path_in(worker.open_target(&self.directory)?, &self.name)
    }
}

impl Links {
    fn lock(&self) -> MutexGuard<'_, HashMap<Identity, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name of a file that has `names` of them.
    pub(crate) fn claim(&self, file: Identity, names: u32, entry: &Entry, place: &Place) -> Claim {
        let mut table = self.lock();
        let Some(known) = table.get_mut(&file) else {
            let known = Known {
                left: names.saturating_sub(1),
                state: State::Copying(Vec::new()),
            };
            table.insert(file, known);
            return Claim::Copy;
        };
        known.left = known.left.saturating_sub(1);
        match &mut known.state {
            State::Copying(waiting) => {
                // The directory of the one that waits is not done before it is.
                entry.directory.begin();
                waiting.push(Waiting {
                    entry: entry.for_later(),
                    place: place.clone(),
                });
                Claim::Later
            }
            State::Made(first) => {
                let first = first.clone();
                if known.left == 0 {
                    table.remove(&file);
                }
                Claim::Link(first)
            }
        }
    }

    /// The first name has been copied. Returns those that wait, to be made links to it.
    pub(crate) fn made(
        &self,
        file: Identity,
        entry: &Entry,
        digest: Option<Digest>,
    ) -> (Arc<First>, Vec<Waiting>) {
        let first = Arc::new(First::of(entry, digest));
        let mut table = self.lock();
        let Some(known) = table.get_mut(&file) else {
            return (first, Vec::new());
        };
        let state = std::mem::replace(&mut known.state, State::Made(first.clone()));
        if known.left == 0 {
            table.remove(&file);
        }
        match state {
            State::Copying(waiting) => (first, waiting),
            State::Made(_) => (first, Vec::new()),
        }
    }

    /// It has not. Returns those that wait: they are to begin anew.
    pub(crate) fn failed(&self, file: Identity) -> Vec<Waiting> {
        match self.lock().remove(&file).map(|known| known.state) {
            Some(State::Copying(waiting)) => waiting,
            _ => Vec::new(),
        }
    }
}
