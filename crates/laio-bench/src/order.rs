//! `laio bench order`: how each back end reorders operations, and what it does when all slots are in use.
//!
//! The comparison of libraries with the kernel (Yoo 1994) says that a thread library loses the order of
//! requests, that the kernel keeps it until the requests reach the device, and that slots must be bounded.
//! This benchmark starts a number of operations at once, with and without the ordered mode of the descriptor:
//! direct reads at random offsets, whose completions show the order of completion, and writes that append
//! records, whose order in the file is the order of issue.

use crate::calls::CallVariant;
use crate::calls::workspace::choose_directory;
use crate::error::{Error, While};
use crate::machine::Machine;
use crate::text::columns;
use laio::ops::{Limit, ReadAt, WriteAt};
use laio::{BackPressure, Context, Operation, Options, Outcome, Ticket};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What to compare, and in which directory.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The back ends, in order.
    pub variants: Vec<CallVariant>,
    /// The number of operations started at once.
    pub operations: usize,
    /// The number of repetitions.
    pub repetitions: usize,
    /// The directory for files; `None` chooses one that is not in memory.
    pub directory: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        let has_order = |one: &CallVariant| one.options(false).is_some();
        Settings {
            variants: CallVariant::all().filter(has_order).collect(),
            operations: 256,
            repetitions: 10,
            directory: None,
        }
    }
}

/// The number of operations that completed after one that was started later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Overtaken {
    /// The number of overtaken operations.
    pub count: usize,
    /// The number of all operations.
    pub of: usize,
}

impl Overtaken {
    fn add(&mut self, sequence: &[usize]) {
        let mut last = 0;
        for &one in sequence {
            self.count += usize::from(one < last);
            last = last.max(one);
        }
        self.of += sequence.len();
    }

    fn percent(self) -> String {
        match self.of {
            0 => "-".to_owned(),
            of => format!("{:.0} %", 100.0 * self.count as f64 / of as f64),
        }
    }
}

/// The results of calls beyond the limit of operations, without polling for completions between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AtLimit {
    /// Completed inline.
    pub inline: usize,
    /// Started as operations.
    pub started: usize,
    /// Refused with `EAGAIN`.
    pub refused: usize,
}

/// The results of one back end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its name.
    pub backend: String,
    /// Overtaken direct reads.
    pub completion: Overtaken,
    /// The same on an ordered descriptor.
    pub completion_ordered: Overtaken,
    /// Overtaken appending writes, by their offsets in the file.
    pub issue: Overtaken,
    /// The same on an ordered descriptor.
    pub issue_ordered: Overtaken,
    /// 64 reads with 16 slots.
    pub at_limit: AtLimit,
    /// The same with `LAIO_WAIT_AT_LIMIT`.
    pub at_limit_waiting: AtLimit,
}

/// All results.
#[derive(Clone, Debug)]
pub struct Report {
    machine: String,
    notes: Vec<String>,
    lines: Vec<Line>,
}

/// The size of a read in bytes.
const BLOCK: usize = 4096;
/// The number of blocks of the file that is read.
const BLOCKS: u64 = 4096;
/// The slots and the calls of the limit test.
const SLOTS: u32 = 16;
const CALLS: usize = 64;

/// Compares the back ends. `progress` receives a line for each step.
///
/// # Errors
/// If a file cannot be created, or a call did not have the expected result. A back end that this machine does
/// not support is left out, and a note says so.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(&str)) -> Result<Report, Error> {
    let directory = choose_directory(settings.directory.as_deref())?;
    let own = tempfile::Builder::new()
        .prefix("laio-bench-")
        .tempdir_in(&directory.path)
        .doing(format_args!(
            "cannot make a directory in {}",
            directory.path.display()
        ))?;
    let mut report = Report {
        machine: Machine::for_directory(&directory).line(),
        notes: Vec::new(),
        lines: Vec::new(),
    };
    let (file, is_direct) = data(own.path())?;
    if !is_direct {
        report
            .notes
            .push("no direct I/O here: the reads are of the cache".to_owned());
    }
    for variant in &settings.variants {
        progress(variant.name());
        let Some(options) = variant.options(false) else {
            continue;
        };
        if let Err(errno) = Context::new(options.clone()) {
            report.notes.push(format!("{variant} left out: {errno}"));
            continue;
        }
        let line = compare(variant.name(), &options, settings, &file, own.path());
        report
            .lines
            .push(line.doing(format_args!("order through {variant}"))?);
    }
    Ok(report)
}

