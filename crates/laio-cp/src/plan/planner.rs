//! Creates a plan: walks through the sources and creates directories, as a copy does, but records
//! files instead of copying them.

use super::plan_dir::PlanDir;
use super::records::{DirectoryRecord, FileRecord, LargeFile, LinkRecord, Record, Root, Writer};
use super::region;
use super::{Limits, REGION_STEP};
use crate::io::Io;
use crate::lock::lock;
use crate::options::{Existing, Reflink, Sparse};
use crate::outcome::{Failure, count};
use crate::rules::conflict::{self, Resolution};
use crate::rules::links::{has_other_names, names_to_expect};
use crate::rules::pair::has_holes;
use crate::session::Session;
use crate::sink::{LocalFuture, Recorder};
use crate::tree::{Directory, Entry, Identity, identity, temporary};
use laio::ops::StatPath;
use laio_rt::fs::{Metadata, Timestamp};
use std::collections::{HashMap, hash_map};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, OnceLock};

/// Writes a plan, called by all workers.
pub(crate) struct Planner {
    plan_dir: PlanDir,
    /// The plan's own directory, which must not be copied.
    plan_identity: Identity,
    pub(crate) id: String,
    limits: Limits,
    root: OnceLock<Root>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Writer>,
    directories: u32,
    part: Option<PartBuilder>,
    totals: Totals,
    /// Files with several hard links, until all names are found.
    links: HashMap<Identity, FirstName>,
    large: u64,
    /// The first error of writing the plan, which makes it fail.
    error: Option<io::Error>,
}

/// The size of a plan.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) parts: u32,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// A part that is being filled.
struct PartBuilder {
    number: u32,
    writer: Writer,
    /// The number of a directory in this part, by its number in the plan.
    numbers: HashMap<u32, u32>,
    files: u64,
    bytes: u64,
}

/// The first name found of a file with several hard links.
struct FirstName {
    left: u32,
    directory: Option<u32>,
    name: OsString,
    /// The part that copies the file; `None` if several do.
    part: Option<u32>,
}

impl Planner {
    pub(crate) fn new(plan_dir: &PlanDir, id: String, limits: Limits) -> io::Result<Planner> {
        let status = std::fs::metadata(plan_dir.path())?;
        Ok(Planner {
            plan_dir: plan_dir.clone(),
            plan_identity: (status.dev(), status.ino()),
            id,
            limits,
            root: OnceLock::new(),
            state: Mutex::default(),
        })
    }

    /// Records a file to copy.
    async fn record_file(
        &self,
        io: &Io,
        session: &Session,
        entry: &Entry,
        status: &Metadata,
    ) -> Result<(), Failure> {
        // A file that stays is no copy that other names could be linked to.
        let may_stay = session.options.existing == Existing::Skip
            && (!entry.directory.is_new || entry.argument.is_some());
        if may_stay && conflict::examine(io, session, entry, status).await? == Resolution::Skip {
            count(&io.counters().skipped);
            return Ok(());
        }
        let names = has_other_names(session, entry, status);
        let names = names.then(|| names_to_expect(session, status));
        let bytes_to_move = self.bytes_to_move(session, status);
        let splits = status.is_file()
            && bytes_to_move > self.limits.bytes
            && session.options.reflink != Reflink::Always;
        if splits && !is_special_or_link(io, session, entry).await {
            return self.record_large(io, session, entry, status, names).await;
        }
        let mut state = lock(&self.state);
        if names.is_some() && state.link_to_first(entry, status) {
            return Ok(());
        }
        let file = file_record(entry, status, None);
        let record = |directory| Record::File(FileRecord { directory, ..file });
        state.try_write(|state| state.add(self, entry, bytes_to_move, &record));
        let part = state.part.as_ref().map(|part| part.number);
        state.register(entry, status, names, part);
        state.count_file(if status.is_file() { status.size() } else { 0 });
        Ok(())
    }

    /// The number of bytes to copy for a file, as far as it is known.
    fn bytes_to_move(&self, session: &Session, status: &Metadata) -> u64 {
        if !status.is_file() {
            return 0;
        }
        if session.options.sparse != Sparse::Never && has_holes(status) {
            status.size().min(status.blocks() * 512)
        } else {
            status.size()
        }
    }

