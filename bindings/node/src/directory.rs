//! Reading a directory as a whole.

use crate::answer::{Outcome, Value};
use laio::ops::{Close, Entries, FileType, Name, Open, OpenFile, ReadDir};
use laio::{BackendKind, Context, Options, Outcome as Submitted, Proactor};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

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
    listed.map(Value::Bytes)
}

/// Calls that a cancellation interrupts, and that have a limit of their own for each remote file system.
async fn list(proactor: &'static Proactor, directory: &OpenFile) -> io::Result<Vec<u8>> {
    let mut listing = Listing::default();
    let mut buffer = Vec::with_capacity(ReadDir::<OpenFile>::ROOM);
    loop {
        let read = ReadDir::with_buffer(directory.clone(), buffer);
        let entries = proactor.submit(read).await?;
        if entries.is_empty() {
            return listing.encode();
        }
        listing.add(&entries);
        buffer = entries.into_buffer();
    }
}

/// Reads all entries on the calling thread.
fn list_here(directory: &OpenFile) -> io::Result<Vec<u8>> {
    let mut context = Context::new(Options::new().backend(BackendKind::Sync))?;
    let mut listing = Listing::default();
    let mut buffer = Vec::with_capacity(ReadDir::<OpenFile>::ROOM);
    loop {
        let read = ReadDir::with_buffer(directory.clone(), buffer);
        let Submitted::Done(entries) = context.submit(read) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let entries = entries?;
        if entries.is_empty() {
            return listing.encode();
        }
        listing.add(&entries);
        buffer = entries.into_buffer();
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

    /// The bytes of the answer.
    fn encode(mut self) -> io::Result<Vec<u8>> {
        let name = |place: &Range<usize>| &self.names[place.clone()];
        self.found
            .sort_unstable_by(|(a, _), (b, _)| name(a).cmp(name(b)));
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
