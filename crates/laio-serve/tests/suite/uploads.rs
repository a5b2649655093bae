//! Uploads: PUT, DELETE and MKCOL over connections.

use crate::common::{Client, LONG, Response, Running, asynchronous_backends, every_backend, until};
use laio::BackendKind;
use laio_serve::{Auth, Host, Observer, Options, Sandbox, Site, UploadSync, Uploaders};
use laio_testing::extent;
use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::{FaultFs, or_skip};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// Everyone may upload, and the disk may be full.
fn open(options: &mut Options) {
    options.site.uploads.who = Some(Uploaders::Anyone);
    options.site.uploads.keep_free = 0;
}

fn serve(root: &Path, backend: BackendKind) -> Running {
    Running::on(backend, root, open)
}

fn lazy(root: &Path, change: impl FnOnce(&mut Options)) -> Running {
    Running::with(root, |options| {
        open(options);
        change(options);
    })
}

fn put(client: &mut Client, target: &str, fields: &str, body: impl AsRef<[u8]>) -> Response {
    let body = body.as_ref();
    client.send(format!(
        "PUT {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n{fields}\r\n",
        body.len()
    ));
    client.send(body);
    client.answer(false)
}

/// The names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string());
    let mut names = names.collect::<Result<Vec<_>, _>>().unwrap();
    names.sort();
    names
}

fn long() -> &'static [u8] {
    static ALL: LazyLock<Vec<u8>> =
        LazyLock::new(|| (0..700_000u32).flat_map(u32::to_le_bytes).collect());
    &ALL
}

