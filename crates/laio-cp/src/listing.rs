//! The entries of a directory, read a bounded number at a time.

use crate::directory::{Directory, Entry, Handle};
use crate::medium::Medium;
use crate::outcome::Failure;
use crate::pool::Task;
use crate::quote::quote;
use crate::worker::Worker;
use laio::ops::ReadDir;
use laio_rt::fs::FileType;
use rustix::fs::SeekFrom;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

pub(crate) struct Listing {
    directory: Arc<Directory>,
    /// Names, one behind the other.
    names: Vec<u8>,
    /// Files yet to be copied, the next one last.
    items: Vec<Item>,
    /// Directories, not yet taken.
    directories: Vec<Item>,
    /// Arguments, which were not read.
    arguments: std::vec::IntoIter<Entry>,
    at_end: bool,
    /// Through which descriptor it was read, and up to where.
    read: Weak<OwnedFd>,
    position: Option<u64>,
    /// The directory was opened without waiting, so that its entries may be in memory.
    is_in_memory: bool,
    buffer: Vec<u8>,
}

struct Item {
    inode: u64,
    start: u32,
    length: u16,
    kind: FileType,
}

/// Entries that are read, and sorted, before the first of them is copied.
const ENTRIES_MAX: usize = 16 << 10;

/// Files that are worth the way to another worker.
const SHARE_LEAST: usize = 512;
/// Names are made in a directory one after the other: more workers would only wait for each other.
const SHARES_MAX: usize = 8;

impl Listing {
    pub(crate) fn new(directory: Arc<Directory>, is_in_memory: bool) -> Listing {
        Listing {
            directory,
            names: Vec::new(),
            items: Vec::new(),
            directories: Vec::new(),
            arguments: Vec::new().into_iter(),
            at_end: false,
            read: Weak::new(),
            position: None,
            is_in_memory,
            buffer: Vec::new(),
        }
    }

    /// The arguments of the command, as if they had been read.
    pub(crate) fn of_arguments(directory: Arc<Directory>, arguments: Vec<Entry>) -> Listing {
        let mut listing = Listing::new(directory, true);
        listing.arguments = arguments.into_iter();
        listing.at_end = true;
        listing
    }

    /// Reads the next entries.
    pub(crate) async fn read(&mut self, worker: &Worker) {
        self.names.clear();
        self.items.clear();
        let source = match self.open(worker) {
            Ok(source) => source,
            Err(error) => {
                let path = quote(self.directory.source_path());
                let failure = Failure::of(error, format!("reading directory {path}"));
                worker.shared.fail(&failure);
                self.at_end = true;
                return;
            }
        };
        let is_local = self.directory.medium() != Medium::Unknown;
        let mut is_near = self.is_in_memory;
        while !self.at_end && self.items.len() + self.directories.len() < ENTRIES_MAX {
            let mut buffer = std::mem::take(&mut self.buffer);
            if buffer.capacity() == 0 {
                buffer.reserve(ReadDir::<()>::ROOM);
            }
            let read = ReadDir::with_buffer(source.clone(), buffer);
            let entries = match worker.perhaps(read, is_near).await {
                Ok(entries) => entries,
                Err(error) => {
                    let path = quote(self.directory.source_path());
                    let failure = Failure::of(error, format!("reading directory {path}"));
                    worker.shared.fail(&failure);
                    self.at_end = true;
                    break;
                }
            };
            self.at_end = entries.is_empty();
            for entry in entries.iter() {
                self.add(worker, entry.name(), entry.inode(), entry.file_type());
            }
            self.buffer = entries.into_buffer();
            // What has room to spare most likely was all: the call that says so is not worth a hand-over.
            is_near |= is_local && self.buffer.len() < ReadDir::<()>::ROOM / 2;
        }
        self.rest(&source);
        // In the order in which most file systems keep inodes, and data: it spares the disk.
        self.items
            .sort_unstable_by_key(|item| std::cmp::Reverse(item.inode));
        self.directories
            .sort_unstable_by_key(|item| std::cmp::Reverse(item.inode));
        let found = self.items.len() as u64;
        worker.counters().found.fetch_add(found, Ordering::Relaxed);
    }

    fn add(&mut self, worker: &Worker, name: &OsStr, inode: u64, kind: FileType) {
        let filter = &worker.options().filter;
        let is_directory = kind == FileType::Directory;
        if !filter.is_empty() && !filter.takes(&self.directory.path_below(name), is_directory) {
            return;
        }
        let item = Item {
            inode,
            start: self.names.len() as u32,
            length: name.len() as u16,
            kind,
        };
        self.names.extend_from_slice(name.as_bytes());
        if is_directory {
            self.directories.push(item);
        } else {
            self.items.push(item);
        }
    }

    fn entry(&self, item: &Item) -> Entry {
        let start = item.start as usize;
        let name = &self.names[start..start + usize::from(item.length)];
        Entry {
            directory: self.directory.clone(),
            name: OsStr::from_bytes(name).to_owned(),
            new_name: None,
            kind: item.kind,
            argument: None,
            held: None,
        }
    }

    /// The source, where reading it was left off.
    fn open(&self, worker: &Worker) -> io::Result<Handle> {
        let source = worker.open(&self.directory)?.source;
        let source = source.ok_or(io::ErrorKind::NotFound)?;
        let same = self
            .read
            .upgrade()
            .is_some_and(|read| Arc::ptr_eq(&read, &source));
        if let (false, Some(position)) = (same, self.position) {
            rustix::fs::seek(&source, SeekFrom::Start(position))?;
        }
        Ok(source)
    }

    /// Reading goes on later, when the directory may have been closed.
    fn rest(&mut self, source: &Handle) {
        if !self.at_end {
            self.read = Arc::downgrade(source);
            self.position = rustix::fs::tell(source).ok();
        }
    }

    /// The next file.
    pub(crate) fn next(&mut self) -> Option<Entry> {
        if let Some(item) = self.items.pop() {
            return Some(self.entry(&item));
        }
        self.arguments.next()
    }

    /// The directories among what has been read: each is a task of its own, which the directory waits for.
    pub(crate) fn take_directories(&mut self) -> Vec<Task> {
        let directories = std::mem::take(&mut self.directories);
        let tasks = directories.iter().map(|item| {
            self.directory.begin();
            Task::Directory(self.entry(item))
        });
        tasks.collect()
    }

    /// Takes away what other workers may copy of a large directory; it is counted as one of its entries.
    pub(crate) fn share(&mut self) -> Vec<Task> {
        let share = (self.items.len() / SHARES_MAX).max(SHARE_LEAST);
        let mut shares = Vec::new();
        while self.items.len() >= 2 * share {
            // The last are the next: they stay.
            let rest = self.items.split_off(share);
            let items = std::mem::replace(&mut self.items, rest);
            self.directory.begin();
            let mut listing = Listing::new(self.directory.clone(), self.is_in_memory);
            listing.at_end = true;
            for item in items {
                let start = item.start as usize;
                let name = &self.names[start..start + usize::from(item.length)];
                let start = listing.names.len() as u32;
                listing.names.extend_from_slice(name);
                listing.items.push(Item { start, ..item });
            }
            shares.push(Task::Files(listing));
        }
        shares
    }

    /// Files that have been read and not yet been taken.
    pub(crate) fn len(&self) -> usize {
        self.items.len() + self.arguments.len()
    }

    /// Whether the directory has been read to its end.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at_end
    }

    pub(crate) fn into_directory(self) -> Arc<Directory> {
        self.directory
    }
}
