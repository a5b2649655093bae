//! Makes one operation in each state in which an operation can wait.

use crate::harness::{LIMIT, at, at_mut, pending, pending_read, plain, timespec, zeroed};
use laio::{Completion, Context, Errno, Handle};
use laio_testing::FaultFs;
use laio_testing::fault_fs::{Fault, Kind};
use laio_testing::temp::{fill, pipe, stream_pair};
use std::any::Any;
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// The contents of buffers before an operation writes to them.
pub(crate) const FRESH: u8 = 0xA5;

/// An operation that does not finish without help, with the memory that it uses.
pub(crate) struct Parked {
    pub(crate) what: &'static str,
    pub(crate) handle: Handle,
    /// The result of the operation when it is cancelled.
    pub(crate) cancelled: Result<usize, Errno>,
    /// The buffer that it may write to.
    pub(crate) buffer: Vec<u8>,
    /// The other end of a stream: bytes written there would reach the buffer of a live operation.
    pub(crate) feed: Option<OwnedFd>,
    _keeps: Box<dyn Any>,
}

impl Parked {
    fn new(what: &'static str, handle: Handle, keeps: impl Any) -> Parked {
        Parked {
            what,
            handle,
            cancelled: Err(Errno::CANCELED),
            buffer: Vec::new(),
            feed: None,
            _keeps: Box::new(keeps),
        }
    }

    fn reading(self, buffer: Vec<u8>, feed: Option<OwnedFd>) -> Parked {
        Parked {
            buffer,
            feed,
            ..self
        }
    }

    /// Writes data after the cancellation: the buffer belongs to the caller again, and must not change.
    #[track_caller]
    pub(crate) fn stays_untouched(&self) {
        let kept = self.cancelled.unwrap_or(0);
        if let Some(feed) = &self.feed {
            let _ = rustix::io::write(feed, b"too late");
        }
        assert!(
            self.buffer[kept.min(self.buffer.len())..]
                .iter()
                .all(|&byte| byte == FRESH),
            "{}: {:?}",
            self.what,
            self.buffer
        );
    }
}

/// A file system whose files hang.
pub(crate) struct Hanging(FaultFs);

impl Hanging {
    pub(crate) fn mount() -> Option<Hanging> {
        let fs = laio_testing::or_skip(FaultFs::mount())?;
        fs.add_file("open", b"never seen");
        fs.add_file("read", b"never read");
        fs.set_at("open", Kind::Open, Fault::Hang);
        fs.set_at("read", Kind::Read, Fault::Hang);
        Some(Hanging(fs))
    }

    pub(crate) fn open(&self, context: &mut Context) -> Parked {
        let name = crate::harness::cstring(self.0.join("open"));
        let args = [libc::AT_FDCWD as usize, at(name.as_c_str()), 0, 0];
        let handle = pending(context, libc::SYS_openat, args);
        Parked::new("open of a file that hangs", handle, name)
    }

    pub(crate) fn read(&self, context: &mut Context) -> Parked {
        let file = std::fs::File::open(self.0.join("read")).expect("a file");
        let mut buffer = vec![FRESH; 16];
        let args = [file.as_raw_fd() as usize, at_mut(&mut buffer[..]), 16, 0];
        let handle = pending(context, libc::SYS_pread64, args);
        Parked::new("read of a file that hangs", handle, file).reading(buffer, None)
    }

    /// Waits until the server has both requests. `poll` repeats a call that a signal has interrupted there.
    pub(crate) fn wait(&self, context: &mut Context, count: usize) {
        let mut found = Vec::new();
        let all_hang = || {
            assert_eq!(context.poll(&mut found, Some(Duration::ZERO)), Ok(0));
            self.0.hung() == count
        };
        let hang = laio_testing::limit::wait_until(LIMIT, all_hang);
        assert!(hang, "{} hang", self.0.hung());
    }

    pub(crate) fn hung(&self) -> usize {
        self.0.hung()
    }
}

/// One operation of each kind, in the order in which they were started.
pub(crate) fn park(context: &mut Context, hanging: Option<&Hanging>) -> Vec<Parked> {
    let mut all = Vec::new();
    reads(context, &mut all);
    writes(context, &mut all);
    sockets(context, &mut all);
    waits(context, &mut all);
    if let Some(hanging) = hanging {
        all.push(hanging.open(context));
        all.push(hanging.read(context));
    }
    all
}

fn reads(context: &mut Context, all: &mut Vec<Parked>) {
    let (from, to) = pipe();
    let fd = from.as_raw_fd() as usize;
    let mut buffers = [vec![FRESH; 16], vec![FRESH; 16]];
    let handles = buffers
        .each_mut()
        .map(|buffer| pending_read(context, [fd, at_mut(&mut buffer[..]), 16]));
    let [first, second] = buffers;
    let feed = to.try_clone().expect("a descriptor");
    all.push(Parked::new("read of a pipe", handles[0], from).reading(first, Some(to)));
    all.push(Parked::new("read behind another one", handles[1], ()).reading(second, Some(feed)));
}

fn writes(context: &mut Context, all: &mut Vec<Parked>) {
    let (from, to) = pipe();
    fill(&to);
    let fd = to.as_raw_fd() as usize;
    let bytes = [1u8; 16];
    let bytes = Box::new(bytes);
    let write = [fd, at(&bytes[..]), 16];
    let first = pending(context, libc::SYS_write, write);
    let second = pending(context, libc::SYS_write, write);
    all.push(Parked::new(
        "write to a full pipe",
        first,
        (from, to, bytes),
    ));
    all.push(Parked::new("write behind another one", second, ()));
}

