//! Rule 4: on one descriptor a later call does not overtake an earlier operation of its direction.

use crate::harness::*;
use laio::{Context, Errno, Outcome};
use laio_testing::temp::{drain, fill, pipe, scratch, stream_pair};
use std::os::fd::{AsFd, OwnedFd};

/// Waits for several outcomes, in any order.
#[track_caller]
fn finish_all(context: &mut Context, outcomes: &[Outcome]) -> Vec<Result<usize, Errno>> {
    let pending = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Outcome::Pending(_)));
    let completions = collect(context, pending.count());
    let result_of = |outcome: &Outcome| match outcome {
        Outcome::Done(result) => *result,
        Outcome::Pending(handle) => {
            let found = completions.iter().find(|one| one.handle == *handle);
            found.expect("its completion").result
        }
    };
    outcomes.iter().map(result_of).collect()
}

/// A stream: its writing end and its reading end.
fn streams() -> [(OwnedFd, OwnedFd); 2] {
    let (from, to) = pipe();
    let (ours, theirs) = stream_pair();
    [(to, from), (ours, theirs)]
}

#[test]
fn a_write_that_fits_stays_behind_one_that_does_not() {
    for_each_pending(|way| {
        let size = if way.is_short() { 500 } else { 300_000 };
        for (to, from) in streams() {
            let mut context = way.context();
            let before = fill(&to);
            let long = vec![b'A'; size];
            let write = |bytes: &[u8]| [to.arg(), at(bytes), bytes.len()];
            let first = start(&mut context, libc::SYS_write, write(&long));
            assert!(matches!(first, Outcome::Pending(_)));
            // From here on the short writes might succeed inline at any time.
            let reader = std::thread::spawn(move || read_exactly(&from, before + size + 9));
            let vector = [iovec(b"DD"), iovec(b"D")];
            let outcomes = [
                first,
                start(&mut context, libc::SYS_write, write(b"BBB")),
                start(&mut context, libc::SYS_write, write(b"CCC")),
                start(&mut context, libc::SYS_writev, [to.arg(), at(&vector), 2]),
            ];
            let results = finish_all(&mut context, &outcomes);
            assert_eq!(results, [Ok(size), Ok(3), Ok(3), Ok(3)]);
            let found = reader.join().expect("no panic");
            let long = &found[before..before + size];
            assert!(long.iter().all(|&byte| byte == b'A'));
            assert_eq!(&found[before + size..], b"BBBCCCDDD");
        }
    });
}

fn read_exactly(from: impl AsFd, size: usize) -> Vec<u8> {
    let mut found = vec![0; size];
    let mut at = 0;
    while at < size {
        let read = rustix::io::read(&from, &mut found[at..]).expect("bytes");
        assert!(read > 0, "{at} of {size} bytes");
        at += read;
    }
    found
}

#[test]
fn reads_come_in_the_order_of_the_calls() {
    for_each_pending(|way| {
        for (to, from) in streams() {
            let mut context = way.context();
            let mut buffers = [[0u8; 3]; 20];
            let mut outcomes = Vec::new();
            let mut written = Vec::new();
            for (index, buffer) in buffers.iter_mut().enumerate() {
                outcomes.push(start(
                    &mut context,
                    libc::SYS_read,
                    [from.arg(), at_mut(buffer), 3],
                ));
                // Some of the later calls would succeed inline.
                if index % 4 == 3 {
                    let bytes: Vec<u8> = (0..12).map(|byte| written.len() as u8 + byte).collect();
                    rustix::io::write(&to, &bytes).expect("written");
                    written.extend(bytes);
                }
                if index % 6 == 5 {
                    context.flush().expect("flush");
                }
            }
            let results = finish_all(&mut context, &outcomes);
            assert_eq!(results, [Ok(3); 20]);
            assert_eq!(buffers.concat(), written);
        }
    });
}

