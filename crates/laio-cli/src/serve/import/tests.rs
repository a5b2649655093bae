//! Imports of configurations as they are in use. `cases` has each with its translation and its remarks;
//! `LAIO_BLESS=1` writes those that are there.

use super::parser::{parse, read};
use super::translate::translate;
use crate::serve::config::{ConfigurationReader, load};
use std::fs;
use std::path::{Path, PathBuf};

fn cases() -> Vec<PathBuf> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/serve/import/cases");
    let all = fs::read_dir(cases)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = all
        .filter(|path| path.extension().is_some_and(|it| it == "conf"))
        .collect();
    all.sort();
    all
}

#[test]
fn configurations_in_use() {
    let reader = ConfigurationReader::new();
    assert!(cases().len() >= 8);
    for case in cases() {
        let name = case.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&case).unwrap();
        let tree = parse(&text).unwrap();
        let (toml, remarks) = translate(&tree, &reader);
        let lost = remarks.is_lost();
        let remarks = remarks.text();
        // The server reads what was written, and nothing is said twice.
        let read = reader
            .text(&toml)
            .unwrap_or_else(|wrong| panic!("{name}: {wrong}\n{toml}"));
        assert_eq!(reader.text(&read).unwrap(), read, "{name}");
        for (extension, actual) in [("toml", &toml), ("remarks", &remarks)] {
            let file = case.with_extension(extension);
            if std::env::var_os("LAIO_BLESS").is_some_and(|value| value == "1") {
                fs::write(&file, actual).unwrap();
            }
            let expected = fs::read_to_string(&file).unwrap_or_default();
            assert_eq!(
                actual,
                &expected,
                "{} (LAIO_BLESS=1 writes it)",
                file.display()
            );
        }
        assert_eq!(lost, remarks.contains(": left out: "), "{name}");
        compile(&name, &toml);
    }
}

