//! A small private world, in which programs run.

use std::io;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::SocketType;

use super::Kernel;
use super::arena::{Arena, FILL, GAP};
use super::lower::{Lowered, Shape};
use super::step::{At, Data, Fd, Program, SLOTS, Step};
use super::trace::{Bytes, Entry, Event, OpenFile, Outcome, State, Trace, hash};
use crate::temp::{datagram_pair, drain, pattern, pipe, stream_pair};

/// A pipe or socket that accepts any bytes accepts a write of this size completely.
const WRITE_MAX: usize = 4096;
/// A pipe never holds more than this, so that its sixteen pages suffice.
const QUEUE_MAX: u64 = 16 * 1024;
/// How long a call blocks before the other thread acts.
const MEANWHILE: Duration = Duration::from_micros(300);

/// An empty directory, a pipe, two pairs of sockets, and slots for descriptors.
///
/// Steps use only these. The world owns the memory of the buffers.
#[derive(Debug)]
pub struct World {
    pub(super) arena: Arena,
    pub(super) root: PathBuf,
    slots: [Option<i32>; SLOTS as usize],
    /// In the order of [`GIVEN`].
    given: [Option<i32>; GIVEN.len()],
    root_fd: OwnedFd,
}

const GIVEN: [Fd; 6] = [
    Fd::PipeRead,
    Fd::PipeWrite,
    Fd::Left,
    Fd::Right,
    Fd::PacketLeft,
    Fd::PacketRight,
];

