//! The results of a program, in a form in which two worlds can be compared.

use std::fmt;

use super::step::Step;

/// The events of a run, one per step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// In the order of the steps.
    pub events: Vec<Event>,
}

/// The result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The step.
    pub step: Step,
    /// How its call ended.
    pub outcome: Outcome,
    /// The data that the other thread read, if there is one.
    pub meanwhile: Option<Bytes>,
}

/// The result of a call, without values that differ between worlds: descriptor numbers, inodes, times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was not made, for this reason: it might block forever.
    Skipped(&'static str),
    /// It failed with this errno.
    Error(i32),
    /// It returned a number.
    Value(isize),
    /// It opened a descriptor, now in this slot.
    Opened(u8),
    /// It returned a number and data.
    Data {
        /// The return value.
        result: isize,
        /// The bytes that it wrote into the buffers.
        bytes: Bytes,
        /// Whether it left the memory behind the buffers unchanged.
        clean: bool,
    },
    /// It returned the attributes of a file.
    Attributes(Vec<(&'static str, u64)>),
    /// It returned the names in a directory, sorted here, with their types.
    Names(Vec<(String, u8)>),
}

/// Bytes that are compared in full and printed abbreviated.
#[derive(Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        write!(f, "[{} bytes", self.0.len())?;
        for byte in self.0.iter().take(SHOWN) {
            write!(f, " {byte:02x}")?;
        }
        if self.0.len() > SHOWN {
            write!(f, " … hash {:08x}", hash(&self.0) as u32)?;
        }
        write!(f, "]")
    }
}

/// FNV-1a: distinguishes contents; it need not resist attacks.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The state of a world after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// All names below the root, sorted.
    pub entries: Vec<Entry>,
    /// The descriptor in each slot.
    pub slots: Vec<Option<OpenFile>>,
    /// The bytes left in the pipe, the stream sockets and the datagram sockets, by their reading ends; a
    /// closed end has none.
    pub queues: Vec<(&'static str, Bytes)>,
}

/// A name and its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The path below the root.
    pub name: String,
    /// The type and the permissions.
    pub mode: u32,
    /// The number of its names.
    pub links: u64,
    /// The size; 0 for directories.
    pub size: u64,
    /// The contents of a file by their hash, the target of a symbolic link in full.
    pub contents: String,
}

/// A descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// The status flags.
    pub flags: i32,
    /// The descriptor flags.
    pub fd_flags: i32,
    /// The file position, or a negative errno.
    pub position: i64,
}
