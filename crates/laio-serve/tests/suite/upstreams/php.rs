//! Scripts that a FastCGI program executes, beside files, and the candidates of `--try`.

use super::*;
use crate::common::program::Program;
use laio_serve::{Auth, Candidate, ErrorPage, UpstreamAddress};
use std::fs;
use std::path::Path;

const WORDPRESS: [&str; 3] = ["{path}", "{path}/", "/index.php?{query}"];

/// Writes the files of a site.
fn site() -> tempfile::TempDir {
    let root = tempfile::Builder::new().prefix("site").tempdir().unwrap();
    for directory in ["admin", "uploads", "empty", "dir.php", ".git", "static"] {
        fs::create_dir(root.path().join(directory)).unwrap();
    }
    for (name, text) in [
        ("index.php", "<?php // SECRET"),
        ("info.php", "<?php // SECRET"),
        ("info.php.bak", "<?php // SECRET"),
        ("info.php~", "<?php // SECRET"),
        ("old.phtml", "<?php // SECRET"),
        ("admin/index.php", "<?php // SECRET"),
        ("dir.php/inside.php", "<?php // SECRET"),
        (".git/hook.php", "<?php // SECRET"),
        ("UPPER.PHP", "<?php // SECRET"),
        ("uploads/x.jpg", "<?php // SECRET in a picture"),
        ("static/index.html", "a page"),
        ("style.css", "body {}"),
        ("about.html", "about"),
    ] {
        fs::write(root.path().join(name), text).unwrap();
    }
    root
}

fn candidates(texts: &[&str]) -> Vec<Candidate> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Starts a server for a PHP site.
fn start(root: &Path, program: &Program, tries: &[&str]) -> Running {
    Running::with(root, |options| {
        let address = program.address();
        let port = address.port();
        options.site.upstreams.php = Some(UpstreamAddress::Tcp(address.ip().to_string(), port));
        options.site.candidates = candidates(tries);
    })
}

#[test]
fn scripts_below_an_alias_have_its_directory() {
    let (root, other, program) = (site(), tempfile::tempdir().unwrap(), Program::start());
    fs::write(other.path().join("tool.php"), "<?php // SECRET").unwrap();
    let server = Running::with(root.path(), |options| {
        let address = program.address();
        let port = address.port();
        options.site.upstreams.php = Some(UpstreamAddress::Tcp(address.ip().to_string(), port));
        options.site.aliases = vec![
            format!("/tools={}", other.path().display())
                .parse()
                .unwrap(),
        ];
    });
    assert_eq!(server.get("/tools/tool.php/a//b").text(), "program");
    let file = other.path().join("tool.php");
    let call = &program.calls()[0];
    for (name, value) in [
        ("SCRIPT_NAME", "/tools/tool.php"),
        ("SCRIPT_FILENAME", file.to_str().unwrap()),
        ("PATH_INFO", "/a//b"),
        ("DOCUMENT_ROOT", root.path().to_str().unwrap()),
    ] {
        assert_eq!(call.get(name), value, "{name}");
    }
}

#[test]
fn scripts_are_executed_and_files_are_sent() {
    let (root, program) = (site(), Program::start());
    let server = start(root.path(), &program, &WORDPRESS);
    let mut client = server.connect();
    let directory = std::path::absolute(root.path()).unwrap();
    for (target, script, info, query) in [
        ("/", "/index.php", "", ""),
        ("/?p=1", "/index.php", "", "p=1"),
        ("/info.php?a=b", "/info.php", "", "a=b"),
        ("/%69nfo.php", "/info.php", "", ""),
        ("/admin/", "/admin/index.php", "", ""),
        ("/2026/11/title/?x=1&y", "/index.php", "", "x=1&y"),
        ("/info.php/more/%41%20b/", "/info.php", "/more/A b/", ""),
        ("/info.php/.hidden", "/info.php", "/.hidden", ""),
        ("/dir.php/inside.php/x", "/dir.php/inside.php", "/x", ""),
        ("/a%2Fb", "/index.php", "", ""),
        ("/empty/", "/index.php", "", ""),
        ("/UPPER.PHP", "/UPPER.PHP", "", ""),
        ("/%C3%A9/?q=%C3%A9", "/index.php", "", "q=%C3%A9"),
    ] {
        let before = program.calls().len();
        let answer = client.get(target);
        assert_eq!((answer.status, answer.text()), (200, "program"), "{target}");
        let calls = program.calls();
        assert_eq!(calls.len(), before + 1, "{target}");
        let call = calls.last().unwrap();
        let file = format!("{}{script}", directory.display());
        let uri = target.replace("%69", "i").replace("%41", "A");
        for (name, value) in [
            ("SCRIPT_NAME", script),
            ("SCRIPT_FILENAME", &*file),
            ("PATH_INFO", info),
            ("QUERY_STRING", query),
            ("REQUEST_URI", &uri),
            ("DOCUMENT_URI", &format!("{script}{info}")),
            ("DOCUMENT_ROOT", directory.to_str().unwrap()),
            ("REDIRECT_STATUS", "200"),
        ] {
            assert_eq!(call.get(name), value, "{target}: {name}");
        }
    }
    let before = program.calls().len();
    for _ in 0..3 {
        // Also from the cache.
        client.answers(
            r#"
            GET /style.css => "body {}"
            GET /static/ => "a page"
            GET /about.html => "about"
            GET /admin => 301 | Location: /admin/
            POST /style.css | "" => 405
            "#,
        );
    }
    assert_eq!(program.calls().len(), before);
}