impl World {
    /// Creates a world in a directory, which must be empty.
    ///
    /// # Errors
    ///
    /// If the directory cannot be opened.
    pub fn new(root: &Path) -> io::Result<World> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root_fd = rustix::fs::open(root, flags, Mode::empty())?;
        let ((reader, writer), (left, right)) = (pipe(), stream_pair());
        let (packet_left, packet_right) = datagram_pair();
        let given = [reader, writer, left, right, packet_left, packet_right];
        Ok(World {
            arena: Arena::new(),
            root: root.to_owned(),
            slots: [None; SLOTS as usize],
            given: given.map(|fd| Some(fd.into_raw_fd())),
            root_fd,
        })
    }

    /// Runs a program, whose calls `kernel` makes.
    pub fn run(&mut self, program: &Program, kernel: &mut dyn Kernel) -> Trace {
        let events = program
            .steps
            .iter()
            .map(|step| self.perform(step, kernel))
            .collect();
        Trace { events }
    }

    /// Returns the state of the world. Empties the pipe and the sockets to see their contents.
    pub fn state(&mut self) -> State {
        let mut entries = Vec::new();
        list(&self.root, "", &mut entries);
        let ends = [
            ("pipe", Fd::PipeRead),
            ("left", Fd::Left),
            ("right", Fd::Right),
            ("packet left", Fd::PacketLeft),
            ("packet right", Fd::PacketRight),
        ];
        let held = |fd| {
            self.place(fd)
                .map_or(Vec::new(), |number| drain(borrow(number)))
        };
        let queues = ends.map(|(name, fd)| (name, Bytes(held(fd)))).to_vec();
        let slots = self.slots.iter().map(|slot| slot.map(open_file)).collect();
        State {
            entries,
            slots,
            queues,
        }
    }

    /// Returns the current number of a descriptor; -1 if there is none.
    pub(super) fn number(&self, fd: Fd) -> i32 {
        use std::os::fd::AsRawFd;
        match fd {
            Fd::Root => self.root_fd.as_raw_fd(),
            Fd::Number(number) => number,
            _ => self.place(fd).unwrap_or(-1),
        }
    }

    fn place(&self, fd: Fd) -> Option<i32> {
        match fd {
            Fd::Slot(slot) => self.slots[usize::from(slot)],
            _ => GIVEN
                .iter()
                .position(|&given| given == fd)
                .and_then(|index| self.given[index]),
        }
    }

    fn place_mut(&mut self, fd: Fd) -> Option<&mut Option<i32>> {
        match fd {
            Fd::Slot(slot) => Some(&mut self.slots[usize::from(slot)]),
            _ => GIVEN
                .iter()
                .position(|&given| given == fd)
                .map(|index| &mut self.given[index]),
        }
    }

    fn perform(&mut self, step: &Step, kernel: &mut dyn Kernel) -> Event {
        let mut event = Event {
            step: step.clone(),
            outcome: Outcome::Value(0),
            meanwhile: None,
        };
        if let Some(reason) = self.reason_to_skip(step) {
            event.outcome = Outcome::Skipped(reason);
            return event;
        }
        if let Step::Close { fd } = *step {
            event.outcome = self.perform_close(fd, kernel);
            return event;
        }
        self.arena.reset();
        let lowered = self.lower(step);
        let meanwhile = self.start_meanwhile(step);
        // SAFETY: what the words point to is in the arena, which outlives the call and is not touched
        // until it has returned. Bad addresses are bad for the kernel, and huge lengths go with
        // calls that refuse them.
        let mut result = unsafe { kernel.call(lowered.number, lowered.words) };
        if let Shape::Names(_) = lowered.shape {
            // SAFETY: as above.
            result = unsafe { list_the_rest(&lowered, result, kernel) };
        }
        event.meanwhile = meanwhile.map(|meanwhile| meanwhile.finish());
        event.outcome = self.outcome(&lowered, result, kernel);
        event
    }

    fn perform_close(&mut self, fd: Fd, kernel: &mut dyn Kernel) -> Outcome {
        let number = match (self.place_mut(fd), fd) {
            // Another thread may reuse the number at once, so it is forgotten first.
            (Some(place), _) => place.take(),
            (None, Fd::Number(number)) => Some(number),
            (None, _) => None,
        };
        number.map_or(Outcome::Skipped("nothing to close"), |number| {
            close(number, kernel)
        })
    }

    fn outcome(&mut self, lowered: &Lowered, result: isize, kernel: &mut dyn Kernel) -> Outcome {
        if result < 0 {
            return Outcome::Error(-result as i32);
        }
        match lowered.shape {
            Shape::Value => Outcome::Value(result),
            Shape::Descriptor(slot) => {
                if let Some(old) = self.slots[usize::from(slot)].replace(result as i32) {
                    close(old, kernel);
                }
                Outcome::Opened(slot)
            }
            Shape::Bytes(ref pieces) => self.transferred(pieces, result),
            Shape::Stat(at) => {
                // SAFETY: the call has filled a struct of this type, which is made of integers.
                Outcome::Attributes(attributes(&unsafe { self.read::<libc::stat>(at) }))
            }
            Shape::Statx(at) => {
                // SAFETY: as above.
                Outcome::Attributes(more_attributes(&unsafe { self.read::<libc::statx>(at) }))
            }
            Shape::Names(at) => Outcome::Names(names(&self.arena.get(at, result as usize))),
        }
    }

    fn transferred(&self, pieces: &[(usize, usize)], result: isize) -> Outcome {
        let (mut left, mut bytes, mut clean) = (result as usize, Vec::new(), true);
        for &(at, length) in pieces {
            let (mut piece, filled) = (self.arena.get(at, length + GAP), left.min(length));
            clean &= piece[filled..].iter().all(|&byte| byte == FILL);
            piece.truncate(filled);
            bytes.append(&mut piece);
            left -= filled;
        }
        Outcome::Data {
            result,
            bytes: Bytes(bytes),
            clean,
        }
    }

    /// Reads a struct of a call.
    ///
    /// # Safety
    ///
    /// It must be there and made of integers.
    unsafe fn read<T>(&self, at: usize) -> T {
        let bytes = self.arena.get(at, size_of::<T>());
        // SAFETY: as many bytes as the struct has; any alignment will do, and by the contract any
        // values.
        unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
    }

    /// Returns the reason why a step is skipped: it could block forever, or has several valid results.
    fn reason_to_skip(&self, step: &Step) -> Option<&'static str> {
        match *step {
            Step::Open { name, flags, .. } => self.waits_to_open(name, flags),
            Step::OpenResolved { name, flags, .. } => self.waits_to_open(name, flags as i32),
            Step::Read { fd, .. }
            | Step::ReadVector {
                fd,
                at: At::Position,
                ..
            } => self.waits_to_read(fd),
            // Flags with the offset -1 mean the position.
            Step::ReadVector {
                fd,
                at: At::Flags(..),
                ..
            } => self.waits_to_read(fd),
            Step::Write { fd, data, .. } => self.waits_to_write(fd, data.length),
            Step::WriteVector {
                fd,
                ref data,
                at: At::Position | At::Flags(..),
                ..
            }
            | Step::SendMessage { fd, ref data, .. } => {
                self.waits_to_write(fd, data.iter().map(|data| data.length).sum())
            }
            Step::Send { fd, data, .. } => self.waits_to_write(fd, data.length),
            Step::SendFile {
                to, from, length, ..
            }
            | Step::CopyRange {
                from, to, length, ..
            } => self.waits_to_write(to, length).or(self.waits_to_read(from)),
            Step::Receive {
                fd, length, flags, ..
            } => self.waits_to_receive(fd, length, flags),
            Step::ReceiveMessage {
                fd,
                ref lengths,
                flags,
            } => self.waits_to_receive(fd, lengths.iter().sum(), flags),
            Step::ReadFed { fd, .. } => {
                let waits = self.blocks(fd) && self.waits_to_read(fd).is_some();
                let fed = self.peer(fd).is_some();
                (!(waits && fed)).then_some("would not block, or has no open peer to write")
            }
            Step::WriteDrained { fd, .. } => {
                let drained =
                    self.peer(fd).is_some() && !matches!(fd, Fd::PacketLeft | Fd::PacketRight);
                (!(drained && self.blocks(fd))).then_some("has no open peer to read")
            }
            // Unlike a stream socket it does not notify its peer, which would then block forever.
            Step::Shutdown { fd, .. } => {
                let kind = (self.number(fd) >= 0)
                    .then(|| rustix::net::sockopt::socket_type(borrow(self.number(fd))));
                (kind == Some(Ok(SocketType::DGRAM))).then_some("a datagram socket")
            }
            // The file system chooses the position in a directory.
            Step::Seek { fd, offset, whence } if (offset, whence) != (0, libc::SEEK_SET) => {
                (self.kind(fd) == Some(FileType::Directory)).then_some("a position in a directory")
            }
            _ => None,
        }
    }

    fn kind(&self, fd: Fd) -> Option<FileType> {
        let number = self.number(fd);
        // The call itself checks invalid numbers.
        let fd = (number >= 0).then(|| borrow(number))?;
        rustix::fs::fstat(fd)
            .ok()
            .map(|stat| FileType::from_raw_mode(stat.st_mode))
    }

    /// Returns the flags of a descriptor that can block: of a pipe or socket.
    fn waiting_flags(&self, fd: Fd) -> Option<OFlags> {
        let kind = self.kind(fd)?;
        matches!(kind, FileType::Fifo | FileType::Socket)
            .then(|| rustix::fs::fcntl_getfl(borrow(self.number(fd))).ok())
            .flatten()
    }

    fn blocks(&self, fd: Fd) -> bool {
        self.waiting_flags(fd)
            .is_some_and(|flags| !flags.contains(OFlags::NONBLOCK))
    }

    fn ready(&self, fd: Fd, wanted: PollFlags) -> bool {
        ready(borrow(self.number(fd)), wanted, Duration::ZERO)
    }

    fn waits_to_read(&self, fd: Fd) -> Option<&'static str> {
        let flags = self.waiting_flags(fd)?;
        let waits = !flags.contains(OFlags::NONBLOCK)
            && flags & OFlags::RWMODE != OFlags::WRONLY
            && !self.ready(fd, PollFlags::IN);
        waits.then_some("would wait for data")
    }

    fn waits_to_receive(&self, fd: Fd, length: usize, flags: i32) -> Option<&'static str> {
        if flags & libc::MSG_DONTWAIT != 0 {
            return None;
        }
        let queued = || rustix::io::ioctl_fionread(borrow(self.number(fd))).unwrap_or(0);
        let all = flags & libc::MSG_WAITALL != 0 && self.blocks(fd) && queued() < length as u64;
        self.waits_to_read(fd)
            .or(all.then_some("would wait for all data"))
    }

    fn waits_to_write(&self, fd: Fd, length: usize) -> Option<&'static str> {
        let flags = self.waiting_flags(fd)?;
        if flags & OFlags::RWMODE == OFlags::RDONLY {
            return None;
        }
        if length > WRITE_MAX {
            return Some("might be taken in part");
        }
        let pipe = self.kind(fd) == Some(FileType::Fifo);
        let queued = rustix::io::ioctl_fionread(borrow(self.number(fd))).unwrap_or(0);
        let full = pipe && queued + length as u64 > QUEUE_MAX;
        (full || !self.ready(fd, PollFlags::OUT)).then_some("would block on a full buffer")
    }

    fn waits_to_open(&self, name: &str, flags: i32) -> Option<&'static str> {
        let at_once = flags & (libc::O_NONBLOCK | libc::O_PATH) != 0
            || flags & libc::O_ACCMODE == libc::O_RDWR;
        let path = self.root.join(name);
        let fifo = rustix::fs::stat(&path)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
        (fifo && !at_once).then_some("would wait for the other end")
    }

    /// Returns the other end of a given descriptor, while both are open.
    fn peer(&self, fd: Fd) -> Option<i32> {
        let peer = match fd {
            Fd::PipeRead => Fd::PipeWrite,
            Fd::PipeWrite => Fd::PipeRead,
            Fd::Left => Fd::Right,
            Fd::Right => Fd::Left,
            Fd::PacketLeft => Fd::PacketRight,
            Fd::PacketRight => Fd::PacketLeft,
            Fd::Slot(_) | Fd::Root | Fd::Number(_) => return None,
        };
        self.place(fd).and(self.place(peer))
    }

    fn start_meanwhile(&self, step: &Step) -> Option<Meanwhile> {
        match *step {
            Step::ReadFed { fd, feed, .. } => Some(Meanwhile::feed(self.peer(fd)?, feed)),
            Step::WriteDrained { fd, data } => Some(Meanwhile::drain(self.peer(fd)?, data.length)),
            _ => None,
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for number in self
            .slots
            .iter_mut()
            .chain(&mut self.given)
            .filter_map(Option::take)
        {
            // SAFETY: the world owns the descriptor, and forgets it here.
            unsafe { libc::close(number) };
        }
    }
}

