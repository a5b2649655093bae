//! Reading directories.

use super::metadata;
use crate::{proactor, run};
use laio::Submission;
use laio::ops::{self, Entries, Name, Open, OpenFile};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{FileType, Metadata};
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

/// Returns a stream over the entries within a directory.
///
/// # Errors
/// `NotFound` if there is no such directory; `NotADirectory` if it is something else.
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref();
    let directory = run(Open::new(Name::from_path(path)?, libc::O_DIRECTORY)).await?;
    Ok(ReadDir {
        root: path.into(),
        state: State::Idle(OpenFile::from(directory)),
        entries: VecDeque::new(),
    })
}

/// Reads the entries in a directory, without `.` and `..`.
#[must_use = "streams do nothing unless polled"]
pub struct ReadDir {
    root: Arc<Path>,
    state: State,
    entries: VecDeque<DirEntry>,
}

enum State {
    Idle(OpenFile),
    Reading(OpenFile, Submission<ops::ReadDir<OpenFile>>),
    End,
}

impl ReadDir {
    /// Returns the next entry in the directory, `None` at the end.
    ///
    /// This method is cancellation safe: no entry is lost when the future is dropped.
    ///
    /// # Errors
    /// Those of reading the directory.
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        poll_fn(|context| self.poll_next_entry(context)).await
    }

    /// Polls for the next entry in the directory.
    ///
    /// # Errors
    /// Those of reading the directory.
    pub fn poll_next_entry(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Option<DirEntry>>> {
        loop {
            if let Some(entry) = self.entries.pop_front() {
                return Poll::Ready(Ok(Some(entry)));
            }
            match &mut self.state {
                State::End => return Poll::Ready(Ok(None)),
                State::Idle(directory) => {
                    let directory = directory.clone();
                    let read = proactor()?.submit(ops::ReadDir::new(directory.clone()));
                    self.state = State::Reading(directory, read);
                }
                State::Reading(directory, read) => {
                    let result = ready!(Pin::new(read).poll(context));
                    let directory = directory.clone();
                    self.state = State::Idle(directory);
                    match result {
                        Ok(entries) if entries.is_empty() => self.state = State::End,
                        Ok(entries) => self.take(&entries),
                        Err(error) => {
                            self.state = State::End;
                            return Poll::Ready(Err(error));
                        }
                    }
                }
            }
        }
    }

    fn take(&mut self, entries: &Entries) {
        let entry = |entry: ops::Entry<'_>| DirEntry {
            root: self.root.clone(),
            name: entry.name().to_owned(),
            inode: entry.inode(),
            file_type: entry.file_type(),
        };
        self.entries.extend(entries.iter().map(entry));
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadDir").field(&self.root).finish()
    }
}

/// An entry of a directory.
pub struct DirEntry {
    root: Arc<Path>,
    name: OsString,
    inode: u64,
    file_type: ops::FileType,
}

impl DirEntry {
    /// Returns the full path: that of [`read_dir`] with the file name.
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    /// Returns the file name.
    pub fn file_name(&self) -> OsString {
        self.name.clone()
    }

    /// Returns the inode number, as the directory has it.
    pub fn ino(&self) -> u64 {
        self.inode
    }

    /// Returns the metadata of the file, without following a symbolic link.
    ///
    /// # Errors
    /// `NotFound` if it was removed meanwhile.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        metadata::symlink_metadata(self.path()).await
    }

    /// Returns the file type. Most file systems store it in the directory, so this makes no call.
    ///
    /// # Errors
    /// Those of [`DirEntry::metadata`], where the directory does not have it.
    pub async fn file_type(&self) -> io::Result<FileType> {
        match known(self.file_type) {
            Some(file_type) => Ok(file_type),
            None => Ok(self.metadata().await?.file_type()),
        }
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DirEntry").field(&self.path()).finish()
    }
}

/// The type in the form of the standard library, which has no constructor: it is that of a known file.
fn known(file_type: ops::FileType) -> Option<FileType> {
    static DIRECTORY: OnceLock<Option<FileType>> = OnceLock::new();
    static LINK: OnceLock<Option<FileType>> = OnceLock::new();
    static REGULAR: OnceLock<Option<FileType>> = OnceLock::new();
    let (known, path) = match file_type {
        ops::FileType::Directory => (&DIRECTORY, "/"),
        ops::FileType::Symlink => (&LINK, "/proc/self"),
        ops::FileType::Regular => (&REGULAR, "/proc/self/status"),
        _ => return None,
    };
    // These are in the kernel's memory.
    let found = *known.get_or_init(|| Some(std::fs::symlink_metadata(path).ok()?.file_type()));
    found.filter(|found| match file_type {
        ops::FileType::Directory => found.is_dir(),
        ops::FileType::Symlink => found.is_symlink(),
        _ => found.is_file(),
    })
}
