//! Translates a step to a system call: a number and six words.

use std::ffi::c_long;
use std::os::unix::ffi::OsStrExt;

use super::step::{At, Buffer, Data, Fd, Step, Via};
use super::world::World;
use crate::temp::pattern;

/// A system call, ready to be made. Its words point into the arena.
#[derive(Debug)]
pub(super) struct Lowered {
    pub(super) number: c_long,
    pub(super) words: [usize; 6],
    pub(super) shape: Shape,
}

/// How to interpret its result.
#[derive(Debug)]
pub(super) enum Shape {
    /// A number.
    Value,
    /// A descriptor for this slot.
    Descriptor(u8),
    /// This many bytes, in these pieces of the arena: address and length.
    Bytes(Vec<(usize, usize)>),
    /// A `struct stat` at this address.
    Stat(usize),
    /// A `struct statx` at this address.
    Statx(usize),
    /// Directory entries at this address.
    Names(usize),
}

/// Returns a call with a few words; the rest is 0.
fn call<const N: usize>(number: c_long, given: [usize; N], shape: Shape) -> Lowered {
    let mut words = [0; 6];
    words[..N].copy_from_slice(&given);
    Lowered {
        number,
        words,
        shape,
    }
}

/// Converts an argument to a register value: negative numbers are sign-extended.
fn word(number: impl Into<i64>) -> usize {
    number.into() as usize
}

impl Buffer {
    /// Returns the invalid address to use instead of the valid one.
    fn or_bad(self, good: usize) -> usize {
        match self {
            Buffer::Good => good,
            Buffer::Null => 0,
            Buffer::One => 1,
            Buffer::Kernel => 0xffff_8000_0000_0000,
        }
    }
}