/// The action of another thread while a call blocks. It makes plain calls.
struct Meanwhile {
    called: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u8>>,
}

impl Meanwhile {
    fn start(body: impl FnOnce(&AtomicBool) -> Vec<u8> + Send + 'static) -> Meanwhile {
        let called = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let called = Arc::clone(&called);
            move || {
                thread::sleep(MEANWHILE);
                body(&called)
            }
        });
        Meanwhile { called, thread }
    }

    /// Writes the data; returns nothing.
    fn feed(fd: i32, data: Data) -> Meanwhile {
        Meanwhile::start(move |_| {
            let bytes = pattern(data.length, u64::from(data.seed));
            // SIGPIPE is ignored in Rust programs; an error here is one of the reading end.
            let _ = rustix::io::write(borrow(fd), &bytes);
            Vec::new()
        })
    }

    /// Reads this many bytes, or until the call has ended and no byte is left; returns them.
    fn drain(fd: i32, length: usize) -> Meanwhile {
        Meanwhile::start(move |called| {
            let mut bytes = Vec::new();
            let mut block = vec![0; 64 * 1024];
            while bytes.len() < length {
                let over = called.load(Ordering::Acquire);
                if ready(borrow(fd), PollFlags::IN, Duration::from_millis(5)) {
                    let most = block.len().min(length - bytes.len());
                    match rustix::io::read(borrow(fd), &mut block[..most]) {
                        Ok(0) | Err(_) => break,
                        Ok(read) => bytes.extend_from_slice(&block[..read]),
                    }
                } else if over {
                    break;
                }
            }
            bytes
        })
    }

    /// Must be called after the call has returned.
    fn finish(self) -> Bytes {
        self.called.store(true, Ordering::Release);
        Bytes(
            self.thread
                .join()
                .expect("the other thread makes plain calls only"),
        )
    }
}

