//! Directories with paths of their own (`--alias`).

use crate::common::Running;
use laio_serve::{Alias, Coding, Sandbox, Uploaders};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

/// A root whose own `static` is not served, and another directory.
fn directories() -> (TempDir, TempDir) {
    let (root, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for (directory, name, text) in [
        (root.path(), "index.html", "home"),
        (root.path(), "static/own.txt", "of the root"),
        (root.path(), "other.txt", "beside"),
        (root.path(), "secret", "secret"),
        (other.path(), "index.html", "static home"),
        (other.path(), "a.css", "body {}"),
        (other.path(), "a.css.gz", "not really gzip"),
        (other.path(), "inner/deep.txt", "deep"),
        (other.path(), ".env", "SECRET=1"),
        (other.path(), "large.bin", &"large ".repeat(50_000)),
    ] {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    symlink(root.path().join("secret"), other.path().join("leads-out")).unwrap();
    (root, other)
}

fn alias(path: &str, directory: &Path) -> Alias {
    format!("{path}={}", directory.display()).parse().unwrap()
}

#[test]
fn paths_below_an_alias_are_files_of_its_directory() {
    let (root, other) = directories();
    let server = Running::with(root.path(), |options| {
        options.workers = Some(1);
        options.site.aliases = vec![
            alias("/static/", other.path()),
            alias("/no/such/parent", &other.path().join("inner")),
            alias("/favicon.ico", &other.path().join("a.css")),
        ];
        options.site.listing = true;
        options.site.precompressed = vec![Coding::Gzip];
        options.safety.landlock = Sandbox::Auto;
        options.safety.seccomp = Sandbox::Auto;
    });
    let mut client = server.connect();
    let large = "large ".repeat(50_000);
    // Several times, because a repeated request may be answered from the cache.
    for _ in 0..3 {
        for (target, status, text) in [
            ("/", 200, "home"),
            ("/other.txt", 200, "beside"),
            ("/static/", 200, "static home"),
            ("/static/a.css", 200, "body {}"),
            ("/%73tatic/./a.css", 200, "body {}"),
            ("/static/inner/deep.txt", 200, "deep"),
            ("/static/large.bin", 200, &*large),
            ("/no/such/parent/deep.txt", 200, "deep"),
            ("/favicon.ico", 200, "body {}"),
        ] {
            let answer = client.get(target);
            let found = (answer.status, answer.text());
            assert!(found == (status, text), "{target}: {}", answer.status);
        }
        client.answers(
            "
            GET /static/own.txt => 404
            GET /staticfoo => 404
            GET /static/.env => 404
            GET /static/leads-out => 404
            GET /static/../static/own.txt => 404
            GET /no/such/ => 404
            GET /favicon.ico/ => 404
            GET /favicon.ico/x => 404
            GET /no/such/parent/absent => 404
            GET /static => 301 | Location: /static/
            GET /static/a.css | Accept-Encoding: gzip => Content-Encoding: gzip
            GET /static/inner/ => has deep.txt
            ",
        );
    }
    // The cache sees changes there.
    for number in 0..20 {
        let text = format!("body {{ {number} }}");
        fs::write(other.path().join("a.css"), &text).unwrap();
        for target in ["/static/a.css", "/favicon.ico"] {
            assert_eq!(client.get(target).text(), text, "{target}");
            assert_eq!(client.get(target).text(), text, "{target}");
        }
    }
    fs::rename(other.path().join("inner"), other.path().join("moved")).unwrap();
    assert_eq!(client.get("/static/inner/deep.txt").status, 404);
    assert_eq!(client.get("/static/moved/deep.txt").text(), "deep");
    drop(client);
    server.stop();
}

#[test]
fn what_cannot_be_served_is_refused_at_the_start() {
    let (root, other) = directories();
    Running::refuses(root.path(), "Not a directory", |options| {
        options.site.aliases = vec![alias("/x", Path::new("/dev/null"))];
    });
    let part = "--upload cannot be combined with --alias";
    Running::refuses(root.path(), part, |options| {
        options.site.aliases = vec![alias("/x", other.path())];
        options.site.uploads.who = Some(Uploaders::Anyone);
    });
}

#[test]
fn an_absent_target_does_not_stop_the_server() {
    let (root, other) = directories();
    let absent = other.path().join("absent");
    let server = Running::with(root.path(), |options| {
        options.site.aliases = vec![
            alias("/static", &absent),
            alias("/static/inner", &other.path().join("inner")),
            alias("/favicon.ico", &absent.join("icon")),
        ];
        options.site.listing = true;
        options.safety.landlock = Sandbox::Auto;
        options.safety.seccomp = Sandbox::Auto;
    });
    for (target, status) in [
        ("/other.txt", 200),
        ("/static/inner/deep.txt", 200),
        ("/static", 404),
        ("/static/", 404),
        // What the root has there is not served.
        ("/static/own.txt", 404),
        ("/static/./own.txt", 404),
        ("/favicon.ico", 404),
    ] {
        assert_eq!(server.get(target).status, status, "{target}");
    }
    // As it says, until a reload.
    fs::create_dir(&absent).unwrap();
    fs::write(absent.join("a.txt"), "now").unwrap();
    assert_eq!(server.get("/static/a.txt").status, 404);
    server.stop();
}
