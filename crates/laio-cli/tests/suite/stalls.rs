//! `laio stalls`, run as a user does. The programs have no event loop, so their thread is named.

use crate::common::text;
use laio_testing::forbid::{Forbid, restrict};
use laio_testing::sandbox::{keep_capabilities, set_no_new_privs};
use serde_json::Value;
use std::process::{Command, Output};

fn stalls(arguments: &[&str]) -> Output {
    laio_testing::watchdog::step(arguments.join(" "));
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    command.arg("stalls").args(arguments);
    command.output().expect("the command starts")
}

#[test]
fn the_status_is_the_programs() {
    assert_eq!(stalls(&["--", "true"]).status.code(), Some(0));
    assert_eq!(stalls(&["--", "sh", "-c", "exit 5"]).status.code(), Some(5));
    assert_eq!(
        stalls(&["--", "sh", "-c", "kill -9 $$"]).status.code(),
        Some(137)
    );
}

#[test]
fn a_wait_that_is_too_long_has_a_status() {
    let too_long = stalls(&[
        "--thread",
        "sleep",
        "--fail-over",
        "200ms",
        "--",
        "sleep",
        "1",
    ]);
    let report = text(&too_long.stderr);
    assert_eq!(too_long.status.code(), Some(3), "{report}");
    assert!(report.contains("clock_nanosleep"), "{report}");
    let others = stalls(&[
        "--thread",
        "sleep",
        "--fail-over",
        "1000s",
        "--",
        "sleep",
        "0.5",
    ]);
    assert_eq!(others.status.code(), Some(0));
}

#[test]
fn reports_as_json_and_as_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    let html = ["--html", page.to_str().unwrap()];
    let options = ["--json", "--no-perf", "--for", "600ms", "--thread", "sleep"];
    let output = stalls(&[&options[..], &html, &["--", "sleep", "1000"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let wait = &report["waits"][0];
    assert_eq!(
        (wait["cause"].as_str(), wait["unfinished"].as_u64()),
        (Some("call"), Some(1))
    );
    assert_eq!(wait["call"].as_str(), Some("clock_nanosleep"));
    assert_eq!(report["means"]["threads_with_perf"].as_u64(), Some(0));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains("<svg") && page.contains("clock_nanosleep"),
        "{page}"
    );
}

#[test]
fn node_is_asked_for_its_functions() {
    let output = stalls(&["--node-functions", "--", "sh", "-c", "echo $NODE_OPTIONS"]);
    let options = text(&output.stdout);
    assert!(
        options.contains("--perf-basic-prof-only-functions"),
        "{options}"
    );
    let without = stalls(&["--", "sh", "-c", "echo $NODE_OPTIONS"]);
    assert!(!text(&without.stdout).contains("perf-basic-prof"));
}

#[test]
fn mistakes_have_messages() {
    let no_program = stalls(&[]);
    assert_eq!(no_program.status.code(), Some(2));
    let unit = stalls(&["--over", "5", "--", "true"]);
    assert_eq!(unit.status.code(), Some(2));
    assert!(
        text(&unit.stderr).contains("50ms"),
        "{}",
        text(&unit.stderr)
    );
    let absent = stalls(&["--", "/does/not/exist"]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(text(&absent.stderr).contains("cannot start /does/not/exist"));
    let gone = stalls(&["-p", "4194999"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(
        text(&gone.stderr).contains("there is no such process"),
        "{}",
        text(&gone.stderr)
    );
}

/// What Docker takes away by default: perf, capabilities, new privileges.
#[test]
fn in_a_container_without_rights() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    command.args([
        "stalls", "--json", "--thread", "sleep", "--", "sleep", "0.5",
    ]);
    keep_capabilities(&mut command, 0);
    set_no_new_privs(&mut command);
    restrict(&mut command, &Forbid::perf(libc::EPERM));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let calls: Vec<_> = report["waits"].as_array().unwrap().iter().collect();
    assert!(
        calls.iter().any(|wait| wait["call"] == "clock_nanosleep"),
        "{report}"
    );
    assert_eq!(report["means"]["threads_with_perf"].as_u64(), Some(0));
    assert!(report["means"]["perf_refused"].is_string(), "{report}");
}
