//! The command, run as a user does. No test asserts a time.

use crate::common::{succeeded, text};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output};

fn laio(arguments: &[&str]) -> Output {
    laio_testing::watchdog::step(arguments.join(" "));
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    command.args(arguments).env_remove("LAIO_BACKEND");
    command.output().expect("the command starts")
}

#[test]
fn bench_calls_prints_rows() {
    let output = laio(&[
        "bench",
        "calls",
        "--call",
        "getpid",
        "--seconds",
        "0.05",
        "--json",
    ]);
    succeeded(&output);
    assert!(
        output.stderr.is_empty(),
        "command failed: {}",
        text(&output.stderr)
    );
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    let backends: Vec<_> = rows
        .iter()
        .map(|row| row["backend"].as_str().unwrap())
        .collect();
    for backend in ["plain", "sync", "threads", "hybrid", "lazy", "lazy-epoll"] {
        assert!(backends.contains(&backend), "{backends:?}");
    }
    for row in rows {
        assert_eq!(row["call"], "getpid");
        assert!(row["median_ns"].as_f64().unwrap() > 0.0);
        assert!(row["ratio"].as_f64().unwrap() > 0.0);
        assert!(row["spread"].as_f64().unwrap() >= 0.0);
    }
}

#[test]
fn bench_calls_can_be_narrowed() {
    let arguments = "bench calls --call getpid,stat --backend lazy sync --seconds 0 --json";
    let output = laio(&arguments.split(' ').collect::<Vec<_>>());
    succeeded(&output);
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = rows.as_array().unwrap();
    let names = rows
        .iter()
        .map(|row| (row["call"].as_str(), row["backend"].as_str()));
    let expected = ["getpid", "stat"]
        .into_iter()
        .flat_map(|call| ["plain", "sync", "lazy"].map(|backend| (Some(call), Some(backend))));
    assert!(names.eq(expected), "{rows:?}");
}

#[test]
fn bench_calls_prints_a_table() {
    let output = laio(&["bench", "calls", "--call", "getpid", "--seconds", "0"]);
    let table = text(&output.stdout);
    succeeded(&output);
    for word in ["Linux", "getpid", "plain", "lazy-epoll", "ratio", "spread"] {
        assert!(table.contains(word), "{word} in {table}");
    }
}

#[test]
fn bench_order_reports_reordering() {
    let arguments =
        "bench order --operations 32 --repetitions 1 --json --backend threads posix-aio";
    let output = laio(&arguments.split(' ').collect::<Vec<_>>());
    succeeded(&output);
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<_> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["backend"].as_str())
        .collect();
    assert_eq!(names, [Some("threads"), Some("posix-aio")]);
    for row in rows.as_array().unwrap() {
        assert_eq!(row["issue_ordered"]["count"], 0, "{row}");
        assert_eq!(row["at_limit"]["started"], 16, "{row}");
        assert_eq!(row["at_limit"]["refused"], 48, "{row}");
    }
}

#[test]
fn info_prints_json() {
    let output = laio(&["info", "--json"]);
    succeeded(&output);
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(info["io_uring"]["usable"].is_boolean());
    assert!(info["perf"]["usable"].is_boolean());
    assert_eq!(info["backend"]["name"], "lazy");
    assert!(!info["directories"].as_array().unwrap().is_empty());
}

#[test]
fn info_honours_the_environment() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    let output = command
        .args(["info", "/"])
        .env("LAIO_BACKEND", "threads")
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("LAIO_BACKEND=threads asks for it"));
    // An invalid environment variable is reported, and the rest of the report is printed.
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    let output = command
        .args(["info", "/"])
        .env("LAIO_BACKEND", "kaio")
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(text(&output.stdout).contains("there is no back end `kaio`"));
}

#[test]
fn shells_accept_the_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let output = laio(&["completions", shell]);
        succeeded(&output);
        let script = text(&output.stdout);
        assert!(script.contains("files-from0"), "{shell}: {script}");
        let mut check = Command::new(shell);
        check.arg("-n").stdin(std::process::Stdio::piped());
        if laio_testing::lacks(shell) {
            continue;
        }
        let mut check = check.spawn().expect("the shell");
        let mut input = check.stdin.take().expect("piped");
        input.write_all(&output.stdout).expect("read");
        drop(input);
        assert!(check.wait().expect("it ends").success(), "{shell}");
    }
}

#[test]
fn exit_codes_are_as_documented() {
    let help = laio(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    for word in ["Exit codes", "info", "bench"] {
        assert!(text(&help.stdout).contains(word));
    }
    assert_eq!(laio(&["--version"]).status.code(), Some(0));
    for wrong in [
        "",
        "nonsense",
        "bench calls --call nothing",
        "bench calls --backend kaio",
    ] {
        let arguments: Vec<_> = wrong.split_whitespace().collect();
        assert_eq!(laio(&arguments).status.code(), Some(2), "{wrong}");
    }
    let failed = laio(&[
        "bench",
        "calls",
        "--call",
        "stat",
        "--directory",
        "/nowhere",
    ]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed.stderr).starts_with("laio: cannot use /nowhere"));
}

/// `laio cp`, by its three names.
#[test]
fn the_copy_is_the_same_under_each_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    std::fs::create_dir_all(at("from/inner")).expect("a directory");
    std::fs::write(at("from/inner/file"), "contents").expect("a file");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_laio-cp"), at("cp")).expect("a link");
    let named = [
        ("laio cp", env!("CARGO_BIN_EXE_laio").into(), Some("cp")),
        ("laio-cp", env!("CARGO_BIN_EXE_laio-cp").into(), None),
        ("cp", at("cp"), None),
    ];
    for (name, program, word) in named {
        let run = |arguments: &[&str]| {
            let mut command = Command::new(&program);
            command
                .args(word)
                .args(arguments)
                .current_dir(directory.path());
            command.output().expect("the command starts")
        };
        let target = format!("copied by {name}");
        let output = run(&["-r", "from", &target]);
        succeeded(&output);
        let copy = std::fs::read(at(&target).join("inner/file"));
        assert_eq!(copy.expect("a copy"), b"contents");
        let output = run(&["none", "copy"]);
        assert_eq!(output.status.code(), Some(1));
        let complaint = format!("{name}: cannot stat 'none': No such file or directory\n");
        assert_eq!(text(&output.stderr), complaint);
        let output = run(&["--version"]);
        assert!(text(&output.stdout).ends_with(concat!(env!("CARGO_PKG_VERSION"), "\n")));
        assert!(output.status.success());
    }
}