impl World {
    /// Returns the call of a step. For steps with a second thread, that is their main call.
    pub(super) fn lower(&mut self, step: &Step) -> Lowered {
        use Shape::{Bytes, Descriptor, Names, Stat, Statx, Value};
        match *step {
            Step::Open {
                name,
                via,
                flags,
                mode,
                into,
            } => {
                let (directory, path) = self.path(name, via);
                let (flags, mode, shape) = (word(flags), mode as usize, Descriptor(into));
                match legacy(via, |n| n.open) {
                    Some(number) => call(number, [path, flags, mode], shape),
                    None => call(libc::SYS_openat, [directory, path, flags, mode], shape),
                }
            }
            Step::OpenResolved {
                name,
                flags,
                mode,
                resolve,
                into,
            } => {
                let (directory, path) = self.path(name, Via::Root);
                let how = [flags as usize, mode as usize, resolve as usize];
                let how = self.arena.put_words(&how);
                call(
                    libc::SYS_openat2,
                    [directory, path, how, 24],
                    Descriptor(into),
                )
            }
            Step::Close { fd } => call(libc::SYS_close, [self.fd(fd)], Value),
            Step::Duplicate {
                fd,
                close_on_exec: false,
                into,
            } => call(libc::SYS_dup, [self.fd(fd)], Descriptor(into)),
            Step::Duplicate {
                fd,
                close_on_exec: true,
                into,
            } => {
                let command = libc::F_DUPFD_CLOEXEC as usize;
                call(libc::SYS_fcntl, [self.fd(fd), command, 0], Descriptor(into))
            }
            Step::Read { fd, buffer, length } => {
                let (at, pieces) = self.buffer(buffer, length);
                call(libc::SYS_read, [self.fd(fd), at, length], Bytes(pieces))
            }
            Step::ReadFed { fd, length, .. } => self.lower(&Step::Read {
                fd,
                buffer: Buffer::Good,
                length,
            }),
            Step::ReadAt {
                fd,
                buffer,
                length,
                offset,
            } => {
                let (at, pieces) = self.buffer(buffer, length);
                let words = [self.fd(fd), at, length, word(offset)];
                call(libc::SYS_pread64, words, Bytes(pieces))
            }
            Step::ReadVector {
                fd,
                ref lengths,
                bad,
                count,
                at,
            } => {
                let (vector, pieces) = self.room_vector(lengths, bad);
                let count = count.unwrap_or(lengths.len());
                let numbers = [libc::SYS_readv, libc::SYS_preadv, libc::SYS_preadv2];
                self.vectored(numbers, fd, vector, count, at, Bytes(pieces))
            }
            Step::Write {
                fd,
                buffer,
                data,
                claim,
            } => {
                let at = buffer.or_bad(self.data(data));
                let length = claim.unwrap_or(data.length);
                call(libc::SYS_write, [self.fd(fd), at, length], Value)
            }
            Step::WriteDrained { fd, data } => self.lower(&Step::Write {
                fd,
                buffer: Buffer::Good,
                data,
                claim: None,
            }),
            Step::WriteAt {
                fd,
                buffer,
                data,
                offset,
            } => {
                let at = buffer.or_bad(self.data(data));
                let words = [self.fd(fd), at, data.length, word(offset)];
                call(libc::SYS_pwrite64, words, Value)
            }
            Step::WriteVector {
                fd,
                ref data,
                bad,
                count,
                at,
            } => {
                let vector = self.data_vector(data, bad);
                let count = count.unwrap_or(data.len());
                let numbers = [libc::SYS_writev, libc::SYS_pwritev, libc::SYS_pwritev2];
                self.vectored(numbers, fd, vector, count, at, Value)
            }
            Step::Seek { fd, offset, whence } => call(
                libc::SYS_lseek,
                [self.fd(fd), word(offset), word(whence)],
                Value,
            ),
            Step::StatFd { fd, buffer } => {
                let at = self.arena.space(size_of::<libc::stat>());
                call(libc::SYS_fstat, [self.fd(fd), buffer.or_bad(at)], Stat(at))
            }
            Step::StatName { name, via, flags } => {
                let (directory, path) = self.path(name, via);
                let at = self.arena.space(size_of::<libc::stat>());
                let old = match flags {
                    0 => legacy(via, |n| n.stat),
                    libc::AT_SYMLINK_NOFOLLOW => legacy(via, |n| n.lstat),
                    _ => None,
                };
                match old {
                    Some(number) => call(number, [path, at], Stat(at)),
                    None => {
                        let words = [directory, path, at, word(flags)];
                        call(libc::SYS_newfstatat, words, Stat(at))
                    }
                }
            }
            Step::Statx { name, flags, mask } => {
                let (directory, path) = self.path(name, Via::Root);
                let at = self.arena.space(size_of::<libc::statx>());
                let words = [directory, path, word(flags), mask as usize, at];
                call(libc::SYS_statx, words, Statx(at))
            }
            Step::Truncate { fd, length } => {
                call(libc::SYS_ftruncate, [self.fd(fd), word(length)], Value)
            }
            Step::TruncateName { name, length } => {
                let (_, path) = self.path(name, Via::Absolute);
                call(libc::SYS_truncate, [path, word(length)], Value)
            }
            Step::Allocate {
                fd,
                mode,
                offset,
                length,
            } => {
                let words = [self.fd(fd), word(mode), word(offset), word(length)];
                call(libc::SYS_fallocate, words, Value)
            }
            Step::ChangeMode { fd, mode } => {
                call(libc::SYS_fchmod, [self.fd(fd), mode as usize], Value)
            }
            Step::Unlink { name, via } => {
                let (directory, path) = self.path(name, via);
                match legacy(via, |n| n.unlink) {
                    Some(number) => call(number, [path], Value),
                    None => call(libc::SYS_unlinkat, [directory, path, 0], Value),
                }
            }
            Step::MakeDirectory { name, via, mode } => {
                let (directory, path) = self.path(name, via);
                match legacy(via, |n| n.mkdir) {
                    Some(number) => call(number, [path, mode as usize], Value),
                    None => call(libc::SYS_mkdirat, [directory, path, mode as usize], Value),
                }
            }
            Step::MakeFifo { name, mode } => {
                let (directory, path) = self.path(name, Via::Root);
                let mode = (libc::S_IFIFO | mode) as usize;
                call(libc::SYS_mknodat, [directory, path, mode, 0], Value)
            }
            Step::RemoveDirectory { name, via } => {
                let (directory, path) = self.path(name, via);
                let flag = word(libc::AT_REMOVEDIR);
                match legacy(via, |n| n.rmdir) {
                    Some(number) => call(number, [path], Value),
                    None => call(libc::SYS_unlinkat, [directory, path, flag], Value),
                }
            }
            Step::Rename {
                from,
                to,
                via,
                flags,
            } => {
                let ((directory, from), (_, to)) = (self.path(from, via), self.path(to, via));
                match legacy(via, |n| n.rename).filter(|_| flags == 0) {
                    Some(number) => call(number, [from, to], Value),
                    None => {
                        let words = [directory, from, directory, to, flags as usize];
                        call(libc::SYS_renameat2, words, Value)
                    }
                }
            }
            Step::Link {
                from,
                to,
                via,
                flags,
            } => {
                let ((directory, from), (_, to)) = (self.path(from, via), self.path(to, via));
                match legacy(via, |n| n.link).filter(|_| flags == 0) {
                    Some(number) => call(number, [from, to], Value),
                    None => {
                        let words = [directory, from, directory, to, word(flags)];
                        call(libc::SYS_linkat, words, Value)
                    }
                }
            }
            Step::Symlink { target, name, via } => {
                let target = self.text(target.as_bytes());
                let (directory, path) = self.path(name, via);
                match legacy(via, |n| n.symlink) {
                    Some(number) => call(number, [target, path], Value),
                    None => call(libc::SYS_symlinkat, [target, directory, path], Value),
                }
            }
            Step::ReadLink { name, via, length } => {
                let (directory, path) = self.path(name, via);
                let (at, pieces) = self.buffer(Buffer::Good, length);
                match legacy(via, |n| n.readlink) {
                    Some(number) => call(number, [path, at, length], Bytes(pieces)),
                    None => {
                        let words = [directory, path, at, length];
                        call(libc::SYS_readlinkat, words, Bytes(pieces))
                    }
                }
            }
            Step::Access { name, via, mode } => {
                let (directory, path) = self.path(name, via);
                match legacy(via, |n| n.access) {
                    Some(number) => call(number, [path, word(mode)], Value),
                    None => call(libc::SYS_faccessat, [directory, path, word(mode)], Value),
                }
            }
            Step::List { fd, length } => {
                let at = self.arena.space(length);
                call(libc::SYS_getdents64, [self.fd(fd), at, length], Names(at))
            }
            Step::Sync { fd, data_only } => {
                let number = if data_only {
                    libc::SYS_fdatasync
                } else {
                    libc::SYS_fsync
                };
                call(number, [self.fd(fd)], Value)
            }
            Step::GetFlags { fd } => call(
                libc::SYS_fcntl,
                [self.fd(fd), libc::F_GETFL as usize],
                Value,
            ),
            Step::SetFlags { fd, flags } => {
                let words = [self.fd(fd), libc::F_SETFL as usize, word(flags)];
                call(libc::SYS_fcntl, words, Value)
            }
            Step::GetFdFlags { fd } => call(
                libc::SYS_fcntl,
                [self.fd(fd), libc::F_GETFD as usize],
                Value,
            ),
            Step::Receive {
                fd,
                buffer,
                length,
                flags,
            } => {
                let (at, pieces) = self.buffer(buffer, length);
                let words = [self.fd(fd), at, length, word(flags)];
                call(libc::SYS_recvfrom, words, Bytes(pieces))
            }
            Step::Send {
                fd,
                buffer,
                data,
                flags,
            } => {
                let at = buffer.or_bad(self.data(data));
                let words = [self.fd(fd), at, data.length, word(flags)];
                call(libc::SYS_sendto, words, Value)
            }
            Step::ReceiveMessage {
                fd,
                ref lengths,
                flags,
            } => {
                let (vector, pieces) = self.room_vector(lengths, None);
                let message = self.message(vector, lengths.len());
                call(
                    libc::SYS_recvmsg,
                    [self.fd(fd), message, word(flags)],
                    Bytes(pieces),
                )
            }
            Step::SendMessage {
                fd,
                ref data,
                flags,
            } => {
                let vector = self.data_vector(data, None);
                let message = self.message(vector, data.len());
                call(
                    libc::SYS_sendmsg,
                    [self.fd(fd), message, word(flags)],
                    Value,
                )
            }
            Step::Shutdown { fd, how } => call(libc::SYS_shutdown, [self.fd(fd), word(how)], Value),
            Step::SendFile {
                to,
                from,
                offset,
                length,
            } => {
                let offset = offset.map_or(0, |offset| self.arena.put(&offset.to_ne_bytes()));
                let words = [self.fd(to), self.fd(from), offset, length];
                call(libc::SYS_sendfile, words, Value)
            }
            Step::CopyRange {
                from,
                to,
                length,
                flags,
            } => {
                let words = [self.fd(from), 0, self.fd(to), 0, length, flags as usize];
                call(libc::SYS_copy_file_range, words, Value)
            }
        }
    }