    /// Records a file that is copied in regions.
    async fn record_large(
        &self,
        io: &Io,
        session: &Session,
        entry: &Entry,
        status: &Metadata,
        names: Option<u32>,
    ) -> Result<(), Failure> {
        if names.is_some() && lock(&self.state).link_to_first(entry, status) {
            return Ok(());
        }
        if let Resolution::Skip | Resolution::UpToDate(_) =
            conflict::examine(io, session, entry, status).await?
        {
            lock(&self.state).register(entry, status, names, None);
            count(&io.counters().skipped);
            return Ok(());
        }
        let large = {
            let mut state = lock(&self.state);
            state.large += 1;
            state.large
        };
        let temporary = region::temporary_name(&self.id, large);
        let size = status.size();
        region::make(io, entry, &temporary, size).await?;
        let big = LargeFile {
            temporary: &temporary,
            size,
            modified: status.modified(),
        };
        let mut state = lock(&self.state);
        // Only now: if the file could not be created, another name becomes the first.
        if names.is_some() && state.link_to_first(entry, status) {
            drop(state);
            temporary::remove(io, entry, &temporary);
            return Ok(());
        }
        state.register(entry, status, names, None);
        let whole = file_record(entry, status, number(&entry.directory));
        state.try_write(|state| {
            state.last()?.write(&Record::LargeFile(whole, big))?;
            let step = self.limits.region();
            let mut start = 0;
            while start < size {
                let end = size.min(start.saturating_add(step));
                let region =
                    |directory| Record::Region(FileRecord { directory, ..whole }, big, start, end);
                state.add_alone(self, entry, &region)?;
                start = end;
            }
            Ok(())
        });
        state.count_file(size);
        Ok(())
    }

    /// Completes the plan, except for its header.
    pub(crate) fn end(&self) -> io::Result<(Totals, u64)> {
        let mut state = lock(&self.state);
        state.try_write(State::close_part);
        let last = state.last.take();
        state.try_write(|_| last.map_or(Ok(()), Writer::finish));
        match state.error.take() {
            Some(error) => Err(error),
            None => Ok((state.totals, state.directories.into())),
        }
    }
}

impl Recorder for Planner {
    fn begin(&self, directory: &Directory) -> io::Result<()> {
        let here = std::env::current_dir()?;
        let (source, target) = (directory.source_path(), directory.target_path());
        let root = Root {
            source: here.join(&source),
            target: here.join(&target),
            source_shown: source,
            target_shown: target,
        };
        let writer = Writer::create(&self.plan_dir.last(), &self.id, &root)?;
        lock(&self.state).last = Some(writer);
        let _ = self.root.set(root);
        Ok(())
    }

    fn enter(&self, directory: &Directory) {
        let mut state = lock(&self.state);
        let _ = directory.plan_number.set(state.directories);
        let record = record_of(directory, directory.parent.as_deref().and_then(number));
        state.try_write(|state| state.last()?.write(&record));
        state.directories += 1;
    }

    fn is_plan_directory(&self, status: &Metadata) -> bool {
        identity(status) == self.plan_identity
    }

    fn record<'a>(
        &'a self,
        io: &'a Io,
        session: &'a Session,
        entry: &'a Entry,
        status: &'a Metadata,
    ) -> LocalFuture<'a, Result<(), Failure>> {
        Box::pin(self.record_file(io, session, entry, status))
    }
}

impl Limits {
    /// The size of a region in bytes: a multiple of the step, so that two writers never share a
    /// block or stripe.
    fn region(&self) -> u64 {
        let steps = REGION_STEP.into_iter().find(|step| *step <= self.bytes);
        let step = steps.unwrap_or(REGION_STEP[REGION_STEP.len() - 1]);
        (self.bytes / step * step).max(step)
    }
}

impl State {
    fn try_write(&mut self, action: impl FnOnce(&mut State) -> io::Result<()>) {
        if self.error.is_none() {
            self.error = action(self).err();
        }
    }

    fn count_file(&mut self, bytes: u64) {
        self.totals.files += 1;
        self.totals.bytes += bytes;
    }

    /// Whether the file was recorded under another name; if so, records a link for `--finish`.
    fn link_to_first(&mut self, entry: &Entry, status: &Metadata) -> bool {
        let file = identity(status);
        let hash_map::Entry::Occupied(mut known) = self.links.entry(file) else {
            return false;
        };
        let first = known.get_mut();
        first.left = first.left.saturating_sub(1);
        let (directory, name, part) = (first.directory, first.name.clone(), first.part);
        if first.left == 0 {
            known.remove();
        }
        let link = file_record(entry, status, number(&entry.directory));
        self.try_write(|state| {
            state.last()?.write(&Record::Link(LinkRecord {
                link,
                first_directory: directory,
                first_name: &name,
                first_part: part,
            }))
        });
        true
    }

    /// Registers the first name of a file that has several: `names`, and the part that copies it.
    fn register(
        &mut self,
        entry: &Entry,
        status: &Metadata,
        names: Option<u32>,
        part: Option<u32>,
    ) {
        let Some(names) = names else { return };
        let first = FirstName {
            left: names.saturating_sub(1),
            directory: number(&entry.directory),
            name: entry.new_name().to_owned(),
            part,
        };
        self.links.insert(identity(status), first);
    }

