//! `DirectReader`: the bytes of plain reads, at any position, also while the file grows.

use crate::direct_ranges::{CHOICES, places};
use crate::support::{directory, on_each_runtime};
use laio_testing::random::Random;
use laio_testing::skip;
use laio_testing::temp::pattern;
use laio_tokio::fs::{Direct, DirectReader, DirectReason, File};
use std::io::{ErrorKind, SeekFrom, Write};
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncSeekExt};

async fn open(name: &Path, direct: Direct) -> DirectReader {
    DirectReader::new(File::open(name).await.unwrap(), direct)
}

/// Reads and seeks at random, as a program would with a slice.
async fn wander(reader: &mut DirectReader, bytes: &[u8], random: &mut Random) {
    let mut position = 0usize;
    for _ in 0..60 {
        let to = random.below(bytes.len() + bytes.len() / 8 + 2);
        let seek = match random.below(8) {
            0 => Some(SeekFrom::Start(to as u64)),
            1 => Some(SeekFrom::Current(to as i64 - position as i64)),
            2 => Some(SeekFrom::End(to as i64 - bytes.len() as i64)),
            // A step, most often within what was read ahead.
            3 => Some(SeekFrom::Current(random.below(5000) as i64)),
            _ => None,
        };
        if let Some(seek) = seek {
            position = match seek {
                SeekFrom::Current(offset) => position.wrapping_add_signed(offset as isize),
                _ => to,
            };
            assert_eq!(reader.seek(seek).await.unwrap(), position as u64);
        }
        let longest = [10, 5000, 300_000, 3 << 20][random.below(4)];
        let wanted = random.below(longest);
        let mut found = Vec::new();
        let mut some = (&mut *reader).take(wanted as u64);
        some.read_to_end(&mut found).await.unwrap();
        let rest = bytes.get(position..).unwrap_or_default();
        let expected = &rest[..wanted.min(rest.len())];
        assert!(
            found == expected,
            "{wanted} at {position} of {}",
            bytes.len()
        );
        position += found.len();
    }
}

#[test]
fn any_position_has_the_bytes_of_the_file() {
    on_each_runtime(|| async {
        let mut random = Random::for_test();
        for (_kept, at) in places() {
            for size in [0, 1, 4096, 4097, 128 << 10, 1 << 20, 9_000_001] {
                let name = at.join(format!("file-{size}"));
                let bytes = pattern(size, 5);
                std::fs::write(&name, &bytes).unwrap();
                for direct in CHOICES {
                    let mut reader = open(&name, direct).await;
                    let mut whole = Vec::new();
                    reader.read_to_end(&mut whole).await.unwrap();
                    assert!(whole == bytes, "{name:?}, {direct:?}: {}", whole.len());
                    let mut reader = open(&name, direct).await;
                    wander(&mut reader, &bytes, &mut random).await;
                    let stats = reader.stats();
                    assert!(direct == Direct::Always || stats.direct_reads == 0);
                }
            }
        }
    });
}

#[test]
fn it_reads_growing_windows_from_the_device() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        std::fs::write(at.join("file"), pattern(3_000_000, 6)).unwrap();
        let mut reader = open(&at.join("file"), Direct::Always).await;
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).await.unwrap();
        let stats = reader.stats();
        // Windows of 128 KiB, twice as much and so on, to the end; and what was read ahead behind it.
        assert!((5..=8).contains(&stats.ranges), "{stats:?}");
        if stats.reason != DirectReason::Asked {
            skip("direct-io", stats.reason.to_string());
            return;
        }
        // All but the piece with the last block.
        assert!(stats.direct_bytes >= 1_900_000, "{stats:?}");
        assert!(stats.cached_bytes < 1_100_000, "{stats:?}");
        let file = reader.into_file();
        assert_eq!(file.read_at(Vec::with_capacity(10), 0).await.1, bytes[..10]);
    });
}