    fn fd(&self, fd: Fd) -> usize {
        word(self.number(fd))
    }

    /// Returns the words for a path: directory and string.
    fn path(&mut self, name: &str, via: Via) -> (usize, usize) {
        match via {
            Via::Root => (self.fd(Fd::Root), self.text(name.as_bytes())),
            Via::Absolute | Via::Legacy => {
                let mut path = self.root.as_os_str().as_bytes().to_vec();
                path.push(b'/');
                path.extend_from_slice(name.as_bytes());
                (word(libc::AT_FDCWD), self.text(&path))
            }
        }
    }

    fn text(&mut self, bytes: &[u8]) -> usize {
        self.arena.put(&[bytes, b"\0"].concat())
    }

    fn data(&mut self, data: Data) -> usize {
        self.arena.put(&pattern(data.length, u64::from(data.seed)))
    }

    /// Returns a buffer of this many bytes, and the same as pieces. A huge length is only announced: calls
    /// refuse it.
    fn buffer(&mut self, buffer: Buffer, length: usize) -> (usize, Vec<(usize, usize)>) {
        let really = if length > isize::MAX as usize {
            0
        } else {
            length
        };
        let at = self.arena.space(really);
        (buffer.or_bad(at), vec![(at, really)])
    }

    fn room_vector(
        &mut self,
        lengths: &[usize],
        bad: Option<usize>,
    ) -> (usize, Vec<(usize, usize)>) {
        let pieces: Vec<(usize, usize)> = lengths
            .iter()
            .map(|&length| (self.arena.space(length), length))
            .collect();
        (self.vector(&pieces, bad), pieces)
    }