#[test]
fn a_script_gets_the_method_and_the_body() {
    let (root, program) = (site(), Program::start());
    let server = start(root.path(), &program, &[]);
    let mut client = server.connect();
    client.send("POST /admin/?a=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nHello");
    assert_eq!(client.answer(false).status, 200);
    client.send("PUT /info.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    assert_eq!(client.answer(false).status, 200);
    assert_eq!(client.request("HEAD", "/info.php", "").status, 200);
    let calls = program.calls();
    let seen: Vec<_> = calls
        .iter()
        .map(|call| {
            (
                call.get("REQUEST_METHOD"),
                &*call.body,
                call.get("CONTENT_LENGTH"),
            )
        })
        .collect();
    let expected = [
        ("POST", &b"Hello"[..], "5"),
        ("PUT", b"abc", "3"),
        ("HEAD", b"", ""),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn the_text_of_a_script_is_never_sent() {
    let (root, program) = (site(), Program::start());
    for tries in [&WORDPRESS[..2], &["{path}", "=404"], &["{path}"]] {
        let server = start(root.path(), &program, tries);
        let mut client = server.connect();
        let before = program.calls().len();
        let refused = "/uploads/x.jpg/y.php /uploads/x.jpg/.php /uploads/x.jpg%2Fy.php /uploads/y.php \
                       /info.php.bak /info.php~ /info.php%20 /info.php. /old.phtml /.git/hook.php \
                       /.git/hook.php/x /dir.php /style.css/index.php";
        for target in refused.split(' ') {
            // The second time, the file could be in the cache.
            for _ in 0..3 {
                let answer = client.get(target);
                assert_eq!(answer.status, 404, "{target}");
                assert!(!answer.text().contains("SECRET"), "{target}");
            }
        }
        for target in "/info.php%00.jpg /info.php%252f..%252fx /..%2finfo.php".split(' ') {
            let answer = client.get(target);
            assert!([400, 404].contains(&answer.status), "{target}");
            assert!(!answer.text().contains("SECRET"), "{target}");
        }
        assert_eq!(
            program.calls().len(),
            before,
            "nothing of these is executed"
        );
        assert!(client.get("/uploads/x.jpg").text().contains("picture"));
    }
}

#[test]
fn a_link_out_of_the_root_is_not_executed() {
    let (root, program, other) = (site(), Program::start(), tempfile::tempdir().unwrap());
    fs::write(other.path().join("evil.php"), "<?php").unwrap();
    std::os::unix::fs::symlink(other.path().join("evil.php"), root.path().join("evil.php"))
        .unwrap();
    std::os::unix::fs::symlink("info.php", root.path().join("good.php")).unwrap();
    let server = start(root.path(), &program, &[]);
    assert_eq!(server.get("/evil.php").status, 404);
    assert_eq!(server.get("/good.php").status, 200);
    assert_eq!(program.calls().len(), 1);
}

#[test]
fn candidates_without_scripts() {
    let (root, program) = (site(), Program::start());
    let server = Running::with(root.path(), |options| {
        options.site.candidates = candidates(&["{path}.html", "{path}", "{path}/", "=410"]);
        options.site.error_pages = vec!["410=about.html".parse::<ErrorPage>().unwrap()];
    });
    let mut client = server.connect();
    for _ in 0..3 {
        client.answers(
            r#"
            GET /about => 200 | "about" | Content-Type: text/html*
            GET /about/ => "about"
            GET /style.css => "body {}"
            GET /static => 301
            GET /static/ => "a page"
            GET /absent => 410 | "about"
            "#,
        );
    }
    drop((server, program));
}

#[test]
fn files_beside_an_upstream() {
    let root = site();
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\napp";
    let backend = Backend::answering(answer);
    let server = Running::with(root.path(), |options| {
        options.site.upstreams = vec![http("/", &backend)].into();
        options.site.candidates = candidates(&["{path}", "@upstream"]);
    });
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/style.css").text(), "body {}");
        assert_eq!(client.get("/static/").text(), "a page");
    }
    assert_eq!(backend.heads().len(), 0);
    for target in "/ /login/?next=/ /static /.well-known/x /a%2Fb /.hidden".split(' ') {
        assert_eq!(client.get(target).text(), "app", "{target}");
    }
    client.answers(r#"POST /login/ | "" => "app""#);
    assert_eq!(backend.heads().len(), 7);
}

#[test]
fn passwords_protect_scripts() {
    let (root, program) = (site(), Program::start());
    let users = tempfile::NamedTempFile::new().unwrap();
    let hash = "$2b$04$abcdefghijklmnopqrstuuWNNPaWbIXoMzcLCJfXMDSQUBRXzrKCy";
    fs::write(users.path(), format!("ann:{hash}\n")).unwrap();
    let server = Running::with(root.path(), |options| {
        let address = program.address();
        let port = address.port();
        options.site.upstreams.php = Some(UpstreamAddress::Tcp(address.ip().to_string(), port));
        options.site.candidates = candidates(&WORDPRESS);
        options.site.auth = Auth {
            users: Some(users.path().to_owned()),
            realm: "r".to_owned(),
            paths: ["/admin/**", "/info.php"].map(str::to_owned).to_vec(),
        };
    });
    let guarded =
        "/admin/ /admin/index.php /Admin/x /info.php /info.php/x /index.php/admin/x /admin%2Fx";
    for target in guarded.split(' ') {
        assert_eq!(server.get(target).status, 401, "{target}");
    }
    assert_eq!(program.calls().len(), 0);
    assert_eq!(server.get("/2026/").status, 200);
}

#[test]
fn settings_that_cannot_be_combined() {
    let root = site();
    let php = Some(UpstreamAddress::Unix("/run/php.sock".into()));
    Running::refuses(root.path(), "--try", |options| {
        options.site.upstreams.php.clone_from(&php);
        options.site.fallback = Some("index.php".to_owned());
    });
    Running::refuses(root.path(), "last", |options| {
        options.site.candidates = candidates(&["=404", "{path}"]);
    });
    Running::refuses(root.path(), "--proxy", |options| {
        options.site.candidates = candidates(&["@upstream"]);
    });
    Running::refuses(root.path(), "extension", |options| {
        options.site.upstreams.php.clone_from(&php);
        options.site.upstreams.php_extensions = vec![".php".to_owned()];
    });
}

/// A process that is ended when dropped.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_real_php() {
    if laio_testing::lacks("php-cgi") {
        return;
    }
    let root = site();
    fs::copy(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/php/index.php"),
        root.path().join("index.php"),
    )
    .unwrap();
    fs::write(
        root.path().join("info.php"),
        "<?php echo $_SERVER['PATH_INFO'] ?? '-', ' ', file_get_contents('php://input');",
    )
    .unwrap();
    let socket = root.path().join(".php.sock");
    let mut command = std::process::Command::new("php-cgi");
    command
        .arg("-b")
        .arg(&socket)
        .stdout(std::process::Stdio::null());
    let _php = Ended(command.spawn().unwrap());
    crate::common::until("php-cgi listens", || {
        std::os::unix::net::UnixStream::connect(&socket).is_ok()
    });
    let server = Running::with(root.path(), |options| {
        options.site.upstreams.php = Some(UpstreamAddress::Unix(socket.clone()));
        options.site.candidates = candidates(&WORDPRESS);
    });
    let page = exchange(&server, get("/2026/11/title/?x=1"));
    assert!(
        page.contains("2026/11/title") && page.contains("200 OK"),
        "{page}"
    );
    let page = exchange(&server, get("/no-such-page"));
    assert!(page.starts_with("HTTP/1.1 404"), "{page}");
    let page = exchange(
        &server,
        "POST /info.php/more HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nHello",
    );
    assert!(page.contains("/more Hello"), "{page}");
    let page = exchange(&server, get("/uploads/x.jpg/y.php"));
    assert!(
        page.starts_with("HTTP/1.1 404") && !page.contains("SECRET"),
        "{page}"
    );
}
