//! `File::read_ranges`: whatever the choice, plain reads return the same bytes.

use laio::{BackendKind, Options};
use laio_rt::Runtime;
use laio_rt::fs::{Direct, DirectReason, File};
use laio_testing::random::Random;
use laio_testing::skip;
use laio_testing::temp::{pattern, scratch};
use std::ops::Range;

const BACK_ENDS: [BackendKind; 5] = [
    BackendKind::Lazy,
    BackendKind::Uring,
    BackendKind::Threads,
    BackendKind::LinuxAio,
    BackendKind::Sync,
];

#[test]
fn random_ranges_on_each_back_end() {
    let directory = scratch();
    let name = directory.path().join("file");
    let mut random = Random::for_test();
    for back_end in BACK_ENDS {
        let Ok(runtime) = Runtime::new(Options::new().backend(back_end)) else {
            // Not on this machine.
            continue;
        };
        for size in [0, 4097, 3_000_000] {
            let text = pattern(size, 1);
            std::fs::write(&name, &text).unwrap();
            let ranges = (0..100).map(|_| {
                let start = random.below(size + size / 8 + 1) as u64;
                start..start + random.below(200_000) as u64
            });
            let ranges: Vec<Range<u64>> = ranges.collect();
            for direct in [Direct::Never, Direct::Auto, Direct::Always] {
                let read = runtime.block_on(async {
                    let file = File::open(&name).await?;
                    let read = file.read_ranges(&ranges, direct).await?;
                    file.close().await.map(|()| read)
                });
                let (bytes, stats) = read.unwrap();
                assert_eq!(bytes.len(), ranges.len());
                for (range, bytes) in ranges.iter().zip(&bytes) {
                    let within = |at: u64| (at as usize).min(size);
                    let expected = &text[within(range.start)..within(range.end)];
                    assert!(bytes[..] == *expected, "{back_end:?} {range:?} {stats:?}");
                }
                if direct == Direct::Always && stats.reason != DirectReason::Asked {
                    return skip("direct-io", stats.reason.to_string());
                }
                assert_eq!(stats.repeated, 0, "{stats:?}");
            }
        }
    }
}

#[test]
fn requests_without_reads_and_with_errors() {
    let directory = scratch();
    let name = directory.path().join("file");
    std::fs::write(&name, b"text").unwrap();
    let runtime = Runtime::new(Options::new()).unwrap();
    runtime.block_on(async {
        let file = File::open(&name).await.unwrap();
        let (bytes, _) = file.read_ranges(&[], Direct::Always).await.unwrap();
        assert!(bytes.is_empty());
        let (bytes, stats) = file
            .read_ranges(&[2..2, 3..3], Direct::Always)
            .await
            .unwrap();
        assert_eq!((bytes[0].len(), stats.reads), (0, 0));
        let writer = File::create(directory.path().join("other")).await.unwrap();
        let error = writer.read_ranges(&[0..1, 2..3], Direct::Always).await;
        assert_eq!(error.unwrap_err().raw_os_error(), Some(9));
    });
}