#[test]
fn files_and_directories() {
    for backend in every_backend() {
        let dir = TempDir::new().unwrap();
        let server = serve(dir.path(), backend);
        let mut client = server.connect();
        let created = client.ask(r#"PUT /a%20b.txt | "one""#);
        assert_eq!(created.status, 201, "{backend}");
        let again = put(&mut client, "/a%20b.txt", "", long());
        assert_eq!(again.status, 204, "{backend}");
        assert_ne!(created.header("ETag"), again.header("ETag"));
        let got = client.get("/a%20b.txt");
        assert!(got.status == 200 && got.body == long(), "{backend}");

        drop(client);
        server.answers(
            r#"
            MKCOL /d/ => 201
            MKCOL /d => 405
            MKCOL /no/d => 409
            PUT /d/x | "" => 201
            PUT /no/x | "x" => 409
            # It is not empty.
            DELETE /d => 409
            DELETE /d/x => 204
            DELETE /d/x => 404
            DELETE /d/ => 204
            "#,
        );
        assert_eq!(names(dir.path()), ["a b.txt"], "{backend}");
    }
}

#[test]
fn a_chunked_body_is_stored_without_its_framing() {
    let dir = TempDir::new().unwrap();
    let server = serve(dir.path(), BackendKind::Lazy);
    let mut client = server.connect();
    client.send("PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    client.send("2\r\nde\r\n0\r\nTrailer: x\r\n\r\n");
    client.answer(false).is("201");
    client.answers(r#"GET /a => "abcde""#);
}

#[test]
fn refused_names() {
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("file"), "f").unwrap();
    symlink("file", root.join("link")).unwrap();
    symlink("/tmp", root.join("out")).unwrap();
    symlink("d", root.join("in")).unwrap();
    let server = serve(root, BackendKind::Lazy);
    server.answers(&format!(
        r#"
        PUT / | "x" => 405
        PUT /d | "x" => 405
        PUT /d/ | "x" => 405
        PUT /new/ | "x" => 405
        PUT /file/x | "x" => 409
        PUT /link | "x" => 403
        PUT /out/laio-test-upload | "x" => 409
        PUT /.hidden | "x" => 403
        PUT /d/.hidden | "x" => 403
        PUT /.laio-upload-0 | "x" => 403
        PUT /a%2Fb | "x" => 404
        PUT /../a | "x" => 400
        PUT /a%00 | "x" => 400
        PUT /{} | "x" => 414
        DELETE / => 403
        MKCOL / => 403
        DELETE /.hidden => 403
        # Through a link that reading follows too.
        PUT /in/x | "x" => 201
        # The link itself.
        DELETE /link => 204
        "#,
        "x".repeat(300)
    ));
    assert_eq!(fs::read(root.join("d/x")).unwrap(), b"x");
    assert_eq!(names(root), ["d", "file", "in", "out"]);
    assert_eq!(names(&root.join("d")), ["x"]);
}

#[test]
fn conditions() {
    let dir = TempDir::new().unwrap();
    let server = serve(dir.path(), BackendKind::Lazy);
    server.answers(
        r#"
        PUT /a | "x" | If-Match: * => 412
        PUT /a | "x" | If-Match: "x" => 412
        "#,
    );
    assert_eq!(names(dir.path()), [""; 0]);
    let stored = server.ask(r#"PUT /a | If-None-Match: * | "x""#);
    stored.is("201");
    // The first change with the tag comes right after the change that it names.
    let tag = stored.header("ETag").unwrap();
    let before = "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT";
    server.answers(&format!(
        r#"
        PUT /a | "x" | If-None-Match: * => 412
        PUT /a | "y" | If-Match: {tag} => 204
        PUT /a | "x" | If-Match: {tag} => 412
        PUT /a | "x" | If-None-Match: {tag} => 204
        PUT /a | "x" | {before} => 412
        # It is ignored for a new file.
        PUT /new | "x" | {before} => 201
        DELETE /a | {before} => 412
        DELETE /a | If-Match: "x" => 412
        DELETE /a | If-Match: * => 204
        "#
    ));
}

/// Of several clients that want to create a file, or to replace the version that they know, one succeeds.
#[test]
fn one_of_several_conditional_uploads_succeeds() {
    let dir = TempDir::new().unwrap();
    let server = serve(dir.path(), BackendKind::Lazy);
    let race = |condition: &str| {
        let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(format!(
                "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n{condition}\r\n\r\nx"
            ));
        }
        clients.iter_mut().for_each(|client| client.send("y"));
        let statuses = clients.iter_mut().map(|it| it.answer(false).status);
        let statuses: Vec<_> = statuses.collect();
        let count = |status| statuses.iter().filter(|&&own| own == status).count();
        [201, 204, 412].map(count)
    };
    for _ in 0..20 {
        assert_eq!(race("If-None-Match: *"), [1, 0, 7]);
        let stored = server.ask(r#"PUT /a | "new""#);
        let condition = format!("If-Match: {}", stored.header("ETag").unwrap());
        assert_eq!(race(&condition), [0, 1, 7]);
        server.answers("DELETE /a => 204");
    }
}

#[test]
fn requests_that_are_refused_before_their_body() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "old").unwrap();
    let server = lazy(dir.path(), |options| options.site.uploads.bytes = 1000);
    let waits = "Expect: 100-continue | Content-Length:";
    let closes = "Connection: close | closed";
    server.answers(&format!(
        "
        PUT /a | {waits} 1001 => 413 | {closes}
        PUT /a | {waits} 10 | Content-Range: bytes 0-9/20 => 400 | {closes}
        PUT /a | {waits} 10 | Content-Encoding: gzip => 415 | {closes}
        PUT /a | {waits} 10 | If-None-Match: * => 412 | {closes}
        PUT /no/a | {waits} 10 => 409 | {closes}
        "
    ));
    let mut client = server.connect();
    client.answers("PUT /a | Expect: 100-continue | Content-Length: 3 => 100");
    client.send("new");
    client.answer(false).is("204");
    client.answers(r#"GET /a => "new""#);
    // The limit holds for bodies without a length, too.
    let mut client = server.connect();
    client.send("PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n");
    client.send([b'x'; 1001]);
    client.answer(false).is("413");
    server.answers(r#"GET /a => "new""#);
    assert_eq!(names(dir.path()), ["a"]);
}

/// A small body that has arrived is read, so the connection stays.
#[test]
fn a_refused_request_that_has_arrived_leaves_the_connection() {
    let dir = TempDir::new().unwrap();
    let server = serve(dir.path(), BackendKind::Lazy);
    server.connect().answers(
        r#"
        PUT /no/a | "abc" => 409
        MKCOL /no => 201
        "#,
    );
}

#[test]
fn a_client_that_goes_away_changes_nothing() {
    for backend in asynchronous_backends() {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("a"), "old").unwrap();
        let server = serve(dir.path(), backend);
        for target in ["/a", "/b"] {
            let mut client = server.connect();
            client.send(format!(
                "PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n"
            ));
            client.send(&long()[..500_000]);
            drop(client);
        }
        drop(server);
        assert_eq!(names(dir.path()), ["a"], "{backend}");
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"old", "{backend}");
    }
}

#[test]
fn the_next_request_sees_the_change() {
    for backend in asynchronous_backends() {
        let dir = TempDir::new().unwrap();
        let server = serve(dir.path(), backend);
        let (mut one, mut other) = (server.connect(), server.connect());
        for round in 0..extent::cases(100, 25) {
            let text = format!("round {}", round % 10);
            let target = format!("/{}", round % 3);
            one.ask(&format!("PUT {target} | \"{text}\""));
            // Several times, so that the cache has it before the next change.
            for _ in 0..3 {
                assert_eq!(one.get(&target).text(), text, "{backend}");
                assert_eq!(other.get(&target).text(), text, "{backend}");
            }
            // Sent together, so that both are received at once.
            one.send(format!(
                "PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nxGET {target} HTTP/1.1\r\nHost: a\r\n\r\n"
            ));
            assert_eq!(one.answer(false).status, 204);
            assert_eq!(one.answer(false).text(), "x", "{backend}");
        }
    }
}

#[test]
fn passwords_are_needed_for_every_change() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "old").unwrap();
    let mut users = tempfile::NamedTempFile::new().unwrap();
    // "open sesame"
    let hash = bcrypt::hash("open sesame", 4).unwrap();
    writeln!(users, "ann:{hash}").unwrap();
    let server = lazy(dir.path(), |options| {
        options.site.uploads.who = Some(Uploaders::Users);
        options.site.auth = Auth {
            users: Some(users.path().to_owned()),
            paths: vec!["/private/**".to_owned()],
            ..Auth::default()
        };
    });
    // The connection stays.
    server.connect().answers(
        r#"
        GET /a => 200
        PUT /a => 401 | WWW-Authenticate: *
        GET /a => "old"
        DELETE /a => 401 | WWW-Authenticate: *
        GET /a => "old"
        MKCOL /a => 401 | WWW-Authenticate: *
        GET /a => "old"
        # It is ann:open sesame.
        PUT /a | "new" | Authorization: Basic YW5uOm9wZW4gc2VzYW1l => 204
        GET /a => "new"
        PUT /a | "no" | Authorization: Basic YW5uOm9wZW4= => 401
        "#,
    );
}

