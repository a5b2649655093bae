//! The reads of one request, whose results are made up: refused, short, and failed direct reads.

use super::*;
use crate::Operation;
use crate::ops::OpenFile;
use laio_testing::random::Random;
use laio_testing::temp::{pattern, scratch};
use std::fs::File;
use std::os::unix::fs::FileExt;

const BLOCK: u64 = 4096;

fn status(file: &OpenFile) -> FileStatus {
    let mut context = crate::Context::new(crate::Options::new()).unwrap();
    match context.submit(crate::ops::StatFile::new(file.clone())) {
        crate::Outcome::Done(status) => status.unwrap(),
        crate::Outcome::Pending(_) => unreachable!("the status of an open file does not block"),
    }
}

/// The result of a read of which at most so many bytes are wanted.
fn read(operation: &mut ReadAt<OpenFile, PieceRead>, most: usize) -> Result<usize, Errno> {
    let mut call = operation.call();
    call.args[2] = call.args[2].min(most);
    // SAFETY: the operation owns the memory, and more of it than is read.
    unsafe { call.plain() }
}

fn is_direct(operation: &mut ReadAt<OpenFile, PieceRead>, device: &OpenFile) -> bool {
    use std::os::fd::AsRawFd;
    operation.call().descriptor(0) == device.as_raw_fd()
}

#[test]
fn direct_reads_with_faults_are_those_of_the_cache() {
    let directory = scratch();
    let name = directory.path().join("file");
    let mut random = Random::for_test();
    for round in 0..300 {
        let size = random.below([100, 10_000, 3_000_000][round % 3]);
        let text = pattern(size, round as u64);
        std::fs::write(&name, &text).unwrap();
        let file = OpenFile::from(File::open(&name).unwrap());
        // The same file without `O_DIRECT`: this test makes its faults.
        let device = OpenFile::from(File::open(&name).unwrap());
        let ranges: Vec<_> = (0..20)
            .map(|_| {
                let start = random.below(size + size / 4 + 1) as u64;
                start..start + random.below(size + 1) as u64
            })
            .collect();
        let is_faulty = round % 2 == 0;
        let reads = DeviceFile {
            file: device.clone(),
            block: BLOCK,
            is_own: false,
        };
        let status = status(&file);
        let mut reads = RangeReads::new(file, Ok(reads), &status, &ranges, Direct::Always).unwrap();
        let mut in_flight = Vec::new();
        while !reads.is_over() {
            in_flight.extend(reads.next(1 + random.below(8)).unwrap());
            if in_flight.is_empty() {
                // All ranges that were left are empty, or beyond the file.
                continue;
            }
            let mut operation = in_flight.swap_remove(random.below(in_flight.len()));
            let direct = is_direct(&mut operation, &device);
            let call = operation.call();
            if direct {
                let aligned = [call.args[1], call.args[2], call.args[3]];
                assert!(aligned.iter().all(|&word| word % BLOCK as usize == 0));
            }
            let result = match random.below(4) {
                0 if direct && is_faulty => Err(Errno::INVAL),
                1 if direct && is_faulty => Err(Errno::IO),
                // An error after a part is reported as a short read.
                2 if is_faulty => read(&mut operation, 1 + random.below(100_000)),
                _ => read(&mut operation, usize::MAX),
            };
            reads.done(operation.finish(result)).unwrap();
        }
        let (bytes, stats) = reads.finish();
        for (range, bytes) in ranges.iter().zip(&bytes) {
            let within = |at: u64| (at as usize).min(size);
            assert!(bytes[..] == text[within(range.start)..within(range.end)]);
        }
        assert!(is_faulty || stats.repeated == 0, "{stats:?}");
        assert_eq!(stats.ranges, 20);
    }
}

