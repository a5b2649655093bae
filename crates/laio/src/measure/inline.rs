//! Timed calls that do not block, one at a time.

use crate::measure::{Caller, Direct, Plain, Subject, Via, expect, leaked_buffer, word};
use crate::{Call, Errno};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, pipe_with};
use std::ffi::CString;
use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

/// A call that does not block, prepared to be made many times.
#[derive(Debug)]
pub struct Inline {
    call: Call,
    /// The expected result; `None` if it is not known beforehand.
    returns: Option<usize>,
    around: Around,
    /// The descriptors and strings that the call's arguments refer to.
    _descriptors: Vec<OwnedFd>,
}

/// The calls made around it.
#[derive(Debug)]
enum Around {
    Nothing,
    /// The call produces a descriptor, for which `fstat` and `close` are called; all three are
    /// timed.
    Status {
        buffer: usize,
    },
    /// The call receives a message of this size, sent through this descriptor, untimed.
    Filled {
        end: OwnedFd,
        bytes: usize,
    },
    /// The call sends a message of this size, which is received from this descriptor, untimed. The
    /// peer buffers `capacity` bytes.
    Emptied {
        end: OwnedFd,
        bytes: usize,
        capacity: usize,
    },
}

/// Bytes that a local socket holds at least, and more than is put into a pipe at a time.
const CAPACITY: usize = 64 << 10;
/// Messages that they hold at least, however small.
const MESSAGES: usize = 128;

impl Inline {
    fn new(call: Call, returns: Option<usize>, descriptors: Vec<OwnedFd>) -> Inline {
        Inline {
            call,
            returns,
            around: Around::Nothing,
            _descriptors: descriptors,
        }
    }

    fn with(mut self, around: Around) -> Inline {
        self.around = around;
        self
    }

    /// The cheapest call, which shows the overhead of an interface best.
    pub fn getpid() -> Inline {
        let pid = std::process::id() as usize;
        Inline::new(Call::new(libc::SYS_getpid, []), Some(pid), vec![])
    }

    /// `pread` of the first `bytes` of a file.
    pub fn read_file(file: OwnedFd, bytes: usize) -> Inline {
        let args = [word(&file), leaked_buffer(bytes) as usize, bytes, 0];
        Inline::new(Call::new(libc::SYS_pread64, args), Some(bytes), vec![file])
    }

    /// `pwrite` of the first `bytes` of a file.
    pub fn write_file(file: OwnedFd, bytes: usize) -> Inline {
        let args = [word(&file), leaked_buffer(bytes) as usize, bytes, 0];
        Inline::new(Call::new(libc::SYS_pwrite64, args), Some(bytes), vec![file])
    }

    /// `open`, `fstat` and `close` of a file: three calls, timed together.
    ///
    /// # Errors
    /// `EINVAL` if the path has a zero byte in it.
    pub fn open_fstat_close(path: &Path) -> Result<Inline, Errno> {
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
        let args = [libc::AT_FDCWD as usize, name(path)?, flags, 0];
        let call = Call::new(libc::SYS_openat, args);
        Ok(Inline::new(call, None, vec![]).with(Around::Status { buffer: status() }))
    }

    /// `stat` of a file, as the C library makes it.
    ///
    /// # Errors
    /// `EINVAL` if the path has a zero byte in it.
    pub fn stat(path: &Path) -> Result<Inline, Errno> {
        let args = [libc::AT_FDCWD as usize, name(path)?, status(), 0];
        Ok(Inline::new(
            Call::new(libc::SYS_newfstatat, args),
            Some(0),
            vec![],
        ))
    }

    /// `recv` from a local stream socket in which a message of so many bytes waits.
    ///
    /// # Errors
    /// Of making the sockets.
    pub fn receive(bytes: usize) -> Result<Inline, Errno> {
        let (near, end) = sockets()?;
        let args = [word(&near), leaked_buffer(bytes) as usize, bytes, 0, 0, 0];
        let call = Call::new(libc::SYS_recvfrom, args);
        let around = Around::Filled { end, bytes };
        Ok(Inline::new(call, Some(bytes), vec![near]).with(around))
    }

    /// `send` of so many bytes to a local stream socket with free space.
    ///
    /// # Errors
    /// Of making the sockets.
    pub fn send(bytes: usize) -> Result<Inline, Errno> {
        let (near, end) = sockets()?;
        let flags = libc::MSG_NOSIGNAL as usize;
        let args = [
            word(&near),
            leaked_buffer(bytes) as usize,
            bytes,
            flags,
            0,
            0,
        ];
        let call = Call::new(libc::SYS_sendto, args);
        let around = Around::Emptied {
            end,
            bytes,
            capacity: CAPACITY,
        };
        Ok(Inline::new(call, Some(bytes), vec![near]).with(around))
    }

