//! Files with several hard links: the first name is copied, the others become links to that copy.

use crate::digest::Digest;
use crate::io::Io;
use crate::lock::lock;
use crate::options::Follow;
use crate::rules::conflict::Resolution;
use crate::session::{Phase, Session};
use crate::tree::{Directory, Entry, Handle, Identity, target_handle_of};

use laio::ops::Name;
use laio_rt::fs::Metadata;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The known files. An entry is removed when all names of its file have been met, so the table
/// stays small.
#[derive(Debug, Default)]
pub(crate) struct Links(Mutex<HashMap<Identity, LinkedFile>>);

/// The state of a file with several hard links.
#[derive(Debug)]
struct LinkedFile {
    /// Names not yet met.
    left: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The first name is being copied; the deferred links wait for it.
    Copying(Vec<DeferredLink>),
    Copied(Arc<FirstCopy>),
}

/// A link that is created when the first copy is finished.
#[derive(Debug)]
pub(crate) struct DeferredLink {
    pub(crate) entry: Entry,
    pub(crate) resolution: Resolution,
}

/// What to do with a name of a file that has several.
pub(crate) enum LinkAction {
    /// The name is the first: copy the data.
    CopyData,
    /// Link to this copy.
    LinkTo(Arc<FirstCopy>),
    /// The task that copies the first name creates the link later.
    Deferred,
}

/// The first copy, which other names are linked to. Its directory may be closed: keeping one
/// descriptor per linked file would exceed the limit.
#[derive(Debug)]
pub(crate) struct FirstCopy {
    directory: Arc<Directory>,
    name: OsString,
    pub(crate) digest: Option<Digest>,
}

impl FirstCopy {
    pub(crate) fn from_entry(entry: &Entry, digest: Option<Digest>) -> FirstCopy {
        FirstCopy {
            directory: entry.directory.clone(),
            name: entry.new_name().to_owned(),
            digest,
        }
    }

    /// The path of the copy, for messages.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.target_path().join(&self.name)
    }

    /// The name of the copy, for an operation.
    pub(crate) fn find(&self, io: &Io) -> io::Result<Name<Handle>> {
        Name::from_path_in(target_handle_of(io, &self.directory)?, &self.name)
    }
}

impl Links {
    /// Registers a name of a file with `names` hard links.
    pub(crate) fn register(
        &self,
        file: Identity,
        names: u32,
        entry: &Entry,
        resolution: &Resolution,
    ) -> LinkAction {
        let mut table = lock(&self.0);
        let Some(known) = table.get_mut(&file) else {
            let known = LinkedFile {
                left: names.saturating_sub(1),
                state: State::Copying(Vec::new()),
            };
            table.insert(file, known);
            return LinkAction::CopyData;
        };
        known.left = known.left.saturating_sub(1);
        match &mut known.state {
            State::Copying(deferred) => {
                // The directory is not finished before its deferred link is.
                entry.directory.add_pending();
                deferred.push(DeferredLink {
                    entry: entry.without_handles(),
                    resolution: resolution.clone(),
                });
                LinkAction::Deferred
            }
            State::Copied(first) => {
                let first = first.clone();
                if known.left == 0 {
                    table.remove(&file);
                }
                LinkAction::LinkTo(first)
            }
        }
    }

    /// Records that the first name was copied. Returns the deferred links, which the caller
    /// creates.
    pub(crate) fn first_copied(
        &self,
        file: Identity,
        entry: &Entry,
        digest: Option<Digest>,
    ) -> (Arc<FirstCopy>, Vec<DeferredLink>) {
        let first = Arc::new(FirstCopy::from_entry(entry, digest));
        let mut table = lock(&self.0);
        let Some(known) = table.get_mut(&file) else {
            return (first, Vec::new());
        };
        let state = std::mem::replace(&mut known.state, State::Copied(first.clone()));
        if known.left == 0 {
            table.remove(&file);
        }
        match state {
            State::Copying(deferred) => (first, deferred),
            State::Copied(_) => (first, Vec::new()),
        }
    }

    /// Records that the first name was not copied. Returns the deferred links, which must be copied
    /// instead.
    pub(crate) fn first_failed(&self, file: Identity) -> Vec<DeferredLink> {
        match lock(&self.0).remove(&file).map(|known| known.state) {
            Some(State::Copying(deferred)) => deferred,
            _ => Vec::new(),
        }
    }
}

/// Whether other names of the file may become hard links to this copy: it has several names, or
/// other symbolic links may lead to it.
pub(crate) fn has_other_names(session: &Session, entry: &Entry, status: &Metadata) -> bool {
    if session.phase == Phase::Planned {
        // The planner has seen all names: `--finish` creates all but the first.
        return false;
    }
    let followed = session.follows(entry);
    session.options.preserve.links && (status.links() > 1 || followed)
}

/// The number of names of a file that the walk may meet. If symbolic links are followed, any
/// number.
pub(crate) fn names_to_expect(session: &Session, status: &Metadata) -> u32 {
    match session.options.follow {
        Follow::Never => status.links(),
        _ => u32::MAX,
    }
}
