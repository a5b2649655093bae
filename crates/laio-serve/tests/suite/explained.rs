//! `explain` says what a server with the same options answers.

use crate::common::Running;
use crate::common::certs::{connect, make, trusting};
use laio_serve::{
    Coding, Cors, Explanation, Host, Options, Question, Site, Status, Step, Symlinks, Upstream,
    explain,
};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// `ann` with the password `open sesame`.
const USERS: &str =
    "ann:$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$hB+3w+XCqbeX/gTIqKvDd3rvONixo8T2Dgv6KiwCGcs\n";

/// A site with files of several kinds, none of which has changed lately: their entity tags are strong.
fn site() -> TempDir {
    let dir = tempfile::Builder::new().prefix("site").tempdir().unwrap();
    let root = dir.path();
    for name in ["docs", "empty", "private", "www"] {
        fs::create_dir(root.join(name)).unwrap();
    }
    symlink("/etc/passwd", root.join("out")).unwrap();
    symlink("index.html", root.join("in")).unwrap();
    let text = "some text to compress\n".repeat(500);
    let files = [
        ("index.html", "home"),
        ("docs/index.html", "documents"),
        ("docs/long.txt", &text),
        ("docs/long.txt.gz", "as if compressed"),
        ("docs/a b.html", "a name with a space"),
        ("private/x.html", "secret"),
        ("www/index.html", "another site"),
        ("missing.html", "the error page"),
        (".hidden", "hidden"),
        ("page.html", "for /page"),
        ("users", USERS),
    ];
    let old = SystemTime::now() - Duration::from_secs(1000);
    for (name, content) in files {
        let mut file = File::create(root.join(name)).unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file.set_modified(old).unwrap();
    }
    dir
}

fn options(root: &Path) -> Options {
    let parsed = |text: &str| text.parse().unwrap();
    let parsed_rule = |text: &str| text.parse().unwrap();
    let mut main = Site {
        root: Some(root.to_owned()),
        error_pages: vec![parsed("404=missing.html")],
        redirects: vec![
            "/old/*=/new/*".parse().unwrap(),
            "/gone=https://other.example/=302".parse().unwrap(),
        ],
        fields: vec![
            "*.html=X-Page: yes".parse().unwrap(),
            "/docs/**=X-Page: docs".parse().unwrap(),
        ],
        precompressed: vec![Coding::Brotli, Coding::Gzip],
        cors: Cors {
            origins: vec!["https://app.example".to_owned()],
            ..Cors::default()
        },
        upstreams: vec![Upstream::http("/api=http://127.0.0.1:9/v1").unwrap()].into(),
        ..Site::default()
    };
    main.message_fields.response = ["path=/docs/** add X-Docs: 1", "status=4xx set X-Wrong: 1"]
        .map(parsed_rule)
        .into();
    main.auth.users = Some(root.join("users"));
    main.auth.paths = vec!["/private/**".to_owned()];
    let www = Site {
        root: Some(root.join("www")),
        ..Site::default()
    };
    let compressing = Site {
        root: Some(root.to_owned()),
        compress: vec![Coding::Zstd, Coding::Gzip],
        listing: true,
        symlinks: Symlinks::Refuse,
        ..Site::default()
    };
    let trying = Site {
        root: Some(root.to_owned()),
        candidates: ["{path}", "{path}/", "{path}.html", "=410"]
            .map(|text| text.parse().unwrap())
            .into(),
        ..Site::default()
    };
    let falling_back = Site {
        root: Some(root.to_owned()),
        fallback: Some("page.html".to_owned()),
        dotfiles: true,
        ..Site::default()
    };
    let host = |name: &str, site| Host {
        names: vec![name.to_owned()],
        site,
    };
    Options {
        site: main,
        hosts: vec![
            host("www.example.org", www),
            host("*.compress.example", compressing),
            host("try.example", trying),
            host("spa.example", falling_back),
        ],
        ..Options::default()
    }
}

/// The requests: method, host, target, and further header fields after each bar.
const REQUESTS: &str = r#"
    GET a /
    HEAD a /
    GET a /index.html
    GET a /index.html?q=1
    GET a /docs
    GET a /docs?q=1
    GET a /docs/
    GET a /docs/index.html/
    GET a /docs/a%20b.html
    GET a /empty/
    GET a /nothing
    GET a /.hidden
    GET a /out
    GET a /in
    GET a /a%2fb
    GET a /%zz
    GET a /../../etc/passwd
    GET a /old/a/b?c=d
    GET a /gone
    GET a /docs/long.txt
    GET a /docs/long.txt | Accept-Encoding: gzip
    GET a /docs/long.txt | Accept-Encoding: br
    GET a /docs/long.txt | Range: bytes=0-9
    GET a /docs/long.txt | Range: bytes=999999-
    GET a /index.html | If-None-Match: *
    GET a /index.html | If-Match: "x"
    GET a /index.html | Origin: https://app.example
    GET a /index.html | Origin: https://x.example
    GET a /private/x.html
    GET a /private/x.html | Authorization: Basic YW5uOm9wZW4gc2VzYW1l
    GET a /private/x.html | Authorization: Basic YW5uOndyb25n
    POST a /
    OPTIONS a /
    OPTIONS a *
    BREW a /
    GET www.example.org /
    GET WWW.example.org:80 /docs/
    GET a.compress.example /empty/ | Accept: text/html
    GET a.compress.example /empty/?json
    GET a.compress.example /in
    GET a.compress.example /docs/long.txt | Accept-Encoding: gzip, zstd
    GET a.compress.example /docs/long.txt | Accept-Encoding: gzip | Range: bytes=0-
    GET try.example /page
    GET try.example /docs
    GET try.example /nothing
    GET spa.example /a/b | Accept: text/html
    GET spa.example /a/b.png | Accept: image/png
