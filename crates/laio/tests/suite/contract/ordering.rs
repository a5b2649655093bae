//! Rule 4, order on a stream: a later call does not overtake an earlier operation.

use crate::harness::{
    Arg, LIMIT, at, at_mut, collect, finish, for_each, for_each_pending, for_each_pending_backend,
    iovec, pending_read, plain, start, wait_for, zeroed,
};
use laio::{Completion, Context, Errno, Handle, Outcome};
use laio_testing::or_skip;
use laio_testing::temp::{drain, file_with, fill, make_cold, pattern, pipe, scratch, stream_pair};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Waits for the pending outcomes; returns the results in the order of the calls, and the completions in the order
/// of delivery.
fn finish_all(
    context: &mut Context,
    outcomes: &[Outcome],
) -> (Vec<Result<usize, Errno>>, Vec<Completion>) {
    let count = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Outcome::Pending(_)))
        .count();
    let completions = collect(context, count);
    let result = |outcome: &Outcome| match outcome {
        Outcome::Done(result) => *result,
        Outcome::Pending(handle) => {
            completions
                .iter()
                .find(|one| one.handle == *handle)
                .expect("its completion")
                .result
        }
    };
    (outcomes.iter().map(result).collect(), completions)
}

/// Write A waits until the pipe is empty enough; when it is, write B could succeed inline, but must come after A.
#[test]
fn a_write_does_not_overtake_a_write() {
    for_each_pending(|way| {
        for socket in [false, true] {
            let (reader, writer) = if socket { stream_pair() } else { pipe() };
            fill(&writer);
            let mut context = way.context();
            let mut vector = [iovec(b"B2"), iovec(b"B3")];
            let mut header: libc::msghdr = zeroed();
            (header.msg_iov, header.msg_iovlen) = (vector.as_mut_ptr(), 2);
            let first = start(&mut context, libc::SYS_write, [writer.arg(), at("AAAA"), 4]);
            assert!(matches!(first, Outcome::Pending(_)), "{first:?}");
            let mut bytes = drain(&reader);
            // The pipe has free space now, but A has not continued yet.
            let second = if socket {
                start(
                    &mut context,
                    libc::SYS_sendto,
                    [writer.arg(), at("B1"), 2, 0, 0, 0],
                )
            } else {
                start(&mut context, libc::SYS_write, [writer.arg(), at("B1"), 2])
            };
            let third = if socket {
                start(
                    &mut context,
                    libc::SYS_sendmsg,
                    [writer.arg(), at(&header), 0],
                )
            } else {
                start(
                    &mut context,
                    libc::SYS_writev,
                    [writer.arg(), at(&vector), 2],
                )
            };
            let (results, completions) = finish_all(&mut context, &[first, second, third]);
            assert_eq!(results, [Ok(4), Ok(2), Ok(4)]);
            assert!(completions.is_sorted_by_key(|one| one.handle == completions[completions.len() - 1].handle));
            bytes.extend(drain(&reader));
            assert_eq!(
                String::from_utf8_lossy(&bytes[bytes.len() - 10..]),
                "AAAAB1B2B3"
            );
        }
    });
}

#[test]
fn a_read_does_not_overtake_a_read() {
    for_each_pending(|way| {
        for socket in [false, true] {
            let (reader, writer) = if socket { stream_pair() } else { pipe() };
            let mut context = way.context();
            let mut buffers = [[0u8; 3]; 4];
            let addresses = buffers.each_mut().map(at_mut);
            let read = |context: &mut Context, index: usize| {
                let number = if socket && index % 2 == 1 {
                    libc::SYS_recvfrom
                } else {
                    libc::SYS_read
                };
                start(
                    context,
                    number,
                    [reader.arg(), addresses[index], 3, 0, 0, 0],
                )
            };
            let first = read(&mut context, 0);
            let second = read(&mut context, 1);
            rustix::io::write(&writer, b"onetwotrefor").unwrap();
            // The bytes are there: a plain read would take the first of them.
            let third = read(&mut context, 2);
            let fourth = read(&mut context, 3);
            let (results, _) = finish_all(&mut context, &[first, second, third, fourth]);
            assert_eq!(results, [Ok(3); 4]);
            assert_eq!(buffers, [*b"one", *b"two", *b"tre", *b"for"]);
        }
    });
}

