//! What is to be copied, and how.

use crate::filter::Filter;
use crate::outcome::Observer;
use laio::BackendKind;
use laio::ops::Advice;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// Which symbolic links in the source are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Follow {
    /// None (`-P`).
    Never,
    /// Those that are named as arguments (`-H`).
    Arguments,
    /// All (`-L`).
    Always,
}

/// What is made of a source file that is not a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// A copy.
    Copies,
    /// A hard link to the source (`-l`).
    HardLinks,
    /// A symbolic link to the source (`-s`).
    SymbolicLinks,
}

/// What happens to a destination file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Existing {
    /// It is overwritten.
    Replace,
    /// The user is asked (`-i`).
    Ask,
    /// It stays, and that is no error (`-n`, `--update=none`).
    Skip,
    /// It stays, and that is an error (`--update=none-fail`).
    Fail,
}

/// Whether what is overwritten is kept under another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backup {
    /// It is not.
    None,
    /// As name and suffix.
    Simple,
    /// Numbered if there are numbered ones already, else simple.
    Existing,
    /// As `name.~1~`, and so on.
    Numbered,
}

/// How holes are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sparse {
    /// Holes of files that seem to have some stay holes.
    Auto,
    /// Blocks of zeros become holes too.
    Always,
    /// There are none in the destination.
    Never,
}

/// Whether blocks are shared instead of copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reflink {
    /// Where the file system can.
    Auto,
    /// It is an error where it cannot.
    Always,
    /// Not at all.
    Never,
}

/// How data is moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    /// Chosen by size, file system and experience.
    #[default]
    Auto,
    /// Blocks are shared (`FICLONE`), or else as for `Auto`.
    Reflink,
    /// Inside the kernel (`copy_file_range`), or else through memory.
    CopyRange,
    /// Through memory.
    ReadWrite,
}

impl Method {
    const ALL: [(&'static str, Method); 4] = [
        ("auto", Method::Auto),
        ("reflink", Method::Reflink),
        ("copy-file-range", Method::CopyRange),
        ("read-write", Method::ReadWrite),
    ];
}

impl FromStr for Method {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Method::ALL.iter().find(|(known, _)| *known == name);
        found.map(|&(_, method)| method).ok_or_else(|| {
            "the methods are auto, reflink, copy-file-range and read-write".to_owned()
        })
    }
}

/// Where calls that change the destination are made.
///
/// They rarely wait: they change what is in memory. A hand-over to the background then costs more than
/// it saves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// Plainly, on the worker's thread.
    #[default]
    Plain,
    /// As the back end would have them, like those on the source.
    Backend,
}

/// Which attributes a copy gets from its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preserve {
    /// Permissions and POSIX ACLs.
    pub mode: bool,
    /// User and group.
    pub ownership: bool,
    /// When it was last read and changed.
    pub timestamps: bool,
    /// Names of the same file are names of the same copy.
    pub links: bool,
    /// Extended attributes.
    pub attributes: bool,
    /// The security context.
    pub context: bool,
    /// An attribute that cannot be set makes the copy fail.
    pub required: bool,
    /// The same as `required`, for extended attributes, also if the file system has none.
    pub attributes_required: bool,
    /// Extended attributes that cannot be set are not even told of.
    pub attributes_quiet: bool,
    /// The same as `required`, for the security context.
    pub context_required: bool,
    /// Permissions are those of any new file, by the umask, not those of the source
    /// (`--no-preserve=mode`).
    pub default_mode: bool,
}

