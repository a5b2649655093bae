//! The system-call table: one row per system call of Linux, with everything that depends on the
//! call.
//!
//! The rest of the engine reads the row; it never compares numbers. A test in
//! `system_calls_page.rs` generates `docs/system-calls.md` from it.

mod rows;

pub use rows::ROWS;

/// The row of a call number of this architecture. Numbers that no row has get [`UNKNOWN`].
#[inline]
pub fn row(number: usize) -> &'static Row {
    ROWS.get(index(number)).unwrap_or(&UNKNOWN)
}

/// The class of a call: whether and on what it can block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Never waits for a device or a peer. May run on any thread.
    Instant,
    /// Belongs to the calling thread (identity, signals, memory of the process image): always runs
    /// plainly, inline, in every back end, even where it can block.
    Thread,
    /// Moves bytes, or connections, on a socket, pipe or terminal, in order.
    Stream,
    /// Reads file data.
    FileRead,
    /// Changes file data, or waits for it to reach the device.
    FileWrite,
    /// Resolves a name, or reads or changes a directory or metadata.
    Path,
    /// Waits by nature: for a time, a child, a lock, an event.
    Waiting,
    /// Makes no sense through laio: fails with [`Row::refusal`].
    Refused,
}

impl Class {
    /// All classes, in the order of their discriminants.
    pub const ALL: [Class; 8] = [
        Class::Instant,
        Class::Thread,
        Class::Stream,
        Class::FileRead,
        Class::FileWrite,
        Class::Path,
        Class::Waiting,
        Class::Refused,
    ];
    pub(crate) const COUNT: usize = Class::ALL.len();
}

/// How the call is attempted without blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// No attempt: the call goes to the background at once.
    Never,
    /// The call itself, which cannot block.
    Plain,
    /// The call itself, unless its descriptor is on a remote or FUSE file system.
    PlainIfLocal,
    /// The call itself, unless an operation in flight holds the descriptor's file position.
    Seek,
    /// `preadv2(RWF_NOWAIT)`.
    NowaitRead,
    /// `pwritev2(RWF_NOWAIT)`.
    NowaitWrite,
    /// The call with `MSG_DONTWAIT` in the flags argument with this index.
    Dontwait(u8),
    /// `openat2(RESOLVE_CACHED)`.
    CachedOpen,
    /// `openat2(O_PATH | RESOLVE_CACHED)`, then the call on the descriptor.
    CachedStat,
    /// As [`Attempt::CachedStat`], for `faccessat2`.
    CachedAccess,
    /// The call with a flag that makes it fail rather than wait, in the argument with this index.
    Flag(u8, u32),
    /// The call with a zero time-out in the argument with this index.
    ZeroTimeout(u8, Timeout),
    /// `fcntl`: the waiting lock commands are attempted as their non-waiting form, all others are
    /// plain.
    Fcntl,
    /// `ioctl`: commands that wait for a disk are not attempted, all others are plain.
    Ioctl,
    /// `close`: cancels the operations in flight on the descriptor, then closes it.
    Close,
    /// `dup2`, `dup3`: as [`Attempt::Close`] for the descriptor in the argument with this index.
    Duplicate(u8),
    /// `close_range`: as [`Attempt::Close`] for each descriptor of the range.
    CloseRange,
}

/// How a call with a flag that keeps it from waiting shows that it would wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WouldWait {
    /// It fails with `EAGAIN`.
    Again,
    /// It fails with `ENOMSG` or `EAGAIN`.
    NoMessage,
    /// It returns 0, which is no child's PID.
    NoChild,
    /// It returns 0 and a `siginfo_t` without a PID.
    NoChildInfo,
}

/// How a call states its time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timeout {
    /// Milliseconds in an `int`; negative waits for ever.
    Milliseconds,
    /// A pointer to a `struct timespec`; null waits for ever.
    Timespec,
    /// A pointer to a `struct timeval`; null waits for ever.
    Timeval,
}

