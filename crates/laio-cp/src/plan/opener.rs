//! Opens the directories of a plan, name by name from the root. Follows only symbolic links that
//! the planner has followed.

use super::records::{FileRecord, Records, Root};
use crate::lock::lock;
use crate::outcome::Failure;
use crate::quote::quote;
use crate::rules::attributes::{self, FileRef};
use crate::rules::source;
use crate::schedule::walk;
use crate::schedule::worker::Worker;
use crate::tree::{Argument, Directory, Entry, Handle, Handles, Side, StorageClass, identity};
use laio::ops::{Open, StatFile};
use laio_rt::fs::FileType;
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The maximum number of directories that are remembered for others below them; fewer may be open.
const REMEMBERED_MAX: usize = 64;
/// The first pause before a name is looked up again; each pause is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Opens the directories that a file of the plan names.
pub(crate) struct Opener {
    pub(crate) records: Records,
    pub(crate) root: Arc<Directory>,
    /// How long a directory that another machine created may remain invisible here.
    pub(crate) visibility_timeout: Duration,
    opened: Mutex<HashMap<u32, Arc<Directory>>>,
}

impl Opener {
    pub(crate) fn new(records: Records, visibility_timeout: Duration) -> Result<Opener, Failure> {
        let open = |path: &Path| -> Result<Handle, Failure> {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::open(path, flags, Mode::empty());
            opened.map(Arc::new).map_err(|error| {
                let text = format!("cannot open directory {} of the plan", quote(path));
                Failure::from_error(error.into(), text)
            })
        };
        let Root {
            source,
            target,
            source_shown,
            target_shown,
        } = records.root.clone();
        let handles = Handles {
            source: Some(open(&source)?),
            target: Some(open(&target)?),
        };
        let root = Directory::root(handles, (source_shown, target_shown));
        Ok(Opener {
            records,
            root,
            visibility_timeout,
            opened: Mutex::default(),
        })
    }

    /// Opens the directory with this number; the root for `None`.
    pub(crate) async fn open(
        &self,
        worker: &Worker,
        index: Option<u32>,
    ) -> Result<Arc<Directory>, Failure> {
        let Some(index) = index else {
            return Ok(self.root.clone());
        };
        let (mut missing, mut above) = (Vec::new(), Some(index));
        let mut directory = loop {
            let Some(number) = above else {
                break self.root.clone();
            };
            if let Some(opened) = lock(&self.opened).get(&number) {
                break opened.clone();
            }
            missing.push(number);
            above = self.records.directory(number).parent;
        };
        for number in missing.into_iter().rev() {
            directory = self.open_below(worker, &directory, number).await?;
            let mut opened = lock(&self.opened);
            if opened.len() >= REMEMBERED_MAX {
                opened.clear();
            }
            opened.insert(number, directory.clone());
        }
        Ok(directory)
    }

    async fn open_below(
        &self,
        worker: &Worker,
        above: &Arc<Directory>,
        number: u32,
    ) -> Result<Arc<Directory>, Failure> {
        let io = &worker.io;
        let record = self.records.directory(number);
        let names = (record.source, record.target);
        let mut entry = self.entry(above, names, FileType::Directory, false);
        walk::open_entry(worker, &mut entry)?;
        let opened = source::open_directory(&worker.io, &entry, record.follows_source).await?;
        let (source, status) = (opened.opened, opened.status);
        let mut flags = libc::O_RDONLY | libc::O_DIRECTORY;
        if !record.follows_target {
            flags |= libc::O_NOFOLLOW;
        }
        let open = || Open::new(entry.target(), flags);
        let target = self
            .retry_until_visible(async || io.call_target(open()).await.map(Arc::new))
            .await;
        let target = target.map_err(entry.target_failure("cannot open directory"))?;
        let existing = io.call_target(StatFile::new(target.clone())).await;
        let existing = existing.map_err(entry.target_failure("cannot stat"))?;
        let info = crate::tree::DirectoryInfo {
            source: status.with_times(record.accessed, record.modified),
            target: existing,
            keeps_attributes: false,
            mode: record.mode,
            default_acl: attributes::default_permissions(io, &FileRef::Open(target.clone())).await,
            names: Default::default(),
            storage_class: source
                .as_ref()
                .map_or_else(|_| StorageClass::default(), StorageClass::for_directory),
        };
        let sides = (
            Side {
                name: record.source.to_owned(),
                identity: source.is_ok().then(|| identity(&status)),
                follows: record.follows_source,
            },
            Side {
                name: record.target.to_owned(),
                identity: Some(identity(&info.target)),
                follows: record.follows_target,
            },
        );
        let handles = Handles {
            source: source.ok(),
            target: Some(target),
        };
        // Other processes have been copying into the directory, so its contents are unknown.
        let directory = Directory::child(above.clone(), sides, Some(info), false, None);
        worker.open_directories.keep_open(&directory, handles);
        Ok(directory)
    }

    /// Returns a file of the plan, with its directories open.
    pub(crate) async fn find(
        &self,
        worker: &Worker,
        named: &FileRecord<'_>,
    ) -> Result<Entry, Failure> {
        let directory = self.open(worker, named.directory).await?;
        let names = (named.source, named.target);
        let mut entry = self.entry(&directory, names, named.kind, named.is_argument);
        walk::open_entry(worker, &mut entry)?;
        Ok(entry)
    }

    /// Repeats a call while a file that another machine created is not visible here yet.
    pub(crate) async fn retry_until_visible<T>(
        &self,
        mut attempt: impl AsyncFnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let until = Instant::now() + self.visibility_timeout;
        let mut pause = PAUSE;
        loop {
            let unseen = |error: &io::Error| {
                matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESTALE))
            };
            match attempt().await {
                Err(error) if unseen(&error) && Instant::now() < until => {
                    laio_rt::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                result => return result,
            }
        }
    }

    /// Makes an entry from its names in source and destination.
    pub(crate) fn entry(
        &self,
        directory: &Arc<Directory>,
        names: (&OsStr, &OsStr),
        kind: FileType,
        is_argument: bool,
    ) -> Entry {
        let (source, target) = names;
        let argument = || Argument {
            source: directory.source_path().join(source),
            target: directory.target_path().join(target),
            ..Argument::default()
        };
        Entry {
            directory: directory.clone(),
            name: source.to_owned(),
            new_name: (source != target).then(|| target.to_owned()),
            kind,
            argument: is_argument.then(|| Arc::new(argument())),
            handles: None,
        }
    }
}
