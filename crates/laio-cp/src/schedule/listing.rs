//! The entries of a directory, read in bounded batches.

use crate::filter::Filter;
use crate::io::Io;
use crate::outcome::Failure;
use crate::quote::quote;
use crate::session::Session;
use crate::tree::{Directory, Entry, Handle, OpenDirectories, StorageClass};
use laio::ops::ReadDir;
use laio_rt::fs::FileType;
use rustix::fs::SeekFrom;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// A directory that is being read, and its entries that are still to be copied.
pub(crate) struct Listing {
    directory: Arc<Directory>,
    /// The names, concatenated.
    names: Vec<u8>,
    /// Files still to be copied, in reverse order.
    items: Vec<Item>,
    /// Directories still to be pushed to the pool.
    directories: Vec<Item>,
    /// Arguments of the command, in place of directory entries.
    arguments: std::vec::IntoIter<Entry>,
    at_end: bool,
    /// The descriptor and the position of the last read.
    read: Weak<OwnedFd>,
    position: Option<u64>,
    /// The directory was opened inline (by an attempt, or by a blocking call on a fast device), so
    /// its entries may be cached.
    is_in_memory: bool,
    buffer: Vec<u8>,
}

/// An entry; its name is in [`Listing::names`].
struct Item {
    inode: u64,
    start: u32,
    length: u16,
    kind: FileType,
}

/// The maximum number of entries that are read and sorted at a time.
const ENTRIES_MAX: usize = 16 << 10;

/// The minimum number of files that is worth handing to another worker.
const SHARE_MIN: usize = 512;
/// The maximum number of shares of one listing. A worker that takes a large share splits it again.
/// The kernel serializes creating names in one directory, so more shares would mostly wait.
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

    /// A listing of the command's arguments.
    pub(crate) fn of_arguments(directory: Arc<Directory>, arguments: Vec<Entry>) -> Listing {
        let mut listing = Listing::new(directory, true);
        listing.arguments = arguments.into_iter();
        listing.at_end = true;
        listing
    }

    /// Reads the next batch of entries.
    pub(crate) async fn read(&mut self, io: &Io, session: &Session, open: &OpenDirectories) {
        self.names.clear();
        self.items.clear();
        let source = match self.open(io, open) {
            Ok(source) => source,
            Err(error) => return self.report_unreadable(session, error),
        };
        let is_local = self.directory.storage_class() != StorageClass::Unknown;
        let mut prefers_blocking = self.is_in_memory;
        while !self.at_end && self.items.len() + self.directories.len() < ENTRIES_MAX {
            let mut buffer = std::mem::take(&mut self.buffer);
            if buffer.capacity() == 0 {
                buffer.reserve(ReadDir::<()>::ROOM);
            }
            let read = ReadDir::with_buffer(source.clone(), buffer);
            let entries = match io.maybe_inline(read, prefers_blocking).await {
                Ok(entries) => entries,
                Err(error) => {
                    self.report_unreadable(session, error);
                    break;
                }
            };
            self.at_end = entries.is_empty();
            for entry in entries.iter() {
                self.add(
                    &session.options.filter,
                    entry.name(),
                    entry.inode(),
                    entry.file_type(),
                );
            }
            self.buffer = entries.into_buffer();
            // A half-empty buffer most likely held the last entries: the call that returns none is
            // not worth sending to the background.
            prefers_blocking |= is_local && self.buffer.len() < ReadDir::<()>::ROOM / 2;
        }
        self.save_position(&source);
        // By inode number: most file systems place data in this order, which saves disk seeks.
        self.items
            .sort_unstable_by_key(|item| std::cmp::Reverse(item.inode));
        self.directories
            .sort_unstable_by_key(|item| std::cmp::Reverse(item.inode));
        let found = self.items.len() as u64;
        io.counters().found.fetch_add(found, Ordering::Relaxed);
    }

    fn report_unreadable(&mut self, session: &Session, error: io::Error) {
        let path = quote(self.directory.source_path());
        let failure = Failure::from_error(error, format!("reading directory {path}"));
        session.report_failure(&failure);
        self.at_end = true;
    }

    fn add(&mut self, filter: &Filter, name: &OsStr, inode: u64, kind: FileType) {
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
            handles: None,
        }
    }

    /// Opens the source at the position of the last read.
    fn open(&self, io: &Io, open: &OpenDirectories) -> io::Result<Handle> {
        let source = open.handles_of(io, &self.directory)?.source;
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

    /// Saves the position: the directory may be closed before the next read.
    fn save_position(&mut self, source: &Handle) {
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

    /// Takes the directories of this batch; the listed directory waits for them.
    pub(crate) fn take_directories(&mut self) -> Vec<Entry> {
        let directories = std::mem::take(&mut self.directories);
        let entries = directories.iter().map(|item| {
            self.directory.add_pending();
            self.entry(item)
        });
        entries.collect()
    }

    /// Splits off shares of a large directory for other workers. Each share counts as an entry of
    /// the directory.
    pub(crate) fn split_off_shares(&mut self) -> Vec<Listing> {
        let share = (self.items.len() / SHARES_MAX).max(SHARE_MIN);
        let mut shares = Vec::new();
        while self.items.len() >= 2 * share {
            // The last items are copied next, so they stay.
            let rest = self.items.split_off(share);
            let items = std::mem::replace(&mut self.items, rest);
            self.directory.add_pending();
            let mut listing = Listing::new(self.directory.clone(), self.is_in_memory);
            listing.at_end = true;
            for item in items {
                let start = item.start as usize;
                let name = &self.names[start..start + usize::from(item.length)];
                let start = listing.names.len() as u32;
                listing.names.extend_from_slice(name);
                listing.items.push(Item { start, ..item });
            }
            shares.push(listing);
        }
        shares
    }

    /// The number of files read and not yet taken.
    pub(crate) fn len(&self) -> usize {
        self.items.len() + self.arguments.len()
    }

    /// Whether the whole directory has been read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at_end
    }

    pub(crate) fn into_directory(self) -> Arc<Directory> {
        self.directory
    }
}