"#;

/// Returns status and fields without the date.
fn comparable(head: &str) -> Vec<String> {
    let lines = head.lines().filter(|line| !line.starts_with("Date: "));
    lines.map(str::to_owned).collect()
}

fn head_of(explanation: &Explanation) -> String {
    let answer = explanation.answer.as_ref().unwrap();
    let mut head = format!("HTTP/1.1 {} {}\n", answer.status, answer.reason);
    for (name, value) in &answer.fields {
        head += &format!("{name}: {value}\n");
    }
    head
}

#[test]
fn status_and_fields_are_those_of_a_server() {
    let dir = site();
    let options = options(dir.path());
    let server = Running::with(dir.path(), |own| {
        own.site = options.site.clone();
        own.hosts = options.hosts.clone();
    });
    for request in REQUESTS.trim().lines() {
        let mut items = request.trim().split(" | ");
        let mut words = items.next().unwrap().split(' ');
        let [method, host, target] = [(); 3].map(|()| words.next().unwrap());
        let mut question = Question::new("/").unwrap().method(method).unwrap();
        target.clone_into(&mut question.target);
        host.clone_into(&mut question.host);
        let mut lines = String::new();
        for field in items {
            question = question.field(field).unwrap();
            lines += &format!("{field}\r\n");
        }
        let explained = explain(&options, &question).unwrap();
        let mut client = server.connect();
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n"
        ));
        // The head alone: what follows may be of any length.
        let answered = client.answer(true);
        let what = format!("{request}: {:#?}", explained.steps);
        assert_eq!(
            comparable(&head_of(&explained)),
            comparable(&answered.head),
            "{what}"
        );
        assert!(explained.steps.len() >= 3, "{what}");
    }
}

