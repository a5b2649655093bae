//! Error numbers as the kernel returns them, never through thread-local `errno`.

use std::fmt;

/// The error number of a system call.
///
/// The value is what the kernel returned in the register, made positive. It is never read from the C
/// library's thread-local `errno`, so it stays right when a call finishes on another thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(u16);

/// The kernel's `MAX_ERRNO`: a returned word in `-4095..=-1` is an error, anything else is a value.
const ERRNO_MAX: usize = 4095;

impl Errno {
    /// An error number by value. Values outside `1..=4095`, which no system call returns, become `EIO`.
    pub const fn from_raw(value: i32) -> Errno {
        if value >= 1 && value as usize <= ERRNO_MAX {
            Errno(value as u16)
        } else {
            Errno::IO
        }
    }

    /// The number, as `errno` would hold it.
    pub const fn raw(self) -> i32 {
        self.0 as i32
    }

    /// Whether a signal ended the call: `EINTR`, or a kernel-internal restart code, which is
    /// sometimes returned (seen on Linux 6.18 for a cancelled splice on the ring, and for a
    /// `recvmmsg` after one that was interrupted with some messages).
    pub(crate) const fn is_interruption(self) -> bool {
        self.0 == Errno::INTR.0 || matches!(self.0, 512..=516)
    }

    /// Whether memory, descriptors or another resource was short, so that the same call may succeed
    /// later: `EAGAIN`, `ENOMEM`, `ENOBUFS`, `EMFILE` or `ENFILE`.
    pub const fn is_shortage(self) -> bool {
        matches!(
            self,
            Errno::AGAIN | Errno::NOMEM | Errno::NOBUFS | Errno::MFILE | Errno::NFILE
        )
    }

    /// Splits the word that a system call left in its result register.
    #[inline(always)]
    pub const fn from_register(word: usize) -> Result<usize, Errno> {
        if word > usize::MAX - ERRNO_MAX {
            Err(Errno(word.wrapping_neg() as u16))
        } else {
            Ok(word)
        }
    }

    /// The inverse of [`Errno::from_register`]: one word, negative for an error.
    pub const fn to_register(result: Result<usize, Errno>) -> isize {
        match result {
            Ok(value) => value as isize,
            Err(errno) => -(errno.0 as isize),
        }
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $short:ident = $c:ident,)*) => {
        impl Errno {
            $($(#[$doc])* pub const $short: Errno = Errno(libc::$c as u16);)*

            /// The symbolic name (`"EAGAIN"`), or `None` for a number this build does not know.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 as i32 {
                    $(libc::$c => Some(stringify!($c)),)*
                    _ => None,
                }
            }
        }
    };
}

