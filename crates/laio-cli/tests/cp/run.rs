//! Runs one program with a time limit, and collects its output.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::case::Case;
use crate::programs::{Side, USER};
use crate::split_words;

/// Far longer than any scenario takes, even on a busy disk: the limit is for a program that hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) status: String,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// Runs a scenario's command with one of the programs.
pub(crate) fn run(case: &Case, side: Side, root: &Path) -> Ran {
    let mut command = command(case, side, &root.join(&case.inside));
    if case.user {
        as_user(&mut command);
    }
    let over = Arc::new(AtomicBool::new(false));
    let feeder = case.feed.clone().map(|(fifo, text)| {
        let (fifo, over) = (root.join(fifo), over.clone());
        thread::spawn(move || feed(&fifo, text.as_bytes(), &over))
    });
    let ran = finish(start(&mut command, case.stdin.as_bytes()), LIMIT);
    over.store(true, Ordering::Relaxed);
    if let Some(feeder) = feeder {
        feeder.join().expect("the feeder does not panic");
    }
    ran
}

/// The process of a case, ready to start.
pub(crate) fn command(case: &Case, side: Side, directory: &Path) -> Command {
    let mut words = split_words::split(&case.command);
    let variable = |word: &Vec<u8>| word.contains(&b'=') && word[0].is_ascii_uppercase();
    let arguments = words.split_off(words.iter().take_while(|word| variable(word)).count());
    let added = if side == Side::Ours { &case.added } else { "" };

    let (before, redirection) = &case.shell;
    let script = case.against.as_ref().filter(|_| side == Side::Gnu);
    let mut command = match script {
        Some(script) => {
            let mut command = Command::new("/bin/sh");
            command.arg("-c").arg(format!("{before}{script}"));
            command
        }
        None if before.is_empty() && redirection.is_empty() => {
            let mut command = Command::new(side.path().join("cp"));
            command.arg0("cp");
            command
        }
        None => {
            let mut command = Command::new("/bin/sh");
            let exec = format!("{before}exec cp \"$@\" {redirection}");
            command.arg("-c").arg(exec).arg("sh");
            command
        }
    };
    if script.is_none() {
        command.args(
            split_words::split(added)
                .iter()
                .map(|word| OsStr::from_bytes(word)),
        );
        command.args(arguments.iter().map(|word| OsStr::from_bytes(word)));
    }
    command
        .current_dir(directory)
        .env_clear()
        .env(
            "PATH",
            format!("{}:/usr/bin:/bin:/usr/sbin:/sbin", side.path().display()),
        )
        .env("LC_ALL", "C");
    // Where an emulator of programs looks for the libraries of the command.
    command.envs(std::env::var_os("QEMU_LD_PREFIX").map(|value| ("QEMU_LD_PREFIX", value)));
    for word in &words {
        let mut halves = word.splitn(2, |&b| b == b'=').map(OsStr::from_bytes);
        let (name, value) = (halves.next(), halves.next());
        command.env(name.unwrap_or_default(), value.unwrap_or_default());
    }
    command
}

/// Makes a command run as the ordinary user, if root runs the tests.
pub(crate) fn as_user(command: &mut Command) {
    if rustix::process::geteuid().is_root() {
        command.uid(USER).gid(USER);
    }
}

/// Starts a command with this standard input.
pub(crate) fn start(command: &mut Command, stdin: &[u8]) -> Child {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    // Shorter than a pipe's buffer, so `write` does not block. It fails if the program has exited.
    let _ = pipe.write_all(stdin);
    child
}

/// Waits for a command and collects its output.
pub(crate) fn finish(mut child: Child, limit: Duration) -> Ran {
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait().expect("it is our child") {
            Some(status) => break describe(status),
            None if Instant::now() > end => {
                child.kill().expect("it is our child");
                child.wait().expect("it is our child");
                break format!("killed after {limit:?}");
            }
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    Ran {
        status,
        stdout: stdout.join().expect("a reader does not panic"),
        stderr: stderr.join().expect("a reader does not panic"),
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    let mut pipe = pipe.expect("a pipe");
    thread::spawn(move || {
        let mut text = Vec::new();
        // The output before a read error is still compared.
        let _ = pipe.read_to_end(&mut text);
        text
    })
}

/// Writes into a FIFO as soon as it has a reader; gives up when the command has ended.
fn feed(fifo: &Path, text: &[u8], over: &AtomicBool) {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    while !over.load(Ordering::Relaxed) {
        // Without a reader, `open` fails with ENXIO.
        if let Ok(fd) = open(fifo, flags, Mode::empty()) {
            let _ = rustix::io::write(fd, text);
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}