#[test]
fn without_the_option_files_are_only_read() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "old").unwrap();
    let server = Running::start(dir.path());
    server.answers(
        "
        PUT /a => 405
        DELETE /a => 405
        MKCOL /a => 501
        OPTIONS /a => Allow: GET, HEAD, OPTIONS
        ",
    );
    let server = serve(dir.path(), BackendKind::Lazy);
    server.answers("OPTIONS /a => Allow: GET, HEAD, OPTIONS, PUT, DELETE, MKCOL");
}

#[test]
fn options_that_contradict() {
    let dir = TempDir::new().unwrap();
    let mut users = tempfile::NamedTempFile::new().unwrap();
    writeln!(users, "ann:{}", bcrypt::hash("open sesame", 4).unwrap()).unwrap();
    Running::refuses(dir.path(), "needs --auth", |options| {
        options.site.uploads.who = Some(Uploaders::Users);
    });
    for (file, part) in [
        (Path::new("/dev/null"), "/dev/null"),
        (users.path(), "cannot be combined with --auth"),
    ] {
        Running::refuses(dir.path(), part, |options| {
            options.site.uploads.who = Some(Uploaders::Anyone);
            options.site.auth.users = Some(file.to_owned());
        });
    }
    Running::refuses(dir.path(), "--php", |options| {
        options.site.uploads.who = Some(Uploaders::Anyone);
        options.site.upstreams.php = Some("127.0.0.1:9000".parse().unwrap());
    });
}

