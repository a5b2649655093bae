//! Finishes a plan: renames large files, creates hard links, and sets the attributes of
//! directories, children first.

use super::opener::Opener;
use super::plan_dir::{PartReport, PlanDir, number};
use super::records::{DirectoryRecord, FileRecord, LinkRecord, Record, Records, hash_of};
use super::region;
use crate::lock::lock;
use crate::outcome::{Failure, count, failure};
use crate::quote::quote;
use crate::rules::attributes::{self, FileRef};
use crate::rules::conflict::{self, Resolution};
use crate::rules::links::FirstCopy;
use crate::rules::{link, source};
use crate::schedule::walk;
use crate::schedule::worker::Worker;
use crate::tree::{Directory, DirectoryInfo, Handle, Handles, temporary};
use laio::ops::{Open, ReadDir, StatPath, Unlink};
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};

/// The finish phase of a plan.
pub(crate) struct Finish {
    pub(crate) opener: Opener,
    plan_dir: PlanDir,
    id: String,
    done: Vec<PartReport>,
    /// Files that were not copied, by the hashes of their paths.
    lost: Mutex<HashSet<String>>,
}

/// Runs all steps. Links follow large files, because they link to final names; directories are
/// last, because every file created in them changes their times.
pub(crate) async fn run(worker: &Worker, finish: &Finish) {
    for part in finish.restarted(worker) {
        finish.remove_leftovers(worker, part).await;
    }
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
    walk::end_entry(worker, &finish.opener.root);
}

impl Finish {
    pub(crate) fn new(
        opener: Opener,
        plan_dir: PlanDir,
        id: String,
        done: Vec<PartReport>,
    ) -> Finish {
        let lost = done.iter().flat_map(|done| done.lost.iter().cloned());
        Finish {
            lost: Mutex::new(lost.collect()),
            opener,
            plan_dir,
            id,
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
        link::to_first_copy(&worker.io, &entry, &FirstCopy::of(&of, None), &resolution)
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
        attributes::set_on_directory(io, session, &directory, &info, source, target)
    }

    /// The parts that were started more than once, with the processes that started them.
    fn restarted(&self, worker: &Worker) -> Vec<RestartedPart> {
        let names = match std::fs::read_dir(self.plan_dir.attempts()) {
            Ok(names) => names,
            Err(error) => {
                let text = "cannot list the parts that were started more than once";
                worker
                    .session
                    .report_failure(&Failure::from_error(error, text));
                return Vec::new();
            }
        };
        let names: Vec<_> = names
            .filter_map(|name| name.ok()?.file_name().into_string().ok())
            .collect();
        let restarted = self.done.iter().filter_map(|done| {
            let prefix = format!("{}.", number(done.part));
            let tokens = names.iter().filter_map(|name| name.strip_prefix(&prefix));
            // The token is host, process and time, separated by dashes; the host contains none.
            let processes = tokens.filter_map(|token| token.split('-').nth(1));
            let processes: Vec<_> = processes.map(str::to_owned).collect();
            (processes.len() > 1).then_some(RestartedPart {
                part: done.part,
                processes,
            })
        });
        restarted.collect()
    }

    /// Removes files that killed processes have left in the directories of a part.
    async fn remove_leftovers(&self, worker: &Worker, restarted: RestartedPart) {
        let (io, session) = (&worker.io, &*worker.session);
        let records = Records::read(&self.plan_dir.part(restarted.part), &self.id);
        let opener = records
            .map_err(Failure::from_message)
            .and_then(|records| Opener::new(records, self.opener.visibility_timeout));
        let opener = match opener {
            Ok(opener) => opener,
            Err(failure) => return session.report_failure(&failure),
        };
        for index in 0..opener.records.directories() {
            match opener.open(worker, Some(index)).await {
                Ok(directory) => match worker.open_directories.handles_of(io, &directory) {
                    Ok(Handles {
                        target: Some(target),
                        ..
                    }) => restarted.remove_leftovers(worker, &target).await,
                    Ok(_) => {}
                    Err(error) => session.report_failure(&walk::reopen_failure(&directory, error)),
                },
                Err(failure) => session.report_failure(&failure),
            }
        }
    }
}

/// A part that was started more than once, and the PIDs of the processes.
struct RestartedPart {
    part: u32,
    processes: Vec<String>,
}

impl RestartedPart {
    async fn remove_leftovers(&self, worker: &Worker, target: &Handle) {
        let io = &worker.io;
        let prefixes: Vec<_> = self
            .processes
            .iter()
            .map(|process| format!("{}{process}-", temporary::PREFIX))
            .collect();
        let here = laio::ops::Name::from_path_at(target.clone(), ".");
        let flags = libc::O_RDONLY | libc::O_DIRECTORY;
        // A new descriptor: the position of the existing one may have moved.
        let Ok(Ok(listed)) = here.map(|here| io.call_blocking(Open::new(here, flags))) else {
            return;
        };
        let listed = Arc::new(listed);
        while let Ok(entries) = io.call_blocking(ReadDir::new(listed.clone())) {
            if entries.is_empty() {
                return;
            }
            let left = entries.iter().filter(|entry| {
                let name = entry.name().as_bytes();
                prefixes
                    .iter()
                    .any(|prefix| name.starts_with(prefix.as_bytes()))
            });
            for entry in left {
                if let Ok(name) = laio::ops::Name::from_path_at(target.clone(), entry.name()) {
                    // On failure the file stays; its name shows that it is incomplete.
                    let _ = io.call_blocking(Unlink::new(name));
                }
            }
        }
    }
}
