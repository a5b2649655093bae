//! A signal that is ignored when a command starts stays ignored: `nohup`, and background jobs of a
//! script, in which the shell ignores Ctrl-C. Tested for every `laio` command that catches signals.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use laio_testing::fault_fs::{Fault, FaultFs, Kind, Released};
use laio_testing::{Skip, temp};
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};

use crate::failures::{FaultyFixture, trial};
use crate::programs::Side;
use crate::run::LIMIT;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("signals::cp under nohup continues", || {
            copy_continues("HUP")
        }),
        trial("signals::cp that ignores SIGINT continues", || {
            copy_continues("INT")
        }),
        trial("signals::cp that ignores SIGTERM continues", || {
            copy_continues("TERM")
        }),
        trial("signals::cp that ignores all signals continues", || {
            copy_continues("HUP INT TERM QUIT TSTP PIPE USR1 USR2")
        }),
        trial(
            "signals::cp as a script's background job continues",
            background_job,
        ),
        trial(
            "signals::cp that ignores SIGHUP ends at SIGTERM",
            others_end_it,
        ),
        trial("signals::--plan, --work and --finish continue", machines),
        trial("signals::serve", server),
        trial("signals::serve --processes", processes),
        trial("signals::load", load),
        trial("signals::trace", trace),
        trial("signals::bench", bench),
    ]
}

const ALL: [(&str, Signal); 7] = [
    ("HUP", Signal::HUP),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("TERM", Signal::TERM),
    ("TSTP", Signal::TSTP),
];

/// A command that a shell starts with these signals ignored.
fn ignoring(signals: &str, command: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    let script = format!("trap '' {signals}; exec \"$@\"");
    shell.arg("-c").arg(script).arg("sh");
    shell.arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        shell.current_dir(directory);
    }
    shell
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    shell
}

fn laio(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    command.args(arguments);
    command
}

/// A process that is killed when the test ends, even by a panic.
struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Running {
        Running(command.spawn().expect("the program starts"))
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Sends the ignored signals, and checks that the kernel still shows them as ignored.
    fn send_ignored_signals(&self, signals: &str) {
        for (name, signal) in ALL {
            if signals.split(' ').any(|other| other == name) {
                assert!(
                    is_ignored(self.pid(), signal),
                    "SIG{name} is ignored no more"
                );
                kill_process(self.pid(), signal).expect("it runs");
            }
        }
    }

    /// Waits until the process has set up its signal handlers.
    fn listens(&mut self) {
        let end = Instant::now() + LIMIT;
        let tasks = format!("/proc/{}/task", self.0.id());
        loop {
            let names = fs::read_dir(&tasks).into_iter().flatten().flatten();
            let mut names =
                names.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
            if names.any(|name| name.trim() == "laio-signals") {
                return;
            }
            let ended = self.0.try_wait().expect("it is our child");
            assert!(
                ended.is_none(),
                "it has ended before it listened to signals: {ended:?}"
            );
            assert!(Instant::now() < end, "it has no thread for signals");
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn ended(&mut self, what: &str) -> ExitStatus {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.0.try_wait().expect("it is our child") {
                return status;
            }
            assert!(Instant::now() < end, "{what} has not ended");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_ignored(pid: Pid, signal: Signal) -> bool {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let status = fs::read_to_string(path).expect("it runs");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.expect("a mask of signals") & (1 << (signal.as_raw() - 1)) != 0
}

/// A copy that waits for its source.
fn waiting_copy() -> Result<FaultyFixture, Skip> {
    let fixture = FaultyFixture::make(Side::Ours, "dir d")?;
    fixture.fs.add_dir("s");
    fixture.fs.add_file("s/f", &temp::pattern(300_000, 1));
    fixture.fs.set_at("s/f", Kind::Read, Fault::Hang);
    Ok(fixture)
}

fn go_on(fs: &FaultFs, kind: Kind) {
    fs.clear(kind);
    fs.release(Released::Served);
}

fn is_whole(fixture: &FaultyFixture) {
    let copy = fs::read(fixture.at("d/s/f")).expect("it is copied");
    assert!(copy == temp::pattern(300_000, 1));
}

fn copy_continues(signals: &str) -> Result<(), Skip> {
    let fixture = waiting_copy()?;
    let mut copy = Running::start(ignoring(signals, &fixture.command("-r FS/s d")));
    assert!(fixture.fs.wait_hung(1, LIMIT), "the copy reads its source");
    copy.send_ignored_signals(signals);
    go_on(&fixture.fs, Kind::Read);
    let status = copy.ended("the copy");
    assert!(status.success(), "{status}");
    is_whole(&fixture);
    Ok(())
}

fn others_end_it() -> Result<(), Skip> {
    let fixture = waiting_copy()?;
    let mut copy = Running::start(ignoring("HUP", &fixture.command("-r FS/s d")));
    assert!(fixture.fs.wait_hung(1, LIMIT), "the copy reads its source");
    copy.send_ignored_signals("HUP");
    kill_process(copy.pid(), Signal::TERM).expect("it runs");
    let status = copy.ended("the copy");
    assert_eq!(status.code(), Some(128 + 15), "{status}");
    go_on(&fixture.fs, Kind::Read);
    Ok(())
}

/// A non-interactive shell starts background jobs with SIGINT and SIGQUIT ignored.
fn background_job() -> Result<(), Skip> {
    let fixture = waiting_copy()?;
    let copy = fixture.command("-r FS/s d");
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg("\"$@\" & echo $!; wait $!").arg("sh");
    shell.arg(copy.get_program()).args(copy.get_args());
    shell.current_dir(copy.get_current_dir().expect("a directory"));
    shell
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut shell = Running::start(shell);
    let mut line = String::new();
    let mut lines = BufReader::new(shell.0.stdout.take().expect("a pipe"));
    lines
        .read_line(&mut line)
        .expect("the shell writes a number");
    let job = line
        .trim()
        .parse()
        .ok()
        .and_then(Pid::from_raw)
        .expect("a number");
    assert!(fixture.fs.wait_hung(1, LIMIT), "the copy reads its source");
    for signal in [Signal::INT, Signal::QUIT] {
        assert!(is_ignored(job, signal), "{signal:?}");
        kill_process(job, signal).expect("it runs");
    }
    go_on(&fixture.fs, Kind::Read);
    let status = shell.ended("the script");
    assert!(status.success(), "{status}");
    is_whole(&fixture);
    Ok(())
}

fn machines() -> Result<(), Skip> {
    let fixture = waiting_copy()?;
    for (command, kind, name) in [
        ("--plan plan -r FS/s d", Kind::Opendir, "s"),
        ("--work plan", Kind::Read, "s/f"),
        ("--finish plan", Kind::Opendir, "s"),
    ] {
        fixture.fs.clear_all();
        fixture.fs.set_at(name, kind, Fault::Hang);
        let mut step = Running::start(ignoring("HUP INT", &fixture.command(command)));
        assert!(fixture.fs.wait_hung(1, LIMIT), "{command} comes to {name}");
        step.send_ignored_signals("HUP INT");
        go_on(&fixture.fs, kind);
        let status = step.ended(command);
        assert!(status.success(), "{command}: {status}");
    }
    is_whole(&fixture);
    Ok(())
}

/// Starts a server, and waits until it prints its address.
fn serving(signals: &str, site: &Path, flags: &[&str]) -> Running {
    let mut command = laio(&["serve", "--listen", "unix:socket", "."]);
    command.args(flags).current_dir(site);
    let mut server = Running::start(ignoring(signals, &command));
    let stderr = BufReader::new(server.0.stderr.take().expect("a pipe"));
    let (sender, said) = mpsc::channel();
    thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            // Keeps reading: the server must not find its pipe closed.
            let _ = sender.send(line);
        }
    });
    let end = Instant::now() + LIMIT;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match said.recv_timeout(left) {
            Ok(line) if line.contains("Ctrl-C stops") => return server,
            Ok(_) => {}
            Err(error) => panic!("the server does not serve: {error}"),
        }
    }
}

