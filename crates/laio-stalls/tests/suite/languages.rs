//! Functions and lines of programs in Python and JavaScript, where these wait.

use laio_stalls::{Watch, WatchOptions};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long the program waits at least, after it was seen in the call.
const KNOWN: Duration = Duration::from_millis(200);

/// Waits for a line on the standard input in an event loop, and then opens the FIFO of its argument.
const PYTHON: &str = "\
import asyncio, sys

def load_settings(path):
    with open(path) as file:
        return file.read()

class Handler:
    def request(self):
        sys.stdin.readline()
        load_settings(sys.argv[1])
        asyncio.get_running_loop().stop()

async def serve():
    asyncio.get_running_loop().add_reader(sys.stdin, Handler().request)
    await asyncio.Event().wait()

try:
    asyncio.run(serve())
except RuntimeError:
    pass # the loop was stopped
";

const NODE: &str = "\
const fs = require('fs');
process.title = 'main'; // the name of its first thread
function loadSettings(path) {
  return fs.readFileSync(path, 'utf8');
}
process.stdin.once('data', function request() {
  loadSettings(process.argv[2]);
  process.exit();
});
";

/// The functions of the wait for a FIFO in this program.
fn waits(command: &mut Command, thread: &str, (name, source): (&str, &str)) -> Vec<String> {
    laio_testing::watchdog::step(name);
    let directory = tempfile::tempdir().unwrap();
    let (program, fifo) = (
        directory.path().join(name),
        directory.path().join("settings"),
    );
    fs::write(&program, source).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    command.arg(&program).arg(&fifo);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let options = WatchOptions {
        over: Duration::from_millis(20),
        threads: Vec::new(),
        with_perf: true,
    };
    let mut watch = Watch::new(child.id(), options).unwrap();
    let is_found = |watch: &Watch| watch.report().loops.iter().any(|(name, _)| name == thread);
    while !is_found(&watch) {
        assert!(watch.turn(), "the program has ended");
    }
    child.stdin.as_ref().unwrap().write_all(b"go\n").unwrap();
    while !is_opening(child.id()) {
        assert!(watch.turn(), "the program has ended");
    }
    let begin = Instant::now();
    while begin.elapsed() < KNOWN {
        watch.turn();
    }
    // The last one is certainly that late.
    watch.turn();
    drop(File::create(&fifo).unwrap());
    while watch.turn() {}
    child.wait().unwrap();
    let report = watch.finish();
    let _ = fs::remove_file(format!("/tmp/perf-{}.map", child.id()));
    let is_it = |subject: &str| Path::new(subject) == fifo;
    let found = report.entries.iter().find(|(key, _)| is_it(&key.subject));
    let (_, entry) = found.unwrap_or_else(|| panic!("no wait for the FIFO: {report:#?}"));
    entry.stack.iter().map(|frame| frame.name.clone()).collect()
}

/// Whether the first thread of the program is in `open` or `openat`: only an open of a FIFO lasts.
fn is_opening(pid: u32) -> bool {
    let call = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let number = call
        .split(' ')
        .next()
        .and_then(|number| number.parse().ok());
    number.is_some_and(|number: usize| laio::table::row(number).name.starts_with("open"))
}

/// What the program prints about itself, or nothing if it is not there.
fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into(),
    )
}

#[test]
fn functions_and_lines_of_python() {
    let version = printed(
        "python3",
        &["-c", "import sys; print(sys.version_info.minor, end='')"],
    );
    if !["11", "12", "13", "14"].contains(&version.as_str()) {
        return laio_testing::skip(
            "python3",
            format!("CPython 3.11 to 3.14, found {version:?}"),
        );
    }
    let stack = waits(&mut Command::new("python3"), "python3", ("app.py", PYTHON));
    let place = |name: &str| stack.iter().position(|found| found.starts_with(name));
    let (innermost, caller) = (place("load_settings ("), place("Handler.request ("));
    assert!(innermost.is_some() && innermost < caller, "{stack:?}");
    assert!(
        stack[innermost.unwrap()].ends_with("/app.py:4)"),
        "{stack:?}"
    );
    assert!(stack[caller.unwrap()].ends_with("/app.py:10)"), "{stack:?}");
}

#[test]
fn functions_and_lines_of_node() {
    if printed("node", &["--version"]).is_empty() {
        return laio_testing::skip("node", "the program node");
    }
    let mut node = Command::new("node");
    node.args([
        "--perf-basic-prof-only-functions",
        "--interpreted-frames-native-stack",
    ]);
    let stack = waits(&mut node, "main", ("app.js", NODE));
    let place = |name: &str| stack.iter().position(|found| found.starts_with(name));
    let (innermost, caller) = (place("loadSettings ("), place("request ("));
    assert!(innermost.is_some() && innermost < caller, "{stack:?}");
    assert!(
        stack[innermost.unwrap()].ends_with("/app.js:3)"),
        "{stack:?}"
    );
    assert!(stack[caller.unwrap()].ends_with("/app.js:6)"), "{stack:?}");
}
