//! Rule 2, complete, not partial: a transfer moves the bytes that a blocking call would have moved.

use crate::harness::{
    Arg, LIMIT, Mode, Way, at, at_mut, call, finish, for_each, for_each_backend, for_each_pending,
    iovec, iovec_mut, later, pending, plain, start, wait_for, zeroed,
};
use laio::{Errno, Outcome};
use laio_testing::temp::{
    evict, file_with, fill, make_cold, pattern, pipe, residency, scratch, stream_pair,
};
use laio_testing::{Random, child, or_skip, test_name};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// The number of bytes to move: large, and not a multiple of three.
fn size(way: &Way) -> usize {
    if way.is_short() { 1_500 } else { 700_000 }
}

/// Reads this many bytes on another thread, in small pieces with pauses.
fn slow_reader(fd: OwnedFd, wanted: usize) -> std::thread::JoinHandle<Vec<u8>> {
    later(move || {
        let mut file = std::fs::File::from(fd);
        let mut all = Vec::with_capacity(wanted);
        let mut piece = vec![0u8; 30_000];
        let mut reads = 0;
        while all.len() < wanted {
            let read = file.read(&mut piece).expect("a read");
            assert!(read > 0, "the writer has gone after {} bytes", all.len());
            all.extend_from_slice(&piece[..read]);
            reads += 1;
            if reads % 8 == 0 {
                std::thread::sleep(std::time::Duration::from_micros(300));
            }
        }
        all
    })
}

#[test]
fn a_write_to_a_full_stream_ends_when_all_is_written() {
    for_each(|way| {
        for make in [pipe, || {
            let (a, b) = stream_pair();
            (b, a)
        }] {
            let (reader, writer) = make();
            let mut context = way.context();
            let filled = fill(&writer);
            let bytes = pattern(size(way), 1);
            let peer = slow_reader(reader, filled + bytes.len());
            let written = call(
                &mut context,
                libc::SYS_write,
                [writer.arg(), at(&bytes[..]), bytes.len()],
            );
            assert_eq!(written, Ok(bytes.len()));
            assert!(peer.join().unwrap()[filled..] == bytes);
        }
    });
}

#[test]
fn a_message_to_a_full_socket_ends_when_all_is_sent() {
    for_each(|way| {
        for flags in [0, libc::MSG_NOSIGNAL] {
            let (a, b) = stream_pair();
            let mut context = way.context();
            let filled = fill(&a);
            let bytes = pattern(size(way), 2);
            let peer = slow_reader(b, filled + bytes.len());
            let (first, rest) = bytes.split_at(1);
            let (second, third) = rest.split_at(777);
            let mut vector = [iovec(first), iovec(&[]), iovec(second), iovec(third)];
            let mut header: libc::msghdr = zeroed();
            header.msg_iov = vector.as_mut_ptr();
            header.msg_iovlen = vector.len() as _;
            let sent = call(
                &mut context,
                libc::SYS_sendmsg,
                [a.arg(), at(&header), flags.arg()],
            );
            assert_eq!(sent, Ok(bytes.len()));
            assert!(peer.join().unwrap()[filled..] == bytes);
        }
    });
}

/// Vectors of odd lengths, which the stream cuts at other places.
#[test]
fn vectors_may_be_cut_anywhere() {
    for_each(|way| {
        let mut random = Random::for_test();
        for round in 0..if way.mode == Mode::Natural { 6 } else { 2 } {
            let (reader, writer) = pipe();
            let mut context = way.context();
            let filled = fill(&writer);
            let bytes = pattern(size(way) / 4, round);
            let mut pieces = Vec::new();
            let mut rest = &bytes[..];
            while !rest.is_empty() && pieces.len() < 1000 {
                let length = random.below(rest.len().min(bytes.len() / 50 + 2))
                    + usize::from(random.chance(3, 4));
                let (piece, others) = rest.split_at(length);
                pieces.push(iovec(piece));
                rest = others;
            }
            pieces.push(iovec(rest));
            let peer = slow_reader(reader, filled + bytes.len());
            let args = [writer.arg(), at(&pieces[..]), pieces.len()];
            assert_eq!(call(&mut context, libc::SYS_writev, args), Ok(bytes.len()));
            assert!(peer.join().unwrap()[filled..] == bytes);
        }
    });
}