#[test]
fn the_two_directions_do_not_wait_for_each_other() {
    for_each_pending(|way| {
        let (a, b) = stream_pair();
        let mut context = way.context();
        let mut buffer = [0u8; 3];
        let read = pending_read(&mut context, [a.arg(), at_mut(&mut buffer), 3]);
        let sent = start(&mut context, libc::SYS_write, [a.arg(), at("out"), 3]);
        assert_eq!(finish(&mut context, sent), Ok(3));
        assert_eq!(drain(&b), b"out");
        rustix::io::write(&b, b"in!").unwrap();
        assert_eq!(wait_for(&mut context, read).result, Ok(3));
        assert_eq!(&buffer, b"in!");
    });
}

/// Starts hundreds of writes without waiting, into a pipe that a slow reader empties.
#[test]
fn many_writes_arrive_in_order() {
    for_each_pending(|way| {
        let (reader, writer) = pipe();
        let filled = fill(&writer);
        let mut context = way.context();
        let records: Vec<[u8; 8]> = (0..300u64).map(u64::to_be_bytes).collect();
        let outcomes: Vec<Outcome> = records
            .iter()
            .map(|record| start(&mut context, libc::SYS_write, [writer.arg(), at(record), 8]))
            .collect();
        let wanted = filled + 300 * 8;
        let peer = crate::harness::later(move || {
            let mut file = std::fs::File::from(reader);
            let mut all = vec![0; wanted];
            std::io::Read::read_exact(&mut file, &mut all).unwrap();
            all
        });
        let (results, completions) = finish_all(&mut context, &outcomes);
        assert!(results.iter().all(|result| *result == Ok(8)));
        let order: Vec<Handle> = completions.iter().map(|one| one.handle).collect();
        let started: Vec<Handle> = outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                Outcome::Pending(handle) => Some(*handle),
                Outcome::Done(_) => None,
            })
            .collect();
        assert_eq!(order, started, "completions in the order of the calls");
        assert!(peer.join().unwrap()[filled..] == records.concat());
    });
}

#[test]
fn appended_records_stay_in_order() {
    let directory = scratch();
    for_each(|way| {
        let path = directory.path().join("appended");
        std::fs::write(&path, b"").unwrap();
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        let mut context = way.context();
        let records: Vec<Vec<u8>> = (0..60u8)
            .map(|index| vec![index; 1 + usize::from(index) % 7])
            .collect();
        let outcomes: Vec<Outcome> = records
            .iter()
            .map(|record| {
                start(
                    &mut context,
                    libc::SYS_write,
                    [file.arg(), at(&record[..]), record.len()],
                )
            })
            .collect();
        let (results, _) = finish_all(&mut context, &outcomes);
        assert!(
            results
                .iter()
                .zip(&records)
                .all(|(result, record)| *result == Ok(record.len()))
        );
        assert!(std::fs::read(&path).unwrap() == records.concat());
    });
}