/// Borrows a descriptor for one call.
fn borrow(number: i32) -> BorrowedFd<'static> {
    // SAFETY: the number is that of a descriptor of the world, which is not closed during the one call
    // that it is borrowed for; a thread that goes on with it is joined before the next step. Or it is
    // a number that no descriptor has, and the call says so.
    unsafe { BorrowedFd::borrow_raw(number) }
}

fn ready(fd: BorrowedFd<'_>, wanted: PollFlags, limit: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, wanted)];
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: limit.subsec_nanos().into(),
    };
    // Errors and hang-ups are always reported: a call returns them at once.
    rustix::event::poll(&mut fds, Some(&limit)).is_ok_and(|count| count > 0)
}

/// Closes a descriptor that the world has forgotten.
fn close(number: i32, kernel: &mut dyn Kernel) -> Outcome {
    // SAFETY: close takes no pointers, and the number was the world's own, or is no descriptor.
    let result = unsafe { kernel.call(libc::SYS_close, [number as usize, 0, 0, 0, 0, 0]) };
    if result < 0 {
        Outcome::Error(-result as i32)
    } else {
        Outcome::Value(result)
    }
}

/// The file system chooses the size of a directory and the blocks of a file.
fn size_of_mode(mode: u32, size: u64) -> u64 {
    if FileType::from_raw_mode(mode) == FileType::Directory {
        0
    } else {
        size
    }
}

