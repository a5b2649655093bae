//! What is done with an entry after its source was examined.

use crate::io::Io;
use crate::outcome::Failure;
use crate::session::Session;
use crate::tree::{Directory, Entry};
use laio_rt::fs::Metadata;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

/// What is done with an entry after its source was examined.
pub(crate) enum Sink {
    /// It is copied.
    Copy,
    /// Its line is printed (`--dry-run`).
    DryRun,
    /// It is recorded in a plan (`--plan`).
    Plan(Arc<dyn Recorder>),
}

/// A future that stays on its worker.
pub(crate) type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Records what the walk finds, called by all workers.
pub(crate) trait Recorder: Send + Sync {
    /// Starts with the root of the walk.
    fn begin(&self, root: &Directory) -> io::Result<()>;

    /// Whether a directory is the plan itself, which must not be copied.
    fn is_plan_directory(&self, status: &Metadata) -> bool;

    /// Records a directory that was created or found.
    fn enter(&self, directory: &Directory);

    /// Records a file to copy.
    fn record<'a>(
        &'a self,
        io: &'a Io,
        session: &'a Session,
        entry: &'a Entry,
        status: &'a Metadata,
    ) -> LocalFuture<'a, Result<(), Failure>>;
}

impl Sink {
    /// The recorder of a plan.
    pub(crate) fn recorder(&self) -> Option<&dyn Recorder> {
        match self {
            Sink::Plan(recorder) => Some(&**recorder),
            Sink::Copy | Sink::DryRun => None,
        }
    }
}
