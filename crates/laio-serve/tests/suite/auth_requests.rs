//! Auth servers: what they are asked, and what clients get when they let requests in, refuse them, or fail.

use crate::common::http2;
use crate::common::multiplexed::{Multiplexed, run};
use crate::common::program::Program;
use crate::common::table::{lines, sides};
use crate::common::{Running, every_backend, until};
use crate::upstreams::backend::Backend;
use crate::upstreams::http;
use crate::upstreams::http2::Server2;
use bytes::Bytes;
use laio_serve::{
    AuthRule, AuthServer, Coding, CopiedField, LogFormat, LogTarget, Observer, Options, Question,
    Rewrite, Uploaders, Upstream, Zip, explain,
};
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// What the auth server answers to a cookie; `|` is the end of a line, `LARGE` a body of 70,000 bytes.
const ANSWERS: &str = r#"
    is=ann => 200 OK|Remote-User: ann|X-Groups: a|X-Groups: b|Content-Length: 3||yes
    renew => 204 No Content|Remote-User: ann|Set-Cookie: is=ann|Set-Cookie: b=c||
    elsewhere => 302 Found|Location: https://login/?a=b|Set-Cookie: state=1|Content-Length: 2||go
    never => 403 Forbidden|Cache-Control: max-age=9|Transfer-Encoding: chunked||2|no|0||
    broken => 500 Internal Server Error|Content-Length: 0||
    known => 304 Not Modified||
    upgrade => 101 Switching Protocols|Upgrade: x|Connection: Upgrade||
    large => 401 Unauthorized|Content-Length: 70000||LARGE
    large and let in => 200 OK|Content-Length: 70000||LARGE
    cut => 200 OK|Content-Length: 9||123
    others => 401 Unauthorized|WWW-Authenticate: Bearer realm="a"|Content-Length: 4||who?
"#;

/// An auth server that does what the cookie of the request says.
fn auth_server() -> Backend {
    let answer = |cookie: &str| {
        let mut answers = lines(ANSWERS).map(sides);
        let (_, answer) = answers.find(|(own, _)| [cookie, "others"].contains(own))?;
        let answer = answer.replace('|', "\r\n");
        Some("HTTP/1.1 ".to_owned() + &answer.replace("LARGE", &"x".repeat(70_000)))
    };
    Backend::start(move |peer| {
        while let Some(head) = peer.request() {
            match field(&head, "Cookie").unwrap_or_default() {
                "nonsense" => peer.send("220 smtp\r\n\r\n"),
                "cut" => return peer.send(answer("cut").unwrap()),
                "hang" => {
                    peer.request();
                    return;
                }
                cookie => peer.send(answer(cookie).unwrap()),
            }
        }
    })
}

