//! Copies a part: the files of each directory, and each region of a large file, are a work item of
//! their own.

use super::PlanTask;
use super::opener::Opener;
use super::records::{FileRecord, Record, hash_of};
use super::region;
use crate::directory::{Directory, DirectoryInfo};
use crate::listing::Listing;
use crate::outcome::Failure;
use crate::walk;
use crate::worker::Worker;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The part that this process copies.
pub(crate) struct PartWork {
    pub(crate) opener: Opener,
    /// The temporary names of files with missing regions.
    incomplete: Mutex<Vec<String>>,
    lost: Mutex<Lost>,
}

/// Files that were not copied.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lost {
    /// The hashes of their paths.
    pub(crate) hashes: Vec<String>,
    /// Whether there are others, in a directory that could not be opened.
    pub(crate) all: bool,
}

/// The maximum number of files per work item, so that workers share a large directory.
const FILES_PER_TASK: usize = 1024;

impl PartWork {
    pub(crate) fn new(opener: Opener) -> PartWork {
        PartWork {
            opener,
            incomplete: Mutex::default(),
            lost: Mutex::default(),
        }
    }

    /// The tasks of the part.
    pub(crate) fn plan_tasks(&self) -> Vec<PlanTask> {
        let mut plan_tasks = Vec::new();
        let mut open: HashMap<Option<u32>, Vec<usize>> = HashMap::new();
        for (index, record) in self.opener.records.iter() {
            match record {
                Record::File(named) => {
                    let together = open.entry(named.directory).or_default();
                    together.push(index);
                    if together.len() >= FILES_PER_TASK {
                        plan_tasks.push(PlanTask::Files(named.directory, std::mem::take(together)));
                    }
                }
                Record::Region(..) => plan_tasks.push(PlanTask::Region(index)),
                _ => {}
            }
        }
        let rest = open
            .into_iter()
            .filter(|(_, together)| !together.is_empty());
        plan_tasks.extend(rest.map(|(directory, together)| PlanTask::Files(directory, together)));
        plan_tasks
    }

    /// Records that a file was not copied.
    pub(crate) fn record_lost(&self, path: &Path) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.hashes.push(hash_of(path));
    }

    pub(crate) fn lost(&self) -> Lost {
        let lost = self.lost.lock();
        lost.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn incomplete(&self) -> Vec<String> {
        let incomplete = self.incomplete.lock();
        incomplete.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Starts a task, which takes over one of the root's pending counts.
pub(crate) async fn run_task(worker: &Worker, part: &PartWork, task: &PlanTask) {
    let root = &part.opener.root;
    match task {
        PlanTask::Files(directory, records) => {
            match listing(worker, part, *directory, records).await {
                // The directory ends the root's count when it is finished.
                Ok(listing) => return worker.add_listing(listing),
                Err(failure) => {
                    worker.session.report_failure(&failure);
                    let mut lost = part.lost.lock().unwrap_or_else(PoisonError::into_inner);
                    lost.all = true;
                }
            }
        }
        PlanTask::Region(record) => {
            if let Record::Region(named, large, start, end) = part.opener.records.at(*record) {
                let copied =
                    region::copy(worker, &part.opener, (&named, &large), (start, end)).await;
                if let Err(failure) = copied {
                    worker.session.report_failure(&failure);
                    let incomplete = part.incomplete.lock();
                    let mut incomplete = incomplete.unwrap_or_else(PoisonError::into_inner);
                    incomplete.push(large.temporary.to_string_lossy().into_owned());
                }
            }
        }
        PlanTask::Finish => {}
    }
    worker.end_entry(root);
}

async fn listing(
    worker: &Worker,
    part: &PartWork,
    index: Option<u32>,
    records: &[usize],
) -> Result<Listing, Failure> {
    let opener = &part.opener;
    let opened = opener.open(worker, index).await?;
    let directory = match index {
        Some(_) => below_root(worker, &opener.root, &opened)?,
        None => opened,
    };
    let entries = records
        .iter()
        .filter_map(|at| match opener.records.at(*at) {
            Record::File(named) => {
                let FileRecord {
                    source,
                    target,
                    kind,
                    is_argument,
                    ..
                } = named;
                Some(opener.entry(&directory, (source, target), kind, is_argument))
            }
            _ => None,
        });
    let entries = entries.collect();
    Ok(Listing::of_arguments(directory, entries))
}

/// The same directory, as a child that the root waits for.
fn below_root(
    worker: &Worker,
    root: &Arc<Directory>,
    opened: &Arc<Directory>,
) -> Result<Arc<Directory>, Failure> {
    let info = opened.info.as_ref().map(|info| DirectoryInfo {
        names: Default::default(),
        ..*info
    });
    let handles = worker.open_directories.handles_of(&worker.io, opened);
    let handles = handles.map_err(|error| walk::reopen_failure(opened, error))?;
    let within = |path: PathBuf, root: PathBuf| match path.strip_prefix(root) {
        Ok(within) => within.to_owned(),
        Err(_) => path,
    };
    let paths = (
        within(opened.source_path(), root.source_path()),
        within(opened.target_path(), root.target_path()),
    );
    Ok(Directory::pinned(Some(root.clone()), handles, paths, info))
}
