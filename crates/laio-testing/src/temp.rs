//! Files, pipes and sockets in a given state: cold, full, connected.

pub(crate) mod basic;

pub use basic::{DIRECTORY, PIPE_SIZE, file_with, in_memory, pattern, pipe, scratch};

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Advice, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tempfile::NamedTempFile;

use crate::{Skip, watchdog};

/// As [`file_with`], but written to the disk and evicted from the page cache, so that a read of it waits for
/// the disk.
///
/// # Errors
///
/// If its pages stay in memory: on tmpfs, and on file systems with a cache of their own.
pub fn cold_file(directory: &Path, contents: &[u8]) -> Result<NamedTempFile, Skip> {
    let file = file_with(directory, contents);
    make_cold(file.as_file())?;
    Ok(file)
}

/// Writes a file to the disk and drops its pages from the page cache; checks that they are gone.
///
/// # Errors
///
/// If pages stay in memory.
pub fn make_cold(file: &File) -> Result<(), Skip> {
    if is_in_memory(file) {
        return Err(Skip::because(
            "disk",
            "a file system in memory has no other copy",
        ));
    }
    rustix::fs::fsync(file)
        .map_err(|e| Skip::because("disk", format!("fsync of a test file: {e}")))?;
    let mut pages = 0;
    // A page that the kernel is using at the moment stays.
    for _ in 0..100 {
        evict(file, 0, 0)?;
        pages = resident_pages(file);
        if pages == 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Skip::because(
        "disk",
        format!("{pages} pages stay in memory on this file system"),
    ))
}

/// Whether the file is on tmpfs or ramfs.
fn is_in_memory(file: &File) -> bool {
    const TMPFS: u32 = 0x0102_1994;
    const RAMFS: u32 = 0x8584_58f6;
    rustix::fs::fstatfs(file).is_ok_and(|found| matches!(found.f_type as u32, TMPFS | RAMFS))
}

/// Drops the clean pages of a range from the page cache; length 0 means to the end.
///
/// # Errors
///
/// If the file system refuses.
pub fn evict(file: &File, offset: u64, length: u64) -> Result<(), Skip> {
    rustix::fs::fadvise(
        file,
        offset,
        std::num::NonZeroU64::new(length),
        Advice::DontNeed,
    )
    .map_err(|e| Skip::because("disk", format!("posix_fadvise(DONTNEED): {e}")))
}

/// Returns how many pages of a file are in the page cache.
pub fn resident_pages(file: &File) -> usize {
    residency(file)
        .into_iter()
        .filter(|&resident| resident)
        .count()
}

/// Returns for each page of a file whether it is in the page cache.
///
/// The file must belong to the caller: the kernel does not report this for other users' files.
///
/// # Panics
///
/// If the file cannot be mapped.
pub fn residency(file: &File) -> Vec<bool> {
    let size = file.metadata().expect("a file with a size").len() as usize;
    if size == 0 {
        return Vec::new();
    }
    let mut pages = vec![0u8; size.div_ceil(rustix::param::page_size())];
    // SAFETY: a new shared mapping, which nothing reads or writes through: mincore only asks about
    // it, and gets a vector with one byte for each of its pages. It is unmapped once, here.
    let (answer, error) = unsafe {
        let map = libc::mmap(
            std::ptr::null_mut(),
            size,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert!(
            map != libc::MAP_FAILED,
            "mmap: {}",
            io::Error::last_os_error()
        );
        let answer = libc::mincore(map, size, pages.as_mut_ptr());
        let error = io::Error::last_os_error();
        libc::munmap(map, size);
        (answer, error)
    };
    assert!(answer == 0, "mincore: {error}");
    pages.into_iter().map(|page| page & 1 == 1).collect()
}

/// As [`pipe`], for a test that writes this many bytes, or pages, before it reads any.
///
/// # Errors
///
/// If the pipe's capacity is lower: `fs.pipe-max-size` is low, or the user has many pipes.
///
/// # Panics
///
/// If no descriptors are left.
pub fn pipe_of(bytes: usize) -> Result<(OwnedFd, OwnedFd), Skip> {
    let (reader, writer) = pipe();
    holds(&writer, bytes)?;
    Ok((reader, writer))
}

/// Checks that a pipe holds this many bytes, in as many pages.
///
/// # Errors
///
/// If it holds less.
pub fn holds(pipe: impl AsFd, bytes: usize) -> Result<(), Skip> {
    let size = rustix::pipe::fcntl_getpipe_size(pipe).expect("a pipe");
    if size >= bytes {
        Ok(())
    } else {
        Err(Skip::because(
            "pipe-size",
            format!("a pipe holds {size} bytes, and {bytes} are needed: see fs.pipe-max-size"),
        ))
    }
}

/// Returns a pair of terminal ends: master and slave.
///
/// # Errors
///
/// If there are no pseudo-terminals.
pub fn terminal() -> Result<(OwnedFd, OwnedFd), Skip> {
    watchdog::enter();
    let (mut master, mut slave) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: both are filled in; the other pointers are null.
    if unsafe { libc::openpty(&mut master, &mut slave, none, none.cast(), none.cast()) } != 0 {
        let error = io::Error::last_os_error();
        return Err(Skip::because("terminals", format!("no terminal: {error}")));
    }
    // SAFETY: they are open, and nothing else has them.
    Ok(unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) })
}