/// Checks that a server would start with the sites of a configuration, with directories that exist.
fn compile(name: &str, toml: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = |file: &str| dir.path().join(file).display().to_string();
    fs::write(path("users"), USERS).unwrap();
    let lines = toml.lines().map(|line| match line.split_once(" = ") {
        Some(("root", _)) => format!("root = '{}'\n", dir.path().display()),
        Some(("auth", _)) => format!("auth = '{}'\n", path("users")),
        // A directive that nginx does not have.
        _ => format!("{line}\n").replace("http://grafana:", "http://127.0.0.1:"),
    });
    let mut table: toml::Table = lines.collect::<String>().parse().unwrap();
    place_aliases(&mut table, dir.path());
    fs::write(path("laio.toml"), table.to_string()).unwrap();
    let flags = ["--config".into(), path("laio.toml").into()];
    let options = load(&flags).unwrap().options().unwrap();
    let question = laio_serve::Question::new("/").unwrap();
    laio_serve::explain(&options, &question).unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// Gives all aliases a directory that exists.
fn place_aliases(table: &mut toml::Table, directory: &Path) {
    for (key, value) in table {
        match value {
            toml::Value::Array(aliases) if key == "alias" => {
                for alias in aliases {
                    let (path, _) = alias.as_str().unwrap().split_once('=').unwrap();
                    *alias = format!("{path}={}", directory.display()).into();
                }
            }
            toml::Value::Table(inner) => place_aliases(inner, directory),
            _ => {}
        }
    }
}

/// The words and blocks of a configuration stay the same in quotes.
#[test]
fn quotes_change_nothing() {
    let reader = ConfigurationReader::new();
    let odd = r#"a \"b "c\\" 'd"e' {} f "g\n
" ; content_by_lua_block { x('}') }"#;
    let texts = cases()
        .into_iter()
        .map(|case| fs::read_to_string(case).unwrap());
    for text in texts.chain([odd.to_owned()]) {
        let quoted = super::requoted(&text).unwrap();
        assert_eq!(super::requoted(&quoted).unwrap(), quoted);
        let imported = |text: &str| super::imported(text, &reader).unwrap();
        let without_lines = |text: String| text.replace(|c: char| c.is_ascii_digit(), "");
        assert_eq!(
            without_lines(imported(&quoted)),
            without_lines(imported(&text))
        );
    }
}

const USERS: &str =
    "ann:$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$hB+3w+XCqbeX/gTIqKvDd3rvONixo8T2Dgv6KiwCGcs\n";

/// Every directive is translated, needs no translation, or has a remark with its line.
#[test]
fn nothing_is_left_out_in_silence() {
    let reader = ConfigurationReader::new();
    for (server, expected) in [
        ("frobnicate on;", "frobnicate on"),
        ("location /x { frobnicate on; }", "frobnicate on"),
        ("location ~ ^/(?<a>.)$ { root /x; }", "location ~"),
        ("location = { }", "location ="),
        ("location { }", "location"),
        (
            "content_by_lua_block { ngx.say('}') }",
            "content_by_lua_block",
        ),
        ("return 200;", "return 200"),
        ("return;", "return"),
        ("rewrite a;", "rewrite a"),
        ("listen nowhere;", "listen nowhere"),
        ("error_page 404;", "error_page 404"),
        ("add_header X;", "add_header X"),
        ("expires never;", "expires never"),
        ("keepalive_timeout 0;", "keepalive_timeout 0"),
        ("client_max_body_size much;", "client_max_body_size much"),
        ("auth_basic x;", "auth_basic x"),
        ("try_files $uri @nowhere;", "try_files"),
        ("try_files $uri /x.php;", "try_files"),
        (
            "location /a { return 301 /b; } location /a/b { expires 1d; }",
            "location /a/b",
        ),
        ("location / { proxy_pass nonsense; }", "proxy_pass nonsense"),
        (
            "location / { fastcgi_pass nonsense; }",
            "fastcgi_pass nonsense",
        ),
        ("location / { return 301 https://$weird/; }", "return 301"),
        (
            "ssl_verify_client optional_no_ca; listen 1 ssl;",
            "ssl_verify_client",
        ),
        ("ssl_protocols SSLv3; listen 1 ssl;", "ssl_protocols"),
    ] {
        let tree = parse(&format!("server {{\nroot /srv;\n{server} }}")).unwrap();
        let (toml, remarks) = translate(&tree, &reader);
        reader
            .text(&toml)
            .unwrap_or_else(|wrong| panic!("{server}: {wrong}\n{toml}"));
        let remarks = remarks.text();
        let said = remarks
            .lines()
            .any(|line| line.starts_with("nginx.conf:3: left out: ") && line.contains(expected));
        assert_eq!(said, !expected.is_empty(), "{server}: {remarks}");
    }
}

/// Whatever the bytes are, the parser and the translation end, and the server reads the result.
#[test]
fn random_bytes() {
    let reader = ConfigurationReader::new();
    let pieces: Vec<&[u8]> = [
        "server",
        "location",
        "/",
        "~",
        "~*",
        "=",
        "^~",
        "@a",
        "{",
        "}",
        ";",
        " ",
        "\n",
        "\"",
        "'",
        "\\",
        "#",
        "$",
        "$uri",
        "root",
        "/srv",
        "return",
        "301",
        "404",
        "https://$host$request_uri",
        "rewrite",
        "^/(.*)$",
        "permanent",
        "http",
        "listen",
        "443",
        "80",
        "ssl",
        "ssl_certificate",
        "ssl_certificate_key",
        "server_name",
        "a.b",
        "*.c",
        "_",
        "try_files",
        "$uri/",
        "=404",
        "/index.php?$args",
        "fastcgi_pass",
        "unix:/s",
        "proxy_pass",
        "http://u",
        "http://127.0.0.1:1/x",
        "upstream",
        "u",
        "add_header",
        "X-A",
        "Cache-Control",
        "expires",
        "30d",
        "max",
        "gzip",
        "on",
        "auth_basic",
        "auth_basic_user_file",
        "\\.php$",
        "\\.(css|js?)$",
        "(",
        ")",
        "|",
        "[",
        "*",
        "?",
        "é",
        "\0",
        "\u{1}",
        "include",
        "if",
        "autoindex",
        "error_page",
        "access_log",
        "off",
        "index",
        "alias",
        "deny",
        "all",
        "=x",
        "a=b",
    ]
    .map(str::as_bytes)
    .to_vec();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut read = 0;
    for round in 0..3_000 {
        let mut bytes = Vec::new();
        if round % 4 == 0 {
            bytes.extend((0..random(60)).map(|_| random(256) as u8));
        } else {
            // Blocks and directives that are often well-formed.
            let mut open = 0;
            for _ in 0..random(20) {
                match random(8) {
                    0 => {
                        bytes.extend_from_slice(
                            [
                                &b"server { "[..],
                                b"http { ",
                                b"location / { ",
                                b"location ~ \\.php$ { ",
                            ][random(4)],
                        );
                        open += 1;
                    }
                    1 if open > 0 => {
                        bytes.extend_from_slice(b"} ");
                        open -= 1;
                    }
                    _ => {
                        for _ in 0..=random(4) {
                            bytes.extend_from_slice(pieces[random(pieces.len())]);
                            bytes.push(b' ');
                        }
                        bytes.extend_from_slice(b";\n");
                    }
                }
            }
            bytes.extend(std::iter::repeat_n(b'}', open));
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(tree) = parse(&text) {
            read += 1;
            let (toml, remarks) = translate(&tree, &reader);
            remarks.text();
            reader
                .text(&toml)
                .unwrap_or_else(|wrong| panic!("{text}\n{wrong}\n{toml}"));
        }
    }
    assert!(read > 300, "{read} of the texts were well-formed");
}

/// Of several locations that fit a path, the one counts that nginx would choose.
#[test]
fn the_order_of_locations() {
    let tree = parse(
        "server { root /srv; location /a/ { expires 1s; } location ~ \\.js$ { expires 2s; } location ~ \\.(js|css)$ \
         { expires 3s; } location ^~ /a/b/ { expires 4s; } location = /a/b/c.js { expires 5s; } location /a/b { \
         return 301 /z; } location /a { return 301 /y; } location = /a/x { return 302 /x; } }",
    );
    let (toml, _) = translate(&tree.unwrap(), &ConfigurationReader::new());
    // The last rule for a field wins, and the first redirect.
    let places: Vec<_> = [
        "/a/**=max-age=1",
        "*.css=max-age=3",
        "*.js=max-age=2",
        "/a/b/**=max-age=4",
        "/a/b/c.js=max-age=5",
        "/a/x=/x=302",
        "/a/b*=/z=301",
        "/a*=/y=301",
    ]
    .iter()
    .map(|rule| {
        toml.find(rule)
            .unwrap_or_else(|| panic!("{rule} is not in {toml}"))
    })
    .collect();
    assert!(places.is_sorted(), "{toml}");
}

#[test]
fn files_that_are_included() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    fs::create_dir(dir.path().join("sites")).unwrap();
    write(
        "nginx.conf",
        "events {}\nhttp {\n  include mime.types;\n  include sites/*;\n}\n",
    );
    write(
        "sites/a",
        "server {\n  listen 80;\n  server_name a;\n  root /a;\n  oops;\n}\n",
    );
    write(
        "sites/b",
        "server {\n  listen 80;\n  server_name b;\n  root /b;\n}\n",
    );
    let (toml, remarks) = translate(
        &read(&dir.path().join("nginx.conf")).unwrap(),
        &ConfigurationReader::new(),
    );
    assert!(toml.contains("[host.\"b\"]\nroot = \"/b\"\n"), "{toml}");
    let expected = format!(
        "{}:5: left out: oops: laio has no equivalent\n",
        dir.path().join("sites/a").display()
    );
    assert_eq!(remarks.text(), expected);
}

/// No host lets clients change its files because the main site does.
#[test]
fn uploads_of_one_server_only() {
    let text = "server { root /a; server_name a; dav_methods PUT DELETE MKCOL; }
                server { root /b; server_name b; }";
    let (toml, _) = translate(&parse(text).unwrap(), &ConfigurationReader::new());
    let (main, hosts) = toml.split_once("[host.").unwrap();
    assert!(!main.contains("upload"), "{toml}");
    assert_eq!(hosts.matches("upload = ").count(), 1, "{toml}");
}
