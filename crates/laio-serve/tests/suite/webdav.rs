//! WebDAV over connections: listing, copying, moving, locking.

use crate::common::{Client, Response, Running, asynchronous_backends};
use laio::BackendKind;
use laio_serve::{Options, Sandbox, Uploaders};
use laio_testing::fault_fs::{Fault, Kind};
use laio_testing::{FaultFs, or_skip};
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

fn open(options: &mut Options) {
    options.site.uploads.who = Some(Uploaders::Anyone);
    options.site.uploads.keep_free = 0;
    options.site.uploads.webdav = true;
}

fn serve(root: &Path, backend: BackendKind) -> Running {
    Running::on(backend, root, open)
}

fn lazy(root: &Path) -> Running {
    serve(root, BackendKind::Lazy)
}

fn site() -> TempDir {
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("d/e")).unwrap();
    fs::write(root.join("d/a &.txt"), "text").unwrap();
    fs::write(root.join("d/e/deep"), "deep").unwrap();
    fs::write(root.join("d/.hidden"), "secret").unwrap();
    symlink("a &.txt", root.join("d/link")).unwrap();
    symlink("/etc/hostname", root.join("d/outside")).unwrap();
    symlink("..", root.join("d/up")).unwrap();
    dir
}

fn ask(client: &mut Client, method: &str, target: &str, fields: &str, body: &str) -> Response {
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n{fields}\r\n{body}",
        body.len()
    ));
    client.answer(false)
}

fn once(server: &Running, method: &str, target: &str, fields: &str) -> u16 {
    ask(&mut server.connect(), method, target, fields, "").status
}

fn to(destination: &str) -> String {
    format!("Destination: http://test{destination}\r\n")
}

/// The names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn listing() {
    let dir = site();
    let server = serve(dir.path(), BackendKind::Lazy);
    let mut client = server.connect();
    let listed = ask(&mut client, "PROPFIND", "/d/", "Depth: 1\r\n", "");
    assert_eq!(listed.status, 207);
    let kind = "application/xml; charset=utf-8";
    assert_eq!(listed.header("Content-Type"), Some(kind));
    let text = listed.text();
    for part in [
        "<D:href>/d/</D:href>",
        "<D:resourcetype><D:collection/></D:resourcetype>",
        "<D:href>/d/a%20&amp;.txt</D:href>",
        "<D:getcontentlength>4</D:getcontentlength>",
        "<D:getcontenttype>text/plain; charset=utf-8</D:getcontenttype>",
        "<D:displayname>a &amp;.txt</D:displayname>",
        "<D:href>/d/e/</D:href>",
        "<D:href>/d/link</D:href>",
        "<D:href>/d/up/</D:href>",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    for part in ["hidden", "outside", "deep"] {
        assert!(!text.contains(part), "{part}");
    }
    let itself = ask(&mut client, "PROPFIND", "/d", "Depth: 0\r\n", "");
    assert_eq!(itself.text().matches("<D:response>").count(), 1);
}

#[test]
fn some_properties() {
    let dir = site();
    let server = lazy(dir.path());
    let mut client = server.connect();
    let mut find = |target: &str, body: &str| {
        let answer = ask(&mut client, "PROPFIND", target, "Depth: 0\r\n", body);
        assert_eq!(answer.status, 207, "{body}");
        answer.text().to_owned()
    };
    let text = find(
        "/d/e/deep",
        "<x:propfind xmlns:x=\"DAV:\"><x:prop><x:getcontentlength/><x:quota-used-bytes/><y xmlns=\"urn:y\"/></x:prop></x:propfind>",
    );
    assert!(text.contains(
        "<D:prop><D:getcontentlength>4</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK"
    ));
    assert!(text.contains(
        "<D:prop><D:quota-used-bytes/><x:y xmlns:x=\"urn:y\"/></D:prop><D:status>HTTP/1.1 404"
    ));
    let text = find(
        "/d",
        "<propfind xmlns=\"DAV:\"><prop><quota-available-bytes/></prop></propfind>",
    );
    assert!(text.contains("<D:quota-available-bytes>"), "{text}");
    let text = find("/d", "<propfind xmlns=\"DAV:\"><propname/></propfind>");
    assert!(text.contains("<D:lockdiscovery/>") && !text.contains("getcontentlength"));
    let head = server.connect().request("HEAD", "/d/e/deep", "");
    let tag = head.header("ETag").unwrap().replace('"', "&quot;");
    let text = find(
        "/d/e/deep",
        "<propfind xmlns=\"DAV:\"><allprop/></propfind>",
    );
    assert!(
        text.contains(&format!("<D:getetag>{tag}</D:getetag>")),
        "{text}"
    );
}