#[allow(clippy::unnecessary_cast)] // The widths differ between architectures.
fn attributes(stat: &libc::stat) -> Vec<(&'static str, u64)> {
    vec![
        ("mode", u64::from(stat.st_mode)),
        ("links", stat.st_nlink as u64),
        ("uid", u64::from(stat.st_uid)),
        ("gid", u64::from(stat.st_gid)),
        ("size", size_of_mode(stat.st_mode, stat.st_size as u64)),
    ]
}

fn more_attributes(statx: &libc::statx) -> Vec<(&'static str, u64)> {
    vec![
        ("mask", u64::from(statx.stx_mask)),
        ("mode", u64::from(statx.stx_mode)),
        ("links", u64::from(statx.stx_nlink)),
        ("uid", u64::from(statx.stx_uid)),
        ("gid", u64::from(statx.stx_gid)),
        (
            "size",
            size_of_mode(u32::from(statx.stx_mode), statx.stx_size),
        ),
    ]
}

/// Continues a partial listing until its end, or the end of the buffer, and returns the bytes of all parts. A
/// part ends early if a signal is pending for the thread, and also if its ring is destroyed: `filldir64` in
/// Linux's fs/readdir.c.
///
/// # Safety
/// As for the call.
unsafe fn list_the_rest(lowered: &Lowered, first: isize, kernel: &mut dyn Kernel) -> isize {
    let (mut all, mut part) = (first, first);
    while part > 0 {
        let mut words = lowered.words;
        words[1] += all as usize;
        words[2] -= all as usize;
        // SAFETY: the caller's.
        part = unsafe { kernel.call(lowered.number, words) };
        all += part.max(0);
    }
    all
}

/// Returns the names in a buffer of `getdents64`, with their types, sorted.
fn names(mut buffer: &[u8]) -> Vec<(String, u8)> {
    /// `struct linux_dirent64`: inode and offset, then the length of the entry, the type, the name.
    const LENGTH: usize = 16;
    const TYPE: usize = 18;
    const NAME: usize = 19;
    let mut names = Vec::new();
    while buffer.len() > NAME {
        let length = usize::from(u16::from_ne_bytes([buffer[LENGTH], buffer[LENGTH + 1]]));
        let (entry, rest) = buffer.split_at(length.clamp(NAME, buffer.len()));
        let name = entry[NAME..]
            .split(|&byte| byte == 0)
            .next()
            .unwrap_or_default();
        names.push((String::from_utf8_lossy(name).into_owned(), entry[TYPE]));
        buffer = rest;
    }
    names.sort();
    names
}

fn open_file(number: i32) -> OpenFile {
    let fd = borrow(number);
    let error = |errno: rustix::io::Errno| -errno.raw_os_error();
    OpenFile {
        flags: rustix::fs::fcntl_getfl(fd).map_or_else(error, |flags| flags.bits() as i32),
        fd_flags: rustix::io::fcntl_getfd(fd).map_or_else(error, |flags| flags.bits() as i32),
        position: match rustix::fs::fstat(fd) {
            // The file system chooses the position in a directory.
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => 0,
            _ => rustix::fs::tell(fd).map_or_else(|errno| i64::from(error(errno)), |at| at as i64),
        },
    }
}

fn list(directory: &Path, prefix: &str, entries: &mut Vec<Entry>) {
    let Ok(listing) = std::fs::read_dir(directory) else {
        return;
    };
    let mut names: Vec<String> = listing
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    for name in names {
        let path = directory.join(&name);
        let name = format!("{prefix}{name}");
        let Ok(found) = std::fs::symlink_metadata(&path) else {
            continue;
        };
        let contents = if found.is_symlink() {
            std::fs::read_link(&path).map(|target| target.to_string_lossy().into_owned())
        } else if found.is_file() {
            std::fs::read(&path).map(|bytes| format!("{:016x}", hash(&bytes)))
        } else {
            Ok(String::new())
        };
        entries.push(Entry {
            name: name.clone(),
            mode: found.mode(),
            links: found.nlink(),
            size: size_of_mode(found.mode(), found.size()),
            contents: contents.unwrap_or_else(|error| error.to_string()),
        });
        if found.is_dir() {
            list(&path, &format!("{name}/"), entries);
        }
    }
}