    fn last(&mut self) -> io::Result<&mut Writer> {
        self.last
            .as_mut()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Adds a record to the current part, or to a new one if that is full.
    fn add<'a>(
        &mut self,
        planner: &Planner,
        entry: &Entry,
        bytes: u64,
        record: &dyn Fn(Option<u32>) -> Record<'a>,
    ) -> io::Result<()> {
        let limits = &planner.limits;
        let is_full = |part: &PartBuilder| {
            part.files >= limits.files
                || (part.files > 0 && part.bytes.saturating_add(bytes) > limits.bytes)
        };
        if self.part.as_ref().is_some_and(is_full) {
            self.close_part()?;
        }
        let part = match self.part.take() {
            Some(part) => part,
            None => self.open_part(planner)?,
        };
        let part = self.part.insert(part);
        part.bytes = part.bytes.saturating_add(bytes);
        part.add(entry, record)
    }

    /// Adds a record to a part of its own: a region must not be copied again because another file
    /// of its part failed, since by then the file may have its final name.
    fn add_alone<'a>(
        &mut self,
        planner: &Planner,
        entry: &Entry,
        record: &dyn Fn(Option<u32>) -> Record<'a>,
    ) -> io::Result<()> {
        let mut part = self.open_part(planner)?;
        part.add(entry, record)?;
        part.writer.finish()
    }

    fn open_part(&mut self, planner: &Planner) -> io::Result<PartBuilder> {
        let Some(root) = planner.root.get() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let number = self.totals.parts;
        self.totals.parts += 1;
        Ok(PartBuilder {
            number,
            writer: Writer::create(&planner.plan_dir.part(number), &planner.id, root)?,
            numbers: HashMap::new(),
            files: 0,
            bytes: 0,
        })
    }

    fn close_part(&mut self) -> io::Result<()> {
        self.part.take().map_or(Ok(()), |part| part.writer.finish())
    }
}

impl PartBuilder {
    fn add<'a>(
        &mut self,
        entry: &Entry,
        record: &dyn Fn(Option<u32>) -> Record<'a>,
    ) -> io::Result<()> {
        let directory = self.number(&entry.directory)?;
        self.files += 1;
        self.writer.write(&record(directory))
    }
    /// The number of a directory in this part. If it has none, records the directory and its
    /// ancestors first.
    fn number(&mut self, directory: &Directory) -> io::Result<Option<u32>> {
        let mut missing = Vec::new();
        let mut above = None;
        for directory in directory.self_and_ancestors() {
            let Some(planned) = number(directory) else {
                break;
            };
            if let Some(known) = self.numbers.get(&planned) {
                above = Some(*known);
                break;
            }
            missing.push((planned, directory));
        }
        for (planned, directory) in missing.into_iter().rev() {
            self.writer.write(&record_of(directory, above))?;
            let number = self.numbers.len() as u32;
            self.numbers.insert(planned, number);
            above = Some(number);
        }
        Ok(above)
    }
}

fn number(directory: &Directory) -> Option<u32> {
    directory.plan_number.get().copied()
}

/// Whether the destination is a special file, into which data is written, or a symbolic link, behind which it is: such a file
/// is not copied in regions.
async fn is_special_or_link(io: &Io, session: &Session, entry: &Entry) -> bool {
    let is_new = entry.directory.is_new && entry.argument.is_none();
    if is_new || session.options.remove_destination {
        return false;
    }
    let existing = io.call_target(StatPath::new(entry.target()).no_follow());
    existing
        .await
        .is_ok_and(|existing| !existing.is_file() && !existing.is_dir())
}

/// The record of a directory, which each file of the plan that has names in it contains.
fn record_of(directory: &Directory, parent: Option<u32>) -> Record<'_> {
    let info = directory.info.as_ref();
    let time = |of: fn(&Metadata) -> Timestamp| info.map(|info| of(&info.source));
    Record::Directory(DirectoryRecord {
        parent,
        source: &directory.source.name,
        target: &directory.target.name,
        is_new: directory.is_new,
        follows_source: directory.source.follows,
        follows_target: directory.target.follows && !directory.is_new,
        mode: info.and_then(|info| info.mode),
        accessed: time(Metadata::accessed).unwrap_or_default(),
        modified: time(Metadata::modified).unwrap_or_default(),
    })
}

fn file_record<'a>(entry: &'a Entry, status: &Metadata, directory: Option<u32>) -> FileRecord<'a> {
    let (source, target): (&OsStr, &OsStr) = (&entry.name, entry.new_name());
    FileRecord {
        directory,
        source,
        target,
        kind: status.file_type(),
        is_argument: entry.argument.is_some(),
    }
}
