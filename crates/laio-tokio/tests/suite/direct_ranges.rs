//! `File::read_ranges_with`: whatever the choice, plain reads return the same bytes.

use crate::support::{directory, on_each_runtime};
use laio_testing::extent;
use laio_testing::random::Random;
use laio_testing::skip;
use laio_testing::temp::pattern;
use laio_tokio::fs::{Direct, DirectReason, File, RangesRead};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub(crate) const CHOICES: [Direct; 3] = [Direct::Never, Direct::Auto, Direct::Always];

/// What plain reads return.
fn plain(file: &std::fs::File, ranges: &[Range<u64>]) -> Vec<Vec<u8>> {
    let read = |range: &Range<u64>| {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let mut done = 0;
        while let count @ 1.. = file
            .read_at(&mut bytes[done..], range.start + done as u64)
            .unwrap()
        {
            done += count;
        }
        bytes.truncate(done);
        bytes
    };
    ranges.iter().map(read).collect()
}

/// Directories on different file systems: the temporary one, one beside the build, and one in memory.
pub(crate) fn places() -> Vec<(tempfile::TempDir, PathBuf)> {
    let mut places = vec![directory()];
    for parent in [
        Path::new(env!("CARGO_TARGET_TMPDIR")),
        Path::new("/dev/shm"),
    ] {
        if let Ok(kept) = tempfile::tempdir_in(parent) {
            let path = kept.path().to_owned();
            places.push((kept, path));
        }
    }
    places
}

/// Ranges in and around a file: in any order, overlapping, empty, beyond the end.
fn random_ranges(random: &mut Random, size: usize) -> Vec<Range<u64>> {
    let longest = [10, 5000, 100_000, 3 << 20][random.below(4)];
    let range = |_| {
        let start = random.below(size + size / 8 + 1) as u64;
        start..start + random.below(longest) as u64
    };
    (0..30).map(range).collect()
}

fn assert_same(read: &RangesRead, expected: &[Vec<u8>], ranges: &[Range<u64>], what: &str) {
    for ((bytes, expected), range) in read.bytes.iter().zip(expected).zip(ranges) {
        assert!(
            bytes == expected,
            "{what}: {range:?} has {} bytes, not {}, or others; {:?}",
            bytes.len(),
            expected.len(),
            read.stats
        );
    }
    assert_eq!(read.bytes.len(), expected.len());
}

#[test]
fn random_ranges_are_those_of_plain_reads() {
    on_each_runtime(|| async {
        let mut random = Random::for_test();
        for (_kept, at) in places() {
            for size in [0, 1, 4095, 4096, 4097, 1 << 20, 5_000_001] {
                let name = at.join(format!("file-{size}"));
                std::fs::write(&name, pattern(size, 3)).unwrap();
                let std = std::fs::File::open(&name).unwrap();
                let file = File::open(&name).await.unwrap();
                for _ in 0..extent::cases(3, 1) {
                    let ranges = random_ranges(&mut random, size);
                    let expected = plain(&std, &ranges);
                    for direct in CHOICES {
                        let read = file.read_ranges_with(&ranges, direct).await.unwrap();
                        let what = format!("{name:?}, {direct:?}, seed {}", random.seed());
                        assert_same(&read, &expected, &ranges, &what);
                    }
                }
            }
        }
    });
}

#[test]
fn the_statistics_say_what_was_done() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        std::fs::write(at.join("file"), pattern(3_000_000, 4)).unwrap();
        let file = File::open(at.join("file")).await.unwrap();
        let ranges = [100..200, 300..400, 0..2_500_000, 2_999_990..4_000_000];
        for direct in [Direct::Never, Direct::Auto] {
            let stats = file.read_ranges_with(&ranges, direct).await.unwrap().stats;
            assert_eq!((stats.ranges, stats.direct_reads), (4, 0));
            assert!(!stats.reason.is_direct());
        }
        let stats = file.read_ranges_with(&ranges, Direct::Always).await;
        let stats = stats.unwrap().stats;
        if stats.reason != DirectReason::Asked {
            skip("direct-io", stats.reason.to_string());
            return;
        }
        // Three pieces for the first three ranges, or four; one for the end of the file.
        assert!(stats.direct_reads >= 3, "{stats:?}");
        assert_eq!((stats.file_ends, stats.repeated), (1, 0), "{stats:?}");
        assert_eq!(stats.reads, stats.direct_reads + 1);
    });
}

/// A descriptor that the program has opened with `O_DIRECT` itself needs no second one.
#[test]
fn a_file_that_is_open_for_direct_reads() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        std::fs::write(at.join("file"), pattern(100_001, 5)).unwrap();
        let mut options = laio_tokio::fs::OpenOptions::new();
        let options = options.read(true).custom_flags(libc::O_DIRECT);
        let file = match options.open(at.join("file")).await {
            Ok(file) => file,
            Err(error) => return skip("direct-io", error.to_string()),
        };
        let std = std::fs::File::open(at.join("file")).unwrap();
        let ranges = [1..2, 5000..70_000, 99_000..200_000, 300_000..300_001];
        let read = file.read_ranges_with(&ranges, Direct::Always).await;
        assert_same(&read.unwrap(), &plain(&std, &ranges), &ranges, "own");
    });
}

