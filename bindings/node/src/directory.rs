//! Reading directories.

use crate::answer::{Answer, Outcome, Value};
use crate::engine::{Memory, engine};
use laio::ops::{Close, Entries, FileType, Name, Open, OpenFile, ReadDir};
use laio::{BackendKind, Context, Options, Outcome as Submitted, Proactor};
use napi::{Env, Result};
use napi_derive::napi;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Reads all entries. The bytes of the answer are the number of entries (32 bits), their types as Node
/// numbers them (a byte each), and their names with zero bytes between them. As libuv does, it sorts the
/// names by their bytes.
pub(crate) async fn read(proactor: &'static Proactor, name: io::Result<Name>) -> Outcome {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let directory = OpenFile::from(proactor.submit(Open::new(name?, flags)).await?);
    let own = directory.clone();
    let listed = if proactor.is_local(&directory) {
        // No part of it can be attempted: one function waits for a thread once.
        proactor.blocking(move |_| list_here(&own)).await?
    } else {
        drop(own);
        list(proactor, &directory).await
    };
    if let Ok(descriptor) = directory.try_into_owned() {
        proactor.submit(Close::new(descriptor)).await?;
    }
    let mut listing = listed?;
    listing.sort();
    listing.encode().map(Value::Bytes)
}

/// Calls that a cancellation interrupts, and that have a limit of their own for each remote file system.
async fn list(proactor: &'static Proactor, directory: &OpenFile) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let mut buffer = Vec::with_capacity(ReadDir::<OpenFile>::ROOM);
    loop {
        let read = ReadDir::with_buffer(directory.clone(), buffer);
        let Some(entries) = unless_end(proactor.submit(read).await)? else {
            return Ok(listing);
        };
        listing.add(&entries);
        buffer = entries.into_buffer();
    }
}

/// Reads all entries on the calling thread.
fn list_here(directory: &OpenFile) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let mut here = Here::new()?;
    while here.read(directory, &mut listing)? {}
    Ok(listing)
}

/// The names in a directory, read on the calling thread.
pub(crate) fn names_here(path: &Path) -> io::Result<Vec<OsString>> {
    let directory = OwnedFd::from(File::open(path)?);
    let Listing { names, found } = list_here(&directory.into())?;
    let name = |(place, _): (Range<usize>, u8)| OsStr::from_bytes(&names[place]).to_owned();
    Ok(found.into_iter().map(name).collect())
}

/// Reads the next entries of an open directory, in its order: none at its end.
#[napi]
pub fn read_entries(env: Env, fd: i32) -> Result<Answer> {
    let engine = engine()?;
    let (proactor, directory) = (engine.proactor, engine.file(fd));
    engine.run(env, Memory::Scratch, async move {
        let directory = directory?;
        let mut listing = Listing::default();
        // The first ones may be only `.` and `..`.
        while listing.found.is_empty() {
            let read = ReadDir::new(directory.clone());
            let Some(entries) = unless_end(proactor.submit(read).await)? else {
                break;
            };
            listing.add(&entries);
        }
        listing.encode().map(Value::Bytes)
    })
}

/// As `read_entries`, on the calling thread, which may block.
#[napi]
pub fn read_entries_here(env: Env, fd: i32) -> Result<Answer> {
    let engine = engine()?;
    let read = || {
        let (directory, mut listing) = (engine.file(fd)?, Listing::default());
        let mut here = Here::new()?;
        while here.read(&directory, &mut listing)? && listing.found.is_empty() {}
        listing.encode()
    };
    engine.answer(env, read().map(Value::Bytes), Memory::Scratch)
}

/// Makes calls on the calling thread.
struct Here {
    context: Context,
    buffer: Vec<u8>,
}

impl Here {
    fn new() -> io::Result<Here> {
        let context = Context::new(Options::new().backend(BackendKind::Sync))?;
        let buffer = Vec::with_capacity(ReadDir::<OpenFile>::ROOM);
        Ok(Here { context, buffer })
    }

    /// Reads some entries. False at the end of the directory.
    fn read(&mut self, directory: &OpenFile, listing: &mut Listing) -> io::Result<bool> {
        let buffer = std::mem::take(&mut self.buffer);
        let read = ReadDir::with_buffer(directory.clone(), buffer);
        let Submitted::Done(entries) = self.context.submit(read) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let Some(entries) = unless_end(entries)? else {
            return Ok(false);
        };
        listing.add(&entries);
        self.buffer = entries.into_buffer();
        Ok(true)
    }
}

/// `None` at the end. In a directory that was removed meanwhile the kernel fails with `ENOENT`, and the C
/// library, as Node has it, finds the end there.
fn unless_end(read: io::Result<Entries>) -> io::Result<Option<Entries>> {
    match read {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        read => read.map(|entries| (!entries.is_empty()).then_some(entries)),
    }
}

/// The names, and the place of each with its type.
#[derive(Default)]
struct Listing {
    names: Vec<u8>,
    found: Vec<(Range<usize>, u8)>,
}

impl Listing {
    fn add(&mut self, entries: &Entries) {
        for entry in entries.iter() {
            let begin = self.names.len();
            self.names.extend_from_slice(entry.name().as_bytes());
            let place = begin..self.names.len();
            self.found.push((place, type_number(entry.file_type())));
        }
    }

    fn sort(&mut self) {
        let name = |place: &Range<usize>| &self.names[place.clone()];
        self.found
            .sort_unstable_by(|(a, _), (b, _)| name(a).cmp(name(b)));
    }

    /// The bytes of the answer.
    fn encode(self) -> io::Result<Vec<u8>> {
        let name = |place: &Range<usize>| &self.names[place.clone()];
        let count = u32::try_from(self.found.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut answer = Vec::with_capacity(4 + 2 * self.found.len() + self.names.len());
        answer.extend_from_slice(&count.to_ne_bytes());
        answer.extend(self.found.iter().map(|(_, kind)| kind));
        for (number, (place, _)) in self.found.iter().enumerate() {
            if number > 0 {
                answer.push(0);
            }
            answer.extend_from_slice(name(place));
        }
        Ok(answer)
    }
}

/// `UV_DIRENT_*`.
fn type_number(file_type: FileType) -> u8 {
    match file_type {
        FileType::Unknown => 0,
        FileType::Regular => 1,
        FileType::Directory => 2,
        FileType::Symlink => 3,
        FileType::Fifo => 4,
        FileType::Socket => 5,
        FileType::CharDevice => 6,
        FileType::BlockDevice => 7,
    }
}
