//! Finishes a plan: renames large files, creates hard links, and sets the attributes of
//! directories, children first.

use super::leftovers;
use super::opener::Opener;
use super::plan_dir::{FINISH, PartReport, PlanDir, number};
use super::records::{DirectoryRecord, FileRecord, LinkRecord, Record, Records, hash_of};
use super::region;
use crate::lock::lock;
use crate::outcome::{Failure, count, failure};
use crate::quote::quote;
use crate::rules::attributes::{self, FileRef};
use crate::rules::conflict::{self, Resolution};
use crate::rules::links::FirstCopy;
use crate::rules::{durable, link, source};
use crate::schedule::walk;
use crate::schedule::worker::Worker;
use crate::tree::{Directory, DirectoryInfo, TemporaryNames};
use laio::ops::StatPath;
use laio_rt::fs::FileType;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

/// The finish phase of a plan.
pub(crate) struct Finish {
    pub(crate) opener: Opener,
    plan_dir: PlanDir,
    id: String,
    /// The tokens of the processes that have started each step.
    attempts: HashMap<String, Vec<String>>,
    done: Vec<PartReport>,
    /// Files that were not copied, by the hashes of their paths.
    lost: Mutex<HashSet<String>>,
}

/// Runs all steps. Links follow large files, because they link to final names; directories are
/// last, because every file created in them changes their times.
pub(crate) async fn run(worker: &Worker, finish: &Finish) {
    finish.remove_leftovers(worker).await;
    finish.complete_large_files(worker).await;
    finish.make_links(worker).await;
    let directories = finish.opener.records.directories();
    for index in (0..directories).rev() {
        if worker.session.stop.is_requested() {
            break;
        }
        if let Err(failure) = finish.set_directory_attributes(worker, index).await {
            worker.session.report_failure(&failure);
        }
    }
    if worker.session.options.fsync {
        finish.sync_directories(worker).await;
    }
    walk::end_entry(worker, &finish.opener.root);
}

impl Finish {
    pub(crate) fn new(
        opener: Opener,
        plan_dir: PlanDir,
        id: String,
        attempts: HashMap<String, Vec<String>>,
        done: Vec<PartReport>,
    ) -> Finish {
        let lost = done.iter().flat_map(|done| done.lost.iter().cloned());
        Finish {
            lost: Mutex::new(lost.collect()),
            opener,
            plan_dir,
            id,
            attempts,
            done,
        }
    }

    /// Records that a large file was not renamed: a file with its name is not its copy.
    async fn record_lost(&self, worker: &Worker, named: &FileRecord<'_>) {
        // If the directory cannot be opened, linking to the file fails for the same reason.
        if let Ok(directory) = self.opener.open(worker, named.directory).await {
            let names = (named.target, named.target);
            let entry = self.opener.entry(&directory, names, named.kind, false);
            lock(&self.lost).insert(hash_of(&entry.target_path()));
        }
    }
    async fn complete_large_files(&self, worker: &Worker) {
        let (io, session) = (&worker.io, &*worker.session);
        let missing: HashSet<&str> = self
            .done
            .iter()
            .flat_map(|done| done.incomplete.iter().map(String::as_str))
            .collect();
        for (_, record) in self.opener.records.iter() {
            let Record::LargeFile(named, large) = record else {
                continue;
            };
            if session.stop.is_requested() {
                return;
            }
            if missing.contains(&*large.temporary.to_string_lossy()) {
                let text = "not all regions were copied, so it keeps its temporary name";
                let name = quote(named.target);
                session.report_failure(&failure!("{name}: {text}"));
                self.record_lost(worker, &named).await;
                continue;
            }
            match region::complete(worker, &self.opener, &named, &large).await {
                Ok(_) => count(&io.counters().files),
                Err(failure) => {
                    session.report_failure(&failure);
                    if !failure.only_attributes_failed() {
                        self.record_lost(worker, &named).await;
                    }
                }
            }
        }
    }

    async fn make_links(&self, worker: &Worker) {
        let (io, session) = (&worker.io, &*worker.session);
        for (_, record) in self.opener.records.iter() {
            let Record::Link(link) = record else {
                continue;
            };
            if session.stop.is_requested() {
                return;
            }
            match self.link(worker, &link).await {
                Ok(true) => count(&io.counters().linked),
                Ok(false) => count(&io.counters().skipped),
                Err(failure) => session.report_failure(&failure),
            }
        }
    }