/// An application that answers each request.
fn application() -> Backend {
    Backend::answering("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\napp")
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

/// Passes on what the auth server says, also to the application for `/app`.
fn passes_on(options: &mut Options, app: &Backend) {
    options.site.auth_requests.copy = copied(&["Remote-User"]);
    options.site.auth_requests.cookies = true;
    options.site.upstreams.http = vec![http("/app", app)];
}

/// Lets users change files, where the disk may be full.
fn with_uploads(options: &mut Options) {
    options.site.uploads.who = Some(Uploaders::Users);
    options.site.uploads.keep_free = 0;
    options.site.uploads.webdav = true;
}

/// Serves the site, all of which an auth server guards.
fn guarded(root: &Path, auth: &Backend, change: impl FnOnce(&mut Options)) -> Running {
    Running::with(root, |options| {
        options.site.auth_requests.rules = vec![rule("", auth)];
        change(options);
    })
}

#[test]
fn requests_are_let_in_or_get_the_answer() {
    for backend in every_backend() {
        let (dir, auth) = (site(), auth_server());
        let server = Running::on(backend, dir.path(), |options| {
            options.site.auth_requests.rules = vec![rule("", &auth)];
        });
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
            HEAD /a.txt => 401 | Content-Length: 4
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
    server.answers(
        "
        GET /a.txt | Cookie: broken => 503 | lacks a.txt
        GET /a.txt | Cookie: known => 503 | lacks a.txt
        GET /a.txt | Cookie: upgrade => 503 | lacks a.txt
        GET /a.txt | Cookie: nonsense => 503 | lacks a.txt
        GET /a.txt | Cookie: cut => 503 | lacks a.txt
        GET /a.txt | Cookie: large => 503 | lacks a.txt
        GET /a.txt | Cookie: large and let in => 503 | lacks a.txt
        GET /a.txt | Cookie: hang => 503 | lacks a.txt
        ",
    );
    server.stop();
    let counts = observer.seen().auth_requests;
    assert_eq!((counts.let_in, counts.refused, counts.failed), (0, 0, 8));
    // Nothing listens there.
    let server = Running::with(dir.path(), |options| {
        options.site.auth_requests.rules = vec!["http://127.0.0.1:1".parse().unwrap()];
    });
    server.answers("GET /a.txt | Cookie: is=ann => 503");
}

#[test]
fn the_question_describes_the_request() {
    let (dir, auth) = (site(), auth_server());
    let copy = |options: &mut Options| options.site.auth_requests.copy = copied(&["Remote-User"]);
    let server = guarded(dir.path(), &auth, copy);
    let request = "/x/../%61.txt?b=c | Host: test:1 | Cookie: is=ann | Authorization: Basic x | X-Kept: v | \
        Connection: X-Hop | X-Hop: 1 | If-None-Match: \"e\" | Range: bytes=0-0 | Content-Type: text/plain | \
        X-Forwarded-For: 9.9.9.9 | X-Forwarded-Uri: /open | X_Original-URL: /open | \
        X-Forwarded-Method: BREW | X.Original_Method: BREW | Remote-User: eve | remote_user: eve | \"body\"";
    server.connect().answers(&format!(
        "
        POST {request} => 405
        GET {request} => 206
        "
    ));
    auth.got(
        "Host: test:1 | Cookie: is=ann | Authorization: Basic x | X-Kept: v | X-Forwarded-Method: GET | \
         X-Forwarded-Proto: http | X-Forwarded-Host: test:1 | X-Forwarded-Uri: /a.txt?b=c | \
         X-Forwarded-For: 127.0.0.1 | X-Original-Method: GET | X-Original-URI: /a.txt?b=c | \
         X-Original-URL: http://test:1/a.txt?b=c | lacks eve | lacks BREW | lacks /open | lacks 9.9.9.9 | \
         lacks X-Hop | lacks If-None | lacks Range | lacks Content- | lacks body",
    );
    assert!(auth.heads()[0].starts_with("GET /check?q=1 HTTP/1.1\r\n"));
}

#[test]
fn only_chosen_fields_are_sent() {
    let (dir, auth) = (site(), auth_server());
    let server = guarded(dir.path(), &auth, |options| {
        options.site.auth_requests.send = vec!["cookie".to_owned()];
    });
    server.answers("GET /a.txt | Cookie: is=ann | Authorization: Basic x | X-Kept: v => 200");
    auth.got("has is=ann | X-Forwarded-Uri: /a.txt | lacks Basic | lacks X-Kept");
}

fn copied(texts: &[&str]) -> Vec<CopiedField> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn upstreams_get_fields_of_the_answer_and_none_of_the_client() {
    let (dir, auth, app, program) = (site(), auth_server(), application(), Program::start());
    let log = tempfile::NamedTempFile::new().unwrap();
    let server = Running::with(dir.path(), |options| {
        options.site.auth_requests.rules = vec![rule("/app/**=", &auth), rule("/in/**=", &auth)];
        options.site.auth_requests.copy = copied(&["Remote-User", "X-Groups=X-Teams"]);
        options.site.upstreams.http = vec![http("/app", &app), http("/open", &app)];
        let program = Upstream::fastcgi(&format!("/app/cgi={}", program.address()));
        options.site.upstreams.fastcgi = vec![program.unwrap()];
        options.log = LogTarget::File(log.path().to_owned());
        options.log_format = LogFormat::Logfmt;
        options.log_options.fields = ["target", "req:Remote-User"]
            .map(|name| name.parse().unwrap())
            .to_vec();
    });
    let forged = "Cookie: is=ann | Remote-User: eve | Remote_User: eve | remote.user: eve | \
                  x-teams: eve | X_TEAMS: eve";
    server.connect().answers(&format!(
        "
        GET /app/x | {forged} => 200
        GET /open/x | {forged} => 200
        GET /app/cgi/x | {forged} => 200
        GET /in/side/b.txt | {forged} => 200
        GET /a.txt | {forged} => 200
        "
    ));
    app.got("Remote-User: -");
    let heads = app.heads();
    let added = "\r\nRemote-User: ann\r\nX-Teams: a\r\nX-Teams: b\r\n";
    assert!(heads[0].contains(added), "{heads:?}");
    assert!(!heads.concat().contains("eve"), "{heads:?}");
    assert!(!auth.heads().concat().contains("eve"));
    let call = program.calls().pop().unwrap();
    let users = ["HTTP_REMOTE_USER", "REMOTE_USER"].map(|name| call.get(name));
    assert_eq!(users, ["ann", "ann"]);
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
        options.site.auth_requests.rules = vec![rule("/admin/**=", &auth)];
        options.site.auth_requests.copy = copied(&["Remote-User"]);
        options.site.upstreams.php = Some(program.address().to_string().parse().unwrap());
        options.site.rewrites = vec!["/secret=/admin/index.php".parse::<Rewrite>().unwrap()];
    });
    server.connect().answers(
        "
        GET /admin/ => 401
        GET /admin/index.php => 401
        GET /index.php/admin/x => 401
        GET /secret => 401
        ",
    );
    assert!(program.calls().is_empty());
    server.answers("GET /secret | Cookie: is=ann | Remote-User: eve => 200");
    assert_eq!(program.calls()[0].get("REMOTE_USER"), "ann");
    server.answers("GET /index.php | Remote-User: eve => 200");
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
            let answer = server.ask(&format!("GET {target} | Cookie: renew"));
            let count = answer.head.matches("Set-Cookie: ").count();
            assert_eq!(count, own + if wanted { 2 } else { 0 }, "{}", answer.head);
        }
        // They are not kept with the file.
        server.answers("GET /a.txt | Cookie: is=ann => Set-Cookie: -");
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
    let asked = || (all.heads().len(), admin.heads().len());
    client.answers("GET /a.txt | Cookie: is=ann => 200");
    assert_eq!(asked(), (1, 0));
    client.answers("GET /admin/c.txt | Cookie: is=ann => 200");
    assert_eq!(asked(), (2, 1));
    // The path that is asked for, and the one that answers.
    client.answers("GET /b => 401");
    client.answers("GET /b | Cookie: is=ann => 200");
    assert_eq!(asked(), (4, 2));
    admin.got("X-Original-URI: /b");
    client.answers(
        "
        GET /in/ => 200
        GET /in/side/b.txt => Cache-Control: -
        GET /IN/ => 401
        GET /in%2f => 401
        GET /in;x/ => 401
        GET /./%69n%20/ => 401
        ",
    );
    assert_eq!(asked(), (8, 2));
}