/// Returns a file that is not cached, opened with `O_DIRECT` if possible.
fn data(directory: &Path) -> Result<(Rc<OwnedFd>, bool), Error> {
    let path = directory.join("data");
    let bytes = vec![7u8; BLOCK * BLOCKS as usize];
    std::fs::write(&path, bytes).doing("cannot write a file")?;
    let plain = File::open(&path).doing("cannot open a file")?;
    plain.sync_all().doing("cannot write a file")?;
    let mut options = File::options();
    let direct = options
        .read(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
    Ok(match direct.open(&path) {
        Ok(file) => (Rc::new(file.into()), true),
        Err(_) => (Rc::new(plain.into()), false),
    })
}

fn compare(
    name: &str,
    options: &Options,
    settings: &Settings,
    file: &Rc<OwnedFd>,
    directory: &Path,
) -> io::Result<Line> {
    let mut line = Line {
        backend: name.to_owned(),
        completion: Overtaken::default(),
        completion_ordered: Overtaken::default(),
        issue: Overtaken::default(),
        issue_ordered: Overtaken::default(),
        at_limit: at_limit(options.clone().operations(SLOTS), file)?,
        at_limit_waiting: at_limit(
            options
                .clone()
                .operations(SLOTS)
                .back_pressure(BackPressure::Wait),
            file,
        )?,
    };
    for round in 0..settings.repetitions {
        for ordered in [false, true] {
            let mut context = Context::new(options.clone())?;
            let sequence = reads(&mut context, file, settings.operations, ordered, round)?;
            let records = appended(&mut context, directory, settings.operations, ordered)?;
            let (completion, issue) = if ordered {
                (&mut line.completion_ordered, &mut line.issue_ordered)
            } else {
                (&mut line.completion, &mut line.issue)
            };
            completion.add(&sequence);
            issue.add(&records);
        }
    }
    Ok(line)
}

/// Operations of one kind in flight, and the order in which they completed.
struct Flight<O: Operation> {
    tickets: Vec<Option<Ticket<O>>>,
    sequence: Vec<usize>,
}

impl<O: Operation> Flight<O> {
    fn new() -> Flight<O> {
        Flight {
            tickets: Vec::new(),
            sequence: Vec::new(),
        }
    }

    /// Starts an operation; returns its output if it completed inline.
    fn start(&mut self, context: &mut Context, operation: O) -> Option<O::Output> {
        let index = self.tickets.len();
        match context.submit_with(operation, index as u64) {
            Outcome::Done(output) => {
                self.tickets.push(None);
                self.sequence.push(index);
                Some(output)
            }
            Outcome::Pending(ticket) => {
                self.tickets.push(Some(ticket));
                None
            }
        }
    }

    /// Waits for all, and passes each output to `check`.
    fn land(
        mut self,
        context: &mut Context,
        check: impl Fn(O::Output) -> io::Result<()>,
    ) -> io::Result<Vec<usize>> {
        let mut completions = Vec::new();
        while self.sequence.len() < self.tickets.len() {
            context.poll(&mut completions, None)?;
            for completion in completions.drain(..) {
                let index = completion.user_data as usize;
                self.sequence.push(index);
                let ticket = self.tickets[index].take().expect("completed once");
                let output = context.take(ticket).map_err(|_| io::ErrorKind::NotFound)?;
                check(output)?;
            }
        }
        Ok(self.sequence)
    }
}

type Block = Limit<Vec<u8>>;

/// A buffer for direct I/O: the aligned block of a longer buffer.
fn buffer() -> Block {
    let mut buffer: Vec<u8> = Vec::with_capacity(2 * BLOCK);
    buffer.resize(buffer.as_ptr().align_offset(BLOCK), 0);
    Limit::new(buffer, BLOCK)
}

fn is_block((result, _): (io::Result<usize>, Block)) -> io::Result<()> {
    match result? {
        BLOCK => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Returns the order in which reads at random offsets complete.
fn reads(
    context: &mut Context,
    file: &Rc<OwnedFd>,
    count: usize,
    ordered: bool,
    round: usize,
) -> io::Result<Vec<usize>> {
    context.set_ordered(file.as_raw_fd(), ordered)?;
    let mut flight = Flight::new();
    let mut place = round as u64 + 1;
    for _ in 0..count {
        // Knuth's multiplier: any that scatters the offsets would do.
        place = place
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let offset = (place >> 33) % BLOCKS * BLOCK as u64;
        if let Some(output) = flight.start(context, ReadAt::new(file.clone(), buffer(), offset)) {
            is_block(output)?;
        }
    }
    flight.land(context, is_block)
}

/// Returns the order in which appended records were written.
fn appended(
    context: &mut Context,
    directory: &Path,
    count: usize,
    ordered: bool,
) -> io::Result<Vec<usize>> {
    let path = directory.join("records");
    let _ = std::fs::remove_file(&path);
    let file = File::options().append(true).create_new(true).open(&path)?;
    let file: Rc<OwnedFd> = Rc::new(file.into());
    context.set_ordered(file.as_raw_fd(), ordered)?;
    let mut flight = Flight::new();
    for index in 0..count {
        let record = (index as u64).to_le_bytes();
        if let Some((result, _)) = flight.start(context, WriteAt::new(file.clone(), record, 0)) {
            result?;
        }
    }
    flight.land(context, |(result, _)| result.map(drop))?;
    let bytes = std::fs::read(&path)?;
    let number = |record: &[u8]| u64::from_le_bytes(record.try_into().expect("eight bytes"));
    Ok(bytes
        .chunks_exact(8)
        .map(|record| number(record) as usize)
        .collect())
}

/// Starts more reads than there are slots.
fn at_limit(options: Options, file: &Rc<OwnedFd>) -> io::Result<AtLimit> {
    let mut context = Context::new(options)?;
    let mut found = AtLimit::default();
    let mut flight = Flight::new();
    for index in 0..CALLS {
        let offset = (index * BLOCK) as u64;
        match flight.start(&mut context, ReadAt::new(file.clone(), buffer(), offset)) {
            None => found.started += 1,
            Some((Err(error), _)) if error.kind() == io::ErrorKind::WouldBlock => {
                found.refused += 1;
            }
            Some(output) => {
                is_block(output)?;
                found.inline += 1;
            }
        }
    }
    flight.land(&mut context, is_block)?;
    Ok(found)
}

impl Report {
    /// The results of each back end.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Returns the results as a JSON array of objects.
    pub fn json(&self) -> String {
        let json = serde_json::to_string_pretty(&self.lines);
        json.expect("numbers and names have a form in JSON") + "\n"
    }

    /// Returns the results as a table.
    pub fn table(&self) -> String {
        let mut text = format!(
            "{}\n\nOvertaken by later ones, and what {CALLS} calls came to with {SLOTS} slots\n",
            self.machine
        );
        let head = [
            "back end",
            "completed",
            "ordered",
            "issued",
            "ordered",
            "inline",
            "started",
            "refused",
            "waited",
            "refused",
        ];
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        for line in &self.lines {
            let limit = &line.at_limit;
            let waiting = &line.at_limit_waiting;
            lines.push(vec![
                line.backend.clone(),
                line.completion.percent(),
                line.completion_ordered.percent(),
                line.issue.percent(),
                line.issue_ordered.percent(),
                limit.inline.to_string(),
                limit.started.to_string(),
                limit.refused.to_string(),
                waiting.started.to_string(),
                waiting.refused.to_string(),
            ]);
        }
        text.push_str(&columns(&[0], &lines));
        text.push_str(NOTE);
        for note in &self.notes {
            text.push_str(&format!("note: {note}\n"));
        }
        text
    }
}

/// An explanation of the columns.
const NOTE: &str = "
completed: direct reads at random places, by their completions
issued: appended records, by their places in the file
waited, refused: the same if calls at the limit wait for a free slot; completions that the program has not taken occupy slots too
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordered_mode_keeps_order_and_slots_are_bounded() {
        let settings = Settings {
            operations: 64,
            repetitions: 2,
            ..Settings::default()
        };
        let report = run(&settings, &mut |_| {}).unwrap();
        assert!(report.lines().len() >= 5);
        for line in report.lines() {
            assert_eq!(line.completion_ordered.count, 0, "{line:?}");
            assert_eq!(line.issue_ordered.count, 0, "{line:?}");
            assert_eq!(line.issue_ordered.of, 128, "{line:?}");
            let AtLimit {
                inline,
                started,
                refused,
            } = line.at_limit;
            assert_eq!(inline + started + refused, CALLS, "{line:?}");
            assert!(started <= SLOTS as usize, "{line:?}");
            // Completions that the program has not taken occupy slots too, as many again.
            let AtLimit {
                inline,
                started,
                refused,
            } = line.at_limit_waiting;
            assert_eq!(inline + started + refused, CALLS, "{line:?}");
            assert!(started <= 2 * SLOTS as usize, "{line:?}");
        }
        assert!(report.table().contains("posix-aio"));
    }

    #[test]
    fn what_comes_after_a_later_one_is_overtaken() {
        let mut found = Overtaken::default();
        found.add(&[0, 2, 1, 3, 5, 4]);
        assert_eq!(found, Overtaken { count: 2, of: 6 });
        assert_eq!(found.percent(), "33 %");
    }
}
