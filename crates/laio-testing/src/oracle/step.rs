//! Programs of system calls, as data.

use std::fmt;

/// The number of descriptors that a program can open in addition to the given ones.
pub const SLOTS: u8 = 6;

/// A path below the root of the world.
pub type Name = &'static str;

/// A descriptor, by its role: the numbers differ between worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fd {
    /// The descriptor that the program has opened into this slot; -1 while the slot is empty.
    Slot(u8),
    /// The reading end of a pipe.
    PipeRead,
    /// The writing end of the same pipe.
    PipeWrite,
    /// One end of a pair of stream sockets.
    Left,
    /// The other end.
    Right,
    /// One end of a pair of datagram sockets.
    PacketLeft,
    /// The other end.
    PacketRight,
    /// The root directory, open for reading.
    Root,
    /// A number, for invalid descriptors.
    Number(i32),
}

/// How a call names a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Relative to the descriptor of the root.
    Root,
    /// Absolute.
    Absolute,
    /// Absolute, and by the older call without a directory descriptor where the architecture has it.
    Legacy,
}

/// The kind of address of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// In valid memory.
    Good,
    /// Null.
    Null,
    /// At an unmapped address.
    One,
    /// In the kernel's half of the address space.
    Kernel,
}

/// Bytes to write, made from a seed: `temp::pattern(length, seed)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// The seed of the pattern.
    pub seed: u8,
    /// The number of bytes.
    pub length: usize,
}

/// The position arguments of a vectored call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// `readv`, `writev`: the file position.
    Position,
    /// `preadv`, `pwritev`.
    Offset(i64),
    /// `preadv2`, `pwritev2`: an offset (-1 is the position) and flags.
    Flags(i64, i32),
}

/// One step of a program: one system call, or a call during which another thread acts.
///
/// Fields are named after the arguments of the call. `into` is the slot for a new descriptor; the previous
/// descriptor of the slot is closed if the call succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are the arguments of the calls.
pub enum Step {
    /// `openat`, `open`.
    Open {
        name: Name,
        via: Via,
        flags: i32,
        mode: u32,
        into: u8,
    },
    /// `openat2`.
    OpenResolved {
        name: Name,
        flags: u64,
        mode: u64,
        resolve: u64,
        into: u8,
    },
    /// `close`.
    Close { fd: Fd },
    /// `dup`, or `fcntl(F_DUPFD_CLOEXEC)`.
    Duplicate {
        fd: Fd,
        close_on_exec: bool,
        into: u8,
    },
    /// `read`.
    Read {
        fd: Fd,
        buffer: Buffer,
        length: usize,
    },
    /// `pread64`.
    ReadAt {
        fd: Fd,
        buffer: Buffer,
        length: usize,
        offset: i64,
    },
    /// `readv` and its variants. The buffer with index `bad` is null; `count` is passed instead of the
    /// correct count.
    ReadVector {
        fd: Fd,
        lengths: Vec<usize>,
        bad: Option<usize>,
        count: Option<usize>,
        at: At,
    },
    /// `write`. `claim` is passed instead of the correct length.
    Write {
        fd: Fd,
        buffer: Buffer,
        data: Data,
        claim: Option<usize>,
    },
    /// `pwrite64`.
    WriteAt {
        fd: Fd,
        buffer: Buffer,
        data: Data,
        offset: i64,
    },
    /// `writev` and its variants: the data of each buffer has the seed of the first plus its index.
    WriteVector {
        fd: Fd,
        data: Vec<Data>,
        bad: Option<usize>,
        count: Option<usize>,
        at: At,
    },
    /// `lseek`.
    Seek { fd: Fd, offset: i64, whence: i32 },
    /// `fstat`.
    StatFd { fd: Fd, buffer: Buffer },
    /// `newfstatat`; `stat`, or `lstat` with `AT_SYMLINK_NOFOLLOW`.
    StatName { name: Name, via: Via, flags: i32 },
    /// `statx`.
    Statx { name: Name, flags: i32, mask: u32 },
    /// `ftruncate`.
    Truncate { fd: Fd, length: i64 },
    /// `truncate`.
    TruncateName { name: Name, length: i64 },
    /// `fallocate`.
    Allocate {
        fd: Fd,
        mode: i32,
        offset: i64,
        length: i64,
    },
    /// `fchmod`.
    ChangeMode { fd: Fd, mode: u32 },
    /// `unlinkat`, `unlink`.
    Unlink { name: Name, via: Via },
    /// `mkdirat`, `mkdir`.
    MakeDirectory { name: Name, via: Via, mode: u32 },
    /// `mknodat`, of a FIFO.
    MakeFifo { name: Name, mode: u32 },
    /// `unlinkat(AT_REMOVEDIR)`, `rmdir`.
    RemoveDirectory { name: Name, via: Via },
    /// `renameat2`, or `rename` without flags.
    Rename {
        from: Name,
        to: Name,
        via: Via,
        flags: u32,
    },
    /// `linkat`, or `link` without flags.
    Link {
        from: Name,
        to: Name,
        via: Via,
        flags: i32,
    },
    /// `symlinkat`, `symlink`.
    Symlink { target: Name, name: Name, via: Via },
    /// `readlinkat`, `readlink`.
    ReadLink { name: Name, via: Via, length: usize },
    /// `faccessat`, `access`.
    Access { name: Name, via: Via, mode: i32 },
    /// `getdents64`.
    List { fd: Fd, length: usize },
    /// `fsync`, or `fdatasync`.
    Sync { fd: Fd, data_only: bool },
    /// `fcntl(F_GETFL)`.
    GetFlags { fd: Fd },
    /// `fcntl(F_SETFL)`.
    SetFlags { fd: Fd, flags: i32 },
    /// `fcntl(F_GETFD)`.
    GetFdFlags { fd: Fd },
    /// `recvfrom`.
    Receive {
        fd: Fd,
        buffer: Buffer,
        length: usize,
        flags: i32,
    },
    /// `sendto`.
    Send {
        fd: Fd,
        buffer: Buffer,
        data: Data,
        flags: i32,
    },
    /// `recvmsg`.
    ReceiveMessage {
        fd: Fd,
        lengths: Vec<usize>,
        flags: i32,
    },
    /// `sendmsg`.
    SendMessage { fd: Fd, data: Vec<Data>, flags: i32 },
    /// `shutdown`.
    Shutdown { fd: Fd, how: i32 },
    /// `sendfile`, with an offset or from the position.
    SendFile {
        to: Fd,
        from: Fd,
        offset: Option<i64>,
        length: usize,
    },
    /// `copy_file_range` at the positions.
    CopyRange {
        from: Fd,
        to: Fd,
        length: usize,
        flags: u32,
    },
    /// A `read` of an empty pipe or socket, which blocks: another thread then writes `feed`.
    ReadFed { fd: Fd, length: usize, feed: Data },
    /// A `write` of more than a pipe or socket holds: another thread reads as much meanwhile.
    WriteDrained { fd: Fd, data: Data },
}

/// A sequence of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One line per step.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            writeln!(f, "{index:4} {step:?}")?;
        }
        Ok(())
    }
}

impl Step {
    /// Returns the name of the kind of step, without its arguments.
    pub fn kind(&self) -> String {
        let all = format!("{self:?}");
        all.split([' ', '{']).next().unwrap_or_default().to_owned()
    }
}
