//! Sites that have no directory, because upstreams or redirects answer.

use crate::common::*;
use crate::upstreams::backend::Backend;
use crate::upstreams::http;
use laio_serve::{Options, Question, Sandbox, Site, explain};
use std::path::Path;

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nupstream";

/// Every file of the machine would be found if the working directory, or the root, were served.
#[test]
fn what_no_upstream_answers_is_missing() {
    let upstream = Backend::answering(ANSWER);
    let server = Running::with(Path::new("/"), |options| {
        options.site.root = None;
        options.site.dotfiles = true;
        options.site.upstreams = vec![http("/api", &upstream)].into();
        options.safety.landlock = Sandbox::Auto;
        options.safety.seccomp = Sandbox::Auto;
    });
    // Several times, because a repeated request may be answered from the cache.
    for _ in 0..3 {
        assert_eq!(server.get("/api/x").text(), "upstream");
        let absent = "/ /. /Cargo.toml /src /src/ /src/lib.rs /etc/passwd /proc/self/status /index.html /x/ \
                      /?json /?zip";
        for target in absent.split(' ') {
            assert_eq!(server.get(target).status, 404, "{target}");
        }
    }
    server.stop();
}

#[test]
fn redirects_of_all_paths() {
    let server = Running::with(Path::new("/absent"), |options| {
        options.site.root = None;
        options.site.redirects = vec!["/*=https://example.org/*=308".parse().unwrap()];
    });
    for target in ["/", "/Cargo.toml", "/a/b?c=d"] {
        let answer = server.get(target);
        assert_eq!(answer.status, 308, "{target}");
        let location = format!("https://example.org{target}");
        assert_eq!(answer.header("Location"), Some(&*location));
    }
}

#[test]
fn an_alias_beside_an_upstream() {
    let upstream = Backend::answering(ANSWER);
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("a.css"), "body {}").unwrap();
    let server = Running::with(Path::new("/"), |options| {
        options.site.root = None;
        options.site.upstreams = vec![http("/api", &upstream)].into();
        let alias = format!("/static={}", files.path().display());
        options.site.aliases = vec![alias.parse().unwrap()];
    });
    assert_eq!(server.get("/static/a.css").text(), "body {}");
    assert_eq!(server.get("/static/b.css").status, 404);
    assert_eq!(server.get("/a.css").status, 404);
}

#[test]
fn which_sites_have_files() {
    let upstream = Backend::answering(ANSWER);
    let proxy = Site {
        upstreams: vec![http("/", &upstream)].into(),
        ..Site::default()
    };
    let with = |change: &dyn Fn(&mut Site)| {
        let mut site = proxy.clone();
        change(&mut site);
        site.directory().map(Path::to_owned)
    };
    let here = Some(Path::new(".").to_owned());
    assert_eq!(Site::default().directory().map(Path::to_owned), here);
    assert_eq!(with(&|_| ()), None);
    for (candidate, expected) in [("@upstream", None), ("{path}", here.clone())] {
        let found = with(&|site| site.candidates = vec![candidate.parse().unwrap()]);
        assert_eq!(found, expected, "{candidate}");
    }
    let changes: [fn(&mut Site); 3] = [
        |site| site.listing = true,
        |site| site.fallback = Some("index.html".to_owned()),
        |site| site.upstreams.php = Some("unix:/p".parse().unwrap()),
    ];
    for change in changes {
        assert_eq!(with(&change), here);
    }
    let named = with(&|site| site.root = Some("/srv".into()));
    assert_eq!(named, Some("/srv".into()));
    let redirected = |rule: &str| {
        let site = Site {
            redirects: vec![rule.parse().unwrap()],
            ..Site::default()
        };
        site.directory().is_some()
    };
    assert!(!redirected("/*=https://example.org/*") && redirected("/old=/new"));
}

#[test]
fn the_explanation_says_it() {
    let upstream = Backend::answering(ANSWER);
    let mut options = Options::default();
    options.site.upstreams = vec![http("/api", &upstream)].into();
    let question = Question::new("http://x/y").unwrap();
    let explained = explain(&options, &question).unwrap();
    let text = explained.text(&question);
    assert!(
        text.contains("the main site answers, which has no files"),
        "{text}"
    );
    assert_eq!(explained.answer.unwrap().status, 404);
}
