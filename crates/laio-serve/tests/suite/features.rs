//! The options of a site, tested over connections.

use crate::common::{Running, asynchronous_backends, every_backend};
use laio::BackendKind;
use laio_serve::{
    Auth, Coding, Cors, ErrorPage, FieldRule, Host, Redirect, Site, Status, Symlinks,
};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::write(root.join("index.html"), "<h1>home</h1>").unwrap();
    fs::create_dir_all(root.join("docs/deep")).unwrap();
    fs::write(root.join("docs/a <b>.txt"), "text").unwrap();
    fs::write(root.join("docs/.hidden"), "x").unwrap();
    fs::write(root.join("gone.html"), "<h1>our own 404</h1>").unwrap();
    fs::write(root.join("long.txt"), long()).unwrap();
    symlink("index.html", root.join("inside")).unwrap();
    symlink("/etc/hostname", root.join("outside")).unwrap();
    dir
}

fn long() -> String {
    let lines = (0..20_000).map(|number| format!("line {number}\n"));
    lines.collect()
}

fn make_older(dir: &TempDir, name: &str) {
    let file = fs::File::options().append(true).open(dir.path().join(name));
    let before = SystemTime::now() - Duration::from_secs(1000);
    file.unwrap().set_modified(before).unwrap();
}

/// Starts a server for a site that `change` configures.
fn serve(dir: &TempDir, backend: BackendKind, change: impl FnOnce(&mut Site)) -> Running {
    Running::on(backend, dir.path(), |options| change(&mut options.site))
}

fn lazy(dir: &TempDir, change: impl FnOnce(&mut Site)) -> Running {
    serve(dir, BackendKind::Lazy, change)
}

#[test]
fn ready_compressed_files() {
    let dir = site();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("long.txt.gz", "gzip form");
    write("long.txt.br", "brotli form");
    let server = lazy(&dir, |site| {
        site.precompressed = vec![Coding::Brotli, Coding::Zstd, Coding::Gzip];
    });
    for (accepted, coding, body) in [
        ("gzip, br", "br", "brotli form"),
        ("gzip, br;q=0.5", "gzip", "gzip form"),
        ("zstd, gzip;q=0.1", "gzip", "gzip form"),
        ("br;q=0, *;q=0.1", "gzip", "gzip form"),
        ("zstd", "-", &long()),
        ("identity", "-", &long()),
    ] {
        let answer = server.ask(&format!("GET /long.txt | Accept-Encoding: {accepted}"));
        answer.is(&format!(
            "Content-Encoding: {coding} | Vary: Accept-Encoding"
        ));
        answer.is("Content-Type: text/plain; charset=utf-8");
        assert!(answer.text() == body, "{accepted}");
    }
    let plain = server.get("/long.txt");
    let packed = server.ask("GET /long.txt | Accept-Encoding: gzip");
    let tag = packed.header("ETag").unwrap();
    assert_ne!(plain.header("ETag"), Some(tag), "each form has its own tag");
    server.answers(&format!(
        r#"
        GET /long.txt | Accept-Encoding: gzip | If-None-Match: {tag} => 304 | Vary: Accept-Encoding
        GET /long.txt | Accept-Encoding: gzip | Range: bytes=0-3 => 206 | "gzip"
        "#
    ));
    // A compressed file older than the plain one may belong to an earlier version.
    make_older(&dir, "long.txt.br");
    lazy(&dir, |site| site.precompressed = vec![Coding::Brotli]).answers(
        "
        GET /long.txt | Accept-Encoding: br => 200 | Content-Encoding: -
        GET /nothing | Accept-Encoding: br => 404
        ",
    );
}