#[test]
fn refused_listings() {
    let dir = site();
    let server = Running::with(dir.path(), |options| {
        open(options);
        options.limits.listing_entries = 3;
    });
    let find = |target: &str, fields: &str, body: &str| {
        ask(&mut server.connect(), "PROPFIND", target, fields, body)
    };
    for fields in ["", "Depth: infinity\r\n"] {
        let answer = find("/d", fields, "");
        assert_eq!(answer.status, 403);
        assert!(answer.text().contains("<D:propfind-finite-depth>"));
    }
    assert_eq!(find("/d", "Depth: 2\r\n", "").status, 400);
    assert_eq!(find("/no", "Depth: 0\r\n", "").status, 404);
    assert_eq!(find("/d/.hidden", "Depth: 0\r\n", "").status, 404);
    assert_eq!(find("/d/outside", "Depth: 0\r\n", "").status, 404);
    assert_eq!(
        find("/d", "Depth: 1\r\n", "").status,
        507,
        "a part could pass for the whole"
    );
    for bad in [
        "x",
        "<a/>",
        "<propfind xmlns=\"DAV:\"/>",
        "<!DOCTYPE a [<!ENTITY a \"b\">]><propfind xmlns=\"DAV:\"><allprop/></propfind>",
    ] {
        assert_eq!(find("/d", "Depth: 0\r\n", bad).status, 400, "{bad}");
    }
    let many = format!(
        "<propfind xmlns=\"DAV:\"><prop>{}</prop></propfind>",
        "<a/>".repeat(65)
    );
    assert_eq!(find("/d", "Depth: 0\r\n", &many).status, 413);
    let long = format!("<propfind xmlns=\"DAV:\">{}</propfind>", " ".repeat(70_000));
    let mut client = server.connect();
    client.send(format!(
        "PROPFIND /d HTTP/1.1\r\nHost: a\r\nDepth: 0\r\nContent-Length: {}\r\n\r\n",
        long.len()
    ));
    assert_eq!(client.answer(false).status, 413);
}

#[test]
fn without_uploads_a_site_is_listed_only() {
    let dir = site();
    let server = Running::with(dir.path(), |options| {
        options.site.uploads.webdav = true;
    });
    let asked = server.connect().request("OPTIONS", "/", "");
    asked.is("DAV: 1 | Allow: GET, HEAD, OPTIONS, PROPFIND");
    let listed = ask(&mut server.connect(), "PROPFIND", "/d/", "Depth: 1\r\n", "");
    assert_eq!(listed.status, 207);
    assert!(!listed.text().contains("lock"));
    assert_eq!(once(&server, "PUT", "/a", ""), 405);
    for method in ["MKCOL", "COPY", "MOVE", "LOCK", "PROPPATCH"] {
        assert_eq!(once(&server, method, "/d", &to("/x")), 501, "{method}");
    }
    let server = lazy(dir.path());
    let asked = server.connect().request("OPTIONS", "/", "");
    assert_eq!(asked.header("DAV"), Some("1, 2"));
}

