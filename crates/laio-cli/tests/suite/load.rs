//! `laio trace` and `laio load`, run as a user does against `laio serve`. No test asserts a time.

use crate::common::{succeeded, text};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn laio(arguments: &str, directory: &Path) -> Output {
    laio_testing::watchdog::step(arguments);
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    command.args(arguments.split(' ')).current_dir(directory);
    command
        .env_remove("LAIO_BACKEND")
        .output()
        .expect("the command starts")
}

/// A server that is killed when dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(root: &Path) -> Server {
        laio_testing::watchdog::enter();
        Server::at("127.0.0.1:0", root, &[])
    }

    fn at(listen: &str, root: &Path, more: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
        command.args([
            "serve",
            "--listen",
            listen,
            "--log",
            "off",
            "--workers",
            "1",
        ]);
        let mut child = command
            .args(more)
            .arg(root)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.trim().strip_suffix('/')?.to_owned()));
        // Later messages are not read: the pipe is closed, and the server ignores EPIPE.
        Server {
            child,
            url: url.expect("the server says where it is"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_made_set_is_served_and_every_byte_checked() {
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path();
    let made = laio(
        "trace make rice --scale 0.002 --seed 7 --to set --svg plots",
        at,
    );
    succeeded(&made);
    assert!(
        text(&made.stdout).contains("requests     492"),
        "{}",
        text(&made.stdout)
    );
    assert!(at.join("plots/trace-sizes.svg").exists());
    let again = laio(
        "trace make rice --scale 0.002 --seed 7 --to again --trace-only",
        at,
    );
    assert!(again.status.success());
    let trace = |name: &str| std::fs::read(at.join(name).join("trace.tsv")).unwrap();
    assert_eq!(trace("set"), trace("again"));

    let served = Server::start(&at.join("set/files"));
    let load = |more: &str| {
        let url = &served.url;
        laio(
            &format!("load {url} --trace set/trace.tsv --json - {more}"),
            at,
        )
    };
    for pace in [
        "--clients 4",
        "--clients 3 --close",
        "--parallel 5 --fetches 100",
        "--rate 1000",
    ] {
        let output = load(pace);
        assert!(
            output.status.success(),
            "{pace}: {} {}",
            text(&output.stdout),
            text(&output.stderr)
        );
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
        let expected = if pace.contains("100") && !pace.contains("1000") {
            100
        } else {
            492
        };
        assert_eq!(outcome["requests"], expected, "{pace}: {outcome}");
        assert_eq!(outcome["errors"], serde_json::json!({}));
        assert_eq!(outcome["verified"], true);
        assert!(outcome["lag"]["count"].as_u64().is_some());
    }
    // A changed byte is detected, and reported by the exit status.
    let trace = String::from_utf8(trace("set")).unwrap();
    let target = trace.lines().last().unwrap().rsplit('\t').next().unwrap();
    let victim = at.join("set/files").join(target.trim_start_matches('/'));
    let mut bytes = std::fs::read(&victim).unwrap();
    bytes[0] ^= 1;
    std::fs::write(&victim, bytes).unwrap();
    let output = load("--clients 2");
    assert_eq!(output.status.code(), Some(1));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        outcome["errors"]["wrong bytes"].as_u64().unwrap() > 0,
        "{outcome}"
    );
}

#[test]
fn encrypted_connections_are_checked_and_counted() {
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(at.join("own.pem"), made.cert.pem()).unwrap();
    std::fs::write(at.join("own.key"), made.signing_key.serialize_pem()).unwrap();
    let made = laio("trace make rice --scale 0.001 --to set", at);
    succeeded(&made);
    let (chain, key) = (at.join("own.pem"), at.join("own.key"));
    let (chain, key) = (chain.to_str().unwrap(), key.to_str().unwrap());
    let certificate = ["--tls-cert", chain, "--tls-key", key];
    let served = Server::at("tls:127.0.0.1:0", &at.join("set/files"), &certificate);
    let load = |more: &str| {
        let url = &served.url;
        laio(
            &format!("load {url} --trace set/trace.tsv --json - {more}"),
            at,
        )
    };
    let outcome = |more: &str| -> Value {
        let output = load(more);
        assert!(output.status.success(), "{more}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // One handshake for each connection, and all bytes are checked.
    let kept = outcome("--ca own.pem --clients 3");
    let requests = kept["requests"].as_u64().unwrap();
    assert_eq!(kept["verified"], true);
    assert_eq!(kept["handshake"]["count"], kept["connect"]["count"]);
    assert!(kept["handshake"]["count"].as_u64().unwrap() >= 3, "{kept}");
    let each = outcome("--insecure --clients 3 --close");
    assert_eq!(each["handshake"]["count"], requests);
    assert_eq!(each["resumed"], 0);
    let resumed = outcome("--ca own.pem --resume --clients 1 --close");
    assert_eq!(resumed["handshake"]["count"], requests);
    assert!(resumed["resumed"].as_u64().unwrap() > 0, "{resumed}");
    // No trusted authority has signed the certificate.
    let output = load("--clients 1");
    assert_eq!(output.status.code(), Some(1));
    let words = [text(&output.stdout), text(&output.stderr)].concat();
    assert!(
        words.contains("TLS handshake failed") || words.contains("no root certificates"),
        "{words}"
    );
}

#[test]
fn a_log_is_replayed() {
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path();
    let line = |target: &str, status: u16, bytes: u64| {
        format!(
            "192.0.2.1 - - [17/May/2015:10:05:03 +0000] \"GET {target} HTTP/1.1\" {status} {bytes}\n"
        )
    };
    let log = [
        line("/", 200, 3000),
        line("/a%20b.html?q=1", 200, 70_000),
        line("/gone", 404, 10),
        line("/dir/", 200, 5),
        "nonsense\n".to_owned(),
    ];
    std::fs::write(at.join("access.log"), log.concat()).unwrap();
    let made = laio("trace import access.log --to set", at);
    succeeded(&made);
    assert!(
        text(&made.stdout).contains("lines left out: 1, neither common"),
        "{}",
        text(&made.stdout)
    );
    let served = Server::start(&at.join("set/files"));
    let url = &served.url;
    let output = laio(
        &format!("load {url} --trace set/trace.tsv --at-times --csv seconds.csv"),
        at,
    );
    assert!(
        output.status.success(),
        "{} {}",
        text(&output.stdout),
        text(&output.stderr)
    );
    for words in ["4 requests", "bytes checked", "from due time", "own lag"] {
        assert!(
            text(&output.stdout).contains(words),
            "{words} in {}",
            text(&output.stdout)
        );
    }
    assert!(
        std::fs::read_to_string(at.join("seconds.csv"))
            .unwrap()
            .starts_with("second,requests")
    );
}

#[test]
fn wrong_arguments_are_reported() {
    let scratch = tempfile::tempdir().unwrap();
    for (arguments, code, words) in [
        (
            "load ftp://localhost/",
            2,
            "begins with http:// or https://",
        ),
        ("load http://127.0.0.1:9 --insecure", 1, "are for https://"),
        (
            "load https://127.0.0.1:9 --ca nowhere.pem",
            1,
            "cannot read certificates from nowhere.pem",
        ),
        (
            "load http://127.0.0.1:9 --clients 1 --rate 1",
            2,
            "cannot be used with",
        ),
        (
            "load http://127.0.0.1:9 --trace nowhere.tsv",
            1,
            "cannot read nowhere.tsv",
        ),
        ("trace make nothing --to x", 2, "invalid value"),
        (
            "trace import nowhere.log --to x",
            1,
            "cannot read nowhere.log",
        ),
        ("trace show nowhere.tsv", 1, "cannot read nowhere.tsv"),
    ] {
        let output = laio(arguments, scratch.path());
        assert_eq!(output.status.code(), Some(code), "{arguments}");
        assert!(
            text(&output.stderr).contains(words),
            "{}",
            text(&output.stderr)
        );
    }
}
