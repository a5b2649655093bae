//! Both stores give the same results, and the versions differ in few lines.

use laio_example_datafusion::{after, before, data, queries};

#[tokio::test(flavor = "multi_thread")]
async fn both_give_the_same_results() {
    let scale = std::env::var("TPCH_SCALE").map_or(0.1, |scale| scale.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    data::write(directory.path(), scale).unwrap();
    let (before, after) = (before::session(), after::session());
    queries::register(&before, directory.path()).await.unwrap();
    queries::register(&after, directory.path()).await.unwrap();
    assert_eq!(queries::all().count(), 22);
    for query in queries::all() {
        let expected = queries::run(&before, query).await.unwrap();
        let found = queries::run(&after, query).await.unwrap();
        assert_eq!(found, expected, "{query}");
        assert!(expected.lines().count() > 4, "no rows: {query}");
    }
}

/// The README says which lines change.
#[test]
fn few_lines_change() {
    let before = include_str!("../src/before.rs").lines().skip(1);
    let after = include_str!("../src/after.rs").lines().skip(1);
    let removed: Vec<_> = before
        .clone()
        .filter(|line| !after.clone().any(|other| other == *line))
        .collect();
    let added: Vec<_> = after
        .filter(|line| !before.clone().any(|other| other == *line))
        .collect();
    let expected = [
        "use object_store::local::LocalFileSystem;",
        "    let store = LocalFileSystem::new();",
    ];
    assert_eq!(removed, expected);
    let expected = [
        "use crate::bridge::LocalStore;",
        "    let store = LocalStore::new();",
    ];
    assert_eq!(added, expected);
}
