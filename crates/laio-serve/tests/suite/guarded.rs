//! Guarded paths stay guarded, whatever their spelling, for programs, proxies and files, over
//! HTTP/1.1 and HTTP/2.

use crate::common::Running;
use crate::common::http2::Client;
use crate::common::multiplexed::{Multiplexed, run};
use crate::common::program::Program;
use crate::upstreams::backend::Backend;
use laio_serve::{Auth, Upstream};
use std::collections::BTreeMap;
use std::fs;
use tempfile::TempDir;

const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy";

/// For some reader, each of these paths names a guarded resource.
const GUARDED: [&str; 5] = [
    "/admin/**",
    "/app/admin/**",
    "/strip/**",
    "/files/**",
    "*.secret",
];

/// Paths that have bypassed a guard, or might.
const WAYS: &str = "
    /admin.json /admin /admin/ /admin/a.php /admin/a.php/..%2f..%2fx /app/admin/..%2fx
    /app/admin/users%2f..%2f..%2fx /app/x/..%2fadmin /app/./admin/x /app//admin/x /app/admin%2fx
    /app%2fadmin/x /strip/..%2fb /strip/b /strip /strip//b /strip/%2e%2e%2fb /strip/..%5cb
    /x/..%2fstrip/b //admin ///admin/x /./admin /x/../admin /x/%2e%2e/admin /x/.%2e/admin /x//../admin
    /%61dmin /%2561dmin /admin%2fa /admin%2Fa.php /admin%5ca /admin%252fa /x/%252e%252e/admin
    /x/..;/admin /x/..;a=b/admin /x/..%3b/admin /admin;x/y /;x/admin/y /ADMIN /Admin/a.php /APP/ADMIN
    /admin./x /admin%20/x /admin%00 /admin%00.html /admin%3fx /admin%23x /admin%0a/x /ad%0amin/x
    /x%c0%afadmin /%c0%ae%c0%ae/admin /x/%c0%ae%c0%ae/admin /index.php/admin/x /index.php%2fadmin/x
    /app/x.secret /app/x.secret/y /app/x.SECRET /app/x.secret;y /app/x.secret%20 /files/a.txt
    /files%2fa.txt /x/..%2ffiles/a.txt /FILES/a.txt
";

struct Place {
    server: Running,
    proxied: Backend,
    program: Program,
    _kept: (TempDir, tempfile::NamedTempFile, Backend),
}

/// Who guards the paths.
#[derive(Clone, Copy)]
enum Guards {
    Passwords,
    AuthServer,
}

/// Starts a server with files, an upstream and a program, and guards for each.
fn place(with_root: bool) -> Place {
    guarded_by(Guards::Passwords, with_root)
}