/// What is to be copied, and how. The default is `cp` without options.
#[derive(Clone)]
pub struct Options {
    /// Directories are copied with all that is in them.
    pub recursive: bool,
    /// Which symbolic links are followed.
    pub follow: Follow,
    /// What FIFOs and devices contain is copied, not they themselves.
    pub contents_of_special: bool,
    /// Directories on other file systems stay empty.
    pub one_file_system: bool,
    /// No data, only attributes.
    pub attributes_only: bool,
    /// What is made of files.
    pub make: Make,
    /// Which attributes are kept.
    pub preserve: Preserve,
    /// What happens to files that are there.
    pub existing: Existing,
    /// Destinations that are not older than their source stay.
    pub update: bool,
    /// A destination that cannot be opened is removed, and made anew.
    pub force: bool,
    /// Destinations are removed before they are made anew.
    pub remove_destination: bool,
    /// A symbolic link to a directory is as good as a directory, in the destination.
    pub keep_directory_symlink: bool,
    /// A symbolic link that leads nowhere is written through, as POSIX wants it; else it is an error.
    pub through_dangling: bool,
    /// Whether what is overwritten is kept.
    pub backup: Backup,
    /// What simple backups end with.
    pub suffix: OsString,
    /// How holes are treated.
    pub sparse: Sparse,
    /// Whether blocks are shared.
    pub reflink: Reflink,
    /// Each file is told on standard output.
    pub verbose: bool,
    /// And what was done to it.
    pub debug: bool,
    /// Nothing is changed; what would be is told.
    pub dry_run: bool,
    /// A file gets its name when it is complete.
    pub atomic: bool,
    /// A file has reached the device before it gets its name, and before the next one.
    pub fsync: bool,
    /// Each copy is read back, and compared with what was read of its source.
    pub verify: bool,
    /// Where hashes of the copies are listed, for `sha256sum -c`; `-` is standard output.
    pub manifest: Option<PathBuf>,
    /// Goes on with a copy that was interrupted: what is whole is kept, what was begun is gone on with. Files
    /// are copied as with `atomic`, and get the times of their sources, by which they are known again.
    pub resume: bool,
    /// What is left out.
    pub filter: Filter,
    /// Bytes per second, at most.
    pub rate: Option<u64>,
    /// Whether progress is shown.
    pub progress: bool,
    /// How calls go to the background; see [`laio::Options::backend`].
    pub backend: Option<BackendKind>,
    /// Where calls that change the destination are made.
    pub writes: Writes,
    /// How data is moved.
    pub method: Method,
    /// Workers, each of them a thread.
    pub jobs: Option<NonZeroUsize>,
    /// Files that a worker has in flight.
    pub depth: Option<NonZeroUsize>,
    /// Bytes that are read and written at a time.
    pub buffer: usize,
    /// Room is reserved before data is written.
    pub preallocate: bool,
    /// What the kernel is told of how sources are going to be read; `DontNeed`, when they have been.
    pub advise: Option<Advice>,
    /// Pieces of a large file that are in flight at a time; several, if a back end is named that has something
    /// to overlap then.
    pub queue: Option<NonZeroUsize>,
    /// Data goes past the page cache, where the file systems can.
    pub direct: bool,
    /// What messages begin with.
    pub program: String,
    /// Who is told what became of each file.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Options {
    /// Files that a worker has in flight, if nothing else is wanted.
    pub const DEPTH: usize = 16;
    /// What the kernel can be told of sources, and the words for it.
    pub const ADVICE: [(&'static str, Advice); 4] = [
        ("sequential", Advice::Sequential),
        ("willneed", Advice::WillNeed),
        ("noreuse", Advice::NoReuse),
        ("dontneed", Advice::DontNeed),
    ];
    /// Bytes of a buffer, if nothing else is wanted.
    pub const BUFFER: usize = 256 << 10;
    /// The largest buffer, in bytes.
    pub const BUFFER_MAX: usize = 64 << 20;
    /// Pieces of a file that are in flight with a named back end, if nothing else is wanted.
    pub const QUEUE: usize = 8;
    /// The most pieces of a file in flight.
    pub const QUEUE_MAX: usize = 256;
    /// The most workers.
    pub const JOBS_MAX: usize = 256;
    /// The most files that a worker has in flight.
    pub const DEPTH_MAX: usize = 1024;
}

impl Options {
    /// Data is to go through the back end that was named, rather than the way that is thought to be best.
    pub(crate) fn names_backend(&self) -> bool {
        let best = |backend| matches!(backend, BackendKind::Lazy | BackendKind::Sync);
        self.backend.is_some_and(|backend| !best(backend))
    }

    /// Pieces of a file in flight.
    pub(crate) fn queue(&self) -> usize {
        let usual = if self.names_backend() {
            Options::QUEUE
        } else {
            1
        };
        let queue = self.queue.map_or(usual, NonZeroUsize::get);
        queue.min(Options::QUEUE_MAX)
    }

    /// Data is to go through memory, however it would go else.
    pub(crate) fn through_memory(&self) -> bool {
        self.direct || self.queue.is_some() || self.names_backend()
    }

    /// A file copied onto itself, with force and backups, is copied to its backup.
    pub(crate) fn renamed_by_force(&self, source: &std::ffi::OsStr, target: OsString) -> OsString {
        let regular =
            |path: &OsString| std::fs::metadata(path).is_ok_and(|status| status.is_file());
        if self.force && self.backup != Backup::None && *source == *target && regular(&target) {
            return crate::backup::self_copy_target(&target, self);
        }
        target
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            recursive: false,
            follow: Follow::Always,
            contents_of_special: true,
            one_file_system: false,
            attributes_only: false,
            make: Make::Copies,
            preserve: Preserve::default(),
            existing: Existing::Replace,
            update: false,
            force: false,
            remove_destination: false,
            keep_directory_symlink: false,
            through_dangling: false,
            backup: Backup::None,
            suffix: "~".into(),
            sparse: Sparse::Auto,
            reflink: Reflink::Auto,
            verbose: false,
            debug: false,
            dry_run: false,
            atomic: false,
            fsync: false,
            verify: false,
            manifest: None,
            resume: false,
            filter: Filter::default(),
            rate: None,
            progress: false,
            backend: None,
            writes: Writes::Plain,
            method: Method::Auto,
            jobs: None,
            depth: None,
            buffer: Options::BUFFER,
            preallocate: false,
            advise: None,
            queue: None,
            direct: false,
            program: "cp".into(),
            observer: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("recursive", &self.recursive)
            .field("follow", &self.follow)
            .field("preserve", &self.preserve)
            .field("existing", &self.existing)
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}