    /// `write` of so many bytes to a pipe with free space.
    ///
    /// # Errors
    /// Of making the pipe, and `EMSGSIZE` if it holds fewer bytes: a pipe may hold one page only, where
    /// `fs.pipe-max-size` is low or the user has many pipes.
    pub fn write_pipe(bytes: usize) -> Result<Inline, Errno> {
        Inline::write_to(pipe_with(PipeFlags::CLOEXEC)?, bytes)
    }

    /// As [`Inline::write_pipe`], to a pipe of this size.
    #[cfg(test)]
    pub(crate) fn write_pipe_of(size: usize, bytes: usize) -> Result<Inline, Errno> {
        let pipe = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::pipe::fcntl_setpipe_size(&pipe.1, size)?;
        Inline::write_to(pipe, bytes)
    }

    fn write_to((end, near): (OwnedFd, OwnedFd), bytes: usize) -> Result<Inline, Errno> {
        let capacity = fcntl_getpipe_size(&near)?.min(CAPACITY);
        if capacity < bytes {
            return Err(Errno::MSGSIZE);
        }
        let args = [word(&near), leaked_buffer(bytes) as usize, bytes];
        let call = Call::new(libc::SYS_write, args);
        let around = Around::Emptied {
            end,
            bytes,
            capacity,
        };
        Ok(Inline::new(call, Some(bytes), vec![near]).with(around))
    }

    fn run_by(&mut self, mut caller: impl Caller, count: usize) -> Result<u64, Errno> {
        let call = &self.call;
        match (&self.around, self.returns) {
            (Around::Status { buffer }, _) => timed(count, || {
                // SAFETY: name and buffer are never freed; the descriptor is the one just opened.
                unsafe {
                    let fd = caller.call(black_box(call))?;
                    caller.call(black_box(&Call::new(libc::SYS_fstat, [fd, *buffer])))?;
                    expect(caller.call(black_box(&Call::new(libc::SYS_close, [fd]))), 0)
                }
            }),
            (Around::Nothing, returns) => {
                let returns = returns.unwrap_or(0);
                // SAFETY: the buffers are never freed.
                timed(count, || unsafe {
                    expect(caller.call(black_box(call)), returns)
                })
            }
            (Around::Filled { end, bytes }, _) => in_portions(count, CAPACITY / bytes, |count| {
                let message = vec![1; *bytes];
                for _ in 0..count {
                    let sent = rustix::net::send(end, &message, SendFlags::NOSIGNAL)?;
                    expect(Ok(sent), *bytes)?;
                }
                // SAFETY: the buffers are never freed.
                timed(count, || unsafe {
                    expect(caller.call(black_box(call)), *bytes)
                })
            }),
            (
                Around::Emptied {
                    end,
                    bytes,
                    capacity,
                },
                _,
            ) => in_portions(count, capacity / bytes, |count| {
                // SAFETY: the buffers are never freed.
                let time = timed(count, || unsafe {
                    expect(caller.call(black_box(call)), *bytes)
                })?;
                empty(end, count * bytes)?;
                Ok(time)
            }),
        }
    }
}

impl Subject for Inline {
    fn run(&mut self, via: &mut Via<'_>, count: usize) -> Result<u64, Errno> {
        match via {
            Via::Plain => self.run_by(Plain, count),
            Via::Direct => self.run_by(Direct, count),
            Via::Context(context) => self.run_by(&mut **context, count),
            Via::Ring(_) => Err(Errno::OPNOTSUPP),
        }
    }
}

#[inline(always)]
fn timed(count: usize, mut once: impl FnMut() -> Result<(), Errno>) -> Result<u64, Errno> {
    let start = Instant::now();
    for _ in 0..count {
        once()?;
    }
    Ok(start.elapsed().as_nanos() as u64)
}

/// Splits the messages into batches that the kernel can buffer.
fn in_portions(
    count: usize,
    held: usize,
    mut portion: impl FnMut(usize) -> Result<u64, Errno>,
) -> Result<u64, Errno> {
    let most = held.min(MESSAGES);
    let mut time = 0;
    let mut left = count;
    while left > 0 {
        let now = left.min(most);
        time += portion(now)?;
        left -= now;
    }
    Ok(time)
}

fn empty(end: &OwnedFd, bytes: usize) -> Result<(), Errno> {
    let mut buffer = [0; 4096];
    let mut left = bytes;
    while left > 0 {
        match rustix::io::read(end, &mut buffer)? {
            0 => return Err(Errno::IO),
            read => left -= read,
        }
    }
    Ok(())
}

fn sockets() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    Ok(socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// The address of a path as a string of C.
fn name(path: &Path) -> Result<usize, Errno> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    Ok(name.into_raw() as usize)
}

/// The address of a `struct stat`.
fn status() -> usize {
    // SAFETY: plain data, for which all zeros is a valid value.
    let status: libc::stat = unsafe { std::mem::zeroed() };
    Box::leak(Box::new(status)) as *mut libc::stat as usize
}