#[test]
fn files_that_cannot_be_read_directly() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        for direct in CHOICES {
            let writer = File::create(at.join("written")).await.unwrap();
            let ranges = 0..10;
            let ranges = std::slice::from_ref(&ranges);
            // A second descriptor could read it, but this one may not.
            let error = writer.read_ranges_with(ranges, direct).await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EBADF));
            let file = File::open("/proc/self/comm").await.unwrap();
            let read = file.read_ranges_with(ranges, direct).await.unwrap();
            assert!(!read.bytes[0].is_empty() && !read.stats.reason.is_direct());
            let directory = File::open(&at).await.unwrap();
            let error = directory.read_ranges_with(ranges, direct).await;
            assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EISDIR));
            let file = File::open("/proc/self/exe").await.unwrap();
            let backwards = Range { start: 5, end: 4 };
            let error = file.read_ranges_with(&[backwards], direct).await;
            let error = error.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("byte 4"), "{error}");
            // A range beyond all files, and one as large as a number.
            let far = u64::MAX - 9..u64::MAX;
            assert!(
                file.read_ranges_with(std::slice::from_ref(&far), direct)
                    .await
                    .is_err()
            );
            let all = std::slice::from_ref(&(0..u64::MAX));
            let read = file.read_ranges_with(all, direct).await.unwrap();
            let size = file.metadata().await.unwrap().len();
            assert_eq!(read.bytes[0].len() as u64, size);
            let read = file.read_ranges_with(&[5..5, 0..0], direct).await.unwrap();
            assert_eq!((read.bytes.concat().len(), read.stats.reads), (0, 0));
            assert!(
                file.read_ranges_with(&[], direct)
                    .await
                    .unwrap()
                    .bytes
                    .is_empty()
            );
        }
    });
}

/// What was written before is read, whether it has reached the device or not.
#[test]
fn direct_reads_see_earlier_writes() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let mut options = std::fs::OpenOptions::new();
        let options = options.read(true).write(true).create_new(true);
        let std = options.open(at.join("file")).unwrap();
        std.set_len(1 << 20).unwrap();
        let file = File::open(at.join("file")).await.unwrap();
        let mut random = Random::for_test();
        for round in 0..50u8 {
            let at = random.below(1 << 20) as u64;
            let bytes = vec![round; 1 + random.below(20_000)];
            std.write_all_at(&bytes, at).unwrap();
            let ranges = [at..at + bytes.len() as u64, 0..100];
            let read = file
                .read_ranges_with(&ranges, Direct::Always)
                .await
                .unwrap();
            assert_same(&read, &plain(&std, &ranges), &ranges, "written");
        }
    });
}

/// While the file is cut and grows again, every byte that is read is one that it had.
#[test]
fn a_file_that_is_truncated_meanwhile() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let text = vec![7u8; 2 << 20];
        std::fs::write(at.join("file"), &text).unwrap();
        let std = std::fs::OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(at.join("file"))
            .unwrap();
        let file = File::open(at.join("file")).await.unwrap();
        let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let ends = over.clone();
        let cutter = std::thread::spawn(move || {
            let mut random = Random::for_test();
            while !ends.load(std::sync::atomic::Ordering::SeqCst) {
                std.set_len(random.below(2 << 20) as u64).unwrap();
                std.write_all_at(&text, 0).unwrap();
            }
        });
        let ranges = [0..1000, 50_000..1_500_000, (2 << 20) - 1000..3 << 20];
        for direct in CHOICES.repeat(20) {
            let read = file.read_ranges_with(&ranges, direct).await.unwrap();
            for (bytes, range) in read.bytes.iter().zip(&ranges) {
                assert!(bytes.len() as u64 <= range.end - range.start);
                // A hole, while the file grows, is zeros.
                assert!(bytes.iter().all(|&byte| byte == 7 || byte == 0));
            }
        }
        over.store(true, std::sync::atomic::Ordering::SeqCst);
        cutter.join().unwrap();
    });
}

/// Requests whose futures are dropped, and many at a time on one file.
#[test]
fn many_requests_at_a_time_and_some_dropped() {
    let [_, several] = crate::support::each_runtime();
    several.block_on(async {
        let (_kept, at) = directory();
        std::fs::write(at.join("file"), pattern(8 << 20, 6)).unwrap();
        let std = std::fs::File::open(at.join("file")).unwrap();
        let file = std::sync::Arc::new(File::open(at.join("file")).await.unwrap());
        let tasks = (0..16u64).map(|number| {
            let file = file.clone();
            let ranges = (0..100u64).map(|part| (number * 77 + part * 80_000, part));
            let ranges: Vec<_> = ranges
                .map(|(start, part)| start..start + part * 900)
                .collect();
            let expected = plain(&std, &ranges);
            tokio::spawn(async move {
                let read = file.read_ranges_with(&ranges, Direct::Always);
                if number % 4 == 0 {
                    let _ = tokio::time::timeout(std::time::Duration::ZERO, read).await;
                    return;
                }
                assert_same(&read.await.unwrap(), &expected, &ranges, "task");
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
}
