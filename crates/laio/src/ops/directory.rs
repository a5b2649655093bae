//! Reading directories.

use super::buffer::spare;
use super::outputs::append;
use super::{FileType, word};
use crate::Call;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

operation! {
    /// Reads the next entries of a directory (`getdents64`), from its position, which advances. One
    /// call may return fewer entries than are left, even if they would fit: the kernel stops early
    /// when a signal is pending. Only an empty result means the end.
    pub struct ReadDir<F: AsFd> {
        directory: F,
        buffer: Vec<u8>,
    }

    // SAFETY: the pointer is into the buffer, which the operation owns.
    unsafe call(self) {
        let (address, length) = spare(&mut self.buffer);
        Call::new(libc::SYS_getdents64, [word(&self.directory), address, length])
    }

    /// The entries, in no order; none at the end of the directory. `EINVAL` if not even one fits
    /// into the buffer.
    finish(self, result) -> io::Result<Entries> {
        // SAFETY: the result is that of the call on the buffer, which was empty.
        let (result, records) = unsafe { append(self.buffer, result) };
        result.map(|_| Entries { records })
    }
}

impl<F> ReadDir<F> {
    /// The buffer size of [`ReadDir::new`] in bytes: some hundreds of entries.
    pub const ROOM: usize = 32 * 1024;

    /// Reads as many entries as fit into a new buffer.
    pub fn new(directory: F) -> Self {
        ReadDir::with_buffer(directory, Vec::with_capacity(Self::ROOM))
    }

    /// Reads as many entries as fit into the capacity of `buffer`, whose contents are dropped.
    pub fn with_buffer(directory: F, mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        ReadDir { directory, buffer }
    }
}

/// Some entries of a directory, as the kernel wrote them.
#[derive(Clone)]
pub struct Entries {
    records: Vec<u8>,
}

impl Entries {
    /// Whether the end of the directory is reached.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The entries, without `.` and `..`. There may be none though [`Entries::is_empty`] is false.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        let records = Records {
            rest: &self.records,
        };
        records.filter(|entry| !matches!(entry.name.as_bytes(), b"." | b".."))
    }

    /// Returns the buffer, for reuse with [`ReadDir::with_buffer`].
    pub fn into_buffer(self) -> Vec<u8> {
        self.records
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    name: &'a OsStr,
    inode: u64,
    file_type: FileType,
}

impl<'a> Entry<'a> {
    /// The name: any bytes but `/` and zero.
    pub fn name(&self) -> &'a OsStr {
        self.name
    }

    /// The inode; for a mount point, that of the covered directory.
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// The kind of file; [`FileType::Unknown`] if the file system does not store it in the
    /// directory.
    pub fn file_type(&self) -> FileType {
        self.file_type
    }
}

/// `struct linux_dirent64`: inode (8 bytes), position (8), length of the record (2), kind (1), and the
/// name up to a zero byte.
struct Records<'a> {
    rest: &'a [u8],
}

const LENGTH: usize = 16;
const KIND: usize = 18;
const NAME: usize = 19;

impl<'a> Iterator for Records<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let inode = u64::from_ne_bytes(*self.rest.first_chunk()?);
        let length = u16::from_ne_bytes(*self.rest.get(LENGTH..)?.first_chunk()?);
        let (record, rest) = self.rest.split_at_checked(length.into())?;
        self.rest = rest;
        let kind = *record.get(KIND)?;
        let name = record.get(NAME..)?.split(|&byte| byte == 0).next()?;
        Some(Entry {
            name: OsStr::from_bytes(name),
            inode,
            // DT_* are the S_IFMT bits, 12 bits further down.
            file_type: FileType::of_mode(u32::from(kind) << 12),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(inode: u64, kind: u8, name: &[u8]) -> Vec<u8> {
        let length = (NAME + name.len() + 1).next_multiple_of(8);
        let mut record = inode.to_ne_bytes().to_vec();
        record.extend(0u64.to_ne_bytes());
        record.extend((length as u16).to_ne_bytes());
        record.push(kind);
        record.extend(name);
        record.resize(length, 0);
        record
    }

    #[test]
    fn records_are_taken_apart() {
        let records = [
            record(1, libc::DT_DIR, b"."),
            record(2, libc::DT_REG, b"a"),
            record(3, libc::DT_LNK, &[0xff; 255]),
            record(4, libc::DT_DIR, b".."),
        ]
        .concat();
        let entries = Entries { records };
        let found: Vec<_> = entries.iter().collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name(), "a");
        assert_eq!(
            (found[0].inode(), found[0].file_type()),
            (2, FileType::Regular)
        );
        assert_eq!(found[1].name().as_bytes(), [0xff; 255]);
        assert_eq!(found[1].file_type(), FileType::Symlink);
    }

    #[test]
    fn damaged_records_end_the_list() {
        let mut records = record(1, libc::DT_REG, b"name");
        records.truncate(20);
        assert_eq!(Entries { records }.iter().count(), 0);
        let records = vec![0; 64];
        // A record of length 0 must not cause an endless loop.
        assert_eq!(Entries { records }.iter().count(), 0);
    }
}