    fn data_vector(&mut self, data: &[Data], bad: Option<usize>) -> usize {
        let pieces: Vec<(usize, usize)> = data
            .iter()
            .map(|&data| (self.data(data), data.length))
            .collect();
        self.vector(&pieces, bad)
    }

    /// Returns an array of `struct iovec`.
    fn vector(&mut self, pieces: &[(usize, usize)], bad: Option<usize>) -> usize {
        let at = |index, at| if bad == Some(index) { 0 } else { at };
        let pieces = pieces.iter().enumerate();
        let words: Vec<usize> = pieces
            .flat_map(|(index, &(start, length))| [at(index, start), length])
            .collect();
        self.arena.put_words(&words)
    }

    /// Returns a `struct msghdr` with only a vector.
    fn message(&mut self, vector: usize, count: usize) -> usize {
        let mut words = [0; size_of::<libc::msghdr>() / size_of::<usize>()];
        words[std::mem::offset_of!(libc::msghdr, msg_iov) / size_of::<usize>()] = vector;
        words[std::mem::offset_of!(libc::msghdr, msg_iovlen) / size_of::<usize>()] = count;
        self.arena.put_words(&words)
    }

    fn vectored(
        &mut self,
        [plain, offset, flags]: [c_long; 3],
        fd: Fd,
        vector: usize,
        count: usize,
        at: At,
        shape: Shape,
    ) -> Lowered {
        let fd = self.fd(fd);
        match at {
            At::Position => call(plain, [fd, vector, count], shape),
            At::Offset(from) => call(offset, [fd, vector, count, word(from)], shape),
            At::Flags(from, with) => {
                call(flags, [fd, vector, count, word(from), 0, word(with)], shape)
            }
        }
    }
}

/// The older calls, which take a path only.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
struct Legacy {
    open: c_long,
    stat: c_long,
    lstat: c_long,
    unlink: c_long,
    mkdir: c_long,
    rmdir: c_long,
    rename: c_long,
    link: c_long,
    symlink: c_long,
    readlink: c_long,
    access: c_long,
}

/// Returns the number of an older call, if the step requests it and this architecture has it.
#[cfg(target_arch = "x86_64")]
fn legacy(via: Via, choose: fn(&Legacy) -> c_long) -> Option<c_long> {
    const NUMBERS: Legacy = Legacy {
        open: libc::SYS_open,
        stat: libc::SYS_stat,
        lstat: libc::SYS_lstat,
        unlink: libc::SYS_unlink,
        mkdir: libc::SYS_mkdir,
        rmdir: libc::SYS_rmdir,
        rename: libc::SYS_rename,
        link: libc::SYS_link,
        symlink: libc::SYS_symlink,
        readlink: libc::SYS_readlink,
        access: libc::SYS_access,
    };
    (via == Via::Legacy).then(|| choose(&NUMBERS))
}

/// The number of an older call: this architecture has none.
#[cfg(not(target_arch = "x86_64"))]
fn legacy(_: Via, _: fn(&Legacy) -> c_long) -> Option<c_long> {
    None
}
