//! WebDAV over connections: listing, copying, moving, locking.

use crate::common::{Response, Running, asynchronous_backends};
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

/// The names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string());
    let mut names = names.collect::<Result<Vec<_>, _>>().unwrap();
    names.sort();
    names
}

#[test]
fn listing() {
    let dir = site();
    let server = serve(dir.path(), BackendKind::Lazy);
    let listed = server.ask("PROPFIND /d/ | Depth: 1");
    listed.is("207 | Content-Type: application/xml; charset=utf-8");
    listed.is("lacks hidden | lacks outside | lacks deep");
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
        listed.is(&format!("has {part}"));
    }
    let itself = server.ask("PROPFIND /d | Depth: 0");
    assert_eq!(itself.text().matches("<D:response>").count(), 1);
}

#[test]
fn some_properties() {
    let dir = site();
    let server = lazy(dir.path());
    let tag = server
        .ask("HEAD /d/e/deep")
        .header("ETag")
        .unwrap()
        .replace('"', "&quot;");
    let wanted = r#"<x:getcontentlength/><x:quota-used-bytes/><y xmlns="urn:y"/>"#;
    let some = format!(r#""<x:propfind xmlns:x="DAV:"><x:prop>{wanted}</x:prop></x:propfind>""#);
    let known = "<D:getcontentlength>4</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK";
    let others = r#"<D:quota-used-bytes/><x:y xmlns:x="urn:y"/></D:prop><D:status>HTTP/1.1 404"#;
    let find = |inner: &str| format!(r#""<propfind xmlns="DAV:">{inner}</propfind>""#);
    let [available, names, all] = [
        "<prop><quota-available-bytes/></prop>",
        "<propname/>",
        "<allprop/>",
    ]
    .map(find);
    server.connect().answers(&format!(
        r#"
        PROPFIND /d/e/deep | Depth: 0 | {some} => 207 | has <D:prop>{known} | has <D:prop>{others}
        PROPFIND /d | Depth: 0 | {available} => 207 | has <D:quota-available-bytes>
        PROPFIND /d | Depth: 0 | {names} => 207 | has <D:lockdiscovery/> | lacks getcontentlength
        PROPFIND /d/e/deep | Depth: 0 | {all} => 207 | has <D:getetag>{tag}</D:getetag>
        "#
    ));
}

#[test]
fn refused_listings() {
    let dir = site();
    let server = Running::with(dir.path(), |options| {
        open(options);
        options.limits.listing_entries = 3;
    });
    server.answers(
        r#"
        PROPFIND /d => 403 | has <D:propfind-finite-depth>
        PROPFIND /d | Depth: infinity => 403 | has <D:propfind-finite-depth>
        PROPFIND /d | Depth: 2 => 400
        PROPFIND /no | Depth: 0 => 404
        PROPFIND /d/.hidden | Depth: 0 => 404
        PROPFIND /d/outside | Depth: 0 => 404
        # A part could pass for the whole.
        PROPFIND /d | Depth: 1 => 507
        PROPFIND /d | Depth: 0 | "x" => 400
        PROPFIND /d | Depth: 0 | "<a/>" => 400
        PROPFIND /d | Depth: 0 | "<propfind xmlns="DAV:"/>" => 400
        "#,
    );
    let many = format!(
        "<propfind xmlns=\"DAV:\"><prop>{}</prop></propfind>",
        "<a/>".repeat(65)
    );
    let with_entity =
        r#"<!DOCTYPE a [<!ENTITY a "b">]><propfind xmlns="DAV:"><allprop/></propfind>"#;
    server.answers(&format!(
        r#"
        PROPFIND /d | Depth: 0 | "{with_entity}" => 400
        PROPFIND /d | Depth: 0 | "{many}" => 413
        "#
    ));
    let long = format!("<propfind xmlns=\"DAV:\">{}</propfind>", " ".repeat(70_000));
    let length = long.len();
    server.answers(&format!(
        "PROPFIND /d | Depth: 0 | Content-Length: {length} => 413"
    ));
}

#[test]
fn without_uploads_a_site_is_listed_only() {
    let dir = site();
    let server = Running::with(dir.path(), |options| {
        options.site.uploads.webdav = true;
    });
    server.answers("PROPFIND /d/ | Depth: 1 => 207 | lacks lock");
    server.answers(
        r#"
        OPTIONS / => DAV: 1 | Allow: GET, HEAD, OPTIONS, PROPFIND
        PUT /a | "" => 405
        MKCOL /d => 501
        COPY /d | Destination: /x => 501
        MOVE /d | Destination: /x => 501
        LOCK /d => 501
        PROPPATCH /d => 501
        "#,
    );
    lazy(dir.path()).answers("OPTIONS / => DAV: 1, 2");
}

#[test]
fn copies() {
    for backend in asynchronous_backends() {
        let dir = site();
        let root = dir.path();
        let server = serve(root, backend);
        server.answers("COPY /d/a%20&.txt | Destination: /b.txt => 201");
        assert_eq!(fs::read(root.join("b.txt")).unwrap(), b"text");
        server.answers(
            "
            COPY /d/e/deep | Destination: /b.txt => 204
            COPY /d/a%20&.txt | Destination: /b.txt | Overwrite: F => 412
            # What is not served is not copied, nor are links to directories.
            COPY /d | Destination: /c => 201
            ",
        );
        assert_eq!(fs::read(root.join("b.txt")).unwrap(), b"deep");
        let copied = ["a &.txt", "e", "link"];
        assert_eq!(names(&root.join("c")), copied, "{backend}");
        assert_eq!(fs::read(root.join("c/e/deep")).unwrap(), b"deep");
        assert!(fs::symlink_metadata(root.join("c/link")).unwrap().is_file());
        fs::write(root.join("c/old"), "").unwrap();
        server.answers(
            "
            COPY /d | Destination: /c/ => 204
            COPY /d | Destination: /flat | Depth: 0 => 201
            ",
        );
        assert_eq!(names(&root.join("c")), copied, "replaced");
        assert_eq!(names(&root.join("flat")), [""; 0]);
        server.answers(
            "
            # A file over a directory, and the other way.
            COPY /b.txt | Destination: /flat => 204
            COPY /d | Destination: /b.txt => 204
            ",
        );
        assert_eq!(fs::read(root.join("flat")).unwrap(), b"deep");
        assert_eq!(names(&root.join("b.txt")), copied);
        assert_eq!(names(root), ["b.txt", "c", "d", "flat"], "{backend}");
    }
}

#[test]
fn moves() {
    let dir = site();
    let root = dir.path();
    let server = serve(root, BackendKind::Lazy);
    server.answers("MOVE /d | Destination: /m => 201");
    assert!(root.join("m/.hidden").exists(), "all of it");
    server.answers(
        "
        MOVE /m/e/deep | Destination: /deep => 201
        MOVE /deep | Destination: /m/a%20&.txt => 204
        ",
    );
    assert_eq!(fs::read(root.join("m/a &.txt")).unwrap(), b"deep");
    fs::create_dir(root.join("n")).unwrap();
    fs::write(root.join("n/old"), "").unwrap();
    server.answers(
        "
        MOVE /m | Destination: /n | Overwrite: F => 412
        MOVE /m | Destination: /n => 204
        MOVE /n | Destination: /x | Depth: 0 => 400
        ",
    );
    assert!(!root.join("n/old").exists());
    assert_eq!(names(root), ["n"]);
}

#[test]
fn refused_destinations() {
    let dir = site();
    lazy(dir.path()).answers(
        "
        COPY /d | Destination: http://other/x => 502
        COPY /d | Destination: ftp://test/x => 502
        COPY /d | Destination: http://test/no/x => 409
        COPY /d | Destination: http://test/.hidden => 403
        COPY /d | Destination: http://test/.laio-upload-0 => 403
        COPY /d | Destination: http://test/../x => 400
        COPY /d | Destination: http://test/d => 403
        COPY /d | Destination: http://test/d/e/x => 403
        COPY /d | Destination: http://test/ => 403
        COPY /d | Destination: http://test/x?y => 400
        COPY /d | Destination: x => 400
        COPY /d | Destination: http://test/d/up/x => 403
        COPY /d => 400
        MOVE / | Destination: http://test/x => 403
        MOVE /no | Destination: http://test/x => 404
        COPY /d/outside | Destination: http://test/y => 404
        ",
    );
    assert_eq!(names(dir.path()), ["d"]);
}

#[test]
fn a_directory_is_deleted_with_what_is_in_it() {
    let dir = site();
    let server = serve(dir.path(), BackendKind::Lazy);
    server.answers("DELETE /d => 204");
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
    let answer = server.ask("DELETE /d");
    answer.is("207 | has <D:href>/d/e/one</D:href><D:status>HTTP/1.1 403");
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
    server.answers("COPY /d | Destination: http://test/c => 201");
    disk.add_file("c/old", b"");
    server.answers("COPY /d | Destination: http://test/c => 204");
    assert_eq!(names(&disk.path().join("c")), ["a"]);
    server.answers("MOVE /d | Destination: http://test/c => 204");
    assert_eq!(names(disk.path()), ["c"]);
    assert_eq!(disk.contents("c/a").unwrap(), b"text");
    // A copy that fails leaves nothing.
    disk.set(Kind::Write, Fault::Fail(libc::ENOSPC));
    server.answers("COPY /c | Destination: http://test/x => 507");
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
    server.answers("COPY /d | Destination: http://test/c => 201");
    assert!(disk.contents("c/a").unwrap() == text.as_bytes());
    server.answers(&format!("PUT /put | \"{text}\" => 201"));
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
        println!("{text}");
        server.answers("MOVE /d | Destination: http://test/e => 403 | has another file system");
        crate::common::until("the copy is removed", || names(disk.path()) == ["d"]);
    };
    is_refused("a hidden name");
    assert_eq!(disk.contents("d/.hidden").unwrap(), b"secret");
    fs::remove_file(disk.join("d/.hidden")).unwrap();
    symlink("/etc/hostname", disk.join("d/outside")).unwrap();
    is_refused("a link that is not followed");
    fs::remove_file(disk.join("d/outside")).unwrap();
    disk.next(Kind::Rename, Fault::Fail(libc::EXDEV));
    server.answers("MOVE /d | Destination: http://test/e => 201");
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
    let timeout = "Timeout: Second-100, Infinite";
    let locked = server.ask(&format!("LOCK /d/e/deep | {timeout} | \"{LOCK}\""));
    locked.is("200 | has <D:timeout>Second-100</D:timeout>");
    locked.is("has <D:owner><D:href>ann &amp; co</D:href></D:owner>");
    // Other connections may be served by another worker.
    let refused = "423 | has <D:lock-token-submitted><D:href>/d/e/deep</D:href>";
    server.answers(&format!(
        r#"
        PUT /d/e/deep | "" => {refused}
        DELETE /d/e/deep => {refused}
        PROPPATCH /d/e/deep => {refused}
        # It is in the directory.
        DELETE /d => 423
        MOVE /d | Destination: /x => 423
        COPY /d/link | Destination: /d/e/deep => 423
        LOCK /d | "{LOCK}" => 423
        COPY /d/e/deep | Destination: /free => 201
        PUT /d/e/deep | "" | If: (<urn:uuid:0>) => 412
        PUT /d/e/deep | "" | If: (Not <urn:uuid:0>) => 423
        PUT /d/e/deep | "new" | If: ({token}) => 204
        PROPFIND /d/e/deep | Depth: 0 => has <D:activelock>
        LOCK /d/e/deep | If: ({token}) => 200 | Lock-Token: -
        UNLOCK /d/e/deep | Lock-Token: <urn:uuid:0> => 409
        UNLOCK /d/e/deep => 400
        UNLOCK /d/e/deep | Lock-Token: {token} => 204
        DELETE /d/e/deep => 204
        "#,
        token = token(&locked)
    ));
}

#[test]
fn a_lock_of_a_new_name_creates_an_empty_file() {
    let dir = site();
    let server = lazy(dir.path());
    let locked = server.ask(&format!("LOCK /new | \"{LOCK}\""));
    locked.is("201");
    assert_eq!(fs::read(dir.path().join("new")).unwrap(), b"");
    server.answers(&format!(
        r#"
        LOCK /no/new | "{LOCK}" => 409
        LOCK /new | "{LOCK}" => 423
        LOCK /x | "<a/>" => 400
        DELETE /new | If: ({}) => 204
        # It ended with its file.
        LOCK /new | "{LOCK}" => 201
        "#,
        token(&locked)
    ));
}

#[test]
fn a_lock_of_a_directory_covers_new_names() {
    let dir = site();
    let server = lazy(dir.path());
    let locked = server.ask(&format!("LOCK /d | Depth: infinity | \"{LOCK}\""));
    server.answers(&format!(
        r#"
        PUT /d/e/new | "x" => 423
        MKCOL /d/new => 423
        MOVE /d/e/deep | Destination: /x => 423
        PUT /d/e/new | "x" | If: <http://test/d> ({token}) => 201
        UNLOCK /d | Lock-Token: {token} => 204
        # Of depth 0: the directory's names, not the contents of its files.
        LOCK /d | Depth: 0 | "{LOCK}" => 200
        PUT /d/newer | "x" => 423
        DELETE /d/e => 423
        PUT /d/e/deep | "x" => 204
        "#,
        token = token(&locked)
    ));
}

#[test]
fn properties_that_are_set() {
    let dir = site();
    let server = lazy(dir.path());
    let patch = |set: &str| {
        let spaces = r#"xmlns="DAV:" xmlns:Z="urn:schemas-microsoft-com:""#;
        let set =
            format!("<propertyupdate {spaces}><set><prop>{set}</prop></set></propertyupdate>");
        server.ask(&format!("PROPPATCH /d/e/deep | \"{set}\""))
    };
    let time = "<Z:Win32LastModifiedTime>Sun, 06 Nov 1994 08:49:37 GMT</Z:Win32LastModifiedTime>";
    let refused = patch(&format!("{time}<author>ann</author>"));
    refused.is("207 | has <D:author/></D:prop><D:status>HTTP/1.1 403 | has HTTP/1.1 424");
    let file = dir.path().join("d/e/deep");
    let modified = || fs::metadata(&file).unwrap().modified().unwrap();
    let expected = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    assert_ne!(modified(), expected, "all or none");
    let attributes = "<Z:Win32FileAttributes>0</Z:Win32FileAttributes>";
    patch(&format!("{time}{attributes}")).is("has HTTP/1.1 200 | lacks HTTP/1.1 4");
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
        server.answers(
            "
            COPY /d | Destination: /c => 201
            MOVE /c | Destination: /d/e/c => 201
            COPY /d/e | Destination: /d/e2 => 201
            MOVE /d/e2 | Destination: /d/e => 204
            DELETE /d => 204
            ",
        );
    }
}

#[test]
fn http_1_0() {
    let dir = site();
    let server = lazy(dir.path());
    let mut client = server.connect();
    client.answers(r#""PROPFIND /d HTTP/1.0\r\nDepth: 0\r\n\r\n" => 207"#);
    assert_eq!(client.0.read_to_end(&mut Vec::new()).unwrap(), 0);
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
        let request = format!("MOVE /d/e/deep | Host: {own} | Destination: {destination}");
        server.answers(&format!("{request} => {status}"));
        assert_eq!(dir.path().join("moved").exists(), status == 201);
        assert_eq!(dir.path().join("d/e/deep").exists(), status != 201);
    }
}