/// A range of a precompressed form is one of its bytes, and belongs to its entity tag.
#[test]
fn ranges_of_ready_compressed_files() {
    let dir = site();
    for (name, text) in [
        ("long.txt", long()),
        ("long.txt.br", "brotli form".to_owned()),
        ("long.txt.zst", "zstd form".to_owned()),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
        make_older(&dir, name);
    }
    let server = lazy(&dir, |site| {
        site.precompressed = vec![Coding::Brotli, Coding::Zstd];
    });
    let tag = |coding: &str| {
        let answer = server.ask(&format!("GET /long.txt | Accept-Encoding: {coding}"));
        answer.header("ETag").unwrap().to_owned()
    };
    let tags = ["identity", "br", "zstd"].map(tag);
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2]);
    let [plain, brotli, zstd] = tags;
    server.answers(&format!(
        r#"
        GET /long.txt | Accept-Encoding: br | Range: bytes=2-4 => 206 | "otl" | Content-Range: bytes 2-4/11
        GET /long.txt | Accept-Encoding: br | Range: bytes=2-4 => Content-Encoding: br | ETag: {brotli}
        GET /long.txt | Accept-Encoding: br | Range: bytes=2-4 => Vary: Accept-Encoding
        GET /long.txt | Accept-Encoding: br | Range: bytes=2-4 => Content-Type: text/plain; charset=utf-8
        GET /long.txt | Accept-Encoding: br | Range: bytes=2-4 | If-Range: {brotli} => 206 | "otl"
        # The client has another form, so it gets all of this one.
        GET /long.txt | Accept-Encoding: br | Range: bytes=2-4 | If-Range: {plain} => 200 | "brotli form"
        GET /long.txt | Accept-Encoding: br | Range: bytes=2-4 | If-Range: {zstd} => 200 | "brotli form"
        GET /long.txt | Accept-Encoding: br | Range: bytes=11- => 416 | Content-Range: bytes */11
        HEAD /long.txt | Accept-Encoding: zstd => Content-Encoding: zstd | Content-Length: 9
        "#
    ));
}

/// HEAD and 304 for each coding of --compress.
#[test]
fn heads_and_304_of_what_is_compressed_on_the_way() {
    let dir = site();
    let codings = vec![Coding::Zstd, Coding::Brotli, Coding::Gzip];
    let server = lazy(&dir, |site| site.compress = codings);
    let mut client = server.connect();
    for coding in ["zstd", "br", "gzip"] {
        let accept = format!("/long.txt | Accept-Encoding: {coding}");
        let head = client.ask(&format!("HEAD {accept}"));
        head.is(&format!(
            "Content-Encoding: {coding} | Transfer-Encoding: chunked | ETag: W/*"
        ));
        let tag = head.header("ETag").unwrap();
        let same = format!("304 | ETag: {tag} | Vary: Accept-Encoding | Content-Encoding: -");
        client.answers(&format!(
            "
            GET {accept} | If-None-Match: {tag} => {same} | Transfer-Encoding: -
            HEAD {accept} | If-None-Match: {tag} => {same} | Transfer-Encoding: -
            "
        ));
    }
}

#[test]
fn compression_on_the_way() {
    let dir = site();
    for backend in every_backend() {
        let server = serve(&dir, backend, |site| site.compress = vec![Coding::Gzip]);
        let mut client = server.connect();
        let head = client.ask("HEAD /long.txt | Accept-Encoding: gzip");
        head.is("Transfer-Encoding: chunked");
        for _ in 0..3 {
            let answer = client.ask("GET /long.txt | Accept-Encoding: gzip");
            answer.is("Content-Encoding: gzip | Content-Length: - | ETag: W/*");
            assert!(answer.body.len() < long().len() / 3);
            let mut text = String::new();
            let mut decoder = flate2::read::GzDecoder::new(&answer.body[..]);
            decoder.read_to_string(&mut text).unwrap();
            assert!(text == long(), "{backend}");
        }
        let tag = head.header("ETag").unwrap();
        client.answers(&format!(
            r#"
            GET /long.txt | Accept-Encoding: gzip | If-None-Match: {tag} => 304
            GET /long.txt | Accept-Encoding: gzip | Range: bytes=0-3 => 206 | "line"
            # It is too small.
            GET / | Accept-Encoding: gzip => 200 | Content-Encoding: -
            "#
        ));
        for fields in ["", "Accept-Encoding: gzip;q=0\r\n"] {
            let plain = client.request("GET", "/long.txt", fields);
            assert_eq!(plain.header("Vary"), Some("Accept-Encoding"), "{backend}");
            assert!(plain.text() == long(), "{backend}");
        }
        client.send("GET /long.txt HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n");
        // HTTP/1.0 has no chunks.
        assert!(client.answer(false).text() == long(), "{backend}");
    }
    let none = Running::with(dir.path(), |options| {
        options.site.compress = vec![Coding::Gzip];
        options.limits.compressions = 0;
    });
    let plain = none.ask("GET /long.txt | Accept-Encoding: gzip");
    assert!(plain.text() == long());
}

