//! The rows of the table.

use super::CallVariant;
use super::rounds::Blocks;
use super::whole_file::WholeFile;
use super::workspace::Workspace;
use crate::error::{Error, While};
use crate::pin::Pinned;
use laio::BackendKind;
use laio::measure::{
    AnsweredRead, CachedBatch, ColdReads, Inline, ManyPipes, OpenStatClose, Subject,
};
use laio_rt::Runtime;

/// A call, or a sequence of calls, in a given situation.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// The name in the table and in arguments.
    pub name: &'static str,
    /// A short description.
    pub what: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Getpid,
    ReadCached(usize),
    OpenFstatClose { trust: bool },
    OpenStatClose,
    WholeFile,
    Stat,
    Write { trust: bool },
    WriteBatch,
    Receive(usize),
    Send(usize),
    WritePipe(usize),
    Batch,
    AnsweredRead { far: bool },
    ManyPipes,
    Cold(usize),
}

/// The number of reads in a batch.
const BATCH: usize = 64;
/// The number of pipes read at once.
const PIPES: usize = 100;

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("getpid", "the cheapest call", Kind::Getpid),
    row("pread4k", "pread of 4 KiB in the cache", Kind::ReadCached(4096)),
    row("pread64k", "pread of 64 KiB in the cache", Kind::ReadCached(65536)),
    row("open-fstat-close", "open, fstat and close of a file, together", Kind::OpenFstatClose { trust: false }),
    row("open-fstat-close-trusted", "open, fstat and close where no name leads to a FIFO (trust_names)", Kind::OpenFstatClose { trust: true }),
    row("open-stat-close", "open and statx of a file as one typed operation, and close", Kind::OpenStatClose),
    row("read-file", "laio_rt::fs::read of a file of 4 KiB; plain is std::fs::read", Kind::WholeFile),
    row("stat", "stat of a name in the cache", Kind::Stat),
    row("pwrite4k", "pwrite of 4 KiB into the cache", Kind::Write { trust: false }),
    row("pwrite4k-trusted", "the same, inline while few pages are dirty (trust_writes)", Kind::Write { trust: true }),
    row("pwrite4k-batch", "64 pwrites of 4 KiB into the cache started together, each", Kind::WriteBatch),
    row("recv", "recv of 4 KiB that wait in a local socket", Kind::Receive(4096)),
    row("recv-64", "recv of 64 bytes that wait in a local socket", Kind::Receive(64)),
    row("send", "send of 4 KiB to a local socket with free space", Kind::Send(4096)),
    row("send-64", "send of 64 bytes to a local socket with free space", Kind::Send(64)),
    row("pipe-write", "write of 4 KiB to a pipe with free space", Kind::WritePipe(4096)),
    row("pipe-write-64", "write of 64 bytes to a pipe with free space", Kind::WritePipe(64)),
    row("batch-pread4k", "64 cached preads of 4 KiB started together, each", Kind::Batch),
    row("pipe-read", "read of an empty pipe, which a thread on another processor answers", Kind::AnsweredRead { far: true }),
    row("pipe-read-near", "read of an empty pipe, which a thread on the same processor answers", Kind::AnsweredRead { far: false }),
    row("pipe-read-100", "100 reads of pipes outstanding, each", Kind::ManyPipes),
    row("cold-1", "random 4 KiB preads from disk, 1 in flight, each", Kind::Cold(1)),
    row("cold-8", "random 4 KiB preads from disk, 8 in flight, each", Kind::Cold(8)),
    row("cold-32", "random 4 KiB preads from disk, 32 in flight, each", Kind::Cold(32)),
    row("cold-128", "random 4 KiB preads from disk, 128 in flight, each", Kind::Cold(128)),
];

const fn row(name: &'static str, what: &'static str, kind: Kind) -> Row {
    Row { name, what, kind }
}