#[test]
fn the_directions_of_a_socket_do_not_wait_for_each_other() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (ours, theirs) = stream_pair();
        let mut buffer = [0u8; 3];
        let read = [ours.arg(), at_mut(&mut buffer), 3];
        let read = pending(&mut context, libc::SYS_read, read);
        let write = [ours.arg(), b"out".as_ptr() as usize, 3];
        assert_eq!(call(&mut context, libc::SYS_write, write), Ok(3));
        assert_eq!(drain(&theirs), b"out");
        fill(&ours);
        let write = pending(&mut context, libc::SYS_write, write);
        rustix::io::write(&theirs, b"in!").expect("written");
        assert_eq!(wait_for(&mut context, read).result, Ok(3));
        assert_eq!(&buffer, b"in!");
        drain(&theirs);
        assert_eq!(wait_for(&mut context, write).result, Ok(3));
    });
}

#[test]
fn appending_keeps_the_order() {
    let directory = scratch();
    for_each_backend(|way| {
        let path = directory.path().join("log");
        let file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(&path)
            .expect("a file");
        let mut context = way.context();
        let lines: Vec<String> = (0..100).map(|line| format!("line {line}\n")).collect();
        let outcomes: Vec<Outcome> = lines
            .iter()
            .map(|line| {
                let write = [file.arg(), at(line.as_bytes()), line.len()];
                start(&mut context, libc::SYS_write, write)
            })
            .collect();
        let results = finish_all(&mut context, &outcomes);
        assert!(
            results
                .iter()
                .zip(&lines)
                .all(|(result, line)| *result == Ok(line.len()))
        );
        assert_eq!(
            std::fs::read_to_string(&path).expect("a file"),
            lines.concat()
        );
        std::fs::remove_file(&path).expect("a file");
    });
}

#[test]
fn the_position_of_a_file_is_in_order() {
    let directory = scratch();
    let contents = laio_testing::temp::pattern(200_000, 1);
    for_each(|way| {
        let file = laio_testing::temp::file_with(directory.path(), &contents);
        let file = file.as_file();
        let _ = laio_testing::temp::make_cold(file);
        let mut context = way.context();
        let mut parts = [[0u8; 50]; 4];
        let [a, b, c, d] = &mut parts;
        let seek = |context: &mut Context, offset: usize| {
            start(context, libc::SYS_lseek, [file.arg(), offset, 0])
        };
        let read = |context: &mut Context, part: &mut [u8; 50]| {
            start(context, libc::SYS_read, [file.arg(), at_mut(part), 50])
        };
        let outcomes = [
            read(&mut context, a),
            seek(&mut context, 100_000),
            read(&mut context, b),
            read(&mut context, c),
            seek(&mut context, 10),
            read(&mut context, d),
        ];
        let results = finish_all(&mut context, &outcomes);
        assert_eq!(results, [50, 100_000, 50, 50, 10, 50].map(Ok));
        for (part, offset) in parts.iter().zip([0, 100_000, 100_050, 10]) {
            assert_eq!(part[..], contents[offset..offset + 50]);
        }
    });
}

#[test]
fn positioned_writes_are_in_order_if_requested() {
    let directory = scratch();
    for_each(|way| {
        let file = laio_testing::temp::file_with(directory.path(), &[0; 8192]);
        let file = file.as_file();
        let mut context = way.context();
        context.set_ordered(file.arg() as i32, true).expect("open");
        let size = if way.is_short() { 30 } else { 8192 };
        let blocks: Vec<Vec<u8>> = (1..=20).map(|byte| vec![byte; size]).collect();
        let mut seen = vec![vec![0u8; size]; 20];
        let mut outcomes = Vec::new();
        for (block, seen) in blocks.iter().zip(&mut seen) {
            let write = [file.arg(), at(&block[..]), size, 0];
            outcomes.push(start(&mut context, libc::SYS_pwrite64, write));
            let read = [file.arg(), at_mut(&mut seen[..]), size, 0];
            outcomes.push(start(&mut context, libc::SYS_pread64, read));
        }
        assert!(
            finish_all(&mut context, &outcomes)
                .iter()
                .all(|&one| one == Ok(size))
        );
        assert!(
            seen == blocks,
            "a read saw another write than the one before it"
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
        let results = finish_all(&mut context, &[write, shutdown]);
        assert_eq!(results, [Ok(size), Ok(0)]);
        assert_eq!(reader.join().expect("no panic").len(), before + size);
    });
}
