//! Reading a directory as a whole.

use crate::answer::{Outcome, Value};
use laio::Proactor;
use laio::ops::{Close, FileType, Name, Open, OpenFile, ReadDir};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

/// Reads all entries. The bytes of the answer are the number of entries (32 bits), their types as Node
/// numbers them (a byte each), and their names with zero bytes between them. As libuv does, it sorts the
/// names by their bytes.
pub(crate) async fn read(proactor: &'static Proactor, name: io::Result<Name>) -> Outcome {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let directory = OpenFile::from(proactor.submit(Open::new(name?, flags)).await?);
    let listed = list(proactor, &directory).await;
    if let Ok(descriptor) = directory.try_into_owned() {
        proactor.submit(Close::new(descriptor)).await?;
    }
    listed.map(Value::Bytes)
}

async fn list(proactor: &'static Proactor, directory: &OpenFile) -> io::Result<Vec<u8>> {
    let mut found = Vec::new();
    let mut names = Vec::new();
    let mut buffer = Vec::with_capacity(ReadDir::<OpenFile>::ROOM);
    loop {
        let read = ReadDir::with_buffer(directory.clone(), buffer);
        let entries = proactor.submit(read).await?;
        if entries.is_empty() {
            break;
        }
        for entry in entries.iter() {
            let begin = names.len();
            names.extend_from_slice(entry.name().as_bytes());
            found.push((begin..names.len(), type_number(entry.file_type())));
        }
        buffer = entries.into_buffer();
    }
    let name = |place: &Range<usize>| &names[place.clone()];
    found.sort_unstable_by(|(a, _), (b, _)| name(a).cmp(name(b)));
    let count = u32::try_from(found.len()).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut answer = Vec::with_capacity(4 + 2 * found.len() + names.len());
    answer.extend_from_slice(&count.to_ne_bytes());
    answer.extend(found.iter().map(|(_, kind)| kind));
    for (number, (place, _)) in found.iter().enumerate() {
        if number > 0 {
            answer.push(0);
        }
        answer.extend_from_slice(name(place));
    }
    Ok(answer)
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