impl Row {
    /// Returns all rows, in the order of the table.
    pub fn all() -> impl Iterator<Item = &'static Row> {
        ROWS.iter()
    }

    /// Returns the rows that an argument selects: the row of that name, and those whose name continues with
    /// `-`.
    ///
    /// # Errors
    /// A message, if no row has that name.
    pub fn named(name: &str) -> Result<Vec<&'static Row>, String> {
        let meant = |row: &&Row| {
            let rest = row.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let found: Vec<_> = Row::all().filter(meant).collect();
        if found.is_empty() {
            let known: Vec<_> = Row::all().map(|row| row.name).collect();
            return Err(format!(
                "there is no call `{name}`; there are {}",
                known.join(", ")
            ));
        }
        Ok(found)
    }

    /// Whether the row reads data that must not be in the cache.
    pub(super) fn is_cold(&self) -> bool {
        matches!(self.kind, Kind::Cold(_))
    }

    /// Whether the row sets `trust_names`.
    pub(super) fn trusts_names(&self) -> bool {
        self.kind == Kind::OpenFstatClose { trust: true }
    }

    /// Whether the row sets `trust_writes`.
    pub(super) fn trusts_writes(&self) -> bool {
        self.kind == Kind::Write { trust: true }
    }

    /// Whether a bare ring can run the row too.
    pub(super) fn runs_on_a_ring(&self) -> bool {
        matches!(
            self.kind,
            Kind::Batch | Kind::AnsweredRead { .. } | Kind::ManyPipes | Kind::Cold(_)
        )
    }

    /// Whether the row can measure this variant.
    pub(super) fn takes(&self, variant: CallVariant) -> bool {
        // A different system-call instruction makes no difference to a call that blocks, nor to `std`.
        variant != CallVariant::Direct || !(self.runs_on_a_ring() || self.needs_runtime())
    }

    /// Whether the measuring thread is pinned to one processor. Not if threads of the back end take part,
    /// which would inherit the pin; but always if a peer thread answers, so that the processors of both are
    /// known.
    pub(super) fn stays(&self, variant: CallVariant) -> bool {
        let answered = matches!(self.kind, Kind::AnsweredRead { .. });
        // If the file system has no non-blocking write, a helper writes.
        let may_delegate = matches!(self.kind, Kind::Write { .. } | Kind::WriteBatch);
        let writes = may_delegate && variant != CallVariant::Backend(BackendKind::Sync);
        answered || !(self.is_cold() || writes || variant.delegates())
    }

    /// Whether the row measures futures, in a runtime instead of a context.
    pub(super) fn needs_runtime(&self) -> bool {
        self.kind == Kind::WholeFile
    }

    /// Whether the row needs two processors.
    pub(super) fn is_far(&self) -> bool {
        self.kind == Kind::AnsweredRead { far: true }
    }

    /// Prepares the calls. `pinned` is the processor of the measuring thread; `runtime` is for a row that needs one.
    pub(super) fn subject(
        &self,
        workspace: &Workspace,
        pinned: Option<&Pinned>,
        runtime: Option<Runtime>,
    ) -> Result<Box<dyn Subject>, Error> {
        let subject: Result<Box<dyn Subject>, laio::Errno> = match self.kind {
            Kind::Getpid => Ok(Box::new(Inline::getpid())),
            Kind::ReadCached(bytes) => Ok(Box::new(Inline::read_file(workspace.file()?, bytes))),
            Kind::OpenFstatClose { .. } => boxed(Inline::open_fstat_close(workspace.path())),
            Kind::OpenStatClose => boxed(OpenStatClose::new(workspace.path())),
            Kind::WholeFile => Ok(Box::new(WholeFile::new(workspace.page(), runtime))),
            Kind::Stat => boxed(Inline::stat(workspace.path())),
            Kind::Write { .. } => Ok(Box::new(Inline::write_file(workspace.file()?, 4096))),
            Kind::Receive(bytes) => boxed(Inline::receive(bytes)),
            Kind::Send(bytes) => boxed(Inline::send(bytes)),
            Kind::WritePipe(bytes) => boxed(Inline::write_pipe(bytes)),
            Kind::Batch => boxed(CachedBatch::new(workspace.file()?, BATCH)),
            Kind::WriteBatch => boxed(CachedBatch::of_writes(workspace.file()?, BATCH)),
            Kind::AnsweredRead { far: true } => {
                boxed(AnsweredRead::far(pinned.and_then(Pinned::other_processor)))
            }
            Kind::AnsweredRead { far: false } => {
                boxed(AnsweredRead::near(pinned.map(Pinned::processor)))
            }
            Kind::ManyPipes => boxed(ManyPipes::new(PIPES)),
            Kind::Cold(depth) => boxed(ColdReads::new(workspace.cold_file()?, depth)),
        };
        subject.doing(format_args!("cannot prepare {}", self.name))
    }

    /// Returns how many calls make a block.
    pub(super) fn blocks(&self) -> Blocks {
        match self.kind {
            Kind::Batch | Kind::WriteBatch => Blocks::Timed { multiple_of: BATCH },
            Kind::ManyPipes => Blocks::Timed { multiple_of: PIPES },
            // Enough calls that filling and draining the queue does not matter; few with one in flight, where
            // each call takes long.
            Kind::Cold(depth) => Blocks::Fixed {
                plain: 256,
                variant: if depth == 1 { 256 } else { 32 * depth.max(16) },
            },
            _ => Blocks::Timed { multiple_of: 1 },
        }
    }
}

fn boxed<S: Subject + 'static>(
    subject: Result<S, laio::Errno>,
) -> Result<Box<dyn Subject>, laio::Errno> {
    Ok(Box::new(subject?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(name: &str) -> Vec<&'static str> {
        Row::named(name)
            .unwrap()
            .iter()
            .map(|row| row.name)
            .collect()
    }

    #[test]
    fn rows_are_named_alone_or_together() {
        assert_eq!(names("getpid"), ["getpid"]);
        assert_eq!(names("cold"), ["cold-1", "cold-8", "cold-32", "cold-128"]);
        assert_eq!(names("cold-1"), ["cold-1"]);
        assert_eq!(
            names("pipe-read"),
            ["pipe-read", "pipe-read-near", "pipe-read-100"]
        );
        let error = Row::named("preadv").unwrap_err();
        assert!(
            error.contains("preadv") && error.contains("pread4k"),
            "{error}"
        );
    }
}