/// Returns a connected pair of local stream sockets.
pub fn stream_pair() -> (OwnedFd, OwnedFd) {
    local_pair(SocketType::STREAM)
}

/// Returns a connected pair of local datagram sockets.
pub fn datagram_pair() -> (OwnedFd, OwnedFd) {
    local_pair(SocketType::DGRAM)
}

fn local_pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
    watchdog::enter();
    rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
        .expect("a pair of sockets")
}

/// Returns two ends of one TCP connection over the loopback: the connecting and the accepting one.
pub fn tcp_pair() -> (TcpStream, TcpStream) {
    watchdog::enter();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("its address");
    let client = TcpStream::connect(address).expect("a connection");
    loop {
        let (server, peer) = listener.accept().expect("the other end");
        // Another process may connect to the same port.
        if peer == client.local_addr().expect("our address") {
            return (client, server);
        }
    }
}

/// Writes to a pipe or stream socket until it accepts no more byte; returns how many it accepted.
///
/// Restores the blocking mode of the descriptor. Bytes that TCP has accepted are in transit for a while, and
/// free buffer space when they arrive; so this waits until they have arrived, and writes again.
pub fn fill(fd: impl AsFd) -> usize {
    /// In rounds of two milliseconds: bytes beyond the peer's window are retransmitted, and never arrive.
    const ROUNDS_MAX: u32 = 500;
    let fd = fd.as_fd();
    without_blocking(fd, || {
        let block = pattern(64 * 1024, 0x00F1_110F);
        let (mut total, mut size, mut quiet) = (0, block.len(), 0);
        while quiet < 3 || (is_on_its_way(fd) && quiet < ROUNDS_MAX) {
            match rustix::io::write(fd, &block[..size]) {
                Ok(written) => {
                    total += written;
                    quiet = 0;
                }
                Err(rustix::io::Errno::AGAIN) if size > 1 => size /= 2,
                Err(rustix::io::Errno::AGAIN) => {
                    quiet += 1;
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(error) => panic!("filling: {error}"),
            }
        }
        total
    })
}

/// Whether data has been sent and not been acknowledged. Data beyond the peer's window has not been sent. Not
/// supported by pipes and local sockets.
fn is_on_its_way(fd: BorrowedFd<'_>) -> bool {
    /// `SIOCOUTQNSD` of `linux/sockios.h`: bytes that have not been sent yet.
    const NOT_SENT: libc::Ioctl = 0x894B;
    let count = |request| {
        let mut bytes: libc::c_int = 0;
        // SAFETY: both requests store an int.
        let result = unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw mut bytes) };
        (result == 0).then_some(bytes)
    };
    match (count(libc::TIOCOUTQ), count(NOT_SENT)) {
        (Some(kept), Some(not_sent)) => kept > not_sent,
        _ => false,
    }
}