/// The memory that the call transfers, for continuing a transfer that stopped short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transfer {
    /// Nothing that can be continued: the first result is the result.
    Whole,
    /// One buffer. Fields are argument indexes.
    Buffer {
        /// The buffer's address.
        pointer: u8,
        /// Its length in bytes.
        length: u8,
        /// The file offset; none for the descriptor's own position.
        offset: Option<u8>,
    },
    /// An array of `struct iovec`.
    Vector {
        /// The array's address.
        vector: u8,
        /// Its number of elements.
        count: u8,
        /// The file offset; none for the descriptor's own position.
        offset: Option<u8>,
        /// The `RWF_*` flags of `preadv2` and `pwritev2`.
        flags: Option<u8>,
    },
    /// A `struct msghdr`.
    Message {
        /// The header's address.
        header: u8,
    },
    /// An array of `struct mmsghdr`: the result counts messages.
    Messages {
        /// The array's address.
        array: u8,
        /// Its number of elements.
        count: u8,
    },
}

impl Transfer {
    /// The length in bytes of the one buffer, if it is one.
    pub(crate) fn length(&self, call: &crate::Call) -> Option<usize> {
        match *self {
            Transfer::Buffer { length, .. } => Some(call.args[length as usize]),
            _ => None,
        }
    }
}

/// How the call uses a descriptor: which operations on it a later call must not overtake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Positioned or stateless: unordered, but cancelled by `close`.
    Unordered,
    /// Takes from the stream.
    Read,
    /// Puts into the stream.
    Write,
    /// Uses the file position, or both directions.
    Both,
    /// Used only to resolve a relative name.
    Directory,
}

/// A descriptor argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// Index of the argument.
    pub arg: u8,
    /// How the call uses it.
    pub usage: Use,
    /// Index of a pointer argument which, when not null, gives the position instead of the descriptor
    /// (`sendfile`, `splice`, `copy_file_range`): the use is then [`Use::Unordered`].
    pub offset_pointer: Option<u8>,
}

/// The arguments that name a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The directory descriptor; none for calls that resolve from the working directory.
    pub directory: Option<u8>,
    /// The name's address.
    pub path: u8,
}

/// The io_uring operation that corresponds to the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Opcode {
    Accept,
    Bind,
    Close,
    Connect,
    EpollCtl,
    Fadvise,
    Fallocate,
    FgetXattr,
    FsetXattr,
    Fsync,
    Ftruncate,
    GetXattr,
    LinkAt,
    Listen,
    Madvise,
    MkdirAt,
    OpenAt,
    OpenAt2,
    PollAdd,
    Read,
    ReadV,
    Recv,
    RecvMsg,
    RenameAt,
    Send,
    SendMsg,
    SetXattr,
    Shutdown,
    Socket,
    Splice,
    Statx,
    SymlinkAt,
    SyncFileRange,
    Tee,
    Timeout,
    UnlinkAt,
    WaitId,
    Write,
    WriteV,
}

/// One system call.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its position in [`ROWS`], for the statistics; [`ROWS`]`.len()` for [`UNKNOWN`].
    pub(crate) index: u16,
    /// Its name in the kernel.
    pub name: &'static str,
    /// Its number on x86-64.
    pub x86_64: Option<u16>,
    /// Its number on aarch64.
    pub aarch64: Option<u16>,
    /// Its class.
    pub class: Class,
    /// How it is attempted without blocking.
    pub attempt: Attempt,
    /// The memory that it transfers.
    pub transfer: Transfer,
    /// Which io_uring operation it has.
    pub opcode: Option<Opcode>,
    /// The descriptors among its arguments.
    pub descriptors: [Option<Descriptor>; 2],
    /// The arguments that name a file.
    pub file: Option<Name>,
    /// Index of the argument with the call's flags (`O_*`, `AT_*`, `RENAME_*`, `SOCK_*`, `TIMER_*`);
    /// none for calls without.
    pub flags: Option<u8>,
    /// For [`Attempt::Flag`]: how the call shows that it would wait.
    pub would_wait: WouldWait,
    /// Flag bits that the call has built in and that its modern or ring form must be given:
    /// `AT_SYMLINK_NOFOLLOW` for `lstat`, `AT_REMOVEDIR` for `rmdir`, `IORING_FSYNC_DATASYNC` for
    /// `fdatasync`.
    pub implied: u32,
    /// Which arguments are addresses: bit `i` for argument `i`.
    pub pointers: u8,
    /// Whether its result is a new descriptor.
    pub yields_descriptor: bool,
    /// Whether it waits for events of an array of descriptors.
    pub polls: bool,
    /// Whether it changes the thread's identity (credentials, namespaces, filters), so that helpers
    /// started earlier must not make later calls.
    pub changes_identity: bool,
    /// The errno of a refused call.
    pub refusal: crate::Errno,
    /// The reason for an unusual row, for the generated page.
    pub note: &'static str,
}