fn guarded_by(guards: Guards, with_root: bool) -> Place {
    let (root, users) = (
        tempfile::tempdir().unwrap(),
        tempfile::NamedTempFile::new().unwrap(),
    );
    fs::create_dir(root.path().join("files")).unwrap();
    fs::write(root.path().join("files/a.txt"), "a file").unwrap();
    fs::write(root.path().join("open.txt"), "open").unwrap();
    // A hash of minimum cost for a password that no request here uses.
    let hash = "$2b$04$abcdefghijklmnopqrstuuWNNPaWbIXoMzcLCJfXMDSQUBRXzrKCy";
    fs::write(users.path(), format!("ann:{hash}\n")).unwrap();
    let (proxied, program) = (Backend::answering(HELLO), Program::start());
    let refusing = Backend::answering("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
    let (to, cgi) = (proxied.address(), program.address());
    let server = Running::with(root.path(), |options| {
        options.site.upstreams.http = vec![
            Upstream::http(&format!("/app=http://{to}")).unwrap(),
            Upstream::http(&format!("/strip=http://{to}/v1")).unwrap(),
        ];
        if with_root {
            let all = Upstream::fastcgi(&format!("/={cgi}")).unwrap();
            options.site.upstreams.fastcgi.push(all);
        }
        match guards {
            Guards::Passwords => {
                options.site.auth = Auth {
                    users: Some(users.path().to_owned()),
                    realm: "r".to_owned(),
                    paths: GUARDED.map(str::to_owned).to_vec(),
                }
            }
            Guards::AuthServer => {
                let server = refusing.address();
                let rule = |glob| format!("{glob}=http://{server}").parse().unwrap();
                options.site.auth_requests.rules = GUARDED.map(rule).to_vec();
            }
        }
    });
    Place {
        server,
        proxied,
        program,
        _kept: (root, users, refusing),
    }
}

impl Place {
    fn assert_untouched(&self) {
        let heads = self.proxied.heads();
        assert!(heads.is_empty(), "the upstream got {heads:?}");
        let calls = self.program.calls();
        assert!(calls.is_empty(), "the program got {calls:?}");
    }
}

#[test]
fn no_path_bypasses_a_guard_in_http_1() {
    for (guards, with_root) in [
        (Guards::Passwords, true),
        (Guards::Passwords, false),
        (Guards::AuthServer, true),
        (Guards::AuthServer, false),
    ] {
        let place = guarded_by(guards, with_root);
        let mut client = place.server.connect();
        let others = "/admin\\a /x\\..\\admin /app/\\admin /\u{ff41}dmin";
        for way in WAYS.split_whitespace().chain(others.split(' ')) {
            for target in [way.to_owned(), format!("http://test{way}")] {
                let answer = client.get(&target);
                // As a file name it is ordinary, and no file has it.
                let absent = !with_root
                    && answer.status == 404
                    && (way.contains("index.php") || way.ends_with(".json"));
                assert!(
                    matches!(answer.status, 400 | 401) || absent,
                    "{target}: {}",
                    answer.head
                );
            }
        }
        place.assert_untouched();
    }
}

#[test]
fn no_path_bypasses_a_guard_in_http_2() {
    for guards in [Guards::Passwords, Guards::AuthServer] {
        let place = guarded_by(guards, true);
        run(async {
            let client = Client::connect(&place.server).await;
            for way in WAYS.split_whitespace() {
                let status = client.ask(&format!("GET {way}")).await.status;
                assert!(matches!(status, 400 | 401), "{way}: {status}");
            }
        });
        place.assert_untouched();
    }
}

#[test]
fn unguarded_paths_stay_open_and_are_passed_on_in_canonical_form() {
    let place = place(true);
    let mut client = place.server.connect();
    for (target, expected) in [
        ("/app/open", "/app/open"),
        ("//app/./x/../%6fpen?q=/admin", "/app/open?q=/admin"),
        ("/app/@scope%2fname", "/app/@scope%2Fname"),
        ("/app/http://other/x", "/app/http://other/x"),
        ("http://test/app/y", "/app/y"),
    ] {
        let answer = client.get(target);
        assert_eq!((answer.status, answer.text()), (200, "proxy"), "{target}");
        let head = place.proxied.heads().pop().unwrap();
        assert!(
            head.starts_with(&format!("GET {expected} HTTP/1.1\r\n")),
            "{head}"
        );
    }
    let answer = client.get("//%78/./y/../a.php/in%20fo//z?q=%2e");
    assert_eq!((answer.status, answer.text()), (200, "program"));
    let call = place.program.calls().pop().unwrap();
    for (name, value) in [
        ("REQUEST_URI", "/x/a.php/in%20fo//z?q=%2e"),
        ("DOCUMENT_URI", "/x/a.php/in fo//z"),
        ("SCRIPT_NAME", "/x/a.php"),
        ("PATH_INFO", "/in fo//z"),
        ("QUERY_STRING", "q=%2e"),
    ] {
        assert_eq!(call.get(name), value, "{name}");
    }
}

/// After a refused path the start of the next request is still known.
#[test]
fn a_refused_path_does_not_end_the_connection() {
    let place = place(true);
    let mut client = place.server.connect();
    client.send("POST /app/..%2fx HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    let answer = client.answer(false);
    assert_eq!(answer.status, 400, "{}", answer.head);
    assert_eq!(client.get("/app/open").status, 200);
    assert_eq!(place.proxied.connections(), 1);
}

#[test]
fn fields_that_name_another_path_are_not_passed_on() {
    let place = place(true);
    let names = [
        "X-Original-URL",
        "X-Rewrite-URL",
        "x-original-uri",
        "X-Forwarded-Prefix",
        "X-Forwarded-Uri",
        "X-Envoy-Original-Path",
        "X_Original_URL",
        "X_Rewrite-URL",
    ];
    let fields = names.map(|name| format!(" | {name}: /admin")).concat();
    let table = format!(
        "
        GET /app/open{fields} | X-Kept: v => 200
        GET /open.php{fields} | X-Kept: v => 200
        "
    );
    place.server.connect().answers(&table);
    run(async {
        let client = Client::connect(&place.server).await;
        client.answers(&table).await;
    });
    let heads = place.proxied.heads();
    assert_eq!(heads.len(), 2);
    assert!(heads[0].contains("X-Kept: v\r\n"));
    assert!(!heads.concat().contains("/admin"), "{heads:?}");
    let calls = place.program.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].get("HTTP_X_KEPT"), "v");
    assert!(!format!("{calls:?}").contains("/admin"));
    let lists: BTreeMap<_, _> = calls
        .iter()
        .map(|call| (call.get("REQUEST_URI"), ()))
        .collect();
    assert_eq!(lists.len(), 1, "{calls:?}");
    assert!(!calls.iter().any(|call| call.has("HTTP_X_ORIGINAL_URL")));
}
