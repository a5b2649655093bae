//! All versions of the server give the same replies, and differ in few lines.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use laio_example_tiles::{after, archive, before, direct};
use std::path::Path;
use tower_service::Service;

/// Large enough for directories besides the root directory.
const ZOOM: u8 = 7;

async fn apps(archive: &Path) -> [Router; 3] {
    [
        before::app(archive).await.unwrap(),
        after::app(archive).await.unwrap(),
        direct::app(archive).await.unwrap(),
    ]
}

/// The status, the fields and the body of a reply.
async fn reply(app: &mut Router, path: &str, known: &str) -> String {
    let request = Request::get(path).header("if-none-match", known);
    let response = app.call(request.body(Body::empty()).unwrap());
    let response = response.await.unwrap();
    let head = format!("{} {:?}", response.status(), response.headers());
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    format!("{head} {body:?}")
}

#[tokio::test]
async fn all_give_the_same_replies() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tiles");
    archive::write(&file, ZOOM, 200).unwrap();
    let mut apps = apps(&file).await;

    let tiles = (0..1 << ZOOM).flat_map(|x| [0, 1, 63, 127].map(|y| format!("/{ZOOM}/{x}/{y}")));
    let others = ["/0/0/0", "/8/1/1", "/7/128/0", "/7/0", "/7/a/0", "/99/0/0"];
    for path in tiles.chain(others.map(str::to_owned)) {
        let [before, after, direct] = &mut apps;
        let expected = reply(before, &path, "\"unknown\"").await;
        assert_eq!(reply(after, &path, "\"unknown\"").await, expected, "{path}");
        assert_eq!(
            reply(direct, &path, "\"unknown\"").await,
            expected,
            "{path}"
        );
    }
    let [_, after, _] = &mut apps;
    let found = reply(after, "/7/1/2", "").await;
    assert!(found.starts_with("200 OK"), "{found}");
    assert!(reply(after, "/0/0/0", "").await.starts_with("204"));
    assert!(reply(after, "/7/128/0", "").await.starts_with("404"));
}

/// The README says how many lines change.
#[test]
fn few_lines_change() {
    let before = code(include_str!("../src/before.rs"));
    let after = code(include_str!("../src/after.rs"));
    let direct = code(include_str!("../src/direct.rs"));
    let readme = include_str!("../README.md");
    assert_eq!(only(&before, &after).len(), 2);
    assert_eq!(only(&after, &before).len(), 10);
    for (sign, lines) in [('-', only(&before, &after)), ('+', only(&after, &before))] {
        for line in lines {
            assert!(readme.contains(&format!("\n{sign}{line}\n")), "{line}");
        }
    }
    for line in only(&direct, &after) {
        assert!(readme.contains(&format!("\n+{line}\n")), "{line}");
    }
}

/// The lines with code.
fn code(source: &str) -> Vec<&str> {
    let blank = |line: &str| line.is_empty() || line.starts_with("//");
    source.lines().filter(|line| !blank(line)).collect()
}

/// The lines that only the first has, as often as it has them more often.
fn only<'a>(these: &[&'a str], others: &[&str]) -> Vec<&'a str> {
    let mut others = others.to_vec();
    let mut only = Vec::new();
    for line in these {
        match others.iter().position(|other| other == line) {
            Some(place) => drop(others.remove(place)),
            None => only.push(*line),
        }
    }
    only
}