fn sockets(context: &mut Context, all: &mut Vec<Parked>) {
    let (ours, theirs) = stream_pair();
    let mut buffer = vec![FRESH; 16];
    let fd = ours.as_raw_fd() as usize;
    let args = [fd, at_mut(&mut buffer[..]), 16, 0, 0, 0];
    let handle = pending(context, libc::SYS_recvfrom, args);
    all.push(Parked::new("recv", handle, ours).reading(buffer, Some(theirs)));

    let (ours, theirs) = stream_pair();
    rustix::io::write(&theirs, b"abc").expect("written");
    let mut buffer = vec![FRESH; 16];
    let flags = libc::MSG_WAITALL as usize;
    let fd = ours.as_raw_fd() as usize;
    let args = [fd, at_mut(&mut buffer[..]), 16, flags, 0, 0];
    let handle = pending(context, libc::SYS_recvfrom, args);
    // Gives a helper the time to take the available bytes.
    let taken = || rustix::io::ioctl_fionread(&ours) == Ok(0);
    if !context.info().has_ring() {
        assert!(laio_testing::limit::wait_until(LIMIT, taken));
    } else {
        context.flush().expect("flush");
    }
    let mut parked = Parked::new("recv of all, a part is there", handle, ours);
    parked.cancelled = Ok(3);
    all.push(parked.reading(buffer, Some(theirs)));

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let fd = listener.as_raw_fd() as usize;
    let handle = pending(context, libc::SYS_accept4, [fd, 0, 0, 0]);
    all.push(Parked::new("accept", handle, listener));

    let (listener, first, socket, address) = crowded_listener();
    let length = size_of::<libc::sa_family_t>() + 6;
    let fd = socket.as_raw_fd() as usize;
    let handle = pending(context, libc::SYS_connect, [fd, at(&*address), length]);
    let keeps = (listener, first, socket, address);
    all.push(Parked::new("connect", handle, keeps));
}

/// A local listener with a full backlog, and a socket to connect to it. The kernel chooses the name: a
/// zero and five digits.
fn crowded_listener() -> (OwnedFd, OwnedFd, OwnedFd, Box<libc::sockaddr_un>) {
    let socket = || {
        let kind = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as usize;
        let fd = plain(libc::SYS_socket, [libc::AF_UNIX as usize, kind, 0]).expect("a socket");
        // SAFETY: just made.
        unsafe { OwnedFd::from_raw_fd(fd as i32) }
    };
    let [listener, first, second] = [socket(), socket(), socket()];
    let fd = |socket: &OwnedFd| socket.as_raw_fd() as usize;
    let mut address: Box<libc::sockaddr_un> = Box::new(zeroed());
    address.sun_family = libc::AF_UNIX as u16;
    plain(libc::SYS_bind, [fd(&listener), at(&*address), 2]).expect("a name");
    let mut length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    let args = [fd(&listener), at_mut(&mut *address), at_mut(&mut length)];
    plain(libc::SYS_getsockname, args).expect("its name");
    assert_eq!(length, 8, "a name of the kernel's choice");
    plain(libc::SYS_listen, [fd(&listener), 0]).expect("listen");
    plain(libc::SYS_connect, [fd(&first), at(&*address), 8]).expect("the only place");
    (listener, first, second, address)
}

fn waits(context: &mut Context, all: &mut Vec<Parked>) {
    let time = Box::new(timespec(1000, 0));
    let handle = pending(context, libc::SYS_nanosleep, [at(&*time), 0]);
    all.push(Parked::new("nanosleep", handle, time));

    let (from, to) = pipe();
    let mut set = Box::new(libc::pollfd {
        fd: from.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    let handle = pending(context, libc::SYS_ppoll, [at_mut(&mut *set), 1, 0, 0, 0]);
    all.push(Parked::new("ppoll", handle, (from, to, set)));

    let file = tempfile::NamedTempFile::new().expect("a file");
    let [holds, wants] = [file.reopen(), file.reopen()].map(|file| file.expect("a file"));
    let exclusive = libc::LOCK_EX as usize;
    plain(libc::SYS_flock, [holds.as_raw_fd() as usize, exclusive]).expect("a lock");
    let handle = pending(
        context,
        libc::SYS_flock,
        [wants.as_raw_fd() as usize, exclusive],
    );
    all.push(Parked::new("flock", handle, (holds, wants)));

    let name = CString::new(
        file.path()
            .with_extension("fifo")
            .into_os_string()
            .into_encoded_bytes(),
    )
    .expect("a name");
    let mode = (libc::S_IFIFO | 0o600) as usize;
    let here = libc::AT_FDCWD as usize;
    plain(libc::SYS_mknodat, [here, at(name.as_c_str()), mode, 0]).expect("a FIFO");
    let handle = pending(context, libc::SYS_openat, [here, at(name.as_c_str()), 0, 0]);
    all.push(Parked::new("open of a FIFO", handle, Fifo(name)));
}

/// Removes a FIFO.
struct Fifo(CString);

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = plain(
            libc::SYS_unlinkat,
            [libc::AT_FDCWD as usize, at(self.0.as_c_str()), 0],
        );
    }
}

/// Asserts that each operation has completed once, as cancelled.
#[track_caller]
pub(crate) fn were_cancelled(parked: &[Parked], completions: &[Completion]) {
    assert_eq!(parked.len(), completions.len());
    for parked in parked {
        let mut of_this = completions.iter().filter(|one| one.handle == parked.handle);
        let completion = of_this.next().expect(parked.what);
        assert_eq!(completion.result, parked.cancelled, "{}", parked.what);
        assert!(of_this.next().is_none(), "{} twice", parked.what);
        parked.stays_untouched();
    }
}