names! {
    /// Operation not permitted.
    PERM = EPERM,
    /// No such file, operation or handle.
    NOENT = ENOENT,
    /// No such process.
    SRCH = ESRCH,
    /// Interrupted: never surfaces from laio.
    INTR = EINTR,
    /// Input/output error.
    IO = EIO,
    /// No such device or address.
    NXIO = ENXIO,
    /// Argument list too long, or an options struct larger than known.
    TOOBIG = E2BIG,
    /// Exec format error.
    NOEXEC = ENOEXEC,
    /// Bad file descriptor.
    BADF = EBADF,
    /// No child processes.
    CHILD = ECHILD,
    /// Would block, or a named limit of laio is reached.
    AGAIN = EAGAIN,
    /// Out of memory.
    NOMEM = ENOMEM,
    /// Permission denied.
    ACCES = EACCES,
    /// Bad address.
    FAULT = EFAULT,
    /// Device or resource busy.
    BUSY = EBUSY,
    /// File exists.
    EXIST = EEXIST,
    /// Crosses a mount.
    XDEV = EXDEV,
    /// No such device.
    NODEV = ENODEV,
    /// Not a directory.
    NOTDIR = ENOTDIR,
    /// Is a directory.
    ISDIR = EISDIR,
    /// Invalid argument.
    INVAL = EINVAL,
    /// Too many open files in the system.
    NFILE = ENFILE,
    /// Too many open files in the process.
    MFILE = EMFILE,
    /// Inappropriate ioctl.
    NOTTY = ENOTTY,
    /// Text file busy.
    TXTBSY = ETXTBSY,
    /// File too large.
    FBIG = EFBIG,
    /// No space left.
    NOSPC = ENOSPC,
    /// Not seekable.
    SPIPE = ESPIPE,
    /// Read-only file system.
    ROFS = EROFS,
    /// Too many links.
    MLINK = EMLINK,
    /// Broken pipe.
    PIPE = EPIPE,
    /// Deadlock avoided.
    DEADLK = EDEADLK,
    /// Name too long.
    NAMETOOLONG = ENAMETOOLONG,
    /// No locks available.
    NOLCK = ENOLCK,
    /// Not implemented by this kernel, or refused by laio's table.
    NOSYS = ENOSYS,
    /// Directory not empty.
    NOTEMPTY = ENOTEMPTY,
    /// Too many symbolic links.
    LOOP = ELOOP,
    /// Out of stream resources, also: out of completion-queue resources.
    NOSR = ENOSR,
    /// Timer expired.
    TIME = ETIME,
    /// Protocol error.
    PROTO = EPROTO,
    /// Bad message.
    BADMSG = EBADMSG,
    /// Value too large.
    OVERFLOW = EOVERFLOW,
    /// File descriptor in bad state.
    BADFD = EBADFD,
    /// A completion was lost by the kernel.
    BADR = EBADR,
    /// Not a socket.
    NOTSOCK = ENOTSOCK,
    /// Destination address required.
    DESTADDRREQ = EDESTADDRREQ,
    /// Message too long.
    MSGSIZE = EMSGSIZE,
    /// Operation not supported.
    OPNOTSUPP = EOPNOTSUPP,
    /// Address family not supported.
    AFNOSUPPORT = EAFNOSUPPORT,
    /// Address in use.
    ADDRINUSE = EADDRINUSE,
    /// Address not available.
    ADDRNOTAVAIL = EADDRNOTAVAIL,
    /// Network unreachable.
    NETUNREACH = ENETUNREACH,
    /// Connection aborted.
    CONNABORTED = ECONNABORTED,
    /// Connection reset.
    CONNRESET = ECONNRESET,
    /// No buffer space.
    NOBUFS = ENOBUFS,
    /// Already connected.
    ISCONN = EISCONN,
    /// Not connected.
    NOTCONN = ENOTCONN,
    /// Timed out.
    TIMEDOUT = ETIMEDOUT,
    /// Connection refused.
    CONNREFUSED = ECONNREFUSED,
    /// Host unreachable.
    HOSTUNREACH = EHOSTUNREACH,
    /// Already in progress.
    ALREADY = EALREADY,
    /// In progress: what the C API returns for a pending operation.
    INPROGRESS = EINPROGRESS,
    /// Stale file handle.
    STALE = ESTALE,
    /// Quota exceeded.
    DQUOT = EDQUOT,
    /// Cancelled.
    CANCELED = ECANCELED,
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::io::Error::from(*self).fmt(f)
    }
}

impl std::error::Error for Errno {}

impl From<Errno> for std::io::Error {
    fn from(errno: Errno) -> Self {
        std::io::Error::from_raw_os_error(errno.raw())
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(errno: rustix::io::Errno) -> Self {
        Errno::from_raw(errno.raw_os_error())
    }
}

impl From<&std::io::Error> for Errno {
    /// Errors that did not come from the system (`raw_os_error` is `None`) become `EIO`.
    fn from(error: &std::io::Error) -> Self {
        Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<std::io::Error> for Errno {
    /// As for a reference.
    fn from(error: std::io::Error) -> Self {
        Errno::from(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_round_trip() {
        for word in [0usize, 1, 4096, usize::MAX - ERRNO_MAX] {
            assert_eq!(Errno::from_register(word), Ok(word));
        }
        assert_eq!(Errno::from_register((-11isize) as usize), Err(Errno::AGAIN));
        assert_eq!(
            Errno::from_register((-4095isize) as usize),
            Err(Errno::from_raw(4095))
        );
        assert_eq!(Errno::to_register(Err(Errno::PIPE)), -32);
        assert_eq!(Errno::from_raw(0), Errno::IO);
        assert_eq!(Errno::from_raw(-1), Errno::IO);
    }

    #[test]
    fn names_and_messages() {
        assert_eq!(format!("{:?}", Errno::AGAIN), "EAGAIN");
        assert!(Errno::NOENT.to_string().contains("No such file"));
    }
}
