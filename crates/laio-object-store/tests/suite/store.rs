//! `LocalStore`: the tests that the crate `object_store` has for its stores, and a comparison with its own
//! local store.

use futures_util::TryStreamExt;
use laio_object_store::{Direct, LocalStore};
use laio_testing::random::Random;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, integration};

/// Runs a future on a runtime of each kind.
fn on_each_runtime<F: Future<Output = ()> + Send + 'static>(mut body: impl FnMut() -> F) {
    let current = tokio::runtime::Builder::new_current_thread().build();
    current.unwrap().block_on(body());
    let several = tokio::runtime::Builder::new_multi_thread().build();
    several
        .unwrap()
        .block_on(async { tokio::spawn(body()).await.unwrap() });
}

fn directory() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = laio_testing::temp::scratch();
    let path = directory.path().to_owned();
    (directory, path)
}

#[test]
fn it_passes_the_tests_of_object_store() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let store = LocalStore::new_with_prefix(&at).unwrap();
        integration::put_get_delete_list(&store).await;
        integration::list_with_offset_exclusivity(&store).await;
        integration::get_opts(&store).await;
        integration::list_uses_directories_correctly(&store).await;
        integration::list_with_delimiter(&store).await;
        integration::rename_and_copy(&store).await;
        integration::copy_if_not_exists(&store).await;
        integration::copy_rename_nonexistent_object(&store).await;
        integration::stream_get(&store).await;
        integration::put_opts(&store, false).await;
        integration::multipart_race_condition(&store, true).await;
        integration::multipart_out_of_order(&store).await;
    });
}

#[test]
fn it_has_the_options_of_the_local_store() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let store = LocalStore::new_with_prefix(&at).unwrap().with_fsync(true);
        let name = Path::from("dir/object");
        for cleans in [false, true] {
            let store = store.clone().with_automatic_cleanup(cleans);
            store.put(&name, "text".into()).await.unwrap();
            let file = store.path_to_filesystem(&name).unwrap();
            assert_eq!(std::fs::read(&file).unwrap(), b"text");
            store.delete(&name).await.unwrap();
            assert_eq!(at.join("dir").exists(), !cleans);
        }
    });
}

/// The same reads of the same directory through both stores.
#[test]
fn reads_are_those_of_the_local_store() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let expected = LocalFileSystem::new_with_prefix(&at).unwrap();
        let found = LocalStore::from(expected.clone());
        for (name, length) in [("empty", 0), ("small", 100), ("dir/large", 5_000_000)] {
            let text = laio_testing::temp::pattern(length, 9);
            found.put(&Path::from(name), text.into()).await.unwrap();
        }
        let mut random = Random::for_test();
        for step in 0..150 {
            let name = Path::from(*random.pick(&["empty", "small", "dir/large", "dir", "none"]));
            let options = some_options(&mut random, &expected, &name).await;
            let one = read(&expected, &name, options.clone()).await;
            let other = read(&found, &name, options.clone()).await;
            assert_eq!(one, other, "step {step}: {name} {options:?}");

            let ranges: Vec<_> = (0..random.below(20))
                .map(|_| {
                    (
                        random.below(6_000_000) as u64,
                        random.between(1..100_000) as u64,
                    )
                })
                .map(|(start, length)| start..start + length)
                .collect();
            let one = expected.get_ranges(&name, &ranges).await;
            let direct = [Direct::Never, Direct::Auto, Direct::Always][random.below(3)];
            let found = found.clone().with_direct(direct);
            let other = found.get_ranges(&name, &ranges).await;
            match (one, other) {
                (Ok(one), Ok(other)) => {
                    assert!(one == other, "step {step}: {name} {direct:?} {ranges:?}");
                }
                (one, other) => assert_eq!(
                    one.map_err(kind).is_ok(),
                    other.map_err(kind).is_ok(),
                    "step {step}: {name} {ranges:?}"
                ),
            }
        }
    });
}

async fn some_options(random: &mut Random, store: &LocalFileSystem, name: &Path) -> GetOptions {
    let (start, length) = (
        random.below(5_500_000) as u64,
        random.below(3_000_000) as u64,
    );
    let range = match random.below(6) {
        0 => Some(GetRange::Offset(start)),
        1 => Some(GetRange::Suffix(length)),
        2 => Some(GetRange::Bounded(0..length.max(1))),
        3 => Some(GetRange::Bounded(start..start + length)),
        _ => None,
    };
    let meta = store.head(name).await.ok();
    let tag = || match &meta {
        Some(meta) => meta.e_tag.clone(),
        None => Some("\"x\"".to_owned()),
    };
    let mut options = GetOptions::new().with_range(range);
    match random.below(8) {
        0 => options.if_match = tag(),
        1 => options.if_none_match = tag(),
        2 => options.if_match = Some("\"y\"".to_owned()),
        3 => options.if_none_match = Some("\"y\", \"z\"".to_owned()),
        4 => options.if_modified_since = meta.as_ref().map(|meta| meta.last_modified),
        5 => options.if_unmodified_since = meta.as_ref().map(|meta| meta.last_modified),
        6 => options.head = true,
        _ => {}
    }
    options
}

/// What a read shows, without the texts of errors.
async fn read(store: &dyn ObjectStore, name: &Path, options: GetOptions) -> String {
    let head = options.head;
    let found = match store.get_opts(name, options).await {
        Ok(found) => found,
        Err(error) => return kind(error),
    };
    let shown = format!("{:?} {:?} {:?}", found.meta, found.range, found.attributes);
    if head {
        return shown;
    }
    let length = found.range.end - found.range.start;
    let bytes: Vec<_> = found.into_stream().try_collect().await.unwrap();
    let bytes = bytes.concat();
    assert_eq!(bytes.len() as u64, length);
    let sum = bytes.iter().fold(7u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
    });
    format!("{shown} {sum}")
}

fn kind(error: Error) -> String {
    match error {
        Error::NotFound { path, .. } => format!("not found: {path}"),
        Error::Precondition { path, .. } => format!("precondition: {path}"),
        Error::NotModified { path, .. } => format!("not modified: {path}"),
        Error::AlreadyExists { path, .. } => format!("exists: {path}"),
        Error::Generic { .. } => "generic".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Clones of a store count together.
#[test]
fn the_store_counts_its_ranges() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        let store = LocalStore::new_with_prefix(&at).unwrap();
        let name = Path::from("object");
        store.put(&name, vec![7; 100_000].into()).await.unwrap();
        let direct = store.clone().with_direct(Direct::Always);
        for store in [&store, &direct] {
            store
                .get_ranges(&name, &[0..10, 50_000..50_010])
                .await
                .unwrap();
        }
        let stats = store.range_stats();
        assert_eq!((stats.ranges, stats.reads), (4, 4));
        if stats.reason.is_direct() {
            assert_eq!((stats.direct_reads, stats.cached_reads), (2, 2));
        }
    });
}