#[test]
fn a_file_that_grows_is_read_on() {
    on_each_runtime(|| async {
        let mut random = Random::for_test();
        for (_kept, at) in places() {
            let name = at.join("file");
            let mut file = std::fs::File::create(&name).unwrap();
            let mut reader = open(&name, Direct::Always).await;
            for round in 0..30 {
                let longest = [100, 5000, 1 << 20][random.below(3)];
                // Also whole windows, whose end says nothing about the end of the file.
                let count = match random.below(3) {
                    0 => random.below(4) * (128 << 10),
                    _ => random.below(longest),
                };
                let written = pattern(count, round);
                file.write_all(&written).unwrap();
                let mut found = Vec::new();
                reader.read_to_end(&mut found).await.unwrap();
                assert!(found == written, "{} of {count}", found.len());
                assert_eq!(reader.read(&mut [0; 10]).await.unwrap(), 0);
            }
        }
    });
}

/// Windows that are read while the file ends in one of them leave no gap.
#[test]
fn a_file_that_grows_meanwhile_has_no_gap() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let name = at.join("file");
        let bytes = pattern(12_000_000, 9);
        let (written, to) = (bytes.clone(), name.clone());
        std::fs::write(&name, "").unwrap();
        let writer = std::thread::spawn(move || {
            let mut file = std::fs::OpenOptions::new().append(true).open(to).unwrap();
            for piece in written.chunks(30_000) {
                file.write_all(piece).unwrap();
            }
        });
        let mut reader = open(&name, Direct::Always).await;
        let mut found = Vec::new();
        while found.len() < bytes.len() {
            let from = found.len();
            reader.read_to_end(&mut found).await.unwrap();
            assert!(found[from..] == bytes[from..found.len()], "from {from}");
        }
        writer.join().unwrap();
    });
}

#[test]
fn lines_are_those_of_the_file() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let text: String = (0..50_000)
            .map(|number| format!("line {number}\n"))
            .collect();
        std::fs::write(at.join("file"), &text).unwrap();
        let mut lines = open(&at.join("file"), Direct::Always).await.lines();
        for expected in text.lines() {
            assert_eq!(lines.next_line().await.unwrap().as_deref(), Some(expected));
        }
        assert_eq!(lines.next_line().await.unwrap(), None);
    });
}

#[test]
fn errors_and_ends() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let name = at.join("file");
        let writer = File::create(&name).await.unwrap();
        let mut reader = DirectReader::new(writer, Direct::Always);
        for _ in 0..2 {
            let error = reader.read(&mut [0; 10]).await.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(9), "EBADF");
        }

        std::fs::write(&name, pattern(1_000_000, 7)).unwrap();
        let mut reader = open(&name, Direct::Always).await;
        for seek in [
            SeekFrom::Current(-1),
            SeekFrom::End(-1_000_001),
            SeekFrom::Start(u64::MAX),
            SeekFrom::End(i64::MAX),
        ] {
            let error = reader.seek(seek).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{seek:?}");
        }
        assert_eq!(reader.stream_position().await.unwrap(), 0);
        assert_eq!(reader.read(&mut []).await.unwrap(), 0);
        let last = i64::MAX as u64;
        assert_eq!(reader.seek(SeekFrom::Start(last)).await.unwrap(), last);
        assert_eq!(reader.read(&mut [0; 10]).await.unwrap(), 0);
        // Truncated behind the position.
        reader.seek(SeekFrom::Start(500_000)).await.unwrap();
        std::fs::write(&name, "short").unwrap();
        assert_eq!(reader.read(&mut [0; 10]).await.unwrap(), 0);
    });
}

/// Dropped with windows in flight, and as a future of a read that waits.
#[test]
fn reads_in_flight_are_cancelled() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let bytes = pattern(9_000_000, 8);
        std::fs::write(at.join("file"), &bytes).unwrap();
        for round in 0..30u64 {
            let mut reader = open(&at.join("file"), Direct::Always).await;
            let mut some = vec![0; 1000];
            // Whether it is over depends on the device.
            tokio::select! {
                biased;
                read = reader.read_exact(&mut some) => assert_eq!(read.unwrap(), 1000),
                () = std::future::ready(()) => {}
            }
            let mut reader = match round % 3 {
                0 => continue,
                1 => DirectReader::new(reader.into_file(), Direct::Always),
                _ => reader,
            };
            let position = round * 100_000;
            reader.seek(SeekFrom::Start(position)).await.unwrap();
            reader.read_exact(&mut some).await.unwrap();
            assert!(some == bytes[position as usize..][..1000], "{position}");
        }
    });
}
