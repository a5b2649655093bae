//! The published comparisons, run as a user does. No test asserts a time.

use crate::common::{succeeded, text};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn bench(arguments: &str, directory: &Path) -> Output {
    laio_testing::watchdog::step(arguments);
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    // A no-break space is part of a word.
    let words = arguments.split([' ', '\n']).filter(|word| !word.is_empty());
    command.arg("bench");
    command.args(words.map(|word| word.replace('\u{a0}', " ")));
    let output = command
        .current_dir(directory)
        .env_remove("LAIO_BACKEND")
        .output();
    output.expect("the command starts")
}

fn cells(file: &Path) -> Vec<Value> {
    let record: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    record["cells"].as_array().unwrap().clone()
}

#[test]
fn a_comparison_shows_published_and_measured_figures_and_makes_a_page() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let output = bench(
        "getpid --scale 0.0001 --rounds 1 --dir . --json getpid.json --svg plots",
        scratch.path(),
    );
    succeeded(&output);
    let page = text(&output.stdout);
    for part in ["7.65", "2005", "lazy", "today:"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(at("plots/getpid.svg").exists());
    let names = cells(&at("getpid.json"));
    assert!(
        names
            .iter()
            .any(|cell| cell["contestant"] == "threads, 100 helpers")
    );
    let output = bench("report --from getpid.json --to page", scratch.path());
    succeeded(&output);
    let page = std::fs::read_to_string(at("page/report.html")).unwrap();
    assert!(page.contains("id=\"getpid\"") && page.contains("<svg"));
}

#[test]
fn every_strategy_reads_the_same_files() {
    let scratch = tempfile::tempdir().unwrap();
    let output = bench(
        "open-stat-read --cache warm --scale 0.0005 --rounds 1 --at 3 --dir . --json -",
        scratch.path(),
    );
    succeeded(&output);
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    for cell in record["cells"].as_array().unwrap() {
        let name = cell["contestant"].as_str().unwrap();
        if ["plain threads", "threads", "lazy", "lazy-trusting"].contains(&name) {
            assert_eq!(cell["verified"], true, "{cell}");
        }
    }
    assert_eq!(
        std::fs::read_dir(scratch.path()).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn servers_are_started_loaded_and_stopped() {
    let scratch = tempfile::tempdir().unwrap();
    let output = bench(
        "clients --cache warm --scale 0.0005 --rounds 1 --at 2 --contestant lazy threads --dir . --json clients.json",
        scratch.path(),
    );
    succeeded(&output);
    for cell in cells(&scratch.path().join("clients.json")) {
        assert_eq!(cell["verified"], true, "{cell}");
    }
}

#[test]
fn files_in_tokio_programs_are_compared() {
    let scratch = tempfile::tempdir().unwrap();
    let output = bench(
        "tokio --cache warm --scale 0.001 --rounds 1 --dir . --json tokio.json --svg plots",
        scratch.path(),
    );
    succeeded(&output);
    let page = text(&output.stdout);
    for part in [
        "times as long as std",
        "laio-tokio multi-thread",
        "metadata",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(scratch.path().join("plots/tokio-warm.svg").exists());
    let cells = cells(&scratch.path().join("tokio.json"));
    // Seven kinds of calls, in five ways.
    assert_eq!(cells.len(), 35);
    for cell in cells {
        assert_eq!(cell["verified"], true, "{cell}");
    }
}

#[test]
fn growth_is_measured_by_decades() {
    let scratch = tempfile::tempdir().unwrap();
    let output = bench(
        "growth --axis operations\u{a0}in\u{a0}flight files\u{a0}copied --at 1 10 --rounds 1 --quick \
         --contestant lazy lazy-epoll laio\u{a0}cp\u{a0}-r --dir . --json growth.json --svg plots",
        scratch.path(),
    );
    succeeded(&output);
    for axis in ["operations-in-flight", "files-copied"] {
        let file = format!("plots/growth-{axis}.svg");
        assert!(scratch.path().join(&file).exists(), "{file}");
    }
    let cells = cells(&scratch.path().join("growth.json"));
    // Two numbers, of two back ends and a copy.
    assert_eq!(cells.len(), 6);
    for cell in cells {
        assert_eq!(cell["verified"], true, "{cell}");
    }
    assert_eq!(
        bench("growth --axis nothing", scratch.path()).status.code(),
        Some(2)
    );
}

#[test]
fn wrong_names_are_reported() {
    let scratch = tempfile::tempdir().unwrap();
    let output = bench("report --set nothing", scratch.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("there is no comparison `nothing`"));
}
