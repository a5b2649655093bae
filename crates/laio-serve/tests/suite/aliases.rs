//! Directories with paths of their own (`--alias`).

use crate::common::{Running, anywhere};
use laio::BackendKind::Lazy;
use laio_serve::{Alias, Coding, Options, Sandbox, Server, Uploaders};
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
        for target in [
            "/static/own.txt",
            "/staticfoo",
            "/static/.env",
            "/static/leads-out",
            "/static/../static/own.txt",
            "/no/such/",
            "/favicon.ico/",
            "/favicon.ico/x",
            "/no/such/parent/absent",
        ] {
            assert_eq!(client.get(target).status, 404, "{target}");
        }
        let moved = client.get("/static");
        moved.is("301 | Location: /static/");
        let packed = client.request("GET", "/static/a.css", "Accept-Encoding: gzip\r\n");
        assert_eq!(packed.header("Content-Encoding"), Some("gzip"));
        assert!(client.get("/static/inner/").text().contains("deep.txt"));
    }
    // The cache sees changes there.
    for number in 0..20 {
        let text = format!("body {{ {number} }}");
        fs::write(other.path().join("a.css"), &text).unwrap();
        for target in [
            "/static/a.css",
            "/static/a.css",
            "/favicon.ico",
            "/favicon.ico",
        ] {
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
    let error = |change: &dyn Fn(&mut Options)| {
        let mut options = Options {
            listen: anywhere(),
            backend: Some(Lazy),
            ..Options::default()
        };
        options.site.root = Some(root.path().to_owned());
        change(&mut options);
        Server::start(options).unwrap_err().to_string()
    };
    let device = error(&|options| options.site.aliases = vec![alias("/x", Path::new("/dev/null"))]);
    assert!(device.contains("Not a directory"), "{device}");
    let uploads = error(&|options| {
        options.site.aliases = vec![alias("/x", other.path())];
        options.site.uploads.who = Some(Uploaders::Anyone);
    });
    assert!(
        uploads.contains("--upload cannot be combined with --alias"),
        "{uploads}"
    );
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