impl Row {
    /// A row with no attempt: the class decides the rest. Instant and thread-bound calls are plain.
    pub(crate) const fn new(
        name: &'static str,
        x86_64: Option<u16>,
        aarch64: Option<u16>,
        class: Class,
    ) -> Row {
        Row {
            index: 0,
            name,
            x86_64,
            aarch64,
            class,
            attempt: match class {
                Class::Instant | Class::Thread => Attempt::Plain,
                _ => Attempt::Never,
            },
            transfer: Transfer::Whole,
            opcode: None,
            descriptors: [None, None],
            file: None,
            flags: None,
            would_wait: WouldWait::Again,
            implied: 0,
            pointers: 0,
            yields_descriptor: false,
            polls: false,
            changes_identity: false,
            refusal: crate::Errno::NOSYS,
            note: "",
        }
    }

    pub(crate) const fn attempt(mut self, attempt: Attempt) -> Row {
        self.attempt = attempt;
        self
    }

    pub(crate) const fn opcode(mut self, opcode: Opcode) -> Row {
        self.opcode = Some(opcode);
        self
    }

    /// Moves the bytes of one buffer.
    pub(crate) const fn buffer(mut self, pointer: u8, length: u8, offset: Option<u8>) -> Row {
        self.transfer = Transfer::Buffer {
            pointer,
            length,
            offset,
        };
        self.pointers |= 1 << pointer;
        self
    }

    /// Moves the bytes of an array of buffers.
    pub(crate) const fn vector(
        mut self,
        vector: u8,
        count: u8,
        offset: Option<u8>,
        flags: Option<u8>,
    ) -> Row {
        self.transfer = Transfer::Vector {
            vector,
            count,
            offset,
            flags,
        };
        self.pointers |= 1 << vector;
        self
    }

    /// Moves the bytes of a message.
    pub(crate) const fn message(mut self, header: u8) -> Row {
        self.transfer = Transfer::Message { header };
        self.pointers |= 1 << header;
        self
    }

    /// Moves an array of messages.
    pub(crate) const fn messages(mut self, array: u8, count: u8) -> Row {
        self.transfer = Transfer::Messages { array, count };
        self.pointers |= 1 << array;
        self
    }

    /// Uses the descriptor in argument `arg`.
    pub(crate) const fn fd(self, arg: u8, usage: Use) -> Row {
        self.descriptor(Descriptor {
            arg,
            usage,
            offset_pointer: None,
        })
    }

    /// Uses the descriptor in argument `arg`, at the position that argument `offset_pointer` points to
    /// if it is not null.
    pub(crate) const fn fd_at(self, arg: u8, usage: Use, offset_pointer: u8) -> Row {
        self.descriptor(Descriptor {
            arg,
            usage,
            offset_pointer: Some(offset_pointer),
        })
        .pointers(&[offset_pointer])
    }

    const fn descriptor(mut self, descriptor: Descriptor) -> Row {
        if self.descriptors[0].is_none() {
            self.descriptors[0] = Some(descriptor);
        } else {
            assert!(
                self.descriptors[1].is_none(),
                "a call uses at most two descriptors"
            );
            self.descriptors[1] = Some(descriptor);
        }
        self
    }

    /// Names a file relative to the working directory.
    pub(crate) const fn path(mut self, path: u8) -> Row {
        self.file = Some(Name {
            directory: None,
            path,
        });
        self.pointers |= 1 << path;
        self
    }