    /// Creates a hard link. Returns `false` if an existing file stays.
    async fn link(&self, worker: &Worker, record: &LinkRecord<'_>) -> Result<bool, Failure> {
        let entry = self.opener.find(worker, &record.link).await?;
        let first = FileRecord {
            directory: record.first_directory,
            source: record.first_name,
            target: record.first_name,
            is_argument: false,
            ..record.link
        };
        let of = self.opener.find(worker, &first).await?;
        let done = record
            .first_part
            .and_then(|part| self.done.get(part as usize));
        let is_lost = lock(&self.lost).contains(&hash_of(&of.target_path()));
        if is_lost || done.is_some_and(|done| done.lost_all) {
            let (name, first) = (entry.quoted_target(), of.quoted_target());
            return Err(failure!(
                "not making {name} a link to {first}, which was not copied"
            ));
        }
        let status = |name| worker.io.call_blocking(StatPath::new(name).no_follow());
        if let (Ok(one), Ok(other)) = (status(entry.target()), status(of.target()))
            && crate::tree::identity(&one) == crate::tree::identity(&other)
        {
            return Ok(true);
        }
        let source = source::stat(&worker.io, &entry, false).await?;
        let (io, session) = (&worker.io, &worker.session);
        let resolution = match conflict::examine(io, session, &entry, &source).await? {
            Resolution::Skip => return Ok(false),
            // As without a plan: the name becomes a link even if its own file is up to date.
            Resolution::UpToDate(_) => Resolution::Existing(Box::new(source)),
            found => conflict::make_way(io, session, &entry, &source, found).await?,
        };
        link::to_first_copy(
            io,
            session,
            &entry,
            &FirstCopy::from_entry(&of, None),
            &resolution,
        )
        .await
        .map(|_| true)
    }

    /// Sets the attributes of a directory.
    async fn set_directory_attributes(&self, worker: &Worker, index: u32) -> Result<(), Failure> {
        let (io, session) = (&worker.io, &*worker.session);
        let opened = self.opener.open(worker, Some(index)).await?;
        let handles = worker.open_directories.handles_of(io, &opened);
        let handles = handles.map_err(|error| walk::reopen_failure(&opened, error))?;
        let (Some(info), Some(target), Some(above)) =
            (&opened.info, handles.target, &opened.parent)
        else {
            return Ok(());
        };
        let DirectoryRecord { is_new, .. } = self.opener.records.directory(index);
        let source = handles.source.map(FileRef::Open);
        let names = match &source {
            Some(source) => attributes::list_names(io, session, source).map_err(|error| {
                let name = quote(opened.source_path());
                Failure::from_error(error, format!("cannot list attributes of {name}"))
            })?,
            None => Default::default(),
        };
        let info = DirectoryInfo { names, ..*info };
        let sides = (opened.source.clone(), opened.target.clone());
        let directory = Directory::child(above.clone(), sides, None, is_new, None);
        let synced = target.clone();
        attributes::set_on_directory(io, session, &directory, &info, source, target)?;
        durable::sync_directory(session, &directory, &synced);
        Ok(())
    }

    /// Syncs the directories in which files, and the outermost directories, have got their names.
    async fn sync_directories(&self, worker: &Worker) {
        sync_parents(worker, &self.opener, outermost_directories(&self.opener)).await;
        let files = leftovers::one_file_of_each_directory(&self.opener);
        sync_parents(worker, &self.opener, files).await;
        for done in &self.done {
            match self.opener_of(done) {
                Ok(opener) => {
                    let files = leftovers::one_file_of_each_directory(&opener);
                    sync_parents(worker, &opener, files).await;
                }
                Err(failure) => worker.session.report_failure(&failure),
            }
        }
    }

    /// Reads the records of a part.
    fn opener_of(&self, done: &PartReport) -> Result<Opener, Failure> {
        Records::read(&self.plan_dir.part(done.part), &self.id)
            .map_err(Failure::from_message)
            .and_then(|records| Opener::new(records, self.opener.visibility_timeout))
    }

    /// Removes the files that killed processes have left: each step that several processes have
    /// started had one.
    async fn remove_leftovers(&self, worker: &Worker) {
        if let Some(tokens) = self.attempts.get(FINISH) {
            leftovers::remove(worker, &self.opener, &self.names_of(tokens)).await;
        }
        for done in &self.done {
            let Some(tokens) = self.attempts.get(&number(done.part)) else {
                continue;
            };
            if tokens.len() < 2 {
                continue;
            }
            match self.opener_of(done) {
                Ok(opener) => leftovers::remove(worker, &opener, &self.names_of(tokens)).await,
                Err(failure) => worker.session.report_failure(&failure),
            }
        }
    }

    fn names_of(&self, tokens: &[String]) -> Vec<TemporaryNames> {
        let names = |token: &String| TemporaryNames::of_attempt(&self.id, token);
        tokens.iter().map(names).collect()
    }
}

/// The directories that are arguments of the copy, as files of the directories in which they have their names.
fn outermost_directories(opener: &Opener) -> Vec<FileRecord<'_>> {
    let mut outermost = Vec::new();
    for index in 0..opener.records.directories() {
        let directory = opener.records.directory(index);
        if directory.parent.is_none() {
            outermost.push(FileRecord {
                directory: None,
                source: directory.source,
                target: directory.target,
                kind: FileType::Directory,
                is_argument: false,
            });
        }
    }
    outermost
}

/// Syncs the directories that contain these files.
async fn sync_parents(worker: &Worker, opener: &Opener, files: Vec<FileRecord<'_>>) {
    for file in files {
        let synced = match opener.find(worker, &file).await {
            Ok(entry) => durable::sync_directory_of(&worker.session, &entry),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = synced {
            worker.session.report_failure(&failure);
        }
    }
}