#[test]
fn modes_and_times() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("a");
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let server = lazy(dir.path(), |options| {
        options.site.uploads.sync = UploadSync::Directory;
    });
    server.answers(r#"PUT /a | X-OC-Mtime: 1000000000 | "new" => 204"#);
    let status = fs::metadata(&file).unwrap();
    assert_eq!(status.permissions().mode() & 0o777, 0o640);
    let expected = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    assert_eq!(status.modified().unwrap(), expected);
}

#[test]
fn an_explanation_changes_nothing() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "old").unwrap();
    let mut options = Options::default();
    options.site.root = Some(dir.path().to_owned());
    open(&mut options);
    options.site.uploads.webdav = true;
    for method in ["DELETE", "PUT", "LOCK", "MOVE"] {
        let question = laio_serve::Question::new("http://localhost/a").unwrap();
        let question = question.method(method).unwrap();
        let explained = laio_serve::explain(&options, &question).unwrap();
        assert!(explained.answer.is_none(), "{method}");
        let last = explained.steps.last().unwrap();
        assert_eq!(last.kind, "change", "{method}");
        assert_eq!(fs::read(dir.path().join("a")).unwrap(), b"old", "{method}");
    }
}

#[test]
fn free_space_is_kept() {
    let dir = TempDir::new().unwrap();
    let server = lazy(dir.path(), |options| {
        options.site.uploads.keep_free = u64::MAX;
    });
    server.answers(r#"PUT /a | "x" => 507"#);
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn in_the_sandbox() {
    // With helpers seccomp sees the calls, with a ring Landlock alone does.
    for backend in [BackendKind::Lazy, BackendKind::Hybrid, BackendKind::Sync] {
        let dir = TempDir::new().unwrap();
        let server = Running::on(backend, dir.path(), |options| {
            open(options);
            options.site.uploads.sync = UploadSync::Directory;
            options.safety.landlock = Sandbox::Auto;
            options.safety.seccomp = Sandbox::Auto;
        });
        server.connect().answers(
            r#"
            MKCOL /d => 201
            PUT /d/a | "x" => 201
            PUT /d/a | "y" | X-OC-Mtime: 1000000000 => 204
            GET /d/a => "y"
            DELETE /d/a => 204
            DELETE /d => 204
            "#,
        );
    }
}

/// A FUSE file system has no unnamed files, so these uploads have temporary names.
#[test]
fn a_disk_that_fails_changes_nothing() {
    let Some(disk) = or_skip(FaultFs::mount()) else {
        return;
    };
    let server = serve(disk.path(), BackendKind::Lazy);
    disk.add_file("a", b"old");
    assert_eq!(put(&mut server.connect(), "/b", "", long()).status, 201);
    let has_both = || names(disk.path()) == ["a", "b"];
    for (kind, errno, expected) in [
        (Kind::Create, libc::EACCES, 403),
        (Kind::Write, libc::ENOSPC, 507),
        (Kind::Write, libc::EDQUOT, 507),
        (Kind::Fsync, libc::EIO, 500),
        (Kind::Rename, libc::EROFS, 403),
    ] {
        disk.set(kind, Fault::Fail(errno));
        let answer = server.ask(r#"PUT /a | "new""#);
        assert_eq!(answer.status, expected, "{kind:?}");
        disk.clear_all();
        until("the temporary file is removed", has_both);
        assert_eq!(disk.contents("a").unwrap(), b"old", "{kind:?}");
    }
    server.answers(r#"PUT /a | "new" => 204"#);
    assert_eq!(disk.contents("a").unwrap(), b"new");
    // The client goes away in the middle.
    let mut client = server.connect();
    client.send("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n");
    client.send(&long()[..500_000]);
    until("the upload begins", || names(disk.path()).len() == 3);
    drop(client);
    until("the temporary file is removed", has_both);
    server.answers("DELETE /b => 204");
}

#[test]
fn a_disk_that_hangs_delays_its_upload_only() {
    let Some(disk) = or_skip(FaultFs::mount()) else {
        return;
    };
    let fast = TempDir::new().unwrap();
    fs::write(fast.path().join("fast.txt"), "at once").unwrap();
    for backend in asynchronous_backends() {
        let server = Running::on(backend, disk.path(), |options| {
            open(options);
            options.workers = Some(1);
            let (names, root) = (vec!["fast".to_owned()], Some(fast.path().to_owned()));
            let site = Site {
                root,
                ..Site::default()
            };
            options.hosts.push(Host { names, site });
        });
        for kind in [Kind::Create, Kind::Write, Kind::Fsync, Kind::Rename] {
            let mut waiting = server.connect();
            disk.set(kind, Fault::Hang);
            waiting.send("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
            assert!(disk.wait_hung(1, LONG), "{backend}: {kind:?}");
            let mut client = server.connect();
            for _ in 0..100 {
                client.answers(r#"GET /fast.txt | Host: fast => "at once""#);
            }
            disk.clear_all();
            disk.release(Released::Served);
            let answer = waiting.answer(false);
            assert!(matches!(answer.status, 201 | 204), "{backend}: {kind:?}");
        }
        assert_eq!(names(disk.path()), ["a"]);
    }
}

#[test]
fn stale_temporary_files_are_removed_at_the_start() {
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("d/e")).unwrap();
    let week_ago = SystemTime::now() - Duration::from_secs(7 * 24 * 3600);
    for name in [
        "d/e/.laio-upload-0123456789abcdef",
        "d/.laio-upload",
        "d/file",
    ] {
        fs::write(root.join(name), "x").unwrap();
        let file = fs::File::options().append(true).open(root.join(name));
        file.unwrap().set_modified(week_ago).unwrap();
    }
    fs::write(root.join("d/.laio-upload-1"), "of a running server").unwrap();
    let _server = serve(root, BackendKind::Lazy);
    let is_empty = || names(&root.join("d/e")).is_empty();
    until("the stale file is removed", is_empty);
    let kept = [".laio-upload", ".laio-upload-1", "e", "file"];
    assert_eq!(names(&root.join("d")), kept);
}

#[test]
fn more_changes_than_the_limit_are_refused() {
    let dir = TempDir::new().unwrap();
    let server = lazy(dir.path(), |options| {
        options.workers = Some(1);
        options.limits.changes = 1;
    });
    let mut first = server.connect();
    first.answers("PUT /a | Expect: 100-continue | Content-Length: 3 => 100");
    server.answers(r#"PUT /b | "x" => 503 | Retry-After: 1"#);
    first.send("abc");
    first.answer(false).is("201");
    server.answers(r#"PUT /b | "x" => 201"#);
}

#[test]
fn a_body_that_the_method_does_not_have() {
    let dir = TempDir::new().unwrap();
    let server = serve(dir.path(), BackendKind::Lazy);
    let mut client = server.connect();
    client.answers(r#"MKCOL /d | "abc" => 415"#);
    assert_eq!(names(dir.path()), [""; 0]);
    client.answers(r#""MKCOL /d HTTP/1.0\r\n\r\n" => 201"#);
    assert_eq!(client.0.read_to_end(&mut Vec::new()).unwrap(), 0);
}

/// Sends a request until the server has counted its files.
fn counted(server: &Running, request: &str) -> u16 {
    let mut status = 503;
    until("the files are counted", || {
        status = server.ask(request).status;
        status != 503
    });
    status
}

#[test]
fn the_bytes_of_all_files_have_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/old.txt"), [b'x'; 400]).unwrap();
    let server = Running::with(dir.path(), |options| {
        open(options);
        options.site.uploads.webdav = true;
        options.site.uploads.quota = Some(1000);
    });
    let [y100, y101, y500, y601] = [100, 101, 500, 601].map(|length| "y".repeat(length));
    assert_eq!(counted(&server, &format!("PUT /a.txt | \"{y601}\"")), 507);
    server.answers(&format!(
        r#"
        PUT /a.txt | "{y500}" => 201
        # A file that replaces another needs room for both.
        PUT /a.txt | "{y101}" => 507
        PUT /a.txt | "{y100}" => 204
        PUT /b.txt | "{y500}" => 201
        PUT /c.txt | "z" => 507 | has <D:quota-not-exceeded>
        # A chunked body has no length in advance.
        "PUT /c.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nz\r\n0\r\n\r\n" => 507
        COPY /a.txt | Destination: /c.txt => 507
        COPY /sub | Destination: /other => 507
        "#
    ));
    assert!(!dir.path().join("other").exists());
    server.answers(&format!(
        r#"
        # A move needs no room, and what it replaces is free again.
        MOVE /b.txt | Destination: /a.txt => 204
        COPY /a.txt | Destination: /c.txt => 507
        DELETE /sub => 204
        COPY /a.txt | Destination: /c.txt => 201
        PUT /d.txt | "y" => 507
        DELETE /c.txt => 204
        PUT /d.txt | "{y500}" => 201
        "#
    ));
}

#[test]
fn the_number_of_files_has_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("old.txt"), "x").unwrap();
    let observer = Observer::new(false);
    let server = lazy(dir.path(), |options| {
        options.observer = observer.clone();
        options.site.uploads.files = Some(3);
        options.site.uploads.webdav = true;
    });
    assert_eq!(counted(&server, "MKCOL /sub"), 201);
    server.answers(
        r#"
        PUT /sub/a | "a" => 201
        PUT /sub/b | "b" => 507
        MKCOL /sub2 => 507
        COPY /sub | Destination: /sub2 => 507
        DELETE /sub => 204
        MKCOL /sub2 => 201
        DELETE /sub2 => 204
        PUT /a | "a" => 201
        PUT /b | "b" => 201
        PUT /c | "c" => 507
        "#,
    );
    let [used] = &observer.seen().used_quotas[..] else {
        panic!("not one quota");
    };
    let counts = (used.bytes, used.files);
    assert_eq!((&*used.directory, counts), (dir.path(), (3, 3)));
}

#[test]
fn uploads_at_the_same_time_do_not_exceed_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let server = lazy(dir.path(), |options| {
        options.site.uploads.quota = Some(10_000);
    });
    counted(&server, r#"PUT /first | "x""#);
    let server = &server;
    let stored: usize = std::thread::scope(|scope| {
        let uploads = (0..16).map(|number| {
            scope.spawn(move || {
                let name = format!("/{number}");
                let answer = put(&mut server.connect(), &name, "", [b'x'; 1000]);
                assert!(matches!(answer.status, 201 | 507), "{}", answer.head);
                let is_refused = answer.status == 507;
                assert_eq!(answer.text().contains("reached the limit"), is_refused);
                usize::from(answer.status == 201)
            })
        });
        let uploads: Vec<_> = uploads.collect();
        uploads.into_iter().map(|it| it.join().unwrap()).sum()
    });
    assert_eq!(stored, 9);
    // A client that goes away gives back what it has not sent.
    let mut client = server.connect();
    client.send("PUT /gone HTTP/1.1\r\nHost: test\r\nContent-Length: 900\r\n\r\nsome");
    drop(client);
    until("the room is free again", || {
        put(&mut server.connect(), "/last", "", [b'x'; 999]).status == 201
    });
}
