//! The files of a plan that contain names: records of fields that end with a zero byte, the only
//! byte that names cannot contain. The last record holds the number of records and their hash.

use laio_rt::fs::{FileType, Timestamp};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The root that all names are relative to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
    /// The path for messages.
    pub(crate) source_shown: PathBuf,
    pub(crate) target_shown: PathBuf,
}

/// A directory, after the record of its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryRecord<'a> {
    /// The number of its parent in this file; `None` for the root.
    pub(crate) parent: Option<u32>,
    pub(crate) source: &'a OsStr,
    pub(crate) target: &'a OsStr,
    pub(crate) is_new: bool,
    pub(crate) follows_source: bool,
    pub(crate) follows_target: bool,
    /// The final mode, if attributes are not preserved.
    pub(crate) mode: Option<u32>,
    pub(crate) accessed: Timestamp,
    pub(crate) modified: Timestamp,
}

/// A file in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileRecord<'a> {
    pub(crate) directory: Option<u32>,
    pub(crate) source: &'a OsStr,
    pub(crate) target: &'a OsStr,
    pub(crate) kind: FileType,
    pub(crate) is_argument: bool,
}

/// A file that is copied in regions, under a temporary name until it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LargeFile<'a> {
    pub(crate) temporary: &'a OsStr,
    pub(crate) size: u64,
    pub(crate) modified: Timestamp,
}

/// A hard link to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkRecord<'a> {
    pub(crate) link: FileRecord<'a>,
    /// The directory and the name of the first link, which is the copy.
    pub(crate) first_directory: Option<u32>,
    pub(crate) first_name: &'a OsStr,
    /// The part that makes the copy; `None` if several do.
    pub(crate) first_part: Option<u32>,
}

/// A record of a plan's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    Directory(DirectoryRecord<'a>),
    /// A file to copy.
    File(FileRecord<'a>),
    /// A region to copy: file, start and end.
    Region(FileRecord<'a>, LargeFile<'a>, u64, u64),
    /// A large file that gets its attributes and name when all regions are copied.
    LargeFile(FileRecord<'a>, LargeFile<'a>),
    Link(LinkRecord<'a>),
}

const KIND: &str = "laio-cp-plan";
/// The version of this format. Plans of other versions are rejected.
pub(crate) const VERSION: u32 = 1;

/// FNV-1a: detects truncation and damage, not forgery.
#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    fn new() -> Hash {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The hash of a path, for formats that cannot store its bytes.
pub(crate) fn hash_of(path: &Path) -> String {
    let mut hash = Hash::new();
    hash.add(path.as_os_str().as_bytes());
    format!("{:016x}", hash.0)
}

/// A file of records being written. It gets its final name when it is complete.
pub(crate) struct Writer {
    file: BufWriter<File>,
    path: PathBuf,
    hash: Hash,
    records: u64,
    record: Vec<u8>,
}

impl Writer {
    pub(crate) fn create(path: &Path, plan: &str, root: &Root) -> io::Result<Writer> {
        let mut writer = Writer {
            file: BufWriter::new(File::create(unfinished(path))?),
            path: path.to_owned(),
            hash: Hash::new(),
            records: 0,
            record: Vec::new(),
        };
        writer.put(KIND.as_bytes());
        writer.put_number(VERSION);
        writer.put(plan.as_bytes());
        for path in [
            &root.source,
            &root.target,
            &root.source_shown,
            &root.target_shown,
        ] {
            writer.put(path.as_os_str().as_bytes());
        }
        writer.end_record()?;
        Ok(writer)
    }

    pub(crate) fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        match record {
            Record::Directory(directory) => self.put_directory(directory),
            Record::File(file) => {
                self.put(b"f");
                self.put_file(file);
            }
            Record::Region(file, large, start, end) => {
                self.put(b"r");
                self.put_file(file);
                self.put_large(large);
                self.put_number(start);
                self.put_number(end);
            }
            Record::LargeFile(file, large) => {
                self.put(b"b");
                self.put_file(file);
                self.put_large(large);
            }
            Record::Link(link) => {
                self.put(b"l");
                self.put_file(&link.link);
                self.put_index(link.first_directory);
                self.put(link.first_name.as_bytes());
                self.put_index(link.first_part);
            }
        }
        self.end_record()
    }

    /// Completes the file and renames it.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let (records, hash) = (self.records, self.hash.0);
        self.put(b"end");
        self.put_number(records);
        self.put(format!("{hash:016x}").as_bytes());
        self.end_record()?;
        self.file.flush()?;
        std::fs::rename(unfinished(&self.path), &self.path)
    }

    fn put(&mut self, field: &[u8]) {
        self.record.extend_from_slice(field);
        self.record.push(0);
    }

    fn put_number(&mut self, number: impl ToString) {
        self.put(number.to_string().as_bytes());
    }

    fn put_index(&mut self, index: Option<u32>) {
        match index {
            Some(index) => self.put_number(index),
            None => self.put(b"-"),
        }
    }

    fn put_time(&mut self, time: Timestamp) {
        self.put(format!("{}.{:09}", time.seconds, time.nanoseconds).as_bytes());
    }

    fn put_directory(&mut self, directory: &DirectoryRecord<'_>) {
        self.put(b"d");
        self.put_index(directory.parent);
        self.put(directory.source.as_bytes());
        self.put_other(directory.target, directory.source);
        let flags = [
            (directory.is_new, 'n'),
            (directory.follows_source, 's'),
            (directory.follows_target, 't'),
        ];
        let flags: String = flags
            .iter()
            .filter(|(set, _)| *set)
            .map(|(_, flag)| flag)
            .collect();
        self.put(flags.as_bytes());
        self.put_index(directory.mode);
        self.put_time(directory.accessed);
        self.put_time(directory.modified);
    }

    fn put_file(&mut self, file: &FileRecord<'_>) {
        self.put_index(file.directory);
        self.put(file.source.as_bytes());
        self.put_other(file.target, file.source);
        let mut kind = vec![letter(file.kind)];
        if file.is_argument {
            kind.push(b'a');
        }
        self.put(&kind);
    }

    /// Writes a name; an empty field if it equals `usual`.
    fn put_other(&mut self, name: &OsStr, usual: &OsStr) {
        self.put(if name == usual { b"" } else { name.as_bytes() });
    }

    fn put_large(&mut self, large: &LargeFile<'_>) {
        self.put(large.temporary.as_bytes());
        self.put_number(large.size);
        self.put_time(large.modified);
    }

    fn end_record(&mut self) -> io::Result<()> {
        self.hash.add(&self.record);
        self.records += 1;
        self.file.write_all(&self.record)?;
        self.record.clear();
        Ok(())
    }
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