#[test]
fn listings() {
    let dir = site();
    for backend in asynchronous_backends() {
        let server = serve(&dir, backend, |site| site.listing = true);
        // An index comes first.
        server.answers(r#"GET / => "<h1>home</h1>""#);
        let page = server.get("/docs/");
        page.is("Content-Type: text/html; charset=utf-8 | lacks hidden");
        page.is(r#"has <a href="./a%20%3Cb%3E.txt">a &lt;b&gt;.txt</a>"#);
        page.is(r#"has <a href="./deep/">deep/</a>"#);
        let text = page.text();
        let [deep, file] = ["deep/", "a%20"].map(|name| text.find(name).unwrap());
        assert!(deep < file, "directories first");
        for request in ["GET /docs/ | Accept: application/json", "GET /docs/?json"] {
            let json = server.ask(request);
            json.is("Content-Type: application/json");
            let json: serde_json::Value = serde_json::from_slice(&json.body).unwrap();
            assert_eq!(json["complete"], true);
            assert_eq!(json["entries"][0]["name"], "deep");
            assert_eq!(json["entries"][0]["type"], "directory");
            assert_eq!(json["entries"][1]["name"], "a <b>.txt");
            assert_eq!(json["entries"][1]["size"], 4);
        }
        server.connect().answers(&format!(
            "
            GET /docs => Location: /docs/
            HEAD /docs/ => Content-Length: {}
            GET /docs/ => 200
            ",
            text.len()
        ));
    }
    let short = Running::with(dir.path(), |options| {
        options.site.listing = true;
        options.limits.listing_entries = 1;
    });
    short.answers("GET /docs/ => has more entries are not shown");
}

#[test]
fn index_fallback_and_error_pages() {
    let dir = site();
    let server = lazy(&dir, |site| {
        site.index = ["missing.html", "a <b>.txt", "index.html"]
            .map(str::to_owned)
            .into();
        site.error_pages = vec![ErrorPage {
            status: 404,
            file: "/gone.html".to_owned(),
        }];
    });
    server.answers(
        r#"
        GET / => 200 | "<h1>home</h1>"
        GET /docs/ => 200 | "text"
        GET /nothing => 404 | "<h1>our own 404</h1>" | Content-Type: text/html; charset=utf-8 | ETag: -
        "#,
    );
    server
        .connect()
        .answers("HEAD /nothing => 404\nGET /docs/deep/ => 404");

    // What is hidden stays so.
    lazy(&dir, |site| site.fallback = Some("index.html".to_owned())).answers(
        r#"
        GET /some/view | Accept: text/html,*/*;q=0.8 => 200 | "<h1>home</h1>" | Vary: Accept
        GET /missing.js | Accept: */* => 404
        GET /.git/config | Accept: text/html,*/*;q=0.8 => 404
        "#,
    );
}

#[test]
fn redirects_and_fields() {
    let dir = site();
    let text = str::to_owned;
    let field = |glob: &str, name: &str, value: &str| FieldRule {
        glob: text(glob),
        name: text(name),
        value: text(value),
    };
    let server = lazy(&dir, |site| {
        let redirect = |from, to, status| Redirect {
            from: text(from),
            to: text(to),
            status,
        };
        let (blog, moved) = ("https://blog.example/*", Status::PERMANENT_REDIRECT);
        site.redirects = vec![
            redirect("/old", "/long.txt", Status::MOVED_PERMANENTLY),
            redirect("/blog/*", blog, moved),
        ];
        site.fields = vec![
            field("**", "X-Frame-Options", "DENY"),
            field("*.txt", "Cache-Control", "max-age=60"),
        ];
    });
    let file = server.get("/long.txt");
    let tag = file.header("ETag").unwrap();
    server.answers(&format!(
        "
        GET /old?a=b => 301 | Location: /long.txt?a=b
        GET /blog/x%20y/../z?q => 308 | Location: https://blog.example/z?q
        GET /long.txt => 200 | Cache-Control: max-age=60 | X-Frame-Options: DENY
        GET /long.txt | If-None-Match: {tag} => 304 | Cache-Control: max-age=60
        GET / => 200 | Cache-Control: -
        GET /nothing => 404 | X-Frame-Options: -
        "
    ));
}

#[test]
fn other_origins() {
    let dir = site();
    let origins = |list: &[&str]| Cors {
        origins: list.iter().map(|&origin| origin.to_owned()).collect(),
        max_age: 60,
    };
    let server = lazy(&dir, |site| site.cors = origins(&["https://a.example"]));
    server.answers(
        "
        GET / | Origin: https://a.example => 200 | Access-Control-Allow-Origin: https://a.example
        GET / | Origin: https://a.example => 200 | Vary: Origin
        GET / | Origin: https://b.example => 200 | Access-Control-Allow-Origin: -
        GET / | Origin: https://a.example.org => 200 | Access-Control-Allow-Origin: -
        GET / | Origin: null => 200 | Access-Control-Allow-Origin: -
        GET /nothing => 404 | Vary: Origin
        ",
    );
    let asking = "Origin: https://a.example | Access-Control-Request-Method: GET";
    let allowed = server.ask(&format!("OPTIONS /long.txt | {asking}"));
    allowed.is("204 | Access-Control-Max-Age: 60");
    let fields = allowed.header("Access-Control-Allow-Headers").unwrap();
    assert!(fields.contains("Range"), "{fields}");
    let all = lazy(&dir, |site| site.cors = origins(&["*"]));
    // A star alone would be the start of any value.
    let answer = all.get("/");
    assert_eq!(answer.header("Access-Control-Allow-Origin"), Some("*"));
}

/// Returns the field of a name and a password.
fn password(text: &str) -> String {
    use base64::Engine;
    let token = base64::engine::general_purpose::STANDARD.encode(text);
    format!("Authorization: Basic {token}")
}

#[test]
fn names_and_passwords() {
    let dir = site();
    let mut users = tempfile::NamedTempFile::new().unwrap();
    let hash = bcrypt::hash("open sesame", 4).unwrap();
    // By `printf 'open sesame' | argon2 somesalt -id -t 1 -k 8 -p 1 -e`.
    let argon2 =
        "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$hB+3w+XCqbeX/gTIqKvDd3rvONixo8T2Dgv6KiwCGcs";
    writeln!(users, "# who may read\nann:{hash}\n\neve:{argon2}").unwrap();
    let auth = |paths: &[&str]| Auth {
        users: Some(users.path().to_owned()),
        realm: "the docs".to_owned(),
        paths: paths.iter().map(|&path| path.to_owned()).collect(),
    };
    let server = lazy(&dir, |site| {
        site.auth = auth(&["/docs/**"]);
        site.cors = Cors {
            origins: vec!["*".to_owned()],
            max_age: 1,
        };
    });
    let mut client = server.connect();
    client.answers(
        r#"
        GET / => 200
        GET /docs/a%20%3Cb%3E.txt => 401 | WWW-Authenticate: Basic realm="the docs", charset="UTF-8"
        GET /docs/nothing => 401
        GET /x/../docs/deep => 401
        GET /docs => 401
        GET /docs/ => 401
        GET /docs// => 401
        GET /docs/deep/ => 401
        GET /%64ocs/ => 401
        # Browsers send no password with a preflight request.
        OPTIONS /docs/x | Origin: https://a | Access-Control-Request-Method: GET => 204
        OPTIONS /docs/x => 401
        "#,
    );
    for (text, status) in [
        ("ann:open sesame", 200),
        ("ann:open sesame", 200),
        ("eve:open sesame", 200),
        ("ann:wrong", 401),
        ("eve:wrong", 401),
        ("bob:open sesame", 401),
        ("ann:", 401),
        (":", 401),
    ] {
        let request = format!("GET /docs/a%20%3Cb%3E.txt | {}", password(text));
        client.answers(&format!("{request} => {status}"));
    }
    // A glob that matches a file also guards it when it is served for another name.
    let files = lazy(&dir, |site| {
        site.auth = auth(&["*.html"]);
        site.fallback = Some("gone.html".to_owned());
    });
    files.answers(
        "
        GET / => 401
        GET /nothing | Accept: text/html => 401
        GET /long.txt => 200
        ",
    );
    let busy = Running::with(dir.path(), |options| {
        options.site.auth = auth(&[]);
        options.limits.auth_checks = 0;
    });
    busy.answers("GET / | Authorization: Basic YW5uOng= => 503 | Retry-After: 1");
}

#[test]
fn hosts() {
    let [other, wild] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let dir = site();
    fs::write(other.path().join("index.html"), "other").unwrap();
    fs::write(wild.path().join("index.html"), "wild").unwrap();
    let server = Running::with(dir.path(), |options| {
        let host = |name: &str, root: &TempDir| {
            let (names, root) = (vec![name.to_owned()], Some(root.path().to_owned()));
            let site = Site {
                root,
                ..Site::default()
            };
            Host { names, site }
        };
        options.hosts = vec![host("other.example", &other), host("*.example", &wild)];
    });
    for (name, body) in [
        ("other.example", "other"),
        ("OTHER.example:8080", "other"),
        ("x.example", "wild"),
        ("example", "<h1>home</h1>"),
        ("127.0.0.1", "<h1>home</h1>"),
    ] {
        server.connect().answers(&format!(
            "
            GET / | Host: {name} => \"{body}\"
            GET http://{name}/ | Host: ignored => \"{body}\"
            "
        ));
    }
}

#[test]
fn dots_and_links() {
    let dir = site();
    let path = dir.path().join("long.txt");
    symlink(path, dir.path().join("absolute")).unwrap();
    lazy(&dir, |_| {}).answers(
        "
        GET /docs/.hidden => 404
        GET /inside => 200
        GET /outside => 404
        GET /absolute => 404
        ",
    );
    let server = lazy(&dir, |site| {
        site.dotfiles = true;
        site.symlinks = Symlinks::Refuse;
    });
    server.answers(
        "
        GET /docs/.hidden => 200
        GET /inside => 404
        GET /outside => 404
        ",
    );
    lazy(&dir, |site| site.symlinks = Symlinks::Follow).answers(
        "
        GET /inside => 200
        GET /absolute => 200
        GET /../x => 400
        ",
    );
}

#[test]
fn nonsense_is_refused_at_the_start() {
    let dir = site();
    Running::refuses(dir.path(), "200", |options| {
        options.site.error_pages = vec![ErrorPage {
            status: 200,
            file: "a".to_owned(),
        }];
    });
    Running::refuses(dir.path(), "/nonexistent/users", |options| {
        options.site.auth.users = Some("/nonexistent/users".into());
    });
    Running::refuses(dir.path(), "Content-Length", |options| {
        options.site.fields = vec![FieldRule {
            glob: "**".to_owned(),
            name: "Content-Length".to_owned(),
            value: "1".to_owned(),
        }];
    });
}

/// With several codings, the client decides by its weights and the server between equals.
#[test]
fn text_is_compressed_in_the_coding_that_the_client_prefers() {
    let dir = site();
    let server = lazy(&dir, |site| {
        site.compress = vec![Coding::Zstd, Coding::Brotli, Coding::Gzip];
    });
    let mut client = server.connect();
    for (accept, coding) in [
        ("gzip, br, zstd", "zstd"),
        ("gzip, br", "br"),
        ("gzip, zstd;q=0.9", "gzip"),
        ("*, zstd;q=0", "br"),
    ] {
        let answer = client.ask(&format!("GET /long.txt | Accept-Encoding: {accept}"));
        answer.is(&format!(
            "Content-Encoding: {coding} | Vary: Accept-Encoding | ETag: W/*"
        ));
        let (packed, mut plain) = (answer.body, Vec::new());
        match coding {
            "zstd" => zstd::stream::copy_decode(&packed[..], &mut plain).unwrap(),
            "br" => brotli::BrotliDecompress(&mut &packed[..], &mut plain).unwrap(),
            _ => {
                let mut decoder = flate2::read::GzDecoder::new(&packed[..]);
                decoder.read_to_end(&mut plain).map(drop).unwrap();
            }
        }
        assert!(plain == long().as_bytes(), "{accept}");
    }
}
