//! The options of a copy.

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
    /// Those that are arguments (`-H`).
    Arguments,
    /// All (`-L`).
    Always,
}

/// What is created for a source that is not a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// A copy.
    Copies,
    /// A hard link to the source (`-l`).
    HardLinks,
    /// A symbolic link to the source (`-s`).
    SymbolicLinks,
}

/// What happens if the destination file exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Existing {
    /// It is overwritten.
    Replace,
    /// The user is asked (`-i`).
    Ask,
    /// The file stays; this is not an error (`-n`, `--update=none`).
    Skip,
    /// The file stays; this is an error (`--update=none-fail`).
    Fail,
}

/// How an existing destination is backed up before it is overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backup {
    /// Not at all.
    None,
    /// As name and suffix.
    Simple,
    /// Numbered if numbered backups exist, else simple.
    Existing,
    /// As `name.~1~`, and so on.
    Numbered,
}

/// How holes are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sparse {
    /// A source with fewer blocks than its size needs is copied with its holes.
    Auto,
    /// Blocks of zeros become holes, too.
    Always,
    /// The destination has no holes.
    Never,
}

/// Whether the copy shares the source's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reflink {
    /// If the file system supports it.
    Auto,
    /// Always; it is an error if the file system does not support it.
    Always,
    /// Never.
    Never,
}

/// The method to copy data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Method {
    /// Chosen by file size, file system and the results of earlier files.
    #[default]
    Auto,
    /// By reflink (`FICLONE`), with `Auto` as the fallback.
    Reflink,
    /// By `copy_file_range`, with a buffer as the fallback.
    CopyRange,
    /// Through a buffer.
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

/// How calls on the destination are made.
///
/// They rarely block, because they change memory only. A hand-over to the background would cost
/// more than it saves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// By blocking calls on the worker's thread.
    #[default]
    Plain,
    /// Through the back end, like calls on the source.
    Backend,
}

/// Which attributes a copy gets from its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preserve {
    /// Permissions and POSIX ACLs.
    pub mode: bool,
    /// Owner and group.
    pub ownership: bool,
    /// Access and modification time.
    pub timestamps: bool,
    /// Hard links: names of the same source file become names of the same copy.
    pub links: bool,
    /// Extended attributes.
    pub attributes: bool,
    /// The SELinux security context.
    pub context: bool,
    /// A failure to set an attribute is an error.
    pub required: bool,
    /// `required` for extended attributes, even if the file system supports none.
    pub attributes_required: bool,
    /// Failures to set extended attributes are not printed.
    pub attributes_quiet: bool,
    /// `required` for the security context.
    pub context_required: bool,
    /// New files get the permissions that the umask allows, not those of the source
    /// (`--no-preserve=mode`).
    pub default_mode: bool,
}

