//! Auth servers: what they are asked, and what clients get when they let requests in, refuse them, or fail.

use crate::common::program::Program;
use crate::common::{Client, Response, Running, every_backend, until};
use crate::upstreams::backend::Backend;
use crate::upstreams::http;
use crate::upstreams::http2::Server2;
use bytes::Bytes;
use laio::BackendKind;
use laio_serve::{
    AuthRule, AuthServer, Coding, CopiedField, LogFormat, LogTarget, Observer, Options, Question,
    Rewrite, Uploaders, Upstream, UpstreamAddress, Zip, explain,
};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const ANN: &str = "Cookie: is=ann\r\n";

/// An auth server that does what the cookie of the request says.
fn auth_server() -> Backend {
    Backend::start(|peer| {
        while let Some(head) = peer.request() {
            let cookie = field(&head, "Cookie").unwrap_or_default().to_owned();
            let large = "x".repeat(70_000);
            let answer = match &*cookie {
                "is=ann" => {
                    "HTTP/1.1 200 OK\r\nRemote-User: ann\r\nX-Groups: a\r\nX-Groups: b\r\nContent-Length: 3\r\n\r\nyes"
                }
                "renew" => {
                    "HTTP/1.1 204 No Content\r\nRemote-User: ann\r\nSet-Cookie: is=ann\r\nSet-Cookie: b=c\r\n\r\n"
                }
                "elsewhere" => {
                    "HTTP/1.1 302 Found\r\nLocation: https://login/?a=b\r\nSet-Cookie: state=1\r\nContent-Length: 2\r\n\r\ngo"
                }
                "never" => {
                    "HTTP/1.1 403 Forbidden\r\nCache-Control: max-age=9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n"
                }
                "broken" => "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
                "known" => "HTTP/1.1 304 Not Modified\r\n\r\n",
                "upgrade" => {
                    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"
                }
                "nonsense" => "220 smtp\r\n\r\n",
                "cut" => "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123",
                "large" => {
                    &format!("HTTP/1.1 401 Unauthorized\r\nContent-Length: 70000\r\n\r\n{large}")
                }
                "large and let in" => {
                    &format!("HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n{large}")
                }
                "hang" => {
                    peer.request();
                    return;
                }
                _ => {
                    "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer realm=\"a\"\r\nContent-Length: 5\r\n\r\nwho?\n"
                }
            };
            peer.send(answer);
            if cookie == "cut" {
                return;
            }
        }
    })
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    let mut fields = fields.filter(|(own, _)| own.eq_ignore_ascii_case(name));
    fields.next().map(|(_, value)| value)
}

fn rule(glob: &str, server: &Backend) -> AuthRule {
    let address = server.address();
    format!("{glob}http://{address}/check?q=1").parse().unwrap()
}

fn site() -> TempDir {
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("in/side")).unwrap();
    fs::create_dir(root.join("admin")).unwrap();
    for name in ["a.txt", "in/index.html", "in/side/b.txt", "admin/c.txt"] {
        fs::write(root.join(name), name).unwrap();
    }
    dir
}

/// Serves the site, all of which an auth server guards.
fn guarded(root: &Path, auth: &Backend, change: impl FnOnce(&mut Options)) -> Running {
    with_backend(root, BackendKind::Lazy, auth, change)
}

fn with_backend(
    root: &Path,
    backend: BackendKind,
    auth: &Backend,
    change: impl FnOnce(&mut Options),
) -> Running {
    Running::on(backend, root, |options| {
        options.site.auth_requests.rules = vec![rule("", auth)];
        change(options);
    })
}

fn cookie(server: &Running, cookie: &str, target: &str) -> Response {
    let fields = format!("Cookie: {cookie}\r\n");
    server.connect().request("GET", target, &fields)
}