#[test]
fn hosts_have_their_own_auth_servers() {
    let (dir, auth, app) = (site(), auth_server(), application());
    let server = Running::with(dir.path(), |options| {
        options.site.upstreams.http = vec![http("/app", &app)];
        options.site.auth_requests.copy = copied(&["Remote-User"]);
        let (names, mut site) = (vec!["test".to_owned()], options.site.clone());
        site.auth_requests.rules = vec![rule("", &auth)];
        options.hosts = vec![laio_serve::Host { names, site }];
    });
    server.answers(
        "
        GET /a.txt => 401
        GET /a.txt | Host: other => 200
        # The same application trusts the field in requests of every client.
        GET /app | Host: other | Remote-User: eve => 200
        ",
    );
    app.got("Remote-User: -");
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
    let (dir, auth) = (site(), auth_server());
    let hanging = Backend::start(|peer| while peer.request().is_some() {});
    let server = Running::with(dir.path(), |options| {
        options.workers = Some(1);
        options.site.auth_requests.rules = vec![rule("", &hanging), rule("", &auth)];
        options.site.auth_requests.time = Duration::from_millis(500);
    });
    for _ in 0..4 {
        server.answers("GET /a.txt | Cookie: is=ann => 200");
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
        with_uploads(options);
        options.site.upstreams.http = vec![http("/app", &app)];
    });
    server.answers(
        "
        PUT /new.txt | Expect: 100-continue | Content-Length: 4 => 401
        POST /app/x | Expect: 100-continue | Content-Length: 4 => 401
        GET /a.txt | Expect: 100-continue | Content-Length: 4 => 401
        ",
    );
    assert!(app.heads().is_empty() && !dir.path().join("new.txt").exists());
    for (request, expected) in [("PUT /new.txt", "201"), ("POST /app/x", "200")] {
        let mut client = server.connect();
        let expects = "Expect: 100-continue | Content-Length: 4 | Cookie: is=ann";
        client.answers(&format!("{request} | {expects} => 100"));
        client.send("body");
        client.answer(false).is(expected);
    }
    assert_eq!(fs::read(dir.path().join("new.txt")).unwrap(), b"body");
}