const LETTERS: [(FileType, u8); 8] = [
    (FileType::Regular, b'-'),
    (FileType::Directory, b'd'),
    (FileType::Symlink, b'l'),
    (FileType::Fifo, b'p'),
    (FileType::Socket, b's'),
    (FileType::CharDevice, b'c'),
    (FileType::BlockDevice, b'b'),
    (FileType::Unknown, b'?'),
];

fn letter(kind: FileType) -> u8 {
    let found = LETTERS.iter().find(|(known, _)| *known == kind);
    found.map_or(b'?', |(_, letter)| *letter)
}

/// A file of records that was read and checked.
pub(crate) struct Records {
    bytes: Vec<u8>,
    pub(crate) root: Root,
    /// The offset of each directory's record.
    directories: Vec<usize>,
    body: std::ops::Range<usize>,
}

impl Records {
    /// Reads and checks a file. The error describes what is wrong.
    pub(crate) fn read(path: &Path, plan: &str) -> Result<Records, String> {
        let read = || {
            let bytes = std::fs::read(path).map_err(|error| super::error_text(&error))?;
            Records::parse(bytes, plan)
        };
        read().map_err(|wrong: String| format!("the plan's file '{}': {wrong}", path.display()))
    }

    fn parse(bytes: Vec<u8>, plan: &str) -> Result<Records, String> {
        let mut fields = Fields {
            bytes: &bytes,
            at: 0,
        };
        if fields.next()? != KIND.as_bytes() {
            return Err("it is not part of a plan of laio cp".to_owned());
        }
        let version: u32 = fields.number()?;
        if version != VERSION {
            return Err(super::version_error(version.into()));
        }
        if fields.next()? != plan.as_bytes() {
            return Err("it belongs to another plan".to_owned());
        }
        let root = Root {
            source: fields.name()?.into(),
            target: fields.name()?.into(),
            source_shown: fields.name()?.into(),
            target_shown: fields.name()?.into(),
        };
        let (start, mut records, mut directories) = (fields.at, 1, Vec::new());
        let end = loop {
            let at = fields.at;
            if fields.next()? == b"end" {
                break at;
            }
            fields.at = at;
            let record = fields.record()?;
            record.check(directories.len())?;
            records += 1;
            if matches!(record, Record::Directory(_)) {
                directories.push(at);
            }
        };
        let mut hash = Hash::new();
        hash.add(&bytes[..end]);
        let expected: u64 = fields.number()?;
        if expected != records || fields.next()? != format!("{:016x}", hash.0).as_bytes() {
            return Err(DAMAGED.to_owned());
        }
        if fields.at != bytes.len() {
            return Err(DAMAGED.to_owned());
        }
        Ok(Records {
            root,
            directories,
            body: start..end,
            bytes,
        })
    }