    /// Names a file relative to the directory descriptor in argument `directory`.
    pub(crate) const fn path_at(self, directory: u8, path: u8) -> Row {
        let mut row = self.fd(directory, Use::Directory).path(path);
        row.file = Some(Name {
            directory: Some(directory),
            path,
        });
        row
    }

    /// Has its flags in argument `arg`.
    pub(crate) const fn flags(mut self, arg: u8) -> Row {
        self.flags = Some(arg);
        self
    }

    /// With a flag not to wait, shows in this way that it would wait.
    pub(crate) const fn would_wait(mut self, how: WouldWait) -> Row {
        self.would_wait = how;
        self
    }

    /// Has these flag bits built in.
    pub(crate) const fn implies(mut self, flags: u32) -> Row {
        self.implied = flags;
        self
    }

    /// Further arguments that are addresses.
    pub(crate) const fn pointers(mut self, args: &[u8]) -> Row {
        let mut i = 0;
        while i < args.len() {
            self.pointers |= 1 << args[i];
            i += 1;
        }
        self
    }

    pub(crate) const fn yields_descriptor(mut self) -> Row {
        self.yields_descriptor = true;
        self
    }

    pub(crate) const fn polls(mut self) -> Row {
        self.polls = true;
        self
    }

    pub(crate) const fn changes_identity(mut self) -> Row {
        self.changes_identity = true;
        self
    }

    pub(crate) const fn refuse(mut self, errno: crate::Errno) -> Row {
        self.refusal = errno;
        self
    }

    const fn at(mut self, index: usize) -> Row {
        self.index = index as u16;
        self
    }

    pub(crate) const fn note(mut self, note: &'static str) -> Row {
        self.note = note;
        self
    }

    /// The arguments that name the second file of a call with two names. That name follows its directory,
    /// if it has one.
    pub(crate) fn second_name(&self) -> Option<Name> {
        let has_two = matches!(self.opcode, Some(Opcode::RenameAt | Opcode::LinkAt));
        let first = self.file.filter(|_| has_two)?;
        Some(match self.descriptors[1] {
            Some(second) => Name {
                directory: Some(second.arg),
                path: second.arg + 1,
            },
            None => Name {
                directory: None,
                path: first.path + 1,
            },
        })
    }

    /// The flags of a call, with those built in.
    pub(crate) fn flags_of(&self, call: &crate::Call) -> i32 {
        self.flags.map_or(0, |arg| call.args[arg as usize] as i32) | self.implied as i32
    }

    /// Whether the call is instant and uses no descriptor, so that it can be made without further
    /// checks.
    const fn is_trivial(&self) -> bool {
        matches!(self.class, Class::Instant)
            && matches!(self.attempt, Attempt::Plain)
            && self.descriptors[0].is_none()
    }

    /// The number on the architecture this was compiled for.
    pub const fn number(&self) -> Option<u16> {
        crate::sys::own_number(self.x86_64, self.aarch64)
    }
}

/// The row of numbers that the table does not have. A newer kernel may have such a call and it may
/// block, so a helper makes it; a kernel without it returns `ENOSYS`.
pub static UNKNOWN: Row = Row::new("(unknown)", None, None, Class::Waiting)
    .note("not in this version's table: runs on a helper")
    .at(ROWS.len());

/// Numbers the rows.
const fn numbered<const N: usize>(mut rows: [Row; N]) -> [Row; N] {
    let mut index = 0;
    while index < N {
        rows[index] = rows[index].at(index);
        index += 1;
    }
    rows
}

/// A bound above the highest number of either architecture; later calls are [`UNKNOWN`].
const NUMBERS: usize = 512;

/// In [`INDEX`]: no row has the number.
const NO_ROW: u16 = u16::MAX;

/// In [`INDEX`]: the row [`Row::is_trivial`].
const TRIVIAL: u16 = 1 << 15;

/// Position in [`ROWS`] by number, in one load.
static INDEX: [u16; NUMBERS] = {
    assert!(ROWS.len() < TRIVIAL as usize - 1);
    let mut index = [NO_ROW; NUMBERS];
    let mut i = 0;
    while i < ROWS.len() {
        if let Some(number) = ROWS[i].number() {
            assert!(
                index[number as usize] == NO_ROW,
                "two rows have the same number"
            );
            index[number as usize] = i as u16 | if ROWS[i].is_trivial() { TRIVIAL } else { 0 };
        }
        i += 1;
    }
    index
};