/// A read of a stream ends with the bytes that are available.
#[test]
fn a_read_of_a_stream_takes_the_available_bytes() {
    for_each_pending(|way| {
        if way.is_short() {
            return;
        }
        let (reader, writer) = pipe();
        let mut context = way.context();
        let mut buffer = [0u8; 100];
        let (left, right) = buffer.split_at_mut(3);
        let vector = [iovec_mut(left), iovec_mut(right)];
        let handle = pending(
            &mut context,
            libc::SYS_readv,
            [reader.arg(), at(&vector), 2],
        );
        rustix::io::write(&writer, b"some").unwrap();
        assert_eq!(wait_for(&mut context, handle).result, Ok(4));
        assert_eq!(&buffer[..5], b"some\0");
    });
}

/// One completion reports all bytes, although only some pages are in memory.
#[test]
fn a_file_is_read_through_pages_that_are_not_in_memory() {
    let directory = scratch();
    let contents = pattern(64 * 4096 + 123, 3);
    let file = file_with(directory.path(), &contents);
    if or_skip(make_cold(file.as_file())).is_none() {
        return;
    }
    let fd = file.as_file().arg();
    let mut random = Random::for_test();
    for_each(|way| {
        let mut random = Random::new(random_seed(way) ^ 77);
        for _ in 0..3 {
            make_cold(file.as_file()).expect("a cold file");
            let _ = plain(
                libc::SYS_fadvise64,
                [fd, 0, 0, libc::POSIX_FADV_RANDOM as usize],
            );
            for _ in 0..random.below(20) {
                let mut byte = [0u8];
                plain(
                    libc::SYS_pread64,
                    [fd, at_mut(&mut byte), 1, random.below(contents.len())],
                )
                .unwrap();
            }
            let offset = random.below(10_000);
            // Some back ends switch threads for each piece.
            let length = if way.is_short() {
                7_500
            } else {
                contents.len()
            };
            let mut buffer = vec![0u8; length];
            let mut context = way.context();
            let (left, right) = buffer.split_at_mut(7_001);
            let vector = [iovec_mut(left), iovec_mut(right)];
            let read = match random.below(3) {
                0 => call(&mut context, libc::SYS_preadv, [fd, at(&vector), 2, offset]),
                1 => {
                    plain(libc::SYS_lseek, [fd, offset, 0]).unwrap();
                    let read = call(
                        &mut context,
                        libc::SYS_read,
                        [fd, at_mut(&mut buffer[..]), length],
                    );
                    let position = plain(libc::SYS_lseek, [fd, 0, libc::SEEK_CUR as usize]);
                    assert_eq!(position, Ok(offset + read.unwrap()));
                    read
                }
                _ => call(
                    &mut context,
                    libc::SYS_pread64,
                    [fd, at_mut(&mut buffer[..]), length, offset],
                ),
            };
            let expected = &contents[offset..contents.len().min(offset + length)];
            assert_eq!(read, Ok(expected.len()));
            assert!(
                buffer[..expected.len()] == *expected,
                "the bytes differ from the file's"
            );
        }
    });
    random.bits();
}

fn random_seed(way: &Way) -> u64 {
    way.to_string()
        .bytes()
        .fold(7, |seed, byte| seed.wrapping_mul(31) + u64::from(byte))
}

/// With one page missing in the page cache, the attempt reads the part before it.
#[test]
fn the_part_that_was_read_inline_is_counted() {
    let directory = scratch();
    let contents = pattern(16 * 4096, 4);
    let file = file_with(directory.path(), &contents);
    if or_skip(make_cold(file.as_file())).is_none() {
        return;
    }
    let fd = file.as_file().arg();
    for_each(|way| {
        if way.is_short() {
            return;
        }
        let mut buffer = vec![0u8; contents.len()];
        let read = [fd, at_mut(&mut buffer[..]), contents.len(), 0];
        let mut goes_on_behind = || {
            let _ = plain(
                libc::SYS_fadvise64,
                [fd, 0, 0, libc::POSIX_FADV_RANDOM as usize],
            );
            plain(libc::SYS_pread64, read).unwrap();
            evict(file.as_file(), 5 * 4096, 4096).expect("a page dropped");
            // Skips a page that another process holds in memory.
            let dropped = !residency(file.as_file())[5];
            buffer.fill(0);
            let mut context = way.context();
            let outcome = start(&mut context, libc::SYS_pread64, read);
            assert_eq!(finish(&mut context, outcome), Ok(contents.len()));
            assert!(buffer == contents);
            !dropped || matches!(outcome, Outcome::Pending(_))
        };
        // The attempt also starts the read from the disk, which may finish before the attempt reaches the page.
        let tries = if way.is_lazy() { 100 } else { 1 };
        let cut = (0..tries).any(|_| goes_on_behind());
        assert!(cut || !way.is_lazy(), "never in the background");
    });
}

