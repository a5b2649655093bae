//! `laio bench cp`, run as a user does. No test asserts a time.

use crate::common::{succeeded, text};
use serde_json::Value;
use std::process::{Command, Output};

fn bench(arguments: &str, directory: &std::path::Path) -> Output {
    laio_testing::watchdog::step(arguments);
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    command.args(["bench", "cp"]).args(arguments.split(' '));
    let output = command
        .arg("--dir")
        .arg(directory)
        .env_remove("LAIO_BACKEND")
        .output();
    output.expect("the command starts")
}

#[test]
fn every_back_end_copies_correctly() {
    let scratch = tempfile::tempdir().unwrap();
    let (json, plots) = (scratch.path().join("cp.json"), scratch.path().join("plots"));
    let work = scratch.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let arguments = format!(
        "--tree flat,sparse --scale 0.001 --rounds 1 --cache warm --contestant sync,threads,hybrid,lazy \
         --json {} --svg {}",
        json.display(),
        plots.display()
    );
    let output = bench(&arguments, &work);
    succeeded(&output);
    assert!(
        output.stderr.is_empty(),
        "command failed: {}",
        text(&output.stderr)
    );
    let record: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let cells = record["cells"].as_array().unwrap();
    let names: Vec<_> = cells
        .iter()
        .map(|cell| cell["contestant"].as_str().unwrap())
        .collect();
    let expected = [
        "cp",
        "laio sync",
        "laio threads",
        "laio hybrid",
        "laio lazy",
    ];
    assert_eq!(names, [expected, expected].concat());
    for cell in cells {
        assert_eq!(cell["verified"], true, "{cell}");
        assert_eq!(
            cell["measured"]["wall_s"]["rounds"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }
    assert!(text(&output.stdout).contains("laio threads"));
    assert!(plots.join("cp-trees-warm.svg").exists());
    assert_eq!(
        std::fs::read_dir(&work).unwrap().count(),
        0,
        "nothing is left"
    );
}

#[test]
fn wrong_arguments_are_reported() {
    let scratch = tempfile::tempdir().unwrap();
    for (arguments, words) in [
        ("--tree nothing", "there is no tree `nothing`"),
        ("--contestant nobody", "the contestants are"),
        ("--scale 0", "from 0.000001 to 1000"),
    ] {
        let output = bench(arguments, scratch.path());
        assert!(!output.status.success());
        assert!(
            text(&output.stderr).contains(words),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn ctrl_c_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    // More rounds than the test waits for.
    let arguments =
        "bench cp --tree flat --scale 0.001 --rounds 999 --cache warm --contestant sync --dir";
    let mut child = command
        .args(arguments.split(' '))
        .arg(scratch.path())
        .spawn()
        .unwrap();
    let made = || std::fs::read_dir(scratch.path()).unwrap().count();
    while made() == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(made(), 0);
}