#[test]
fn requests_are_let_in_or_get_the_answer() {
    for backend in every_backend() {
        let (dir, auth) = (site(), auth_server());
        let server = with_backend(dir.path(), backend, &auth, |_| {});
        let mut client = server.connect();
        // Once from the disk, once from the cache.
        for _ in 0..2 {
            client.answers(
                r#"
                GET /a.txt | Cookie: is=ann => 200 | "a.txt" | Cache-Control: private | Remote-User: -
                GET /a.txt => 401 | has who? | WWW-Authenticate: Bearer realm="a" | Cache-Control: no-store
                "#,
            );
        }
        client.answers(
            r#"
            HEAD /a.txt => 401 | Content-Length: 5
            GET /a.txt | Cookie: elsewhere => 302 | "go" | Location: https://login/?a=b | Set-Cookie: state=1
            GET /a.txt | Cookie: never => 403 | "no" | Cache-Control: max-age=9 | Transfer-Encoding: -
            # What is not there is not revealed.
            GET /nothing => 401
            GET /nothing | Cookie: is=ann => 404
            "#,
        );
        // Connections are used again.
        assert!(auth.connections() <= 8, "{backend}: {}", auth.connections());
    }
}

#[test]
fn a_failing_auth_server_lets_no_request_in() {
    let (dir, auth) = (site(), auth_server());
    let observer = Observer::new(false);
    let server = guarded(dir.path(), &auth, |options| {
        options.observer = observer.clone();
        options.site.auth_requests.time = Duration::from_millis(300);
    });
    for failing in [
        "broken",
        "known",
        "upgrade",
        "nonsense",
        "cut",
        "large",
        "large and let in",
        "hang",
    ] {
        let answer = cookie(&server, failing, "/a.txt");
        assert_eq!(answer.status, 503, "{failing}");
        assert!(!answer.text().contains("a.txt"));
    }
    server.stop();
    let counts = observer.seen().auth_requests;
    assert_eq!((counts.let_in, counts.refused, counts.failed), (0, 0, 8));
    let closed = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let server = Running::with(dir.path(), |options| {
        let rule = format!("http://{address}");
        options.site.auth_requests.rules = vec![rule.parse().unwrap()];
    });
    assert_eq!(cookie(&server, "is=ann", "/a.txt").status, 503);
}

