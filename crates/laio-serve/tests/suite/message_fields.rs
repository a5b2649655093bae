//! Rules for the fields of responses of every kind, and of requests to upstreams.

use crate::common::program::Program;
use crate::common::*;
use crate::upstreams::backend::Backend;
use laio_serve::{Explanation, Options, Question, Site, Upstream, explain};
use std::fs::{self, File};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// Files that have not changed lately, so that their fields are cached.
fn files() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("docs/empty")).unwrap();
    let old = SystemTime::now() - Duration::from_secs(1000);
    for name in [
        "index.html",
        "app.js",
        "docs/index.html",
        "docs/a.css",
        "docs/secret.txt",
    ] {
        let path = dir.path().join(name);
        fs::write(&path, name).unwrap();
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(old)
            .unwrap();
    }
    dir
}

fn with_rules(site: &mut Site, rules: &[&str]) {
    site.message_fields.response = rules.iter().map(|rule| rule.parse().unwrap()).collect();
}

fn every_kind(options: &mut Options) {
    options.site.listing = true;
    options.site.archives.zip = Some(laio_serve::Zip::Store);
    options.site.redirects = vec!["/old=/new".parse().unwrap()];
    options.site.fields = vec!["*.js=X-Of: header".parse().unwrap()];
}

#[test]
fn all_kinds_of_responses() {
    let dir = files();
    let server = Running::with(dir.path(), |options| {
        every_kind(options);
        with_rules(
            &mut options.site,
            &[
                "set X-All: 1",
                "remove Server",
                "path=/docs/** set X-Docs: 1",
                "ext=js default X-Of: rule",
                "ext=css default X-Of: rule",
                "status=4xx set Cache-Control: no-store",
                "type=text/html add X-Type: html",
                "method=HEAD set X-Head: 1",
            ],
        );
    });
    let mut client = server.connect();
    // Twice, because the second answer may come from the cache.
    for round in 0..2 {
        for (target, status, fields) in [
            ("/", 200, &["X-Type"][..]),
            ("/app.js", 200, &[]),
            ("/docs/", 200, &["X-Docs", "X-Type"]),
            ("/docs/a.css", 200, &["X-Docs"]),
            ("/docs/empty/", 200, &["X-Docs", "X-Type"]),
            ("/docs/empty", 301, &["X-Docs", "X-Type"]),
            ("/docs/?zip", 200, &["X-Docs"]),
            ("/old", 301, &["X-Type"]),
            ("/docs/nothing", 404, &["X-Docs", "X-Type", "Cache-Control"]),
            ("/%zz", 400, &["X-Type", "Cache-Control"]),
        ] {
            let answer = client.get(target);
            let at = format!("{round}: {target}: {}", answer.head);
            assert_eq!(answer.status, status, "{at}");
            assert_eq!(answer.header("X-All"), Some("1"), "{at}");
            assert_eq!(answer.head.matches("X-All").count(), 1, "{at}");
            assert_eq!(answer.header("Server"), None, "{at}");
            for name in ["X-Docs", "X-Type", "Cache-Control", "X-Head"] {
                assert_eq!(
                    answer.header(name).is_some(),
                    fields.contains(&name),
                    "{at}"
                );
            }
        }
        assert_eq!(client.get("/app.js").header("X-Of"), Some("header"));
        assert_eq!(client.get("/docs/a.css").header("X-Of"), Some("rule"));
        let bare = client.request("HEAD", "/docs/a.css", "");
        assert_eq!(bare.header("X-Head"), Some("1"));
        let since = "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n";
        let same = client.request("GET", "/docs/", since);
        assert_eq!((same.status, same.header("X-Docs")), (304, Some("1")));
        assert_eq!(same.header("X-Type"), Some("html"), "as the 200");
        let part = client.request("GET", "/docs/a.css", "Range: bytes=1-2\r\n");
        part.is(r#"206 | "oc" | X-All: 1"#);
    }
    // An answer to what is no request, and the body of a request that expects an interim response.
    client.send("PUT /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    let refused = client.answer(false);
    assert_eq!((refused.status, refused.header("X-All")), (405, Some("1")));
    let mut client = server.connect();
    client.send("nonsense\r\n\r\n");
    let refused = client.answer(false);
    refused.is("400 | X-All: 1 | Server: -");
}

#[test]
fn cached_files_keep_their_fields() {
    let dir = files();
    let server = Running::with(dir.path(), |options| {
        options.workers = Some(1);
        options.site.fallback = Some("index.html".to_owned());
        with_rules(
            &mut options.site,
            &[
                "path=*.css add X-Css: 1",
                "path=/docs/** set X-Docs: 1",
                "type=text/html add X-Html: 1",
                "remove ETag",
            ],
        );
    });
    let mut client = server.connect();
    for _ in 0..3 {
        let style = client.get("/docs/a.css");
        let names = ["X-Css", "X-Docs", "X-Html", "ETag"];
        let found = names.map(|name| style.head.matches(name).count());
        assert_eq!((style.text(), found), ("docs/a.css", [1, 1, 0, 0]));
        let page = client.get("/docs/");
        let found = names.map(|name| page.head.matches(name).count());
        assert_eq!((page.text(), found), ("docs/index.html", [0, 1, 1, 0]));
        let page = client.request("GET", "/docs/missing", "Accept: text/html\r\n");
        let found = names.map(|name| page.head.matches(name).count());
        assert_eq!((page.text(), found), ("index.html", [0, 0, 1, 0]));
    }
}

#[test]
fn rewritten_paths() {
    let dir = files();
    let server = Running::with(dir.path(), |options| {
        options.site.rewrites = vec!["/app/*=/index.html".parse().unwrap()];
        options.site.fields = vec!["/app/**=X-File: sent".parse().unwrap()];
        with_rules(
            &mut options.site,
            &[
                "path=/app/** add X-Sent: 1",
                "path=/index.html add X-New: 1",
            ],
        );
    });
    for _ in 0..2 {
        let answer = server.get("/app/x");
        assert_eq!((answer.status, answer.text()), (200, "index.html"));
        // `--header` is about files, so it has the path of the file alone.
        let found = ["X-Sent", "X-New", "X-File"].map(|name| answer.header(name));
        assert_eq!(found, [Some("1"), Some("1"), None]);
        let found = ["X-Sent", "X-New"].map(|name| server.get("/").header(name).map(str::to_owned));
        assert_eq!(found, [None, Some("1".to_owned())]);
    }
}

#[test]
fn upstreams() {
    let backend = Backend::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Powered-By: x\r\nSet-Cookie: a=1\r\n\
         Content-Type: application/json; charset=utf-8\r\n\r\nhello",
    );
    let dir = files();
    let server = Running::with(dir.path(), |options| {
        let upstream = format!("/api=http://{}", backend.address());
        options.site.upstreams = vec![Upstream::http(&upstream).unwrap()].into();
        with_rules(
            &mut options.site,
            &[
                "remove X-Powered-By",
                "type=application/json set Cache-Control: no-store",
                "path=/api/** method=GET add Set-Cookie: b=2",
                "status=502 set X-Down: 1",
            ],
        );
        options.site.message_fields.request = [
            "set X-Real-IP: {client}",
            "set Host: inner.example",
            "set X-Url: {scheme}://{host}{path}?{query}",
            "remove Cookie",
            "set X-User: none",
            "path=/api/a method=POST set X-Post: 1",
            "default Accept: application/json",
            "default X-Given: no",
        ]
        .map(|rule| rule.parse().unwrap())
        .into();
    });
    let fields =
        "Cookie: c\r\nX-Real-IP: 6.6.6.6\r\nX_User: root\r\nX-User: root\r\nX-Given: yes\r\n";
    let answer = server.connect().request("GET", "/api/%61?q=1", fields);
    answer.is(r#""hello" | X-Powered-By: - | Cache-Control: no-store"#);
    assert!(answer.head.contains("Set-Cookie: a=1\n") && answer.head.contains("Set-Cookie: b=2\n"));
    assert_eq!(answer.header("X-Down"), None);
    let head = &backend.heads()[0];
    for field in [
        "X-Real-IP: 127.0.0.1\r\n",
        "Host: inner.example\r\n",
        "X-Url: http://test/api/a?q=1\r\n",
        "X-User: none\r\n",
        "Accept: application/json\r\n",
        "X-Given: yes\r\n",
    ] {
        assert!(head.contains(field), "{field} in {head}");
    }
    for gone in [
        "Cookie",
        "6.6.6.6",
        "root",
        "X-Post",
        "X-Given: no",
        "\r\nHost: test",
    ] {
        assert!(!head.contains(gone), "{gone} in {head}");
    }
}

#[test]
fn programs() {
    let program = Program::start();
    let dir = files();
    let server = Running::with(dir.path(), |options| {
        let upstream = format!("/cgi={}", program.address());
        let upstream = Upstream::fastcgi(&upstream).unwrap();
        options.site.upstreams.fastcgi = vec![upstream];
        with_rules(&mut options.site, &["set X-All: 1"]);
        options.site.message_fields.request = ["set X-Seen: {client}", "remove Accept"]
            .map(|rule| rule.parse().unwrap())
            .into();
    });
    let answer = server.connect().request("GET", "/cgi/x", "Accept: a\r\n");
    assert_eq!((answer.status, answer.header("X-All")), (200, Some("1")));
    let call = &program.calls()[0];
    assert_eq!(call.get("HTTP_X_SEEN"), "127.0.0.1");
    assert!(!call.has("HTTP_ACCEPT"));
}

#[test]
fn explained() {
    let dir = files();
    let mut options = Options {
        site: Site {
            root: Some(dir.path().to_owned()),
            ..Site::default()
        },
        ..Options::default()
    };
    with_rules(
        &mut options.site,
        &["path=/docs/** set X-Docs: 1", "status=404 set X-Missing: 1"],
    );
    let question = Question::new("http://a/docs/a.css").unwrap();
    let Explanation { steps, .. } = explain(&options, &question).unwrap();
    let of_fields: Vec<_> = steps.iter().filter(|step| step.kind == "fields").collect();
    assert_eq!(of_fields.len(), 1, "{steps:?}");
    assert_eq!(
        of_fields[0].text,
        "--response-header path=/docs/** set X-Docs: 1"
    );
}

#[test]
fn refused_at_start() {
    let dir = files();
    for (rule, why) in [
        ("set Content-Length: 1", "frames the message"),
        ("remove Connection", "frames the message"),
        ("remove Content-Encoding", "bytes of the body"),
        ("path=[ set X: y", "not a valid glob"),
    ] {
        let started = Running::try_with(dir.path(), |options| {
            with_rules(&mut options.site, &[rule]);
        });
        let error = started.err().unwrap().to_string();
        assert!(error.contains(why), "{rule}: {error}");
    }
}