/// A field that only encrypted connections have, and the redirect that only those in the clear have.
#[test]
fn with_and_without_tls() {
    let dir = site();
    let keys = tempfile::tempdir().unwrap();
    let made = make(keys.path(), "localhost");
    let mut site = options(dir.path()).site;
    site.hsts.age = Some(laio_serve::HstsAge::Seconds(60));
    let server = Running::with(dir.path(), |own| {
        own.site = site.clone();
        own.listen = vec![
            "127.0.0.1:0".parse().unwrap(),
            "tls:127.0.0.1:0".parse().unwrap(),
        ];
        own.certificates = vec![made.files.clone()];
        own.tls.redirect_http = Some(laio_serve::RedirectPort::OfListener);
    });
    let options = Options {
        site,
        listen: server.places().to_vec(),
        certificates: vec![made.files.clone()],
        tls: laio_serve::Tls {
            redirect_http: Some(laio_serve::RedirectPort::OfListener),
            ..laio_serve::Tls::default()
        },
        ..Options::default()
    };
    let [clear, encrypted] = [0, 1].map(|index| server.places()[index].inet().unwrap());
    let config = Arc::new(trusting(&[&made], &["http/1.1"]));
    let mut stream = connect(encrypted, &config, "localhost");
    write!(
        stream,
        "HEAD / HTTP/1.1\r\nHost: {encrypted}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answered = String::new();
    stream.read_to_string(&mut answered).unwrap();
    let answered = answered.replace("Connection: close\r\n", "");
    let question = Question::new(&format!("https://{encrypted}/")).unwrap();
    let explained = explain(&options, &question.method("HEAD").unwrap()).unwrap();
    assert_eq!(
        comparable(&head_of(&explained)),
        comparable(answered.trim_end())
    );
    assert!(answered.contains("Strict-Transport-Security: max-age=60\r\n"));
    assert_eq!(
        explained.steps[0].text,
        format!("{} listens on this port", server.places()[1])
    );

    let mut client = server.connect();
    client.send(format!("GET /x HTTP/1.1\r\nHost: {clear}\r\n\r\n"));
    let answered = client.answer(false);
    let explained = explain(
        &options,
        &Question::new(&format!("http://{clear}/x")).unwrap(),
    );
    let explained = explained.unwrap();
    assert_eq!(comparable(&head_of(&explained)), comparable(&answered.head));
    assert_eq!(answered.status, 308);
    let mut steps = explained.steps.iter();
    let hsts = steps.find(|step| step.kind == "hsts").unwrap();
    assert_eq!(
        hsts.text,
        "--hsts sets Strict-Transport-Security only over TLS"
    );
}

fn last_stage(steps: &[Step]) -> &str {
    let mut stages = steps.iter().filter(|step| step.kind == "stage");
    &stages.next_back().unwrap().text
}

/// Nobody connects to an upstream to explain a request for it; access to it is decided as ever.
#[test]
fn upstreams_are_not_asked() {
    let dir = site();
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    upstream.set_nonblocking(true).unwrap();
    let address = upstream.local_addr().unwrap();
    let mut options = options(dir.path());
    options.hosts.clear();
    options.site.upstreams = vec![
        Upstream::http(&format!("/api=http://{address}/v1")).unwrap(),
        Upstream::fastcgi(&format!("/app={address}")).unwrap(),
    ]
    .into();
    options.site.upstreams.php = Some(address.to_string().parse().unwrap());
    options.site.auth.paths = vec!["/api/private/**".to_owned()];
    fs::write(dir.path().join("x.php"), "<?php").unwrap();
    let explained = |target: &str| explain(&options, &Question::new(target).unwrap()).unwrap();
    for (target, expected) in [
        (
            "/api/x",
            format!("http://{address}, which is asked for /v1/x"),
        ),
        ("/app/x", format!("/app of fastcgi://{address}")),
        (
            "/x.php/y",
            format!("fastcgi://{address} executes the script x.php"),
        ),
    ] {
        let explained = explained(target);
        let last = &explained.steps.last().unwrap();
        assert_eq!(
            (explained.answer, last.kind),
            (None, "upstream"),
            "{target}"
        );
        assert!(last.text.contains(&expected), "{}", last.text);
        let stage = if target == "/x.php/y" {
            "application: "
        } else {
            "upstream: "
        };
        assert!(last_stage(&explained.steps).starts_with(stage), "{target}");
    }
    assert!(last_stage(&explained("/index.html").steps).starts_with("site: "));
    let refused = explained("/api/private/x").answer.unwrap();
    assert_eq!(refused.status, Status::UNAUTHORIZED.code());
    let asked = upstream.accept().map(drop).unwrap_err();
    assert_eq!(asked.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn reasons() {
    let dir = site();
    let options = options(dir.path());
    let cases = r#"
        http://a/ => "a" is no name of a host: the main site answers
        http://b.compress.example/ => is a name of the host *.compress.example
        / | Origin: https://app.example => --cors lets pages of https://app.example read
        / | Origin: https://x.example => --cors does not name https://x.example
        /out => out is behind a symbolic link that leads out of the root
        http://b.compress.example/in => in is behind a symbolic link, which --symlinks refuse
        /.hidden => begins with a dot
        /private/x.html => --auth guards it, and the request has no name
        /docs/ => the rule for /docs/** sets X-Page: docs
        /docs/ => a later rule replaces X-Page of the rule for *.html
        /docs/long.txt | Accept-Encoding: gzip => docs/long.txt.gz is sent instead
        /docs/long.txt | Accept-Encoding: zstd => there is no precompressed file that the client accepts
        http://try.example/page => the candidate {path}.html
        http://spa.example/x | Accept: image/png => --fallback is only for clients
        /nothing => --error-page answers with missing.html
        /empty/ => empty has no index file (index.html), and --listing is off
    "#;
    for case in cases.trim().lines() {
        let (asked, expected) = case.trim().split_once(" => ").unwrap();
        let (url, field) = asked.split_once(" | ").unwrap_or((asked, "X: y"));
        let question = Question::new(url).unwrap().field(field).unwrap();
        let explained = explain(&options, &question).unwrap();
        let text = explained.text(&question);
        assert!(text.contains(expected), "{url}: {expected}\n{text}");
        let json: serde_json::Value = serde_json::from_str(&explained.json(&question)).unwrap();
        assert_eq!(json["response"]["status"], explained.answer.unwrap().status);
        assert_eq!(
            json["steps"].as_array().unwrap().len(),
            explained.steps.len()
        );
    }
    let mut absent = options;
    absent.site.root = Some(dir.path().join("absent"));
    let error = explain(&absent, &Question::new("/").unwrap()).unwrap_err();
    assert!(error.to_string().contains("cannot serve"), "{error}");
}

/// The networks of a site hold for the client that is asked about.
#[test]
fn the_address_of_the_client() {
    let dir = site();
    let mut options = options(dir.path());
    options.site.access.allow = vec!["192.0.2.0/24".parse().unwrap()];
    for (client, status) in [
        (Some("192.0.2.7"), 200),
        (Some("198.51.100.1"), 403),
        (None, 403),
    ] {
        let mut question = Question::new("/").unwrap();
        question.client = client.map(|client| client.parse().unwrap());
        let explained = explain(&options, &question).unwrap();
        let answer = explained.answer.as_ref().unwrap();
        assert_eq!(answer.status, status, "{explained:?}");
        let name = client.unwrap_or("127.0.0.1");
        let step = explained.steps.iter().find(|step| step.kind == "access");
        assert!(step.unwrap().text.contains(name), "{step:?}");
    }
}