/// Reads from a pipe or stream socket until it is empty or at its end; returns the bytes.
pub fn drain(fd: impl AsFd) -> Vec<u8> {
    let fd = fd.as_fd();
    without_blocking(fd, || {
        let mut bytes = Vec::new();
        let mut block = vec![0; 64 * 1024];
        loop {
            match rustix::io::read(fd, &mut block) {
                Ok(0) | Err(rustix::io::Errno::AGAIN) => return bytes,
                Ok(read) => bytes.extend_from_slice(&block[..read]),
                // Reported once, when the peer closed with unread data; our own data may remain.
                Err(rustix::io::Errno::CONNRESET) => {}
                Err(error) => panic!("draining: {error}"),
            }
        }
    })
}

fn without_blocking<T>(fd: impl AsFd, body: impl FnOnce() -> T) -> T {
    let fd = fd.as_fd();
    let flags = rustix::fs::fcntl_getfl(fd).expect("a descriptor's flags");
    rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK).expect("a descriptor's flags");
    let value = body();
    rustix::fs::fcntl_setfl(fd, flags).expect("a descriptor's flags");
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::or_skip;
    use std::io::Read;

    const PAGE: usize = 4096;

    #[test]
    fn a_pattern_names_its_place() {
        let long = pattern(1001, 3);
        assert_eq!(long.len(), 1001);
        assert_eq!(long[..500], pattern(500, 3));
        assert_ne!(long[8..500], pattern(492, 3)[..], "shifted bytes differ");
        assert_ne!(long, pattern(1001, 4));
    }

    #[test]
    fn a_file_has_its_contents() {
        let directory = scratch();
        let mut read = Vec::new();
        file_with(directory.path(), b"abc")
            .read_to_end(&mut read)
            .unwrap();
        assert_eq!(read, b"abc");
    }

    #[test]
    fn a_cold_file_is_not_in_memory_until_it_is_read() {
        let directory = scratch();
        let contents = pattern(10 * PAGE + 1, 1);
        let Some(mut file) = or_skip(cold_file(directory.path(), &contents)) else {
            return;
        };
        assert_eq!(resident_pages(file.as_file()), 0);
        let mut read = Vec::new();
        file.read_to_end(&mut read).unwrap();
        assert_eq!(read, contents);
        assert_eq!(residency(file.as_file()), vec![true; 11]);
        evict(file.as_file(), 4 * PAGE as u64, 0).unwrap();
        assert_eq!(resident_pages(file.as_file()), 4);
    }

    #[test]
    fn a_full_pipe_is_full_and_empties() {
        let (reader, writer) = pipe();
        // Less than the default for a user with many pipes.
        let size = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
        assert_eq!(fill(&writer), size);
        assert_eq!(fill(&writer), 0);
        assert!(
            !rustix::fs::fcntl_getfl(&writer)
                .unwrap()
                .contains(OFlags::NONBLOCK)
        );
        assert_eq!(drain(&reader).len(), size);
        assert_eq!(drain(&reader), b"");
    }

    #[test]
    fn sockets_are_connected() {
        for (a, b) in [stream_pair(), datagram_pair()] {
            rustix::io::write(&a, b"hello").unwrap();
            assert_eq!(drain(&b), b"hello");
        }
        let (client, server) = tcp_pair();
        let filled = fill(&client);
        assert!(filled > 4096);
        let mut block = vec![0; 1 << 20];
        let mut read = 0;
        while read < filled {
            read += (&server).read(&mut block).unwrap();
        }
        assert_eq!(read, filled);
    }

    #[test]
    fn scratch_directories_vanish() {
        let directory = scratch();
        let path = directory.path().to_owned();
        std::fs::write(path.join("x"), "x").unwrap();
        drop(directory);
        assert!(!path.exists());
    }
}