/// Reads, writes and seeks that use the file position run in the order of the calls.
#[test]
fn the_position_of_a_file_is_used_in_order() {
    let directory = scratch();
    let contents = pattern(50_000, 1);
    let file = file_with(directory.path(), &contents);
    let cold = or_skip(make_cold(file.as_file())).is_some();
    for_each(|way| {
        if cold {
            make_cold(file.as_file()).expect("a cold file");
        }
        let fd = file.as_file().arg();
        plain(libc::SYS_lseek, [fd, 0, 0]).unwrap();
        let mut context = way.context();
        let mut buffers = vec![vec![0u8; 3_000]; 6];
        let addresses: Vec<usize> = buffers
            .iter_mut()
            .map(|buffer| at_mut(&mut buffer[..]))
            .collect();
        let current = libc::SEEK_CUR as usize;
        let calls = [
            start(&mut context, libc::SYS_read, [fd, addresses[0], 3_000]),
            start(&mut context, libc::SYS_read, [fd, addresses[1], 3_000]),
            start(&mut context, libc::SYS_lseek, [fd, 1_000, current]),
            start(&mut context, libc::SYS_read, [fd, addresses[2], 3_000]),
            start(&mut context, libc::SYS_lseek, [fd, 40_000, 0]),
            start(&mut context, libc::SYS_read, [fd, addresses[3], 3_000]),
            start(&mut context, libc::SYS_lseek, [fd, 0, current]),
        ];
        let (results, _) = finish_all(&mut context, &calls);
        let expected = [3_000, 3_000, 7_000, 3_000, 40_000, 3_000, 43_000].map(Ok);
        assert_eq!(results, expected);
        for (buffer, at) in buffers.iter().zip([0, 3_000, 7_000, 40_000]) {
            assert!(buffer[..] == contents[at..at + 3_000], "from {at}");
        }
    });
}

#[test]
fn writes_and_reads_share_the_position() {
    let directory = scratch();
    for_each(|way| {
        let file = file_with(directory.path(), b"................................");
        let fd = file.as_file().arg();
        let mut context = way.context();
        let mut buffer = [0u8; 4];
        let calls = [
            start(&mut context, libc::SYS_write, [fd, at("abcd"), 4]),
            start(&mut context, libc::SYS_lseek, [fd, 2, 0]),
            start(&mut context, libc::SYS_read, [fd, at_mut(&mut buffer), 4]),
            start(&mut context, libc::SYS_write, [fd, at("wxyz"), 4]),
        ];
        let (results, _) = finish_all(&mut context, &calls);
        assert_eq!(results, [Ok(4), Ok(2), Ok(4), Ok(4)]);
        assert_eq!(&buffer, b"cd..");
        assert!(
            std::fs::read(file.path())
                .unwrap()
                .starts_with(b"abcd..wxyz..")
        );
    });
}

/// Ordered mode: of positioned writes to one offset the last one wins, and they complete in the order of the calls.
#[test]
fn an_ordered_descriptor_keeps_positioned_calls_in_order() {
    let directory = scratch();
    for_each(|way| {
        let file = file_with(directory.path(), b"");
        let fd = file.as_file().as_raw_fd();
        let mut context = way.context();
        assert_eq!(context.set_ordered(fd, true), Ok(()));
        // Some back ends switch threads for each piece.
        let size = if way.is_short() { 50 } else { 2_000 };
        let records: Vec<Vec<u8>> = (0..40u8).map(|index| vec![index; size]).collect();
        let mut buffer = vec![0u8; size];
        let mut outcomes: Vec<Outcome> = records
            .iter()
            .map(|record| {
                start(
                    &mut context,
                    libc::SYS_pwrite64,
                    [fd.arg(), at(&record[..]), size, 0],
                )
            })
            .collect();
        outcomes.push(start(
            &mut context,
            libc::SYS_pread64,
            [fd.arg(), at_mut(&mut buffer[..]), size, 0],
        ));
        let (results, completions) = finish_all(&mut context, &outcomes);
        assert!(
            results.iter().all(|result| *result == Ok(size)),
            "{results:?}"
        );
        let started: Vec<Handle> = outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                Outcome::Pending(handle) => Some(*handle),
                Outcome::Done(_) => None,
            })
            .collect();
        assert_eq!(
            completions.iter().map(|one| one.handle).collect::<Vec<_>>(),
            started
        );
        assert!(buffer == records[39], "the read came before a write");
        assert!(std::fs::read(file.path()).unwrap() == records[39]);
        assert_eq!(context.set_ordered(fd, false), Ok(()));
    });
}