/// The position in [`ROWS`] of a call's row, without a look at the row.
#[inline]
pub(crate) fn index(number: usize) -> usize {
    // The kernel reads the low half only, so the high half must not hide a call from the table.
    match INDEX.get(number as u32 as usize) {
        Some(&index) if index != NO_ROW => (index & !TRIVIAL) as usize,
        _ => ROWS.len(),
    }
}

/// The caller's `struct open_how`, if it has the known size and can be read. `memory_is_good`: no
/// check is needed.
pub(crate) fn known_how(call: &crate::Call, memory_is_good: bool) -> Option<libc::open_how> {
    let (address, size) = (call.args[2], size_of::<libc::open_how>());
    // SAFETY: plain data that can be read, aligned or not.
    (call.args[3] == size && (memory_is_good || crate::sys::memory::can_read(address, size)))
        .then(|| unsafe { (address as *const libc::open_how).read_unaligned() })
}

/// Whether an `ioctl` waits for a disk: until blocks are allocated for written data, or its own
/// changes are in the journal.
pub(crate) fn is_disk_command(call: &crate::Call) -> bool {
    DISK_COMMANDS.contains(&(call.args[1] as u32))
}

/// The file-system commands that wait for a disk. Commands of devices belong to their drivers, and
/// are unknown.
const DISK_COMMANDS: [u32; 7] = [
    libc::FICLONE as u32,
    libc::FICLONERANGE as u32,
    0xc018_9436, // FIDEDUPERANGE
    0xc020_660b, // FS_IOC_FIEMAP
    0xc004_5877, // FIFREEZE
    0xc004_5878, // FITHAW
    0xc018_5879, // FITRIM
];

/// A call that moves one buffer: descriptor, address and length are its first three arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FastCall {
    Read,
    Write,
    /// The fourth argument is the file offset.
    ReadAt,
    WriteAt,
    /// The fourth argument are the flags.
    Recv,
    Send,
}

impl Row {
    const fn fast_call(&self) -> Option<FastCall> {
        let Transfer::Buffer {
            pointer: 1,
            length: 2,
            offset,
        } = self.transfer
        else {
            return None;
        };
        let Some(Descriptor { arg: 0, usage, .. }) = self.descriptors[0] else {
            return None;
        };
        match (self.attempt, offset, usage) {
            (Attempt::NowaitRead, None, _) => Some(FastCall::Read),
            (Attempt::NowaitWrite, None, _) => Some(FastCall::Write),
            (Attempt::NowaitRead, Some(3), _) => Some(FastCall::ReadAt),
            (Attempt::NowaitWrite, Some(3), _) => Some(FastCall::WriteAt),
            (Attempt::Dontwait(3), None, Use::Read) => Some(FastCall::Recv),
            (Attempt::Dontwait(3), None, Use::Write) => Some(FastCall::Send),
            _ => None,
        }
    }
}

/// By number, in one load.
static FAST_CALLS: [Option<FastCall>; NUMBERS] = {
    let mut fast_calls = [None; NUMBERS];
    let mut i = 0;
    while i < ROWS.len() {
        if let Some(number) = ROWS[i].number() {
            fast_calls[number as usize] = ROWS[i].fast_call();
        }
        i += 1;
    }
    fast_calls
};

/// Returns the fast-path form of a call, if it has one.
#[inline]
pub(crate) fn find_fast_call(number: usize) -> Option<FastCall> {
    FAST_CALLS.get(number).copied().flatten()
}

/// Returns the row's position if the call is instant and uses no descriptor.
#[inline]
pub(crate) fn find_trivial(number: usize) -> Option<usize> {
    match INDEX.get(number as u32 as usize) {
        Some(&index) if index & TRIVIAL != 0 && index != NO_ROW => {
            Some((index & !TRIVIAL) as usize)
        }
        _ => None,
    }
}
