//! `laio trace` and `laio load`, run as a user does against `laio serve`. No test asserts a time.

use crate::common::server::ServerProcess;
use crate::common::{succeeded, text};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn laio(arguments: &str, directory: &Path) -> Output {
    laio_testing::watchdog::step(arguments);
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    command.args(arguments.split(' ')).current_dir(directory);
    command
        .env_remove("LAIO_BACKEND")
        .output()
        .expect("the command starts")
}

/// Starts a server, and returns it with its URL.
fn serve(listen: &str, root: &Path, more: &[&str]) -> (ServerProcess, String) {
    laio_testing::watchdog::enter();
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    command.args(["serve", "--log", "off", "--workers", "1", "--listen"]);
    let process = ServerProcess::spawn(command.arg(listen).args(more).arg(root));
    let line = process.wait_for_line("  http");
    let url = line.trim().trim_end_matches('/').to_owned();
    (process, url)
}

/// Asserts that the command has said these words.
#[track_caller]
fn says(said: &[u8], words: &str) {
    assert!(text(said).contains(words), "{words} in {}", text(said));
}

#[test]
fn a_made_set_is_served_and_every_byte_checked() {
    let scratch = tempfile::tempdir().unwrap();
    let at = scratch.path();
    let make = "trace make rice --scale 0.002 --seed 7 --to";
    let made = laio(&format!("{make} set --svg plots"), at);
    succeeded(&made);
    says(&made.stdout, "requests     492");
    assert!(at.join("plots/trace-sizes.svg").exists());
    succeeded(&laio(&format!("{make} again --trace-only"), at));
    let trace = |name: &str| std::fs::read(at.join(name).join("trace.tsv")).unwrap();
    assert_eq!(trace("set"), trace("again"));

    let (_server, url) = serve("127.0.0.1:0", &at.join("set/files"), &[]);
    let trace_load = format!("load {url} --trace set/trace.tsv --json -");
    let load = |more: &str| laio(&format!("{trace_load} {more}"), at);
    for (pace, expected) in [
        ("--clients 4", 492),
        ("--clients 3 --close", 492),
        ("--parallel 5 --fetches 100", 100),
        ("--rate 1000", 492),
    ] {
        let output = load(pace);
        succeeded(&output);
        let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
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
        outcome["errors"]["wrong bytes"].as_u64() > Some(0),
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
    let (_server, url) = serve("tls:127.0.0.1:0", &at.join("set/files"), &certificate);
    let trace_load = format!("load {url} --trace set/trace.tsv --json -");
    let load = |more: &str| laio(&format!("{trace_load} {more}"), at);
    let outcome = |more: &str| -> Value {
        let output = load(more);
        succeeded(&output);
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
    says(&made.stdout, "lines left out: 1, neither common");
    let (_server, url) = serve("127.0.0.1:0", &at.join("set/files"), &[]);
    let load = format!("load {url} --trace set/trace.tsv --at-times --csv seconds.csv");
    let output = laio(&load, at);
    succeeded(&output);
    for words in ["4 requests", "bytes checked", "from due time", "own lag"] {
        says(&output.stdout, words);
    }
    let seconds = std::fs::read_to_string(at.join("seconds.csv")).unwrap();
    assert!(seconds.starts_with("second,requests"));
}

#[test]
fn wrong_arguments_are_reported() {
    let scratch = tempfile::tempdir().unwrap();
    #[rustfmt::skip]
    let wrong = [
        ("load ftp://localhost/", 2, "begins with http:// or https://"),
        ("load http://127.0.0.1:9 --insecure", 1, "are for https://"),
        ("load https://127.0.0.1:9 --ca nowhere.pem", 1, "cannot read certificates from nowhere.pem"),
        ("load http://127.0.0.1:9 --clients 1 --rate 1", 2, "cannot be used with"),
        ("load http://127.0.0.1:9 --trace nowhere.tsv", 1, "cannot read nowhere.tsv"),
        ("trace make nothing --to x", 2, "invalid value"),
        ("trace import nowhere.log --to x", 1, "cannot read nowhere.log"),
        ("trace show nowhere.tsv", 1, "cannot read nowhere.tsv"),
    ];
    for (arguments, code, words) in wrong {
        let output = laio(arguments, scratch.path());
        assert_eq!(output.status.code(), Some(code), "{arguments}");
        says(&output.stderr, words);
    }
}