#[test]
fn copies() {
    for backend in asynchronous_backends() {
        let dir = site();
        let root = dir.path();
        let server = serve(root, backend);
        let file = "/d/a%20&.txt";
        assert_eq!(once(&server, "COPY", file, &to("/b.txt")), 201, "{backend}");
        assert_eq!(fs::read(root.join("b.txt")).unwrap(), b"text");
        assert_eq!(once(&server, "COPY", "/d/e/deep", &to("/b.txt")), 204);
        assert_eq!(fs::read(root.join("b.txt")).unwrap(), b"deep");
        let no = format!("{}Overwrite: F\r\n", to("/b.txt"));
        assert_eq!(once(&server, "COPY", file, &no), 412);
        // What is not served is not copied, nor are links to directories.
        assert_eq!(once(&server, "COPY", "/d", &to("/c")), 201);
        assert_eq!(
            names(&root.join("c")),
            ["a &.txt", "e", "link"],
            "{backend}"
        );
        assert_eq!(fs::read(root.join("c/e/deep")).unwrap(), b"deep");
        assert!(fs::symlink_metadata(root.join("c/link")).unwrap().is_file());
        fs::write(root.join("c/old"), "").unwrap();
        assert_eq!(once(&server, "COPY", "/d", &to("/c/")), 204);
        assert_eq!(names(&root.join("c")), ["a &.txt", "e", "link"], "replaced");
        let flat = format!("{}Depth: 0\r\n", to("/flat"));
        assert_eq!(once(&server, "COPY", "/d", &flat), 201);
        assert_eq!(names(&root.join("flat")), [""; 0]);
        assert_eq!(
            once(&server, "COPY", "/b.txt", &to("/flat")),
            204,
            "a file over a directory"
        );
        assert_eq!(fs::read(root.join("flat")).unwrap(), b"deep");
        assert_eq!(
            once(&server, "COPY", "/d", &to("/b.txt")),
            204,
            "and the other way"
        );
        assert_eq!(names(&root.join("b.txt")), ["a &.txt", "e", "link"]);
        assert_eq!(names(root), ["b.txt", "c", "d", "flat"], "{backend}");
    }
}

#[test]
fn moves() {
    let dir = site();
    let root = dir.path();
    let server = serve(root, BackendKind::Lazy);
    assert_eq!(once(&server, "MOVE", "/d", &to("/m")), 201);
    assert!(root.join("m/.hidden").exists(), "all of it");
    assert_eq!(once(&server, "MOVE", "/m/e/deep", &to("/deep")), 201);
    assert_eq!(once(&server, "MOVE", "/deep", &to("/m/a%20&.txt")), 204);
    assert_eq!(fs::read(root.join("m/a &.txt")).unwrap(), b"deep");
    fs::create_dir(root.join("n")).unwrap();
    fs::write(root.join("n/old"), "").unwrap();
    let no = format!("{}Overwrite: F\r\n", to("/n"));
    assert_eq!(once(&server, "MOVE", "/m", &no), 412);
    assert_eq!(once(&server, "MOVE", "/m", &to("/n")), 204);
    assert!(!root.join("n/old").exists());
    assert_eq!(names(root), ["n"]);
    let flat = format!("{}Depth: 0\r\n", to("/x"));
    assert_eq!(once(&server, "MOVE", "/n", &flat), 400);
}

#[test]
fn refused_destinations() {
    let dir = site();
    let server = lazy(dir.path());
    for (destination, status) in [
        ("http://other/x", 502),
        ("ftp://test/x", 502),
        ("http://test/no/x", 409),
        ("http://test/.hidden", 403),
        ("http://test/.laio-upload-0", 403),
        ("http://test/../x", 400),
        ("http://test/d", 403),
        ("http://test/d/e/x", 403),
        ("http://test/", 403),
        ("http://test/x?y", 400),
        ("x", 400),
        ("http://test/d/up/x", 403),
    ] {
        let fields = format!("Destination: {destination}\r\n");
        assert_eq!(
            once(&server, "COPY", "/d", &fields),
            status,
            "{destination}"
        );
    }
    assert_eq!(once(&server, "COPY", "/d", ""), 400);
    assert_eq!(once(&server, "MOVE", "/", &to("/x")), 403);
    assert_eq!(once(&server, "MOVE", "/no", &to("/x")), 404);
    assert_eq!(once(&server, "COPY", "/d/outside", &to("/y")), 404);
    assert_eq!(names(dir.path()), ["d"]);
}

