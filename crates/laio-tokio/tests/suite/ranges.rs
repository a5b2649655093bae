//! What `tokio::fs` has not.

use crate::support::{directory, on_each_runtime};
use laio_testing::temp::pattern;
use laio_tokio::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn positioned_reads_and_writes() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let file = fs::File::create_new(at.join("file")).await.unwrap();
        let (count, text) = file.write_at(pattern(10_000, 1), 100).await;
        assert_eq!(count.unwrap(), 10_000);
        let (count, found) = file.read_at(Vec::with_capacity(20_000), 100).await;
        assert_eq!((count.unwrap(), found == text), (10_000, true));
        let (count, _) = file.read_at(Vec::with_capacity(1), 1_000_000).await;
        assert_eq!(count.unwrap(), 0);
        let reader = fs::File::open(at.join("file")).await.unwrap();
        assert!(reader.write_at(vec![1], 0).await.0.is_err());
    });
}

#[test]
fn ranges_are_read_in_the_order_of_the_request() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let text = pattern(3_000_000, 2);
        fs::write(at.join("file"), &text).await.unwrap();
        let file = fs::File::open(at.join("file")).await.unwrap();
        let ranges: Vec<_> = (0..500u64)
            .map(|number| number * 7919 % 3_000_000)
            .map(|start| start..start + 100 + start % 50_000)
            .collect();
        let found = file.read_ranges(&ranges).await.unwrap();
        for (range, found) in ranges.iter().zip(found) {
            let end = (range.end as usize).min(text.len());
            assert!(found == text[range.start as usize..end], "{range:?}");
        }
        assert!(file.read_ranges(&[]).await.unwrap().is_empty());
        let beyond = 5_000_000..5_000_010;
        let beyond = file.read_ranges(std::slice::from_ref(&beyond)).await;
        assert_eq!(beyond.unwrap(), [[0u8; 0]]);
        let writer = fs::File::create(at.join("other")).await.unwrap();
        assert!(writer.read_ranges(&ranges).await.is_err());
        let huge = 0..u64::MAX;
        let huge = file.read_ranges(std::slice::from_ref(&huge)).await;
        assert_eq!(huge.unwrap_err().kind(), std::io::ErrorKind::OutOfMemory);
    });
}

#[test]
fn an_atomic_write_replaces_the_whole_file() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let name = at.join("file");
        fs::write_atomic(&name, "first").await.unwrap();
        fs::set_permissions(&name, std::fs::Permissions::from_mode(0o640))
            .await
            .unwrap();
        let old = fs::File::open(&name).await.unwrap();
        fs::write_atomic(&name, "second").await.unwrap();
        assert_eq!(fs::read_to_string(&name).await.unwrap(), "second");
        assert_eq!(
            fs::metadata(&name).await.unwrap().permissions().mode() & 0o777,
            0o640
        );
        // A reader of the old file still has it.
        assert_eq!(old.read_at(Vec::with_capacity(10), 0).await.1, b"first");
        assert!(fs::write_atomic(at.join("no/such"), "x").await.is_err());
        let mut entries = fs::read_dir(&at).await.unwrap();
        assert_eq!(
            entries.next_entry().await.unwrap().unwrap().file_name(),
            "file"
        );
        assert!(entries.next_entry().await.unwrap().is_none());
    });
}

/// Tasks of one worker whose reads are all done at once let others run.
#[test]
fn reads_that_are_done_at_once_do_not_starve_others() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (_kept, at) = directory();
        fs::write(at.join("file"), "text").await.unwrap();
        let file = fs::File::open(at.join("file")).await.unwrap();
        let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let ends = over.clone();
        tokio::spawn(async move { ends.store(true, std::sync::atomic::Ordering::SeqCst) });
        while !over.load(std::sync::atomic::Ordering::SeqCst) {
            file.read_at(Vec::with_capacity(4), 0).await.0.unwrap();
        }
    });
}