#[test]
fn the_question_describes_the_request() {
    let (dir, auth) = (site(), auth_server());
    let server = guarded(dir.path(), &auth, |options| {
        options.site.auth_requests.copy = vec!["Remote-User".parse().unwrap()];
    });
    let mut client = server.connect();
    let fields = format!(
        "{ANN}Authorization: Basic x\r\nX-Kept: v\r\nConnection: X-Hop\r\nX-Hop: 1\r\nIf-None-Match: \"e\"\r\n\
         Range: bytes=0-0\r\nContent-Type: text/plain\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Uri: /open\r\n\
         X_Original-URL: /open\r\nX-Forwarded-Method: BREW\r\nX.Original_Method: BREW\r\nRemote-User: eve\r\nremote_user: eve\r\nContent-Length: 4\r\n"
    );
    client.send(format!(
        "POST /x/../%61.txt?b=c HTTP/1.1\r\nHost: test:1\r\n{fields}\r\nbody"
    ));
    assert_eq!(client.answer(false).status, 405);
    client.send(format!(
        "GET /x/../%61.txt?b=c HTTP/1.1\r\nHost: test:1\r\n{fields}\r\nbody"
    ));
    assert_eq!(client.answer(false).status, 206);
    let heads = auth.heads();
    let head = heads.last().unwrap();
    assert!(head.starts_with("GET /check?q=1 HTTP/1.1\r\n"), "{head}");
    for (name, value) in [
        ("Host", "test:1"),
        ("Cookie", "is=ann"),
        ("Authorization", "Basic x"),
        ("X-Kept", "v"),
        ("X-Forwarded-Method", "GET"),
        ("X-Forwarded-Proto", "http"),
        ("X-Forwarded-Host", "test:1"),
        ("X-Forwarded-Uri", "/a.txt?b=c"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Original-Method", "GET"),
        ("X-Original-URI", "/a.txt?b=c"),
        ("X-Original-URL", "http://test:1/a.txt?b=c"),
    ] {
        assert_eq!(field(head, name), Some(value), "{head}");
    }
    for absent in [
        "eve", "BREW", "/open", "9.9.9.9", "X-Hop", "If-None", "Range", "Content-", "body",
    ] {
        assert!(!head.contains(absent), "{absent} in {head}");
    }
}

#[test]
fn only_chosen_fields_are_sent() {
    let (dir, auth) = (site(), auth_server());
    let server = guarded(dir.path(), &auth, |options| {
        options.site.auth_requests.send = vec!["cookie".to_owned()];
    });
    let fields = format!("{ANN}Authorization: Basic x\r\nX-Kept: v\r\n");
    let answer = server.connect().request("GET", "/a.txt", &fields);
    assert_eq!(answer.status, 200);
    let head = auth.heads().pop().unwrap();
    assert!(head.contains("is=ann") && head.contains("X-Forwarded-Uri: /a.txt"));
    assert!(
        !head.contains("Basic") && !head.contains("X-Kept"),
        "{head}"
    );
}

fn copied(texts: &[&str]) -> Vec<CopiedField> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn upstreams_get_fields_of_the_answer_and_none_of_the_client() {
    let (dir, auth, program) = (site(), auth_server(), Program::start());
    let app = Backend::answering("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\napp");
    let log = tempfile::NamedTempFile::new().unwrap();
    let server = Running::with(dir.path(), |options| {
        let auth_requests = &mut options.site.auth_requests;
        auth_requests.rules = vec![rule("/app/**=", &auth), rule("/in/**=", &auth)];
        auth_requests.copy = copied(&["Remote-User", "X-Groups=X-Teams"]);
        let to = |prefix: &str| format!("{prefix}=http://{}", app.address());
        options.site.upstreams.http = ["/app", "/open"]
            .map(|prefix| Upstream::http(&to(prefix)).unwrap())
            .to_vec();
        let address = program.address();
        options.site.upstreams.fastcgi =
            vec![Upstream::fastcgi(&format!("/app/cgi={address}")).unwrap()];
        options.log = LogTarget::File(log.path().to_owned());
        options.log_format = LogFormat::Logfmt;
        options.log_options.fields = ["target", "req:Remote-User"]
            .map(|name| name.parse().unwrap())
            .to_vec();
    });
    let forged = "Remote-User: eve\r\nRemote_User: eve\r\nremote.user: eve\r\nx-teams: eve\r\nX_TEAMS: eve\r\n";
    let mut client = server.connect();
    for target in [
        "/app/x",
        "/open/x",
        "/app/cgi/x",
        "/in/side/b.txt",
        "/a.txt",
    ] {
        let answer = client.request("GET", target, &format!("{forged}{ANN}"));
        assert_eq!(answer.status, 200, "{target}");
    }
    let heads = app.heads();
    assert!(
        heads[0].contains("\r\nRemote-User: ann\r\nX-Teams: a\r\nX-Teams: b\r\n"),
        "{}",
        heads[0]
    );
    assert_eq!(field(&heads[1], "Remote-User"), None);
    assert!(!heads.concat().contains("eve"), "{heads:?}");
    assert!(!auth.heads().concat().contains("eve"));
    let call = program.calls().pop().unwrap();
    assert_eq!(
        (call.get("HTTP_REMOTE_USER"), call.get("REMOTE_USER")),
        ("ann", "ann")
    );
    assert!(!format!("{call:?}").contains("eve"));
    server.stop();
    let lines = fs::read_to_string(log.path()).unwrap();
    for line in [
        "target=/app/x req:Remote-User=ann",
        "target=/open/x req:Remote-User=-",
        "target=/in/side/b.txt req:Remote-User=ann",
        "target=/a.txt req:Remote-User=-",
    ] {
        assert!(lines.contains(line), "{line} in {lines}");
    }
}

#[test]
fn scripts_are_guarded_by_path_and_by_file() {
    let (dir, auth, program) = (site(), auth_server(), Program::start());
    for name in ["index.php", "admin/index.php"] {
        fs::write(dir.path().join(name), "<?php").unwrap();
    }
    let server = Running::with(dir.path(), |options| {
        let (address, auth_requests) = (program.address(), &mut options.site.auth_requests);
        auth_requests.rules = vec![rule("/admin/**=", &auth)];
        auth_requests.copy = copied(&["Remote-User"]);
        options.site.upstreams.php = Some(UpstreamAddress::Tcp(
            address.ip().to_string(),
            address.port(),
        ));
        options.site.rewrites = vec!["/secret=/admin/index.php".parse::<Rewrite>().unwrap()];
    });
    let mut client = server.connect();
    for target in "/admin/ /admin/index.php /index.php/admin/x /secret".split(' ') {
        assert_eq!(client.get(target).status, 401, "{target}");
    }
    assert!(program.calls().is_empty());
    let fields = format!("{ANN}Remote-User: eve\r\n");
    assert_eq!(client.request("GET", "/secret", &fields).status, 200);
    assert_eq!(program.calls()[0].get("REMOTE_USER"), "ann");
    client
        .request("GET", "/index.php", "Remote-User: eve\r\n")
        .is("200");
    assert!(!program.calls()[1].has("HTTP_REMOTE_USER") && !program.calls()[1].has("REMOTE_USER"));
}

#[test]
fn cookies_of_a_server_that_lets_in_reach_the_client_if_wanted() {
    let (dir, auth) = (site(), auth_server());
    let app =
        Backend::answering("HTTP/1.1 200 OK\r\nSet-Cookie: own\r\nContent-Length: 3\r\n\r\napp");
    for wanted in [false, true] {
        let server = guarded(dir.path(), &auth, |options| {
            options.site.auth_requests.cookies = wanted;
            options.site.upstreams.http = vec![http("/app", &app)];
        });
        for (target, own) in [("/a.txt", 0), ("/a.txt", 0), ("/nothing", 0), ("/app", 1)] {
            let answer = cookie(&server, "renew", target);
            let count = answer.head.matches("Set-Cookie: ").count();
            assert_eq!(count, own + if wanted { 2 } else { 0 }, "{}", answer.head);
        }
        // They are not kept with the file.
        let answer = cookie(&server, "is=ann", "/a.txt");
        assert_eq!(answer.header("Set-Cookie"), None);
    }
}

#[test]
fn every_rule_must_let_a_request_in_and_each_is_asked_once() {
    let (dir, all, admin) = (site(), auth_server(), auth_server());
    let server = Running::with(dir.path(), |options| {
        options.site.auth_requests.rules = vec![
            rule("", &all),
            rule("/admin/**=", &admin),
            "/in/**=off".parse().unwrap(),
        ];
        options.site.rewrites = vec!["/b=/admin/c.txt".parse::<Rewrite>().unwrap()];
    });
    let mut client = server.connect();
    assert_eq!(client.request("GET", "/a.txt", ANN).status, 200);
    assert_eq!((all.heads().len(), admin.heads().len()), (1, 0));
    assert_eq!(client.request("GET", "/admin/c.txt", ANN).status, 200);
    assert_eq!((all.heads().len(), admin.heads().len()), (2, 1));
    // The path that is asked for, and the one that answers.
    assert_eq!(client.get("/b").status, 401);
    assert_eq!(client.request("GET", "/b", ANN).status, 200);
    assert_eq!((all.heads().len(), admin.heads().len()), (4, 2));
    assert_eq!(field(&admin.heads()[1], "X-Original-URI"), Some("/b"));
    assert_eq!(client.get("/in/").status, 200);
    assert_eq!(client.get("/in/side/b.txt").header("Cache-Control"), None);
    for asked in ["/IN/", "/in%2f", "/in;x/", "/./%69n%20/"] {
        assert_eq!(client.get(asked).status, 401, "{asked}");
    }
    assert_eq!((all.heads().len(), admin.heads().len()), (8, 2));
}

#[test]
fn hosts_have_their_own_auth_servers() {
    let (dir, auth) = (site(), auth_server());
    let app = Backend::answering("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\napp");
    let server = Running::with(dir.path(), |options| {
        options.site.upstreams.http = vec![http("/app", &app)];
        options.site.auth_requests.copy = copied(&["Remote-User"]);
        let mut site = options.site.clone();
        site.auth_requests.rules = vec![rule("", &auth)];
        options.hosts = vec![laio_serve::Host {
            names: vec!["test".to_owned()],
            site,
        }];
    });
    server.answers(
        "
        GET /a.txt => 401
        GET /a.txt | Host: other => 200
        # The same application trusts the field in requests of every client.
        GET /app | Host: other | Remote-User: eve => 200
        ",
    );
    assert_eq!(field(&app.heads()[0], "Remote-User"), None);
}

#[test]
fn browsers_are_sent_to_the_login() {
    let (dir, auth) = (site(), auth_server());
    let server = guarded(dir.path(), &auth, |options| {
        options.site.auth_requests.login = Some("/login?rd={url}".to_owned());
        // It is not asked.
        options.site.upstreams.http = vec![Upstream::http("/app=http://127.0.0.1:1").unwrap()];
    });
    let to = "/login?rd=http%3A%2F%2Ftest%2Fa.txt%3Fb%3Dc%26d";
    server.answers(&format!(
        "
        GET /a.txt?b=c&d | Accept: text/html,*/*;q=0.8 => 302 | Location: {to} | Cache-Control: no-store
        GET /a.txt | Accept: application/json => 401
        POST /app | Accept: text/html => 401
        GET /a.txt | Cookie: never => 403
        "
    ));
}

#[test]
fn several_servers_for_a_glob_share_the_questions() {
    let (dir, auth, hanging) = (
        site(),
        auth_server(),
        Backend::start(|peer| while peer.request().is_some() {}),
    );
    let server = Running::with(dir.path(), |options| {
        options.workers = Some(1);
        options.site.auth_requests.rules = vec![rule("", &hanging), rule("", &auth)];
        options.site.auth_requests.time = Duration::from_millis(500);
    });
    for _ in 0..4 {
        assert_eq!(cookie(&server, "is=ann", "/a.txt").status, 200);
    }
    assert_eq!(auth.heads().len(), 4);
    assert!(!hanging.heads().is_empty());
}

#[test]
fn a_body_is_not_asked_for_before_the_request_is_let_in() {
    let (dir, auth) = (site(), auth_server());
    let app = Backend::start(|peer| {
        while peer.request().is_some() {
            peer.read(4);
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let server = guarded(dir.path(), &auth, |options| {
        options.site.uploads.who = Some(Uploaders::Users);
        options.site.uploads.keep_free = 0;
        options.site.upstreams.http = vec![http("/app", &app)];
    });
    server.answers(
        "
        PUT /new.txt | Expect: 100-continue | Content-Length: 4 => 401
        POST /app/x | Expect: 100-continue | Content-Length: 4 => 401
        GET /a.txt | Expect: 100-continue | Content-Length: 4 => 401
        ",
    );
    let expects = "Expect: 100-continue\r\nContent-Length: 4\r\n";
    assert!(app.heads().is_empty() && !dir.path().join("new.txt").exists());
    for (method, target, status) in [("PUT", "/new.txt", 201), ("POST", "/app/x", 200)] {
        let mut client = server.connect();
        let answer = client.request(method, target, &format!("{expects}{ANN}"));
        assert_eq!(answer.status, 100, "{method} {target}");
        client.send("body");
        assert_eq!(client.answer(false).status, status, "{method} {target}");
    }
    assert_eq!(fs::read(dir.path().join("new.txt")).unwrap(), b"body");
}

#[test]
fn changes_need_the_servers_of_all_paths() {
    let (dir, auth) = (site(), auth_server());
    let server = Running::with(dir.path(), |options| {
        options.site.auth_requests.rules = vec![rule("/admin/**=", &auth)];
        options.site.uploads.who = Some(Uploaders::Users);
        options.site.uploads.keep_free = 0;
        options.site.uploads.webdav = true;
    });
    server.answers(
        "
        # The path is open, but the destination is not, and what is in a directory may not be.
        COPY /a.txt | Destination: http://test/admin/x => 401
        MOVE /admin | Destination: http://test/open => 401
        MOVE /a.txt | Destination: http://test/b.txt => 401
        DELETE /admin/c.txt => 401
        DELETE /in/ => 401
        MKCOL /new => 401
        PROPFIND /admin/ | Depth: 1 => 401
        PROPFIND /in/ | Depth: 0 => 207
        COPY /a.txt | Cookie: is=ann | Destination: http://test/admin/x => 201
        ",
    );
    assert_eq!(fs::read(dir.path().join("admin/x")).unwrap(), b"a.txt");
    for who in [Uploaders::Anyone, Uploaders::Users] {
        let started = Running::try_with(dir.path(), |options| {
            if who == Uploaders::Anyone {
                options.site.auth_requests.rules = vec![rule("", &auth)];
            }
            options.site.uploads.who = Some(who);
        });
        assert!(started.is_err(), "{who:?}");
    }
}

#[test]
fn a_lock_belongs_to_the_user_whom_the_server_names() {
    let dir = site();
    let auth = Backend::start(|peer| {
        while let Some(head) = peer.request() {
            let user = field(&head, "Cookie").unwrap_or_default();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nRemote-User: {user}\r\nContent-Length: 0\r\n\r\n"
            ));
        }
    });
    let server = guarded(dir.path(), &auth, |options| {
        options.site.auth_requests.copy = copied(&["Remote-User"]);
        options.site.uploads.who = Some(Uploaders::Users);
        options.site.uploads.keep_free = 0;
        options.site.uploads.webdav = true;
    });
    let body = "<D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope>\
                <D:locktype><D:write/></D:locktype></D:lockinfo>";
    let mut client = server.connect();
    client.send(format!(
        "LOCK /a.txt HTTP/1.1\r\nHost: test\r\nCookie: ann\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let answer = client.answer(false);
    assert_eq!(answer.status, 200);
    let token = answer.header("Lock-Token").unwrap();
    server.answers(&format!(
        r#"
        PUT /a.txt | Cookie: eve | Remote-User: ann | If: ({token}) | "x" => 423
        PUT /a.txt | Cookie: ann | Remote-User: ann | If: ({token}) | "x" => 204
        "#
    ));
}

#[test]
fn archives_contain_what_the_servers_let_in() {
    let (dir, auth) = (site(), auth_server());
    let server = Running::with(dir.path(), |options| {
        options.site.auth_requests.rules = vec![rule("/admin/**=", &auth)];
        options.site.archives.zip = Some(Zip::Store);
        options.site.listing = true;
    });
    let packed = |fields: &str| {
        let answer = server.connect().request("GET", "/?zip", fields);
        assert_eq!(answer.status, 200);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(text.contains("a.txt"));
        text.contains("admin/c.txt")
    };
    assert!(!packed("") && !packed("Cookie: hang up\r\n") && !packed("Cookie: broken\r\n"));
    assert!(packed(ANN));
    assert_eq!(server.get("/admin/?zip").status, 401);
    assert_eq!(server.get("/admin/").status, 401);
    assert_eq!(cookie(&server, "is=ann", "/admin/").status, 200);
}

#[test]
fn stored_responses_of_upstreams_are_not_for_others() {
    let (dir, auth) = (site(), auth_server());
    let app = Backend::answering(
        "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=600\r\nContent-Length: 3\r\n\r\napp",
    );
    let server = Running::with(dir.path(), |options| {
        options.workers = Some(1);
        options.limits.upstream.cache_bytes = 1 << 20;
        options.site.auth_requests.rules = vec![rule("/app/in/**=", &auth)];
        options.site.upstreams.http = vec![http("/app", &app)];
    });
    for _ in 0..2 {
        server.answers(
            r#"
            GET /app/in/x | Cookie: is=ann => 200 | "app" | Cache-Control: public, max-age=600
            GET /app/in/x => 401
            GET /app/x | Cookie: is=ann => 200
            "#,
        );
    }
    // Only the open path was stored.
    assert_eq!(app.heads().len(), 3);
}

#[test]
fn tunnels_begin_when_the_request_is_let_in() {
    let (dir, auth) = (site(), auth_server());
    let app = Backend::start(|peer| {
        let Some(head) = peer.request() else { return };
        assert_eq!(field(&head, "Remote-User"), Some("ann"));
        peer.send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        );
        let line = peer.line();
        peer.send(format!("you said {line}\n"));
    });
    let server = guarded(dir.path(), &auth, |options| {
        options.site.auth_requests.copy = copied(&["Remote-User"]);
        options.site.auth_requests.cookies = true;
        options.site.upstreams.http = vec![http("/ws", &app)];
    });
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n";
    let answer = server.connect().request("GET", "/ws", upgrade);
    assert_eq!(answer.status, 401);
    assert!(app.heads().is_empty());
    let mut client = server.connect();
    let fields = format!("{upgrade}Cookie: renew\r\nRemote-User: eve\r\n");
    let answer = client.request("GET", "/ws", &fields);
    answer.is("101 | Set-Cookie: is=ann");
    client.send("hello\n");
    assert_eq!(line(&mut client), "you said hello");
}

fn line(client: &mut Client) -> String {
    let mut line = String::new();
    std::io::BufRead::read_line(&mut client.0, &mut line).unwrap();
    line.trim_end().to_owned()
}

#[test]
fn http_2_is_guarded() {
    let (dir, auth) = (site(), auth_server());
    let app = Backend::answering("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\napp");
    let server = guarded(dir.path(), &auth, |options| {
        options.site.auth_requests.copy = copied(&["Remote-User"]);
        options.site.auth_requests.cookies = true;
        options.site.upstreams.http = vec![http("/app", &app)];
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let address = server.places()[0].inet().unwrap();
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let ask = async |method: &str, path: &str, fields: &[(&str, &str)]| {
            let mut request = http::Request::builder()
                .method(method)
                .uri(format!("http://test{path}"));
            for (name, value) in fields {
                request = request.header(*name, *value);
            }
            let mut requests: h2::client::SendRequest<Bytes> =
                requests.clone().ready().await.unwrap();
            let ends = method == "GET";
            let request = request.body(()).unwrap();
            let (answer, _upload) = requests.send_request(request, ends).unwrap();
            let answer = answer.await.unwrap();
            let cookie = answer.headers().get("set-cookie").cloned();
            let location = answer.headers().get("location").cloned();
            (answer.status().as_u16(), cookie, location)
        };
        let (status, _, location) = ask("GET", "/a.txt", &[("cookie", "elsewhere")]).await;
        assert_eq!(
            (status, location.unwrap().to_str().unwrap()),
            (302, "https://login/?a=b")
        );
        assert_eq!(ask("GET", "/a.txt", &[]).await.0, 401);
        let (status, cookie, _) = ask("GET", "/a.txt", &[("cookie", "renew")]).await;
        assert_eq!((status, cookie.unwrap().to_str().unwrap()), (200, "is=ann"));
        // The body of this one is never sent.
        assert_eq!(ask("POST", "/app", &[]).await.0, 401);
        assert!(app.heads().is_empty());
        let fields = [
            ("cookie", "is=ann"),
            ("remote-user", "eve"),
            ("remote_user", "eve"),
        ];
        assert_eq!(ask("GET", "/app", &fields).await.0, 200);
    });
    let head = app.heads().pop().unwrap();
    assert!(
        head.contains("\r\nRemote-User: ann\r\n") && !head.contains("eve"),
        "{head}"
    );
    let head = auth.heads().pop().unwrap();
    assert_eq!(field(&head, "X-Forwarded-Host"), Some("test"));
}

#[test]
fn fields_of_the_answer_are_bounded() {
    let dir = site();
    let auth = Backend::start(|peer| {
        while peer.request().is_some() {
            let many = "Remote-User: ann\r\nSet-Cookie: a\r\n".repeat(40);
            peer.send(format!(
                "HTTP/1.1 200 OK\r\n{many}Content-Length: 0\r\n\r\n"
            ));
        }
    });
    let app = Backend::answering("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\napp");
    let server = guarded(dir.path(), &auth, |options| {
        options.site.auth_requests.copy = copied(&["Remote-User"]);
        options.site.auth_requests.cookies = true;
        options.site.upstreams.http = vec![http("/app", &app)];
    });
    let answer = server.get("/app");
    let most = laio_serve::AuthRequests::COOKIES;
    assert_eq!(
        (answer.status, answer.head.matches("Set-Cookie").count()),
        (200, most)
    );
    let most = laio_serve::AuthRequests::COPIED;
    assert_eq!(app.heads()[0].matches("Remote-User").count(), most);
}

#[test]
fn an_auth_server_may_use_a_unix_socket() {
    let dir = site();
    let socket = dir.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let server = Running::with(dir.path(), |options| {
        let rule = format!("http+unix:{}:/check?q", socket.display());
        options.site.auth_requests.rules = vec![rule.parse().unwrap()];
    });
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        let length = std::io::Read::read(&mut stream, &mut buffer).unwrap();
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(text.as_bytes()).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    });
    assert_eq!(server.get("/a.txt").status, 200);
    assert!(
        answering
            .join()
            .unwrap()
            .starts_with("GET /check?q HTTP/1.1\r\n")
    );
}

#[test]
fn an_explanation_names_the_rule() {
    let (dir, auth) = (site(), auth_server());
    let mut options = Options::default();
    options.site.root = Some(dir.path().to_owned());
    options.site.auth_requests.rules =
        vec![rule("/admin/**=", &auth), "/in/**=off".parse().unwrap()];
    let steps = |path: &str| {
        let explained = explain(&options, &Question::new(path).unwrap()).unwrap();
        let steps = explained.steps.into_iter().map(|step| step.text);
        (
            steps.collect::<Vec<_>>().join("\n"),
            explained.answer.unwrap().status,
        )
    };
    let (text, status) = steps("/admin/c.txt");
    let address = auth.address();
    let asks = format!(
        "--auth-request /admin/** asks http://{address}/check; explained as if it let the request in"
    );
    assert!(text.contains(&asks), "{text}");
    assert_eq!(status, 200);
    let (text, _) = steps("/in/side/b.txt");
    assert!(
        text.contains("--auth-request /in/**=off lets everyone in"),
        "{text}"
    );
    assert!(!steps("/a.txt").0.contains("auth-request"));
    assert!(auth.heads().is_empty());
}

#[test]
fn pipelined_requests_are_decided_one_by_one() {
    let (dir, auth) = (site(), auth_server());
    let server = guarded(dir.path(), &auth, |options| {
        options.site.compress = vec![Coding::Gzip];
    });
    let mut client = server.connect();
    let one =
        |cookie: &str| format!("GET /a.txt HTTP/1.1\r\nHost: test\r\nCookie: {cookie}\r\n\r\n");
    client.send([one("is=ann"), one("eve"), one("is=ann"), one("never")].concat());
    let statuses: Vec<_> = (0..4).map(|_| client.answer(false).status).collect();
    assert_eq!(statuses, [200, 401, 200, 403]);
    until("all were asked about", || auth.heads().len() == 4);
}

#[test]
fn an_auth_server_may_use_http_2() {
    let dir = site();
    let auth = Server2::start(|request, mut respond| {
        Box::pin(async move {
            let is_ann = request
                .headers()
                .get("cookie")
                .is_some_and(|it| it == "is=ann");
            let answer = http::Response::builder();
            let answer = if is_ann {
                answer.status(200).header("remote-user", "ann")
            } else {
                answer.status(401).header("www-authenticate", "Bearer")
            };
            let mut body = respond.send_response(answer.body(()).unwrap(), false)?;
            body.send_data(Bytes::from_static(b"text"), true)
        })
    });
    let app = Backend::answering("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\napp");
    let server = Running::with(dir.path(), |options| {
        let upstream = auth.upstream("/");
        options.site.auth_requests.rules = vec![AuthRule {
            glob: None,
            server: Some(AuthServer {
                upstream,
                path: "/check".to_owned(),
                query: None,
            }),
        }];
        options.site.auth_requests.copy = copied(&["Remote-User"]);
        options.site.upstreams.http = vec![http("/app", &app)];
    });
    server.answers(
        r#"
        GET /a.txt => 401 | "text" | WWW-Authenticate: Bearer
        GET /app | Cookie: is=ann => 200
        "#,
    );
    assert_eq!(field(&app.heads()[0], "Remote-User"), Some("ann"));
}
