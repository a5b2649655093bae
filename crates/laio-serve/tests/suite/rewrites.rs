//! Redirects and rewrites with expressions, and what guards see of a rewritten request.

use crate::common::*;
use laio_serve::{Options, Question, Site, Upstream, explain};
use std::fs;
use tempfile::TempDir;

fn files() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("docs")).unwrap();
    for (name, text) in [
        ("index.html", "the application"),
        ("secret.txt", "secret"),
        ("docs/a b.txt", "a b"),
        ("docs/index.html", "docs"),
        (
            "users",
            "ann:$2y$04$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234\n",
        ),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn with_rewrites(site: &mut Site, rules: &[&str]) {
    site.rewrites = rules.iter().map(|rule| rule.parse().unwrap()).collect();
}

#[test]
fn files_of_other_paths() {
    let dir = files();
    let server = Running::with(dir.path(), |options| {
        with_rewrites(
            &mut options.site,
            &[
                "/app/*=/index.html",
                "~^/(d[a-z]+s)-(.*)$=/docs/$2",
                "~^/up/(.*)$=/docs/.$1",
            ],
        );
        options.site.redirects = vec![
            r"~^/blog/(\d{4})/(.+)$=/archive/$1-$2=308".parse().unwrap(),
            "/app/old=/app/new".parse().unwrap(),
            "/index.html=/".parse().unwrap(),
        ];
    });
    server.answers(
        "
        # Twice, because the second answer comes from the cache.
        GET /app/x?y => 200 | has the application
        GET /app/x?y => 200 | has the application
        GET /docs-a%20b.txt => 200 | has a b
        GET /docs- => 200 | has docs
        GET /docs/ => 200 | has docs
        GET /docs-../secret.txt => 400
        GET /up/%2e/..%2fsecret.txt => 400
        GET /up/.%2fsecret.txt => 400
        GET /nothing => 404
        GET /blog/2024/a%20b?q=1 => 308 | Location: /archive/2024-a%20b?q=1
        GET /app/old => 301 | Location: /app/new
        GET /index.html => 301 | Location: /
        ",
    );
}

#[test]
fn guards_see_both_paths() {
    let dir = files();
    let server = lazy_with(&dir, |options| {
        let site = &mut options.site;
        with_rewrites(
            site,
            &[
                "/open=/secret.txt",
                "/admin/*=/index.html",
                "/lan/*=/docs/",
                "/free=/docs/",
            ],
        );
        site.auth.users = Some(dir.path().join("users"));
        site.auth.paths = vec!["/secret.txt".to_owned(), "/admin/**".to_owned()];
        site.access.deny = vec!["/lan/**=127.0.0.0/8".parse().unwrap()];
    });
    for (target, status) in [
        ("/open", 401),
        ("/secret.txt", 401),
        ("/admin/x", 401),
        ("/%61dmin/x", 401),
        ("/lan/x", 403),
        ("/free", 200),
        ("/index.html", 200),
    ] {
        assert_eq!(server.get(target).status, status, "{target}");
    }
}

#[test]
fn limits_see_both_paths() {
    let dir = files();
    let server = lazy_with(&dir, |options| {
        with_rewrites(&mut options.site, &["/a=/docs/", "/b/*=/index.html"]);
        options.site.access.rates = vec![
            "/docs/**=1/h".parse().unwrap(),
            "/b/**=1/h".parse().unwrap(),
        ];
    });
    server.answers(
        "GET /a => 200\nGET /docs/ => 429\nGET /b/x => 200\nGET /b/y => 429\nGET / => 200",
    );
}

#[test]
fn an_explanation_names_the_rewrite() {
    let dir = files();
    let mut options = Options::default();
    options.site.root = Some(dir.path().to_owned());
    with_rewrites(&mut options.site, &["~^/api/(.*)$=/v2/$1?all", "/x=/docs/"]);
    options.site.upstreams = vec![Upstream::http("/v2=http://127.0.0.1:9").unwrap()].into();
    let steps = |target: &str| {
        let explained = explain(&options, &Question::new(target).unwrap()).unwrap();
        let steps = explained.steps.into_iter();
        steps
            .map(|step| format!("{}: {}\n", step.kind, step.text))
            .collect::<String>()
    };
    let text = steps("/api/a");
    assert!(
        text.contains("rewrite: the --rewrite of ~^/api/(.*)$ leads to /v2/a?all"),
        "{text}"
    );
    assert!(text.contains("\nupstream: "), "{text}");
    assert!(steps("/x").contains("leads to /docs/"));
    assert!(!steps("/docs/").contains("rewrite: "));
}

fn lazy_with(dir: &TempDir, change: impl FnOnce(&mut Options)) -> Running {
    Running::with(dir.path(), change)
}