/// The server answers after the ignored signals, and ends at the one that is not ignored.
fn server_continues(flags: &[&str], signals: &str, end: Signal) {
    let site = temp::scratch();
    fs::write(site.path().join("index.html"), "home").expect("written");
    let mut server = serving(signals, site.path(), flags);
    server.send_ignored_signals(signals);
    let mut client = UnixStream::connect(site.path().join("socket")).expect("it listens");
    std::io::Write::write_all(
        &mut client,
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    )
    .expect("sent");
    client.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut client, &mut answer).expect("an answer");
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("home"),
        "{answer}"
    );
    kill_process(server.pid(), end).expect("it runs");
    let status = server.ended("the server");
    assert!(status.success(), "{signals}: {status}");
}

fn server() -> Result<(), Skip> {
    // The kernel would show the signals that the emulator ignores.
    Skip::unless_there("native")?;
    server_continues(&[], "HUP INT QUIT USR1 USR2 TSTP", Signal::TERM);
    server_continues(&[], "HUP TERM", Signal::INT);
    Ok(())
}

/// The worker processes inherit the ignored signals, and end at the one that is not ignored.
fn processes() -> Result<(), Skip> {
    // The kernel would show the signals that the emulator ignores.
    Skip::unless_there("native")?;
    server_continues(&["--processes", "2"], "HUP INT USR1 USR2", Signal::TERM);
    server_continues(&["--processes", "2"], "HUP TERM", Signal::INT);
    Ok(())
}

/// A server that never answers, so that the client stays busy.
fn load() -> Result<(), Skip> {
    // The kernel would show the signals that the emulator ignores.
    Skip::unless_there("native")?;
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", silent.local_addr().expect("an address"));
    let command = laio(&["load", &url, "--clients", "1", "--timeout", "600"]);
    let mut load = Running::start(ignoring("HUP INT", &command));
    load.listens();
    load.send_ignored_signals("HUP INT");
    kill_process(load.pid(), Signal::TERM).expect("it runs");
    let status = load.ended("the load");
    assert!(status.code().is_some(), "{status}");
    Ok(())
}

fn trace() -> Result<(), Skip> {
    let fs = FaultFs::mount()?;
    fs.set(Kind::Create, Fault::Hang);
    let to = fs.join("new");
    let to = to.to_str().expect("a temporary name is text");
    let command = laio(&[
        "trace", "make", "tree", "--to", to, "--depth", "1", "--files", "2", "--size", "1",
    ]);
    let mut trace = Running::start(ignoring("HUP INT TERM", &command));
    assert!(fs.wait_hung(1, LIMIT), "it makes a file");
    trace.send_ignored_signals("HUP INT TERM");
    go_on(&fs, Kind::Create);
    let status = trace.ended("the trace");
    assert!(status.success(), "{status}");
    Ok(())
}

fn bench() -> Result<(), Skip> {
    // The kernel would show the signals that the emulator ignores.
    Skip::unless_there("native")?;
    let command = laio(&[
        "bench", "getpid", "--quick", "--rounds", "1", "--scale", "0.05",
    ]);
    let mut bench = Running::start(ignoring("HUP INT TERM", &command));
    bench.listens();
    bench.send_ignored_signals("HUP INT TERM");
    let status = bench.ended("the benchmark");
    assert!(status.success(), "{status}");
    Ok(())
}