#[test]
fn changes_need_the_servers_of_all_paths() {
    let (dir, auth) = (site(), auth_server());
    let server = Running::with(dir.path(), |options| {
        options.site.auth_requests.rules = vec![rule("/admin/**=", &auth)];
        with_uploads(options);
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
            let named = format!("HTTP/1.1 200 OK\r\nRemote-User: {user}\r\n");
            peer.send(named + "Content-Length: 0\r\n\r\n");
        }
    });
    let server = guarded(dir.path(), &auth, |options| {
        options.site.auth_requests.copy = copied(&["Remote-User"]);
        with_uploads(options);
    });
    let body = "<D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope>\
                <D:locktype><D:write/></D:locktype></D:lockinfo>";
    let answer = server.ask(&format!("LOCK /a.txt | Cookie: ann | \"{body}\""));
    answer.is("200");
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
    server.answers(
        "
        GET /?zip => 200 | has a.txt | lacks admin/c.txt
        GET /?zip | Cookie: hang up => 200 | has a.txt | lacks admin/c.txt
        GET /?zip | Cookie: broken => 200 | has a.txt | lacks admin/c.txt
        GET /?zip | Cookie: is=ann => 200 | has a.txt | has admin/c.txt
        GET /admin/?zip => 401
        GET /admin/ => 401
        GET /admin/ | Cookie: is=ann => 200
        ",
    );
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
    let server = guarded(dir.path(), &auth, |options| passes_on(options, &app));
    let upgrade = "Connection: Upgrade | Upgrade: websocket | Sec-WebSocket-Key: x";
    server.answers(&format!("GET /app | {upgrade} => 401"));
    assert!(app.heads().is_empty());
    let mut client = server.connect();
    let request = format!("GET /app | {upgrade} | Cookie: renew | Remote-User: eve");
    client.answers(&format!("{request} => 101 | Set-Cookie: is=ann"));
    client.send("hello\n");
    let mut said = [0; 15];
    client.0.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"you said hello\n");
}

#[test]
fn http_2_is_guarded() {
    let (dir, auth, app) = (site(), auth_server(), application());
    let server = guarded(dir.path(), &auth, |options| passes_on(options, &app));
    run(async {
        let client = http2::Client::connect(&server).await;
        let table = "
            GET /a.txt | cookie: elsewhere => 302 | Location: https://login/?a=b
            GET /a.txt => 401
            GET /a.txt | cookie: renew => 200 | Set-Cookie: is=ann
        ";
        client.answers(table).await;
        // The body of this one is never sent.
        let (refused, _body) = client.open("POST /app", false).await.unwrap();
        assert_eq!(refused.await.unwrap().status(), 401);
        assert!(app.heads().is_empty());
        let request = "GET /app | cookie: is=ann | remote-user: eve | remote_user: eve";
        client.ask(request).await.is("200");
    });
    app.got("Remote-User: ann | lacks eve");
    auth.got("X-Forwarded-Host: test");
}

#[test]
fn fields_of_the_answer_are_bounded() {
    let dir = site();
    let auth = Backend::start(|peer| {
        while peer.request().is_some() {
            let many = "Remote-User: ann\r\nSet-Cookie: a\r\n".repeat(40);
            peer.send("HTTP/1.1 200 OK\r\n".to_owned() + &many + "Content-Length: 0\r\n\r\n");
        }
    });
    let app = application();
    let server = guarded(dir.path(), &auth, |options| passes_on(options, &app));
    let answer = server.ask("GET /app");
    let cookies = answer.head.matches("Set-Cookie").count();
    let most = laio_serve::AuthRequests::COOKIES;
    assert_eq!((answer.status, cookies), (200, most));
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
        let length = stream.read(&mut buffer).unwrap();
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(text.as_bytes()).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    });
    assert_eq!(server.get("/a.txt").status, 200);
    let asked = answering.join().unwrap();
    assert!(asked.starts_with("GET /check?q HTTP/1.1\r\n"), "{asked}");
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
        let steps = explained.steps.into_iter().map(|step| step.text + "\n");
        (steps.collect::<String>(), explained.answer.unwrap().status)
    };
    let (text, status) = steps("/admin/c.txt");
    let address = auth.address();
    let asks = format!("--auth-request /admin/** asks http://{address}/check;");
    let assumed = text.contains(&(asks + " explained as if it let the request in"));
    assert!(assumed && status == 200, "{text}");
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
            let cookie = request.headers().get("cookie");
            let answer = ::http::Response::builder();
            let answer = if cookie.is_some_and(|it| it == "is=ann") {
                answer.status(200).header("remote-user", "ann")
            } else {
                answer.status(401).header("www-authenticate", "Bearer")
            };
            let mut body = respond.send_response(answer.body(()).unwrap(), false)?;
            body.send_data(Bytes::from_static(b"text"), true)
        })
    });
    let app = application();
    let server = Running::with(dir.path(), |options| {
        let upstream = auth.upstream("/");
        let (path, query) = ("/check".to_owned(), None);
        let server = Some(AuthServer {
            upstream,
            path,
            query,
        });
        options.site.auth_requests.rules = vec![AuthRule { glob: None, server }];
        options.site.auth_requests.copy = copied(&["Remote-User"]);
        options.site.upstreams.http = vec![http("/app", &app)];
    });
    server.answers(
        r#"
        GET /a.txt => 401 | "text" | WWW-Authenticate: Bearer
        GET /app | Cookie: is=ann => 200
        "#,
    );
    app.got("Remote-User: ann");
}
