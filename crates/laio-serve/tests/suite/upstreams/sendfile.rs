//! Files that upstreams name.

use super::*;
use crate::common::LONG;
use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::{FaultFs, or_skip};

struct Files {
    server: Running,
    shared: tempfile::TempDir,
    backend: Backend,
    _root: tempfile::TempDir,
}

/// An upstream that answers with the field in the query.
fn named_by_the_query() -> Backend {
    Backend::start(|peer| {
        while let Some(head) = peer.request() {
            let target = head.split(' ').nth(1).unwrap();
            let (status, field) = match target.split_once('?') {
                Some((status, field)) => {
                    (status.trim_start_matches('/').to_owned(), field.to_owned())
                }
                None => return,
            };
            peer.send(format!(
                "HTTP/1.1 {status}\r\n{}\r\nContent-Type: text/special\r\nContent-Disposition: inline\r\n\
                 ETag: \"theirs\"\r\nContent-Length: 4\r\n\r\nbody",
                field.replace('=', ": ")
            ));
        }
    })
}

/// That upstream, and one root.
fn files() -> Files {
    let shared = tempfile::Builder::new().prefix("shared").tempdir().unwrap();
    std::fs::create_dir(shared.path().join("in")).unwrap();
    std::fs::write(shared.path().join("in/file.txt"), "0123456789").unwrap();
    std::fs::write(shared.path().with_extension("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", shared.path().join("link")).unwrap();
    let backend = named_by_the_query();
    let (server, root) = serve(vec![http("/", &backend)], |options| {
        options.site.upstreams.sendfile_roots = vec![shared.path().to_owned()];
    });
    Files {
        server,
        shared,
        backend,
        _root: root,
    }
}

#[test]
fn a_file_takes_the_place_of_the_body() {
    let files = files();
    let path = files.shared.path().join("in/file.txt");
    let path = path.display();
    let mut client = files.server.connect();
    for name in ["X-Sendfile", "x-lighttpd-send-file"] {
        let whole = client.get(&format!("/200?{name}={path}"));
        assert_eq!((whole.status, whole.text()), (200, "0123456789"), "{name}");
        whole.is("Content-Type: text/special | Content-Disposition: inline");
        assert!(
            whole.header("X-Sendfile").is_none() && whole.header("X-LIGHTTPD-send-file").is_none()
        );
        let etag = whole.header("ETag").unwrap();
        assert_ne!(etag, "\"theirs\"");
    }
    let target = format!("/200?X-Sendfile={path}");
    let part = client.request("GET", &target, "Range: bytes=2-4\r\n");
    part.is(r#"206 | "234" | Content-Range: bytes 2-4/10"#);
    let past = client.request("GET", &target, "Range: bytes=20-\r\n");
    assert_eq!(past.status, 416);
    let modified = client
        .get(&target)
        .header("Last-Modified")
        .unwrap()
        .to_owned();
    let same = client.request(
        "GET",
        &target,
        &format!("If-Modified-Since: {modified}\r\n"),
    );
    assert_eq!((same.status, same.text()), (304, ""));
    let head = client.request("HEAD", &target, "");
    head.is("200 | Content-Length: 10");
    // The upstream's own body does not interfere.
    assert!(files.backend.connections() <= 2);
    // A file is sent only for a successful answer.
    let error = client.get(&target.replacen("200", "500", 1));
    assert_eq!((error.status, error.text()), (500, "body"));
    assert!(error.header("X-Sendfile").is_none());
}

#[test]
fn files_elsewhere_are_not_sent() {
    let files = files();
    let shared = files.shared.path().display().to_string();
    let mut client = files.server.connect();
    for (path, expected) in [
        ("/etc/passwd".to_owned(), 502),
        (shared.clone(), 502),
        (format!("{shared}.secret"), 502),
        (format!("{shared}x/file"), 502),
        ("in/file.txt".to_owned(), 502),
        (format!("{shared}/../{}", "etc/passwd"), 404),
        (format!("{shared}/link"), 404),
        (format!("{shared}/in/../../etc/passwd"), 404),
        (format!("{shared}/in"), 404),
        (format!("{shared}/absent"), 404),
    ] {
        let answer = client.get(&format!("/200?X-Sendfile={path}"));
        assert_eq!(answer.status, expected, "{path}");
        assert!(!answer.text().contains("root:"), "{path}");
    }
    std::fs::remove_file(files.shared.path().with_extension("secret")).unwrap();
}

#[test]
fn temporary_files_are_removed() {
    let files = files();
    let mut client = files.server.connect();
    for name in ["X-LIGHTTPD-send-temp-file", "X-LIGHTTPD-send-tempfile"] {
        let path = files.shared.path().join("in/made.tmp");
        std::fs::write(&path, "made for one").unwrap();
        let target = format!("/200?{name}={}", path.display());
        assert_eq!(client.get(&target).text(), "made for one");
        assert!(!path.exists());
        assert_eq!(client.get(&target).status, 404);
    }
    let outside = files.shared.path().with_extension("secret");
    let target = format!("/200?X-LIGHTTPD-send-temp-file={}", outside.display());
    assert_eq!(client.get(&target).status, 502);
    assert!(outside.exists());
    std::fs::remove_file(outside).unwrap();
}

/// One file may be opened at a time, and that one hangs. With activations a permit limits the opens.
#[test]
fn named_files_count_for_the_limit_of_opens() {
    if !crate::common::has(BackendKind::Activations) {
        return;
    }
    let Some(slow) = or_skip(FaultFs::mount()) else {
        return;
    };
    slow.add_file("slow.txt", b"at last");
    slow.add_file("next.txt", b"then");
    let backend = named_by_the_query();
    let (server, _root) = serve_with(
        BackendKind::Activations,
        vec![http("/", &backend)],
        |options| {
            options.site.upstreams.sendfile_roots = vec![slow.path().to_owned()];
            options.io.class_limits.stat = Some(1);
        },
    );
    slow.set_at("slow.txt", Kind::Open, Fault::Hang);
    let request = |name: &str| {
        let mut client = server.connect();
        let path = slow.path().join(name);
        let target = format!("/200?X-Sendfile={}", path.display());
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client
    };
    let mut first = request("slow.txt");
    assert!(slow.wait_hung(1, LONG), "the open was asked for");
    let mut second = request("next.txt");
    // The one worker has had the upstream's response for the second request meanwhile.
    let mut other = server.connect();
    crate::common::until("the upstream has answered", || {
        assert_eq!(other.get("/200?A=b").text(), "body");
        backend.heads().iter().any(|head| head.contains("next.txt"))
    });
    for _ in 0..10 {
        assert_eq!(other.get("/200?A=b").text(), "body");
    }
    assert_eq!(slow.requests_at("next.txt", Kind::Open), 0, "not yet");
    slow.clear_all();
    slow.release(Released::Served);
    assert_eq!(first.answer(false).text(), "at last");
    assert_eq!(second.answer(false).text(), "then");
}
