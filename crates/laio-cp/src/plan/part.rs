//! Copies a part: the files of each directory, and each region of a large file, are a work item of
//! their own.

use super::opener::Opener;
use super::records::{FileRecord, Record};
use super::region;
use crate::lock::lock;
use crate::outcome::Failure;
use crate::schedule::listing::Listing;
use crate::schedule::walk;
use crate::schedule::worker::{Task, Worker};
use crate::tree::{Directory, DirectoryInfo};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The part that this process copies.
pub(crate) struct PartWork {
    pub(crate) opener: Opener,
    /// The temporary names of files with missing regions.
    incomplete: Mutex<Vec<String>>,
    /// A directory could not be opened, so its files were not copied.
    lost_all: AtomicBool,
}

/// A task of the part.
enum PartTask {
    /// Copies files of a directory, by their records.
    Files(Option<u32>, Vec<usize>),
    /// Copies a region, by its record.
    Region(usize),
}

/// The maximum number of files per work item, so that workers share a large directory.
const FILES_PER_TASK: usize = 1024;

impl PartWork {
    pub(crate) fn new(opener: Opener) -> PartWork {
        PartWork {
            opener,
            incomplete: Mutex::default(),
            lost_all: AtomicBool::new(false),
        }
    }

    /// The tasks of the part.
    pub(crate) fn tasks(self: &Arc<PartWork>) -> Vec<Task> {
        let mut kinds = Vec::new();
        let mut open: HashMap<Option<u32>, Vec<usize>> = HashMap::new();
        for (index, record) in self.opener.records.iter() {
            match record {
                Record::File(named) => {
                    let together = open.entry(named.directory).or_default();
                    together.push(index);
                    if together.len() >= FILES_PER_TASK {
                        kinds.push(PartTask::Files(named.directory, std::mem::take(together)));
                    }
                }
                Record::Region(..) => kinds.push(PartTask::Region(index)),
                _ => {}
            }
        }
        let rest = open
            .into_iter()
            .filter(|(_, together)| !together.is_empty());
        kinds.extend(rest.map(|(directory, together)| PartTask::Files(directory, together)));
        let task = |kind| -> Task {
            let part = self.clone();
            Box::new(move |worker| Box::pin(async move { run_task(worker, &part, &kind).await }))
        };
        kinds.into_iter().map(task).collect()
    }

    /// Whether files were not copied whose names are unknown.
    pub(crate) fn lost_all(&self) -> bool {
        self.lost_all.load(Ordering::Relaxed)
    }

    pub(crate) fn incomplete(&self) -> Vec<String> {
        lock(&self.incomplete).clone()
    }
}

/// Starts a task, which takes over one of the root's pending counts.
async fn run_task(worker: &Worker, part: &PartWork, task: &PartTask) {
    let root = &part.opener.root;
    match task {
        PartTask::Files(directory, records) => {
            match listing(worker, part, *directory, records).await {
                // The directory ends the root's count when it is finished.
                Ok(listing) => return worker.add_listing(listing),
                Err(failure) => {
                    worker.session.report_failure(&failure);
                    part.lost_all.store(true, Ordering::Relaxed);
                }
            }
        }
        PartTask::Region(record) => {
            if let Record::Region(named, large, start, end) = part.opener.records.at(*record) {
                let copied =
                    region::copy(worker, &part.opener, (&named, &large), (start, end)).await;
                if let Err(failure) = copied {
                    worker.session.report_failure(&failure);
                    lock(&part.incomplete).push(large.temporary.to_string_lossy().into_owned());
                }
            }
        }
    }
    walk::end_entry(worker, root);
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