#[test]
fn a_directory_is_deleted_with_what_is_in_it() {
    let dir = site();
    let server = serve(dir.path(), BackendKind::Lazy);
    assert_eq!(once(&server, "DELETE", "/d", ""), 204);
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_delete_tells_what_it_could_not_delete() {
    let Some(disk) = or_skip(FaultFs::mount()) else {
        return;
    };
    disk.add_dir("d");
    disk.add_dir("d/e");
    disk.add_file("d/e/one", b"1");
    disk.add_file("d/two", b"2");
    let server = lazy(disk.path());
    disk.set_at("d/e/one", Kind::Unlink, Fault::Fail(libc::EACCES));
    let answer = ask(&mut server.connect(), "DELETE", "/d", "", "");
    assert_eq!(answer.status, 207);
    assert!(
        answer
            .text()
            .contains("<D:href>/d/e/one</D:href><D:status>HTTP/1.1 403")
    );
    assert_eq!(answer.text().matches("<D:response>").count(), 1);
    assert_eq!(names(&disk.path().join("d")), ["e"]);
}

/// A FUSE file system can neither exchange names nor share blocks.
#[test]
fn on_a_file_system_without_special_calls() {
    let Some(disk) = or_skip(FaultFs::mount()) else {
        return;
    };
    disk.add_dir("d");
    disk.add_file("d/a", b"text");
    let server = lazy(disk.path());
    assert_eq!(once(&server, "COPY", "/d", &to("/c")), 201);
    disk.add_file("c/old", b"");
    assert_eq!(once(&server, "COPY", "/d", &to("/c")), 204);
    assert_eq!(names(&disk.path().join("c")), ["a"]);
    assert_eq!(once(&server, "MOVE", "/d", &to("/c")), 204);
    assert_eq!(names(disk.path()), ["c"]);
    assert_eq!(disk.contents("c/a").unwrap(), b"text");
    // A copy that fails leaves nothing.
    disk.set(Kind::Write, Fault::Fail(libc::ENOSPC));
    assert_eq!(once(&server, "COPY", "/c", &to("/x")), 507);
    disk.clear_all();
    crate::common::until("the copy is removed", || names(disk.path()) == ["c"]);
}

#[test]
fn writes_that_stop_short_go_on() {
    let Some(disk) = or_skip(FaultFs::mount()) else {
        return;
    };
    let text = "0123456789".repeat(10_000);
    disk.add_dir("d");
    disk.add_file("d/a", text.as_bytes());
    let server = lazy(disk.path());
    disk.set(Kind::Write, Fault::Short(4099));
    assert_eq!(once(&server, "COPY", "/d", &to("/c")), 201);
    assert!(disk.contents("c/a").unwrap() == text.as_bytes());
    let answer = ask(&mut server.connect(), "PUT", "/put", "", &text);
    assert_eq!(answer.status, 201);
    assert!(disk.contents("put").unwrap() == text.as_bytes());
}

/// What a copy leaves out would be lost when the source is removed.
#[test]
fn a_move_to_another_file_system_loses_nothing() {
    let Some(disk) = or_skip(FaultFs::mount()) else {
        return;
    };
    disk.add_dir("d");
    disk.add_file("d/a", b"text");
    disk.add_file("d/.hidden", b"secret");
    let server = lazy(disk.path());
    let is_refused = |text: &str| {
        disk.next(Kind::Rename, Fault::Fail(libc::EXDEV));
        let answer = ask(&mut server.connect(), "MOVE", "/d", &to("/e"), "");
        assert_eq!(answer.status, 403, "{text}");
        assert!(answer.text().contains("another file system"), "{text}");
        crate::common::until("the copy is removed", || names(disk.path()) == ["d"]);
    };
    is_refused("a hidden name");
    assert_eq!(disk.contents("d/.hidden").unwrap(), b"secret");
    fs::remove_file(disk.join("d/.hidden")).unwrap();
    symlink("/etc/hostname", disk.join("d/outside")).unwrap();
    is_refused("a link that is not followed");
    fs::remove_file(disk.join("d/outside")).unwrap();
    disk.next(Kind::Rename, Fault::Fail(libc::EXDEV));
    assert_eq!(once(&server, "MOVE", "/d", &to("/e")), 201);
    assert_eq!(names(disk.path()), ["e"]);
    assert_eq!(disk.contents("e/a").unwrap(), b"text");
}

const LOCK: &str = "<D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope>\
                    <D:locktype><D:write/></D:locktype><D:owner><D:href>ann &amp; co</D:href></D:owner></D:lockinfo>";

fn token(answer: &Response) -> String {
    answer.header("Lock-Token").unwrap().to_owned()
}

#[test]
fn locks() {
    let dir = site();
    let server = lazy(dir.path());
    // Other connections may be served by another worker.
    let ask = |method: &str, target: &str, fields: &str, body: &str| {
        ask(&mut server.connect(), method, target, fields, body)
    };
    let locked = ask(
        "LOCK",
        "/d/e/deep",
        "Timeout: Second-100, Infinite\r\n",
        LOCK,
    );
    assert_eq!(locked.status, 200);
    assert!(locked.text().contains("<D:timeout>Second-100</D:timeout>"));
    assert!(
        locked
            .text()
            .contains("<D:owner><D:href>ann &amp; co</D:href></D:owner>")
    );
    let own = format!("If: ({})\r\n", token(&locked));
    for (method, fields) in [("PUT", ""), ("DELETE", ""), ("PROPPATCH", "")] {
        let refused = ask(method, "/d/e/deep", fields, "");
        assert_eq!(refused.status, 423, "{method}");
        assert!(
            refused
                .text()
                .contains("<D:lock-token-submitted><D:href>/d/e/deep</D:href>")
        );
    }
    assert_eq!(ask("DELETE", "/d", "", "").status, 423, "it is in it");
    assert_eq!(ask("MOVE", "/d", &to("/x"), "").status, 423);
    assert_eq!(ask("COPY", "/d/link", &to("/d/e/deep"), "").status, 423);
    assert_eq!(ask("LOCK", "/d", "", LOCK).status, 423);
    assert_eq!(ask("COPY", "/d/e/deep", &to("/free"), "").status, 201);
    let wrong = "If: (<urn:uuid:0>)\r\n";
    assert_eq!(ask("PUT", "/d/e/deep", wrong, "").status, 412);
    let not = "If: (Not <urn:uuid:0>)\r\n";
    assert_eq!(ask("PUT", "/d/e/deep", not, "").status, 423);
    assert_eq!(ask("PUT", "/d/e/deep", &own, "new").status, 204);
    let listed = ask("PROPFIND", "/d/e/deep", "Depth: 0\r\n", "");
    assert!(listed.text().contains("<D:activelock>"));
    let refreshed = ask("LOCK", "/d/e/deep", &own, "");
    refreshed.is("200 | Lock-Token: -");
    let field = |token: &str| format!("Lock-Token: {token}\r\n");
    assert_eq!(
        ask("UNLOCK", "/d/e/deep", &field("<urn:uuid:0>"), "").status,
        409
    );
    assert_eq!(ask("UNLOCK", "/d/e/deep", "", "").status, 400);
    let token = token(&locked);
    assert_eq!(ask("UNLOCK", "/d/e/deep", &field(&token), "").status, 204);
    assert_eq!(ask("DELETE", "/d/e/deep", "", "").status, 204);
}

#[test]
fn a_lock_of_a_new_name_creates_an_empty_file() {
    let dir = site();
    let server = lazy(dir.path());
    let mut client = server.connect();
    let locked = ask(&mut client, "LOCK", "/new", "", LOCK);
    assert_eq!(locked.status, 201);
    assert_eq!(fs::read(dir.path().join("new")).unwrap(), b"");
    assert_eq!(ask(&mut client, "LOCK", "/no/new", "", LOCK).status, 409);
    assert_eq!(ask(&mut client, "LOCK", "/new", "", LOCK).status, 423);
    assert_eq!(ask(&mut client, "LOCK", "/x", "", "<a/>").status, 400);
    let own = format!("If: ({})\r\n", token(&locked));
    assert_eq!(ask(&mut client, "DELETE", "/new", &own, "").status, 204);
    assert_eq!(
        ask(&mut client, "LOCK", "/new", "", LOCK).status,
        201,
        "it ended with its file"
    );
}

#[test]
fn a_lock_of_a_directory_covers_new_names() {
    let dir = site();
    let server = lazy(dir.path());
    let mut client = server.connect();
    let locked = ask(&mut client, "LOCK", "/d", "Depth: infinity\r\n", LOCK);
    assert_eq!(ask(&mut client, "PUT", "/d/e/new", "", "x").status, 423);
    assert_eq!(ask(&mut client, "MKCOL", "/d/new", "", "").status, 423);
    assert_eq!(
        ask(&mut client, "MOVE", "/d/e/deep", &to("/x"), "").status,
        423
    );
    let own = format!("If: <http://test/d> ({})\r\n", token(&locked));
    assert_eq!(ask(&mut client, "PUT", "/d/e/new", &own, "x").status, 201);
    let unlock = format!("Lock-Token: {}\r\n", token(&locked));
    assert_eq!(ask(&mut client, "UNLOCK", "/d", &unlock, "").status, 204);
    // Of depth 0: the directory's names, not the contents of its files.
    let locked = ask(&mut client, "LOCK", "/d", "Depth: 0\r\n", LOCK);
    assert_eq!(locked.status, 200);
    assert_eq!(ask(&mut client, "PUT", "/d/newer", "", "x").status, 423);
    assert_eq!(ask(&mut client, "DELETE", "/d/e", "", "").status, 423);
    assert_eq!(ask(&mut client, "PUT", "/d/e/deep", "", "x").status, 204);
}

#[test]
fn properties_that_are_set() {
    let dir = site();
    let server = lazy(dir.path());
    let patch = |set: &str| {
        let body = format!(
            "<propertyupdate xmlns=\"DAV:\" xmlns:Z=\"urn:schemas-microsoft-com:\"><set><prop>{set}</prop></set></propertyupdate>"
        );
        ask(&mut server.connect(), "PROPPATCH", "/d/e/deep", "", &body)
    };
    let time = "<Z:Win32LastModifiedTime>Sun, 06 Nov 1994 08:49:37 GMT</Z:Win32LastModifiedTime>";
    let refused = patch(&format!("{time}<author>ann</author>"));
    assert_eq!(refused.status, 207);
    assert!(
        refused
            .text()
            .contains("<D:author/></D:prop><D:status>HTTP/1.1 403")
    );
    assert!(refused.text().contains("HTTP/1.1 424"));
    let file = dir.path().join("d/e/deep");
    let modified = || fs::metadata(&file).unwrap().modified().unwrap();
    let expected = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    assert_ne!(modified(), expected, "all or none");
    let set = patch(&format!(
        "{time}<Z:Win32FileAttributes>0</Z:Win32FileAttributes>"
    ));
    assert!(set.text().contains("HTTP/1.1 200") && !set.text().contains("HTTP/1.1 4"));
    assert_eq!(modified(), expected);
}

#[test]
fn in_the_sandbox() {
    for backend in [BackendKind::Lazy, BackendKind::Hybrid, BackendKind::Sync] {
        let dir = site();
        let server = Running::on(backend, dir.path(), |options| {
            open(options);
            options.safety.landlock = Sandbox::Auto;
            options.safety.seccomp = Sandbox::Auto;
        });
        assert_eq!(once(&server, "COPY", "/d", &to("/c")), 201, "{backend}");
        assert_eq!(once(&server, "MOVE", "/c", &to("/d/e/c")), 201, "{backend}");
        assert_eq!(once(&server, "COPY", "/d/e", &to("/d/e2")), 201);
        assert_eq!(
            once(&server, "MOVE", "/d/e2", &to("/d/e")),
            204,
            "{backend}"
        );
        assert_eq!(once(&server, "DELETE", "/d", ""), 204, "{backend}");
    }
}

#[test]
fn http_1_0() {
    let dir = site();
    let server = lazy(dir.path());
    let mut client = server.connect();
    client.send("PROPFIND /d HTTP/1.0\r\nDepth: 0\r\n\r\n");
    assert_eq!(client.answer(false).status, 207);
    let mut rest = Vec::new();
    client.0.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn destinations_with_the_default_port_are_on_this_server() {
    for (own, destination, status) in [
        ("dav.example", "http://dav.example:80/moved", 201),
        ("dav.example:80", "http://dav.example/moved", 201),
        ("dav.example", "HTTP://DAV.example/moved", 201),
        ("dav.example", "https://dav.example:443/moved", 201),
        ("dav.example:8080", "http://dav.example:8080/moved", 201),
        ("dav.example", "/moved", 201),
        ("dav.example", "/a://moved", 409),
        ("dav.example", "http://dav.example:8080/moved", 502),
        ("dav.example", "http://dav.example:443/moved", 502),
        ("dav.example", "http://other.example/moved", 502),
    ] {
        let dir = site();
        let server = lazy(dir.path());
        let mut client = server.connect();
        client.send(format!(
            "MOVE /d/e/deep HTTP/1.1\r\nHost: {own}\r\nDestination: {destination}\r\nContent-Length: 0\r\n\r\n"
        ));
        assert_eq!(client.answer(false).status, status, "{own} {destination}");
        assert_eq!(dir.path().join("moved").exists(), status == 201);
        assert_eq!(dir.path().join("d/e/deep").exists(), status != 201);
    }
}