/// The options of a copy. The default is `cp` without options.
#[derive(Clone)]
pub struct Options {
    /// Directories are copied with their contents.
    pub recursive: bool,
    /// Which symbolic links are followed.
    pub follow: Follow,
    /// The data of FIFOs and devices is copied, instead of creating such files.
    pub contents_of_special: bool,
    /// Directories on other file systems are created, but not filled.
    pub one_file_system: bool,
    /// Only attributes are copied, no data.
    pub attributes_only: bool,
    /// What is created for each file.
    pub make: Make,
    /// Which attributes are kept.
    pub preserve: Preserve,
    /// What happens if a destination file exists.
    pub existing: Existing,
    /// A destination that is not older than its source stays.
    pub update: bool,
    /// A destination that cannot be opened is removed and created again.
    pub force: bool,
    /// An existing destination is removed first.
    pub remove_destination: bool,
    /// A symbolic link to a directory at the destination is used as that directory.
    pub keep_directory_symlink: bool,
    /// A dangling symbolic link at the destination is written through, as POSIX requires; otherwise
    /// it is an error.
    pub through_dangling: bool,
    /// How an existing destination is backed up.
    pub backup: Backup,
    /// The suffix of simple backups.
    pub suffix: OsString,
    /// How holes are handled.
    pub sparse: Sparse,
    /// Whether the copy shares the source's blocks.
    pub reflink: Reflink,
    /// Each copied file is printed on standard output.
    pub verbose: bool,
    /// The copy method of each file is printed, too.
    pub debug: bool,
    /// Nothing is changed; the planned copies are printed.
    pub dry_run: bool,
    /// A file is written under a temporary name, and renamed when it is complete.
    pub atomic: bool,
    /// Each file is synced to the device before it gets its name.
    pub fsync: bool,
    /// Each copy is read back and compared with the hash of its source.
    pub verify: bool,
    /// The file that receives the hashes of the copies, for `sha256sum -c`; `-` is standard output.
    pub manifest: Option<PathBuf>,
    /// Continues an interrupted copy: complete files are kept, partial files are continued. Implies
    /// `atomic` and preserved times, which identify complete files.
    pub resume: bool,
    /// Which files are excluded.
    pub filter: Filter,
    /// The maximum number of bytes per second.
    pub rate: Option<u64>,
    /// Whether progress is shown.
    pub progress: bool,
    /// The back end of calls that would block; see [`laio::Options::backend`].
    pub backend: Option<BackendKind>,
    /// How calls on the destination are made.
    pub writes: Writes,
    /// The method to copy data.
    pub method: Method,
    /// The number of worker threads.
    pub jobs: Option<NonZeroUsize>,
    /// The number of files in flight per worker.
    pub depth: Option<NonZeroUsize>,
    /// The number of bytes per read or write.
    pub buffer: usize,
    /// Disk space is reserved before data is written.
    pub preallocate: bool,
    /// The access pattern announced to the kernel before a source is read; `DontNeed` is announced
    /// after it was read. By default `Sequential` for files larger than a buffer.
    pub advise: Option<Advice>,
    /// The number of pieces of a large file in flight; more than one by default if a back end is
    /// named that can overlap them.
    pub queue: Option<NonZeroUsize>,
    /// Data bypasses the page cache (O_DIRECT), if the file systems support it.
    pub direct: bool,
    /// The program name that starts each message.
    pub program: String,
    /// Receives the result of each file.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Options {
    /// The default number of files in flight per worker.
    pub const DEPTH: usize = 16;
    /// The kinds of advice about sources, and their names.
    pub const ADVICE: [(&'static str, Advice); 4] = [
        ("sequential", Advice::Sequential),
        ("willneed", Advice::WillNeed),
        ("noreuse", Advice::NoReuse),
        ("dontneed", Advice::DontNeed),
    ];
    /// The default buffer size, in bytes: with larger ones, buffer and pages exceed the processor's cache
    /// (decision 084).
    pub const BUFFER: usize = 128 << 10;
    /// The maximum buffer size, in bytes.
    pub const BUFFER_MAX: usize = 64 << 20;
    /// The default number of pieces of a file in flight, with a named back end.
    pub const QUEUE: usize = 8;
    /// The maximum number of pieces of a file in flight.
    pub const QUEUE_MAX: usize = 256;
    /// The maximum number of workers.
    pub const JOBS_MAX: usize = 256;
    /// The maximum number of files in flight per worker.
    pub const DEPTH_MAX: usize = 1024;
}

impl Options {
    /// Whether a back end was requested that data must go through, even if another method is
    /// faster. `lazy` and `sync` are none: with them the copy chooses the method. For calls other
    /// than those that move data, see `Worker::has_backend_other_than_lazy`.
    pub(crate) fn routes_data_through_backend(&self) -> bool {
        let best = |backend| matches!(backend, BackendKind::Lazy | BackendKind::Sync);
        self.backend.is_some_and(|backend| !best(backend))
    }

    /// The number of pieces of a file in flight.
    pub(crate) fn queue(&self) -> usize {
        let usual = if self.routes_data_through_backend() {
            Options::QUEUE
        } else {
            1
        };
        let queue = self.queue.map_or(usual, NonZeroUsize::get);
        queue.min(Options::QUEUE_MAX)
    }

    /// Whether data must go through a buffer.
    pub(crate) fn through_memory(&self) -> bool {
        self.direct || self.queue.is_some() || self.routes_data_through_backend()
    }

    /// Whether digests are computed.
    pub(crate) fn hashes(&self) -> bool {
        self.verify || self.manifest.is_some()
    }

    /// Whether data is hashed while it is copied, so that it must go through a buffer.
    pub(crate) fn hashes_on_the_way(&self) -> bool {
        self.hashes() && self.method != Method::CopyRange
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
