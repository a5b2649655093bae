//! Both versions of the API give the same replies, and differ in few lines.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use laio_example_axum::{after, before};
use std::fs;
use std::os::unix::fs::symlink;
use tower_service::Service;

/// The status, the fields and the body of a reply.
async fn reply(app: &mut Router, path: &str) -> String {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = app.call(request).await.unwrap();
    let head = format!("{} {:?}", response.status(), response.headers());
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    format!("{head} {}", String::from_utf8_lossy(&body))
}

#[tokio::test]
async fn both_give_the_same_replies() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for number in 0..50 {
        let text = format!(
            "{{\"name\": \"item {number}\", \"text\": \"{}\"}}",
            "x".repeat(number * 300)
        );
        fs::write(at(&format!("{number}.json")), text).unwrap();
    }
    fs::write(at("50.json"), "{ not JSON").unwrap();
    fs::write(at("51.json"), "").unwrap();
    fs::create_dir(at("52.json")).unwrap();
    symlink("53.json", at("53.json")).unwrap();
    symlink("7.json", at("54.json")).unwrap();
    fs::write(at("notes.txt"), "no item").unwrap();

    let mut both = [
        before::app(directory.path().to_owned()),
        after::app(directory.path().to_owned()),
    ];
    let items = (0..60).map(|number| format!("/items/{number}"));
    let others = [
        "/items",
        "/items/word",
        "/items/-1",
        "/items/99999999999999999999",
        "/other",
    ];
    for path in items.chain(others.map(str::to_owned)) {
        let [before, after] = &mut both;
        let expected = reply(before, &path).await;
        assert_eq!(reply(after, &path).await, expected, "{path}");
    }
    assert!(reply(&mut both[1], "/items/7").await.starts_with("200 OK"));
    assert!(reply(&mut both[1], "/items/59").await.starts_with("404"));

    let mut nowhere = [before::app(at("none")), after::app(at("none"))];
    let [before, after] = &mut nowhere;
    assert_eq!(reply(after, "/items").await, reply(before, "/items").await);
}

/// The README says how many lines change.
#[test]
fn few_lines_change() {
    let lines = |text: &'static str| text.lines().collect::<Vec<_>>();
    let before = lines(include_str!("../src/before.rs"));
    let after = lines(include_str!("../src/after.rs"));
    let only = |these: &[&'static str], others: &[&'static str]| {
        these
            .iter()
            .copied()
            .filter(|line| !others.contains(line))
            .collect::<Vec<_>>()
    };
    let removed = only(&before, &after);
    let added = only(&after, &before);
    assert_eq!(before.len(), after.len());
    assert_eq!(
        removed,
        [
            "//! The API with the file functions of tokio.",
            "use tokio::fs;"
        ]
    );
    assert_eq!(
        added,
        [
            "//! The API with the file functions of laio.",
            "use laio_tokio::fs;"
        ]
    );
}