#[test]
fn an_error_of_the_cache_ends_the_request() {
    let directory = scratch();
    let name = directory.path().join("file");
    std::fs::write(&name, pattern(100_000, 1)).unwrap();
    let file = OpenFile::from(File::open(&name).unwrap());
    let reason = Err(DirectReason::Refused);
    let status = status(&file);
    let ranges = [0..10, 90_000..90_010];
    let mut reads = RangeReads::new(file, reason, &status, &ranges, Direct::Always).unwrap();
    let mut both = reads.next(10).unwrap();
    assert_eq!((both.len(), reads.next(10).unwrap().len()), (2, 0));
    // The bytes before the error come first; the read of the rest has the error.
    let mut second = both.pop().unwrap();
    let result = read(&mut second, 4);
    reads.done(second.finish(result)).unwrap();
    let rest = reads.next(10).unwrap().pop().unwrap();
    let error = reads.done(rest.finish(Err(Errno::IO))).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw()));
    assert_eq!(reads.finish().1.reason, DirectReason::Refused);
}

/// Small ranges do not keep the memory of all that was read between them.
#[test]
fn memory_that_ranges_keep() {
    let directory = scratch();
    let name = directory.path().join("file");
    std::fs::write(&name, pattern(1 << 20, 1)).unwrap();
    let open = || OpenFile::from(File::open(&name).unwrap());
    let (file, std) = (open(), File::open(&name).unwrap());
    let status = status(&file);
    let near = [0..100_000, 100_000..200_000];
    let far: Vec<_> = (0..5)
        .map(|part| part * 16_000..part * 16_000 + 1)
        .collect();
    for (ranges, most) in [(&near[..], 262_144), (&far, 4096)] {
        let reason = Err(DirectReason::NotAsked);
        let mut reads = RangeReads::new(open(), reason, &status, ranges, Direct::Never).unwrap();
        while !reads.is_over() {
            for mut operation in reads.next(10).unwrap() {
                let result = read(&mut operation, usize::MAX);
                reads.done(operation.finish(result)).unwrap();
            }
        }
        for (range, bytes) in ranges.iter().zip(reads.finish().0) {
            assert!(bytes.holds() <= most, "{range:?}: {}", bytes.holds());
            let mut plain = vec![0; bytes.len()];
            std.read_exact_at(&mut plain, range.start).unwrap();
            assert_eq!(plain[..], bytes[..]);
        }
    }
}

/// `Direct::Auto` reads a piece from the device at most once, and then through the cache.
#[test]
fn what_is_read_again_gets_into_the_cache() {
    let directory = scratch();
    let name = directory.path().join("file");
    let text = pattern(1 << 20, 1);
    std::fs::write(&name, &text).unwrap();
    let std = File::open(&name).unwrap();
    std.sync_all().unwrap();
    // Not all file systems drop the pages, so both cases are right.
    let _ = rustix::fs::fadvise(&std, 0, None, rustix::fs::Advice::DontNeed);
    let ranges: Vec<_> = (0..10)
        .map(|part| part * 100_000..part * 100_000 + 5000)
        .collect();
    let open = || OpenFile::from(File::open(&name).unwrap());
    let mut before = None;
    for _ in 0..2 {
        let device = DeviceFile {
            file: open(),
            block: BLOCK,
            is_own: false,
        };
        let status = status(&device.file);
        let mut reads =
            RangeReads::new(open(), Ok(device), &status, &ranges, Direct::Auto).unwrap();
        while !reads.is_over() {
            for mut operation in reads.next(10).unwrap() {
                let result = read(&mut operation, usize::MAX);
                reads.done(operation.finish(result)).unwrap();
            }
        }
        let (bytes, stats) = reads.finish();
        for (range, bytes) in ranges.iter().zip(&bytes) {
            assert!(bytes[..] == text[range.start as usize..range.end as usize]);
        }
        assert_eq!(stats.reason, DirectReason::LargerThanMemory);
        let cached = stats.found_in_cache + stats.read_before;
        assert_eq!(stats.direct_reads + cached, 10, "{stats:?}");
        if let Some(before) = before.replace(stats) {
            assert_eq!(stats.direct_reads, 0, "{before:?}, then {stats:?}");
        }
    }
}