    /// The records and their offsets.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Record<'_>)> {
        let mut at = self.body.start;
        std::iter::from_fn(move || {
            let mut fields = self.fields(at, self.body.end);
            let record = (std::mem::replace(&mut at, 0), fields.record().ok()?);
            at = fields.at;
            Some(record)
        })
    }

    /// The record at an offset.
    pub(crate) fn at(&self, at: usize) -> Record<'_> {
        let record = self.fields(at, self.body.end).record();
        record.unwrap_or_else(|_| unreachable!("it was one when the file was read"))
    }

    fn fields(&self, at: usize, end: usize) -> Fields<'_> {
        Fields {
            bytes: &self.bytes[..end],
            at,
        }
    }

    pub(crate) fn directories(&self) -> u32 {
        self.directories.len() as u32
    }

    /// The directory with this number. `parse` has checked the numbers in records.
    pub(crate) fn directory(&self, index: u32) -> DirectoryRecord<'_> {
        match self.at(self.directories[index as usize]) {
            Record::Directory(directory) => directory,
            _ => unreachable!("it was one when the file was read"),
        }
    }
}

const DAMAGED: &str = "it is damaged or incomplete; the plan must be made again";

impl Record<'_> {
    /// Checks a record that `directories` directories precede.
    fn check(&self, directories: usize) -> Result<(), String> {
        let known = |index: Option<u32>| index.is_none_or(|index| (index as usize) < directories);
        let within = |directory: Option<u32>, name: &OsStr| {
            let bytes = name.as_bytes();
            !bytes.is_empty() && (directory.is_none() || !bytes.contains(&b'/'))
        };
        let is_sound = |file: &FileRecord<'_>| {
            known(file.directory)
                && within(file.directory, file.source)
                && within(file.directory, file.target)
        };
        let sound = match self {
            Record::Directory(directory) => {
                known(directory.parent)
                    && within(directory.parent, directory.source)
                    && within(directory.parent, directory.target)
            }
            Record::File(file) => is_sound(file),
            Record::Region(file, large, start, end) => {
                is_sound(file)
                    && within(Some(0), large.temporary)
                    && start < end
                    && *end <= large.size
            }
            Record::LargeFile(file, large) => is_sound(file) && within(Some(0), large.temporary),
            Record::Link(link) => {
                is_sound(&link.link)
                    && known(link.first_directory)
                    && within(link.first_directory, link.first_name)
            }
        };
        sound.then_some(()).ok_or_else(|| DAMAGED.to_owned())
    }
}

/// Parses fields.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<&'a [u8], String> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == 0).ok_or(DAMAGED)?;
        self.at += end + 1;
        Ok(&rest[..end])
    }

    fn name(&mut self) -> Result<&'a OsStr, String> {
        self.next().map(OsStr::from_bytes)
    }

    fn other(&mut self, usual: &'a OsStr) -> Result<&'a OsStr, String> {
        let name = self.name()?;
        Ok(if name.is_empty() { usual } else { name })
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, String> {
        parse(self.next()?)
    }

    fn index(&mut self) -> Result<Option<u32>, String> {
        match self.next()? {
            b"-" => Ok(None),
            digits => parse(digits).map(Some),
        }
    }

    fn time(&mut self) -> Result<Timestamp, String> {
        let text = self.next()?;
        let point = text.iter().position(|byte| *byte == b'.').ok_or(DAMAGED)?;
        Ok(Timestamp {
            seconds: parse(&text[..point])?,
            nanoseconds: parse(&text[point + 1..])?,
        })
    }

    fn directory_record(&mut self) -> Result<DirectoryRecord<'a>, String> {
        let (parent, source) = (self.index()?, self.name()?);
        let (target, flags) = (self.other(source)?, self.next()?);
        Ok(DirectoryRecord {
            parent,
            source,
            target,
            is_new: flags.contains(&b'n'),
            follows_source: flags.contains(&b's'),
            follows_target: flags.contains(&b't'),
            mode: self.index()?,
            accessed: self.time()?,
            modified: self.time()?,
        })
    }

    fn file_record(&mut self) -> Result<FileRecord<'a>, String> {
        let (directory, source) = (self.index()?, self.name()?);
        let (target, kind) = (self.other(source)?, self.next()?);
        let found = LETTERS
            .iter()
            .find(|(_, letter)| kind.first() == Some(letter));
        Ok(FileRecord {
            directory,
            source,
            target,
            kind: found.ok_or(DAMAGED)?.0,
            is_argument: kind.contains(&b'a'),
        })
    }

    fn large(&mut self) -> Result<LargeFile<'a>, String> {
        Ok(LargeFile {
            temporary: self.name()?,
            size: self.number()?,
            modified: self.time()?,
        })
    }

    fn record(&mut self) -> Result<Record<'a>, String> {
        match self.next()? {
            b"d" => self.directory_record().map(Record::Directory),
            b"f" => self.file_record().map(Record::File),
            b"r" => Ok(Record::Region(
                self.file_record()?,
                self.large()?,
                self.number()?,
                self.number()?,
            )),
            b"b" => Ok(Record::LargeFile(self.file_record()?, self.large()?)),
            b"l" => Ok(Record::Link(LinkRecord {
                link: self.file_record()?,
                first_directory: self.index()?,
                first_name: self.name()?,
                first_part: self.index()?,
            })),
            _ => Err(DAMAGED.to_owned()),
        }
    }
}

fn parse<T: std::str::FromStr>(digits: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(digits).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| DAMAGED.to_owned())
}
