//! `ServeDir` in an axum server: its answers are those of `laio serve`.

use laio_serve::{LogTarget, Options, Server, Site};
use laio_tower::{Coding, ServeDir, Symlinks};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

#[test]
fn answers_are_those_of_laio_serve() {
    let (_kept, root) = site();
    let files = ServeDir::new(&root).unwrap();
    compare(&root, files.clone(), true, |_| {});
    compare(&root, files.clone().dotfiles(true), false, |site| {
        site.dotfiles = true;
    });
    compare(
        &root,
        files.clone().symlinks(Symlinks::Refuse),
        false,
        |site| {
            site.symlinks = laio_serve::Symlinks::Refuse;
        },
    );
    compare(
        &root,
        files.clone().symlinks(Symlinks::Follow),
        false,
        |site| {
            site.symlinks = laio_serve::Symlinks::Follow;
        },
    );
    let codings = [Coding::Brotli, Coding::Gzip];
    compare(&root, files.clone().precompressed(codings), false, |site| {
        site.precompressed = codings.to_vec();
    });
    compare(&root, files.index(["none", "old.txt"]), false, |site| {
        site.index = vec!["none".into(), "old.txt".into()];
    });
}

#[test]
fn a_router_may_take_a_prefix_off() {
    let (_kept, root) = site();
    let files = ServeDir::new(&root).unwrap();
    let app = axum::Router::new().nest_service("/some/prefix", files);
    let (_runtime, address) = serve(app);
    let found = ask(address, "GET", "/some/prefix/docs/sub?q=1", "");
    assert_eq!(found.status, 301);
    assert_eq!(found.fields["location"], "./sub/?q=1");
    let found = ask(address, "GET", "/some/prefix/docs/", "");
    assert_eq!((found.status, &found.body[..]), (200, &b"docs"[..]));
    assert_eq!(ask(address, "GET", "/docs/", "").status, 404);
}

#[test]
fn another_service_answers_what_is_not_found() {
    let (_kept, root) = site();
    let other = || {
        let echo = |body: String| async move { format!("other {body}") };
        axum::Router::new().fallback(echo)
    };
    let files = || ServeDir::new(&root).unwrap();
    let app = axum::Router::new()
        .nest_service("/a", files().fallback(other()))
        .nest_service("/b", files().not_found_service(other()));
    let (_runtime, address) = serve(app);
    for at in ["/a", "/b"] {
        let found = ask(address, "GET", &format!("{at}/docs/"), "");
        assert_eq!((found.status, &found.body[..]), (200, &b"docs"[..]));
        assert_eq!(ask(address, "GET", &format!("{at}/docs"), "").status, 301);
    }
    let found = ask(address, "GET", "/a/none", "");
    assert_eq!((found.status, &found.body[..]), (200, &b"other "[..]));
    let found = ask(address, "GET", "/b/none", "");
    assert_eq!((found.status, &found.body[..]), (404, &b"other "[..]));
}