/// The peer closes while a write is in progress: the write reports its part, and the next call the error.
#[test]
fn an_error_after_a_part_reports_the_part() {
    for_each(|way| {
        if way.is_short() {
            return;
        }
        let (reader, writer) = pipe();
        let filled = fill(&writer);
        let bytes = pattern(300_000, 5);
        let mut context = way.context();
        let part = 100_000;
        let peer = later(move || {
            let mut file = std::fs::File::from(reader);
            file.read_exact(&mut vec![0; filled + part]).unwrap();
        });
        let written = call(
            &mut context,
            libc::SYS_write,
            [writer.arg(), at(&bytes[..]), bytes.len()],
        );
        peer.join().unwrap();
        let written = written.expect("a part");
        assert!(
            (part..bytes.len()).contains(&written),
            "{written} of {}",
            bytes.len()
        );
        let next = call(
            &mut context,
            libc::SYS_write,
            [writer.arg(), at(&bytes[..]), 10],
        );
        assert_eq!(next, Err(Errno::PIPE));
    });
}

/// The receive ends with all requested bytes, or with fewer at the end of the stream.
#[test]
fn waiting_for_all_ends_with_the_peer() {
    for_each(|way| {
        let (a, b) = stream_pair();
        let mut context = way.context();
        rustix::io::write(&a, b"abc").unwrap();
        let peer = later(move || {
            rustix::io::write(&a, b"def").unwrap();
        });
        let mut buffer = [0u8; 10];
        let args = [
            b.arg(),
            at_mut(&mut buffer),
            10,
            libc::MSG_WAITALL as usize,
            0,
            0,
        ];
        assert_eq!(call(&mut context, libc::SYS_recvfrom, args), Ok(6));
        assert_eq!(&buffer, b"abcdef\0\0\0\0");
        peer.join().unwrap();
    });
}

/// A write at the process's file size limit returns the part that fits; the next write fails. The signal SIGXFSZ
/// comes with the error only, never after a part.
#[test]
fn a_file_is_written_up_to_the_limit() {
    child::check(LIMIT * 4, test_name!(), "", || {
        let directory = scratch();
        let limit = libc::rlimit {
            rlim_cur: 10_000,
            rlim_max: 10_000_000,
        };
        plain(
            libc::SYS_setrlimit,
            [libc::RLIMIT_FSIZE as usize, at(&limit)],
        )
        .unwrap();
        let bytes = pattern(20_000, 6);
        for_each(|way| {
            if way.is_short() {
                return;
            }
            let file = file_with(directory.path(), b"");
            let mut context = way.context();
            let fd = file.as_file().arg();
            for (number, args) in [
                (libc::SYS_pwrite64, [fd, at(&bytes[..]), 20_000, 0]),
                (libc::SYS_write, [fd, at(&bytes[..]), 20_000, 0]),
            ] {
                assert_eq!(
                    call(&mut context, number, args),
                    Ok(10_000),
                    "number {number}"
                );
            }
            let vector = [iovec(&bytes[..9_000]), iovec(&bytes[9_000..])];
            assert_eq!(
                call(&mut context, libc::SYS_pwritev, [fd, at(&vector), 2, 0]),
                Ok(10_000)
            );
        });
    });
}

/// A write to a full device returns the error, and not a success of zero bytes.
#[test]
fn no_space_is_reported() {
    for_each_backend(|way| {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut context = way.context();
        let written = call(&mut context, libc::SYS_write, [full.arg(), at(b"x"), 1]);
        assert_eq!(written, Err(Errno::NOSPC));
        assert!(full.as_fd().as_raw_fd() >= 0);
    });
}