#[test]
fn only_an_open_descriptor_can_be_ordered() {
    for_each_pending_backend(|way| {
        let mut context = way.context();
        assert_eq!(context.set_ordered(-1, true), Err(Errno::BADF));
        assert_eq!(context.set_ordered(900_000, true), Err(Errno::BADF));
        let closed = {
            let (reader, _writer) = pipe();
            let high = plain(
                libc::SYS_fcntl,
                [
                    reader.arg(),
                    libc::F_DUPFD_CLOEXEC as usize,
                    laio_testing::process::high_descriptor(7_000),
                ],
            )
            .unwrap();
            plain(libc::SYS_close, [high]).unwrap();
            high as i32
        };
        assert_eq!(context.set_ordered(closed, true), Err(Errno::BADF));
    });
}

/// Cancelling an operation in the middle of the queue leaves the order of the others.
#[test]
fn a_cancelled_operation_leaves_the_queue() {
    for_each_pending(|way| {
        let (reader, writer) = pipe();
        let mut context = way.context();
        let mut buffers = [[0u8; 3]; 4];
        let addresses = buffers.each_mut().map(at_mut);
        let handles = addresses.map(|buffer| pending_read(&mut context, [reader.arg(), buffer, 3]));
        context.cancel(handles[2]).unwrap();
        context.cancel(handles[0]).unwrap();
        let mut completions = collect(&mut context, 2);
        rustix::io::write(&writer, b"onetwo").unwrap();
        completions.extend(collect(&mut context, 2));
        let result = |handle| {
            completions
                .iter()
                .find(|one| one.handle == handle)
                .unwrap()
                .result
        };
        let results = handles.map(result);
        let canceled = Err(Errno::CANCELED);
        assert_eq!(results, [canceled, Ok(3), canceled, Ok(3)]);
        assert_eq!((buffers[1], buffers[3]), (*b"one", *b"two"));
    });
}

/// `sendfile` to a stream comes after earlier writes to it.
#[test]
fn sendfile_comes_after_earlier_writes() {
    let directory = scratch();
    let file = file_with(directory.path(), b"from the file;");
    for_each_pending(|way| {
        let (a, b) = stream_pair();
        fill(&a);
        let mut context = way.context();
        let mut offset = 0i64;
        #[rustfmt::skip]
        let calls = [
            start(&mut context, libc::SYS_write, [a.arg(), at("header;"), 7]),
            start(&mut context, libc::SYS_sendfile, [a.arg(), file.as_file().arg(), at_mut(&mut offset), 14]),
            start(&mut context, libc::SYS_sendto, [a.arg(), at("trailer;"), 8, 0, 0, 0]),
        ];
        let stop = std::sync::atomic::AtomicBool::new(false);
        let mut received = Vec::new();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut all = Vec::new();
                let end = Instant::now() + LIMIT;
                while !all.ends_with(b"trailer;")
                    && !stop.load(std::sync::atomic::Ordering::SeqCst)
                    && Instant::now() < end
                {
                    all.extend(drain(&b));
                    std::thread::sleep(Duration::from_micros(200));
                }
                all
            });
            let (results, _) = finish_all(&mut context, &calls);
            assert_eq!(results, [Ok(7), Ok(14), Ok(8)]);
            received = reader.join().unwrap();
        });
        assert!(
            received.ends_with(b"header;from the file;trailer;"),
            "{:?}",
            String::from_utf8_lossy(&received[received.len() - 60..])
        );
    });
}

#[test]
fn a_shutdown_of_writing_does_not_cut_off_writes() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (ours, theirs) = stream_pair();
        let before = fill(&ours);
        let size = if way.is_short() { 500 } else { 100_000 };
        let bytes = vec![7u8; size];
        let write = [ours.arg(), at(&bytes[..]), size];
        let write = start(&mut context, libc::SYS_write, write);
        let shutdown = [ours.arg(), libc::SHUT_WR as usize];
        let shutdown = start(&mut context, libc::SYS_shutdown, shutdown);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            let mut file = std::fs::File::from(theirs);
            std::io::Read::read_to_end(&mut file, &mut all).expect("bytes");
            all
        });
        let (results, _) = finish_all(&mut context, &[write, shutdown]);
        assert_eq!(results, [Ok(size), Ok(0)]);
        assert_eq!(reader.join().expect("no panic").len(), before + size);
    });
}