#[test]
fn a_file_that_becomes_shorter_ends_the_connection() {
    let (_kept, root) = site();
    let (_runtime, address) =
        serve(axum::Router::new().fallback_service(ServeDir::new(&root).unwrap()));
    let mut client = TcpStream::connect(address).unwrap();
    client
        .write_all(b"GET /sparse HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    // The file is much larger than all buffers between the two ends.
    client.read_exact(&mut [0; 1000]).unwrap();
    fs::File::options()
        .write(true)
        .open(root.join("sparse"))
        .unwrap()
        .set_len(0)
        .unwrap();
    let mut rest = Vec::new();
    // The end of the connection, or a reset.
    let _ = client.read_to_end(&mut rest);
    assert!(rest.len() < SPARSE as usize);
}

#[test]
fn it_works_without_a_server() {
    let (_kept, root) = site();
    let files = ServeDir::new(&root).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let request = http::Request::get("/old.txt").header("range", "bytes=2-4");
    let request = request.body(()).unwrap();
    let found = runtime.block_on(async {
        let response = files.respond(&request).await;
        assert_eq!(response.status(), 206);
        axum::body::to_bytes(axum::body::Body::new(response.into_body()), 100).await
    });
    assert_eq!(found.unwrap(), "234");
    assert!(ServeDir::new(root.join("none")).is_err());
    assert!(ServeDir::new(root.join("old.txt")).is_err());
}

const SPARSE: u64 = 256 << 20;

/// The site: its files are old, so that their entity tags are strong and do not change.
fn site() -> (tempfile::TempDir, std::path::PathBuf) {
    let kept = laio_testing::temp::scratch();
    let root = kept.path().to_owned();
    let write = |name: &str, bytes: &[u8]| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(7200))
            .unwrap();
    };
    write("index.html", b"<h1>home</h1>");
    write("empty.txt", b"");
    write("old.txt", b"0123456789");
    write("large.bin", &laio_testing::temp::pattern(1_000_000, 3));
    write("docs/index.html", b"docs");
    write("docs/sub/old.txt", b"sub");
    write("bare/file", b"x");
    write("style.css", b"a { color: red }");
    write("style.css.gz", b"gzip form");
    write("style.css.br", b"brotli form");
    write("page.html", b"page");
    write("page.html.gz", b"gzip form of the page");
    write("with space & \u{e9}.txt", b"name");
    write("dir with space/index.html", b"spaced");
    write(".secret", b"x");
    write(".well-known/acme", b"token");
    write("forbidden.txt", b"x");
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(SPARSE).unwrap();
    fs::create_dir_all(root.join("index-dir/index.html")).unwrap();
    // A gzip form that is older than the page.
    let outdated = root.join("page.html.gz");
    let outdated = fs::File::options().write(true).open(outdated).unwrap();
    outdated
        .set_modified(SystemTime::now() - Duration::from_secs(9000))
        .unwrap();
    symlink("old.txt", root.join("inside")).unwrap();
    symlink("docs", root.join("link-to-docs")).unwrap();
    symlink("/etc/hostname", root.join("outside")).unwrap();
    symlink("../../../../etc", root.join("above")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    let fifo = rustix::fs::CWD;
    rustix::fs::mknodat(
        fifo,
        root.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    (kept, root)
}

/// Sends requests to both servers, and asserts that the answers are the same.
fn compare(root: &Path, files: ServeDir, conditions: bool, change: impl FnOnce(&mut Site)) {
    let mut site = Site {
        root: Some(root.to_owned()),
        ..Site::default()
    };
    change(&mut site);
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::start(Options {
        site,
        listen: vec![anywhere.into()],
        workers: Some(1),
        log: LogTarget::Off,
        ..Options::default()
    })
    .unwrap();
    let expected = server.address().unwrap();
    let (_runtime, found) = serve(axum::Router::new().fallback_service(files));
    let mut requests = plain_requests();
    if conditions {
        requests.extend(conditional_requests(expected));
    }
    for (method, target, fields) in requests {
        let expected = ask(expected, &method, &target, &fields);
        let found = ask(found, &method, &target, &fields);
        let what = format!("{method} {target} {fields:?}");
        assert_eq!(expected.status, found.status, "{what}");
        assert_eq!(
            comparable(&expected, &target),
            comparable(&found, &target),
            "{what}"
        );
        let same = expected.body_without_boundary() == found.body_without_boundary();
        assert!(same, "{what}: another body");
    }
    server.control().stop();
    server.wait().unwrap();
}

/// Methods, targets and fields.
type Requests = Vec<(String, String, String)>;

fn plain_requests() -> Requests {
    let mut requests = Vec::new();
    let targets = [
        "/",
        "/index.html",
        "/empty.txt",
        "/old.txt",
        "/old.txt?q=1",
        "/old.txt/",
        "/old.txt/x",
        "/large.bin",
        "/none",
        "/docs",
        "/docs?a=b&c",
        "/docs/",
        "/docs/sub",
        "/docs/sub/",
        "/bare",
        "/bare/",
        "/index-dir/",
        "/index-dir",
        "/.secret",
        "/.well-known/acme",
        "/docs/.x",
        "/inside",
        "/link-to-docs/index.html",
        "/link-to-docs",
        "/outside",
        "/above/hostname",
        "/loop",
        "/fifo",
        "/with%20space%20%26%20%C3%A9.txt",
        "/dir%20with%20space",
        "/dir%20with%20space/",
        "/style.css",
        "/page.html",
        "//old.txt",
        "/./old.txt",
        "/docs/../old.txt",
        "/../etc/passwd",
        "/%2e%2e/x",
        "/a%00",
        "/%",
        "/docs%2Findex.html",
        "/%6fld.txt",
        "/..;/x",
        "/%ff",
    ];
    let accept = "Accept-Encoding: gzip, br;q=0.5\r\n";
    for target in targets {
        for method in ["GET", "HEAD"] {
            for fields in ["", accept] {
                requests.push((method.into(), target.into(), fields.into()));
            }
        }
        requests.push(("OPTIONS".into(), target.into(), String::new()));
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"] {
        requests.push((method.into(), "/old.txt".into(), String::new()));
    }
    requests.push(("GET".into(), format!("/{}", "a".repeat(300)), String::new()));
    requests.push((
        "GET".into(),
        format!("/{}", "a".repeat(9000)),
        String::new(),
    ));
    requests
}

/// Requests with ranges and conditions, which use the validators of `/old.txt`.
fn conditional_requests(server: SocketAddr) -> Requests {
    let mut requests = Vec::new();
    let old = ask(server, "GET", "/old.txt", "");
    let (etag, date) = (&old.fields["etag"], &old.fields["last-modified"]);
    assert!(etag.starts_with('"'), "the file is old: {etag}");
    let ranges = [
        "",
        "bytes=0-0",
        "bytes=2-4",
        "bytes=5-",
        "bytes=-3",
        "bytes=-100",
        "bytes=10-",
        "bytes=3-2",
        "bytes=0-1,4-5",
        "bytes=0-0,-1",
        "bytes=0-1,100-",
        "bytes=20-30",
        "bytes=a-b",
        "lines=1-2",
        "bytes=0-9,0-9,0-9",
        "bytes=0-2,200000-200009,999999-",
    ];
    let conditions = [
        String::new(),
        format!("If-None-Match: {etag}\r\n"),
        format!("If-None-Match: \"x\", W/{etag}\r\n"),
        "If-None-Match: *\r\n".to_owned(),
        "If-None-Match: \"x\"\r\n".to_owned(),
        format!("If-Match: {etag}\r\n"),
        "If-Match: \"x\"\r\n".to_owned(),
        "If-Match: *\r\n".to_owned(),
        format!("If-Modified-Since: {date}\r\n"),
        "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n".to_owned(),
        "If-Modified-Since: nonsense\r\n".to_owned(),
        format!("If-Unmodified-Since: {date}\r\n"),
        "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n".to_owned(),
        format!("If-Range: {etag}\r\n"),
        format!("If-Range: {date}\r\n"),
        "If-Range: \"x\"\r\n".to_owned(),
        format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {date}\r\n"),
        format!("If-None-Match: \"x\"\r\nIf-None-Match: {etag}\r\n"),
    ];
    for target in ["/old.txt", "/large.bin", "/empty.txt", "/none", "/docs"] {
        for range in ranges {
            for condition in &conditions {
                let range = match range {
                    "" => String::new(),
                    range => format!("Range: {range}\r\n"),
                };
                requests.push(("GET".into(), target.into(), format!("{range}{condition}")));
            }
            requests.push((
                "HEAD".into(),
                target.into(),
                format!("Range: {range}\r\nAccept-Encoding: gzip\r\n"),
            ));
        }
    }
    requests
}

/// A server of the router on a runtime of its own.
fn serve(app: axum::Router) -> (tokio::runtime::Runtime, SocketAddr) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind(anywhere))
        .unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, app).await });
    (runtime, address)
}

#[derive(Debug)]
struct Answer {
    status: u16,
    fields: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Answer {
    /// The body with the boundary of its parts, which is random, replaced.
    fn body_without_boundary(&self) -> Vec<u8> {
        let content_type = self.fields.get("content-type");
        let Some((_, boundary)) = content_type.and_then(|value| value.split_once("boundary="))
        else {
            return self.body.clone();
        };
        let text: String = self.body.iter().copied().map(char::from).collect();
        text.replace(boundary, "BOUNDARY").into_bytes()
    }
}

/// The fields that must be the same.
fn comparable(answer: &Answer, target: &str) -> BTreeMap<String, String> {
    let mut fields = answer.fields.clone();
    for name in ["connection", "date", "server", "transfer-encoding"] {
        fields.remove(name);
    }
    if let Some(content_type) = fields.get_mut("content-type")
        && let Some((start, _)) = content_type.clone().split_once("boundary=")
    {
        *content_type = start.to_owned();
    }
    if let Some(location) = fields.get_mut("location")
        && let Some(relative) = location.strip_prefix("./")
    {
        let path = target.split('?').next().unwrap();
        let (directory, _) = path.rsplit_once('/').unwrap();
        *location = format!("{directory}/{relative}");
    }
    // hyper writes none for 204; 304 may have one.
    if matches!(answer.status, 204 | 304) {
        fields.remove("content-length");
    }
    fields
}

/// Makes one request on a connection of its own.
fn ask(address: SocketAddr, method: &str, target: &str, fields: &str) -> Answer {
    let mut client = TcpStream::connect(address).unwrap();
    let head =
        format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
    client.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("{method} {target}: no head"));
    let head = std::str::from_utf8(&answer[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap();
    Answer {
        status: status.parse().unwrap(),
        fields: lines
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect(),
        body: answer[end + 4..].to_vec(),
    }
}
