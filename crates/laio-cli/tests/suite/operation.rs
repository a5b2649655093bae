//! The server as whoever runs it meets it: its file, its signals, and what it does when something dies or is full.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Far more than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// A server with a Unix socket, and what it says.
struct Running {
    child: Child,
    said: Receiver<String>,
    socket: PathBuf,
}

/// A directory with a site, a place for a socket and a file of configuration.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        laio_testing::watchdog::enter();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("site/b")).unwrap();
        fs::write(dir.path().join("site/index.html"), "home").unwrap();
        fs::write(dir.path().join("site/b/index.html"), "bee").unwrap();
        fs::write(dir.path().join("site/large.bin"), vec![7; 8_000_000]).unwrap();
        Place(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn configure(&self, text: &str) {
        let text = text.replace("DIR", self.0.path().to_str().unwrap());
        fs::write(self.path("laio.toml"), text).unwrap();
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
        command.arg("serve").args(flags);
        command
            .current_dir(self.0.path())
            .env_remove("LAIO_BACKEND");
        command
    }

    fn start(&self, flags: &[&str]) -> Running {
        laio_testing::watchdog::step(flags.join(" "));
        let mut command = self.command(&["--listen", "unix:socket"]);
        command.args(flags);
        self.run(command)
    }

    fn run(&self, mut command: Command) -> Running {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, said) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let running = Running {
            child,
            said,
            socket: self.path("socket"),
        };
        running.hear("Ctrl-C stops");
        running
    }

    /// Runs to the end.
    fn output(&self, flags: &[&str]) -> (Option<i32>, String) {
        let output = self.command(flags).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), text)
    }
}

impl Running {
    /// Waits until something is said.
    fn hear(&self, what: &str) -> String {
        let end = Instant::now() + LONG;
        let mut heard = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(line) if line.contains(what) => return line,
                Ok(line) => heard.push(line),
                Err(error) => panic!("{what:?} was not said ({error}), but {heard:#?}"),
            }
        }
    }

    fn signal(&self, signal: Signal) {
        send(self.child.id(), signal);
    }

    fn connect(&self) -> UnixStream {
        connect(&self.socket)
    }

    /// The body of one answer, on a connection of its own.
    fn get(&self, host: &str, target: &str) -> String {
        self.try_get(host, target).expect("an answer")
    }

    /// As `get`; none if the connection ends without an answer.
    fn try_get(&self, host: &str, target: &str) -> Option<String> {
        fetch(&self.socket, host, target)
    }

    fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        let last = self.hear("served ");
        assert!(self.child.wait().unwrap().success());
        last
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// The body of one answer, on a connection of its own; none if that ends without an answer.
fn fetch(socket: &Path, host: &str, target: &str) -> Option<String> {
    let mut stream = connect(socket);
    try_ask(&mut stream, host, target).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some(body.to_owned())
}

fn ask(stream: &mut UnixStream, host: &str, target: &str) {
    try_ask(stream, host, target).unwrap();
}

fn try_ask(stream: &mut UnixStream, host: &str, target: &str) -> std::io::Result<()> {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())
}

fn send(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn mistakes_are_told_by_line() {
    let place = Place::new();
    place.configure(
        "root = 'site'\nlistn = ['127.0.0.1:0']\nworkers = 'many'\nmax_headers = 7\nlisting = 'yes'\ncheck = true\n\
         [host.'example.org']\nworkers = 3\nsymlinks = 'nowhere'\nhost = 'a=b'\n",
    );
    let (code, text) = place.output(&["--config", "laio.toml"]);
    assert_eq!(code, Some(2), "{text}");
    for expected in [
        "laio.toml:2: there is no key listn; did you mean listen?",
        "laio.toml:3: invalid value 'many' for '--workers <N>'",
        "laio.toml:4: there is no key max_headers; did you mean max-headers?",
        "laio.toml:5: listing is either true or false",
        "laio.toml:6: check is a flag, not a key",
        "laio.toml:8: there is no key workers of a host",
        "laio.toml:9: invalid value 'nowhere'",
        "laio.toml:10: a host has no hosts of its own",
    ] {
        assert!(text.contains(expected), "{expected} is not in\n{text}");
    }
    assert_eq!(text.lines().count(), 8, "{text}");
    place.configure("root = 'site'\nlisten = [\n");
    let (code, text) = place.output(&["--config", "laio.toml"]);
    assert_eq!(code, Some(2));
    assert!(
        text.contains("laio.toml:2") || text.contains("laio.toml:3"),
        "{text}"
    );
    let (code, text) = place.output(&["--config", "absent.toml"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("cannot read absent.toml"), "{text}");
}

#[test]
fn check_tells_without_serving() {
    let place = Place::new();
    place.configure("root = 'site'\nlog = 'off'\n");
    let ok = (Some(0), "ok\n".to_owned());
    assert_eq!(place.output(&["--config", "laio.toml", "--check"]), ok);
    let (code, text) = place.output(&["--config", "laio.toml", "--check", "absent"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("cannot serve absent"), "{text}");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/laio.toml");
    let mut command = place.command(&["--config", example, "--check"]);
    let output = command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn hosts_have_keys_of_their_own_and_flags_come_first() {
    let place = Place::new();
    place.configure(
        "root = 'absent'\nlisting = true\nlog = 'off'\nindex = ['absent.html']\n\
         [redirect]\n'/old/*' = '/new/*'\n\
         [host.'b.org www.b.org']\nroot = 'site/b'\nindex = 'index.html'\n",
    );
    let server = place.start(&["--config", "laio.toml", "site"]);
    assert!(server.get("a.org", "/").contains("large.bin"), "a listing");
    assert_eq!(server.get("b.org", "/"), "bee");
    assert_eq!(server.get("www.b.org", "/"), "bee");
    let mut stream = server.connect();
    ask(&mut stream, "b.org", "/old/x");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("Location: /new/x"), "{answer}");
    server.stop();
}

#[test]
fn a_reload_is_whole_or_not_at_all_and_answers_in_flight_are_finished() {
    let place = Place::new();
    place.configure("root = 'DIR/site'\nlog = 'off'\nworkers = 1\n");
    let server = place.start(&["--config", "laio.toml"]);
    let mut busy = server.connect();
    ask(&mut busy, "a", "/large.bin");
    let mut first = [0; 1000];
    busy.read_exact(&mut first).unwrap();
    assert_eq!(server.get("a", "/"), "home");

    place.configure("root = 'DIR/site'\nworkers = 'x'\n");
    server.signal(Signal::HUP);
    server.hear("keeping the old options");
    server.hear("laio.toml:2: invalid value 'x'");
    place.configure("root = 'DIR/absent'\nworkers = 1\nlog = 'off'");
    server.signal(Signal::HUP);
    server.hear("cannot serve");
    assert_eq!(server.get("a", "/"), "home");

    place.configure("root = 'DIR/site/b'\nlog = 'off'\nworkers = 2\n");
    server.signal(Signal::HUP);
    let said = server.hear("reloaded the options");
    assert!(said.contains("changes of workers need a restart"), "{said}");
    // One that an old worker was about to take is still its.
    until("new options are in force", || server.get("a", "/") == "bee");
    let mut rest = Vec::new();
    busy.read_to_end(&mut rest).unwrap();
    assert!(
        first.len() + rest.len() > 8_000_000,
        "the old answer is whole"
    );
    server.stop();
}

#[test]
fn the_log_is_reopened() {
    let place = Place::new();
    let server = place.start(&["site", "--log", "access.log", "--log-format", "common"]);
    let lines = |name: &str| {
        fs::read_to_string(place.path(name))
            .unwrap()
            .lines()
            .count()
    };
    server.get("a", "/");
    until("the first line is written", || lines("access.log") == 1);
    fs::rename(place.path("access.log"), place.path("old.log")).unwrap();
    server.signal(Signal::USR1);
    server.hear("reopened the access log");
    server.get("a", "/");
    until("the second line is written", || lines("access.log") == 1);
    assert_eq!(lines("old.log"), 1);
    server.stop();
}

#[test]
fn a_log_on_a_full_disk_loses_lines_and_nothing_else() {
    let place = Place::new();
    let server = place.start(&["site", "--log", "/dev/full", "--workers", "1"]);
    for _ in 0..50 {
        assert_eq!(server.get("a", "/"), "home");
    }
    let said = server.hear("/dev/full");
    assert!(said.contains("No space left on device"), "{said}");
    let last = server.stop();
    assert!(
        last.contains("50 lines of the access log were dropped"),
        "{last}"
    );
}

#[test]
fn a_log_goes_on_with_a_whole_line_when_the_disk_has_room_again() {
    let place = Place::new();
    fs::create_dir(place.path("small")).unwrap();
    let _mounted = match Mounted::new(&place.path("small")) {
        Ok(mounted) => mounted,
        Err(error) => {
            return laio_testing::skip("mounts", format!("nothing can be mounted: {error}"));
        }
    };
    let server = place.start(&[
        "site",
        "--log",
        "small/access.log",
        "--log-format",
        "common",
        "--workers",
        "1",
    ]);
    server.get("a", "/before");
    let log = || fs::read(place.path("small/access.log")).unwrap();
    until("a line is written", || !log().is_empty());
    let mut filler = fs::File::create(place.path("small/filler")).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
    // The page of the log itself has room for some lines.
    for number in 0..100 {
        server.get("a", &format!("/full/{number}"));
    }
    server.hear("No space left on device");
    fs::remove_file(place.path("small/filler")).unwrap();
    drop(filler);
    until("lines are written again", || {
        server.get("a", "/after");
        let log = log();
        log.ends_with(b"\n") && contains(&log, b"GET /after HTTP/1.1")
    });
    let text = String::from_utf8(log()).unwrap();
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("- - - [") && last.contains("GET /after HTTP/1.1"),
        "{last:?}"
    );
    server.stop();
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// A small file system in memory.
struct Mounted(PathBuf);

impl Mounted {
    fn new(path: &Path) -> std::io::Result<Mounted> {
        use rustix::mount::{MountFlags, mount};
        mount(
            "tmpfs",
            path,
            "tmpfs",
            MountFlags::empty(),
            Some(c"size=64k"),
        )?;
        Ok(Mounted(path.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_log_that_nobody_reads_keeps_nobody_waiting() {
    let place = Place::new();
    let fifo = place.path("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).unwrap();
    let (code, text) = place.output(&["site", "--log", "fifo", "--listen", "unix:other"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("a FIFO without a reader"), "{text}");
    let _reader = rustix::fs::open(
        &fifo,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    let server = place.start(&["site", "--log", "fifo", "--workers", "1"]);
    let mut stream = server.connect();
    let target = "x".repeat(8000);
    let request = format!("HEAD /{target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    // More than the pipe and the worker's memory take.
    for _ in 0..300 {
        stream.write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert!(answers.read_line(&mut line).unwrap() > 0);
        }
    }
    server.hear("it cannot be written as fast as lines arrive");
    drop((stream, answers));
    let last = server.stop();
    assert!(
        last.contains("lines of the access log were dropped"),
        "{last}"
    );
}

#[test]
fn the_next_version_takes_the_sockets_when_it_serves_and_not_before() {
    let place = Place::new();
    place.configure("root = 'DIR/site'\nlog = 'off'\nworkers = 2\n");
    let mut server = place.start(&["--config", "laio.toml"]);
    place.configure("root = 'DIR/absent'\n");
    server.signal(Signal::USR2);
    server.hear("failed to start; this process continues");
    assert_eq!(server.get("a", "/"), "home");

    place.configure("root = 'DIR/site/b'\nlog = 'off'\nworkers = 2\n");
    let mut busy = server.connect();
    ask(&mut busy, "a", "/large.bin");
    let mut first = [0; 1000];
    busy.read_exact(&mut first).unwrap();
    server.signal(Signal::USR2);
    let said = server.hear("finishing the answers in progress here");
    let next: u32 = said.split(' ').nth(1).unwrap().parse().unwrap();
    until("the new one answers", || server.get("a", "/") == "bee");
    let mut rest = Vec::new();
    busy.read_to_end(&mut rest).unwrap();
    assert!(
        first.len() + rest.len() > 8_000_000,
        "the old answer is whole"
    );
    assert!(server.child.wait().unwrap().success());
    assert_eq!(server.get("a", "/"), "bee");
    send(next, Signal::TERM);
    until("the socket is removed", || !server.socket.exists());
}

#[test]
fn hand_overs_lose_no_connection_and_add_no_socket() {
    const HAND_OVERS: usize = 8;
    let place = Place::new();
    let flags = "site --listen 127.0.0.1:0 --log off --workers 2";
    let server = place.start(&flags.split(' ').collect::<Vec<_>>());
    let (over, socket) = (AtomicBool::new(false), &server.socket);
    let mut serving = server.child.id();
    let mut sockets = Vec::new();
    std::thread::scope(|scope| {
        let asking = || {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(fetch(socket, "a", "/").as_deref(), Some("home"));
            }
        };
        let clients = [scope.spawn(asking), scope.spawn(asking)];
        for _ in 0..HAND_OVERS {
            send(serving, Signal::USR2);
            let said = server.hear("finishing the answers in progress here");
            serving = said.split(' ').nth(1).unwrap().parse().unwrap();
            sockets.push(listening(serving));
        }
        over.store(true, Ordering::Relaxed);
        let lost = clients.map(|client| client.join().is_err());
        send(serving, Signal::TERM);
        until("the socket is removed", || !socket.exists());
        assert_eq!(lost, [false, false]);
    });
    assert!(sockets.iter().all(|&it| it == sockets[0]), "{sockets:?}");
}

/// How many sockets a process listens on.
fn listening(process: u32) -> usize {
    let mut inodes = HashSet::new();
    for table in ["tcp", "unix"] {
        let text = fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap();
        for line in text.lines() {
            let fields: Vec<_> = line.split_whitespace().collect();
            // The state of TCP, or the flag of a Unix socket, that says that it listens.
            match fields[..] {
                [_, _, _, "0A", _, _, _, _, _, inode, ..] if table == "tcp" => {
                    inodes.insert(inode.to_owned())
                }
                [_, _, _, "00010000", _, _, inode, ..] if table == "unix" => {
                    inodes.insert(inode.to_owned())
                }
                _ => continue,
            };
        }
    }
    let links = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let targets = links.filter_map(|link| fs::read_link(link.ok()?.path()).ok());
    let listens = |target: &PathBuf| {
        let name = target.to_str().and_then(|it| it.strip_prefix("socket:["));
        name.is_some_and(|it| inodes.contains(it.trim_end_matches(']')))
    };
    targets.filter(listens).count()
}

#[test]
fn a_process_that_is_killed_is_started_again_and_the_others_serve() {
    let place = Place::new();
    let server = place.start(&["site", "--log", "off", "--processes", "2", "--workers", "1"]);
    let supervisor = server.child.id();
    let children = || {
        let path = format!("/proc/{supervisor}/task/{supervisor}/children");
        let text = fs::read_to_string(path).unwrap();
        text.split_whitespace()
            .map(|number| number.parse::<u32>().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(children().len(), 2);
    for _ in 0..2 {
        let killed = children()[0];
        send(killed, Signal::KILL);
        let answers = (0..20).filter(|_| server.try_get("a", "/").as_deref() == Some("home"));
        // The killed one may have taken a connection at its last moment.
        assert!(answers.count() >= 19);
        server.hear("restarting it");
        until("there are two again", || {
            let now = children();
            now.len() == 2 && !now.contains(&killed)
        });
    }
    let left = children();
    server.signal(Signal::TERM);
    until("all have ended", || {
        left.iter()
            .all(|child| !Path::new(&format!("/proc/{child}")).exists())
    });
}

#[test]
fn connections_wait_while_all_descriptors_are_at_work() {
    let place = Place::new();
    let mut command = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_laio");
    let script = format!(
        "ulimit -n 64; exec {program} serve site --listen unix:socket --log off --workers 1"
    );
    command.args(["-c", &script]).current_dir(place.0.path());
    let server = place.run(command);
    let mut held: Vec<_> = (0..100).map(|_| server.connect()).collect();
    for stream in &mut held {
        // A connection that waits for its client ends when others need the descriptor.
        let _ = try_ask(stream, "a", "/large.bin");
    }
    // None of those that are served ends early, and those that wait have their turn.
    let mut whole = 0;
    for stream in &mut held {
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) if !answer.is_empty() => {
                assert!(answer.len() > 8_000_000, "{}", answer.len());
                whole += 1;
            }
            _ => {}
        }
    }
    assert!(whole > 0, "all were sent away");
    assert_eq!(server.get("a", "/"), "home");
    server.stop();
}

#[test]
fn it_becomes_somebody_else_and_its_workers_are_fenced_in() {
    if !rustix::process::geteuid().is_root() {
        return laio_testing::skip("root", "only root can become another user");
    }
    let place = Place::new();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(place.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let flags = [
        "site",
        "--log",
        "off",
        "--user",
        "65534",
        "--landlock",
        "auto",
        "--seccomp",
        "on",
    ];
    let server = place.start(&flags);
    assert_eq!(server.get("a", "/"), "home");
    assert!(server.get("a", "/large.bin").len() == 8_000_000);
    let mut workers = 0;
    for task in fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap() {
        // A thread may have ended meanwhile.
        let Ok(status) = fs::read_to_string(task.unwrap().path().join("status")) else {
            continue;
        };
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_once(':').unwrap().1.trim().to_owned()
        };
        assert_eq!(field("Uid"), "65534\t65534\t65534\t65534", "{status}");
        assert_eq!(field("Gid"), "65534\t65534\t65534\t65534", "{status}");
        assert_eq!(field("NoNewPrivs"), "1", "{status}");
        if field("Name").starts_with("laio-serve-") {
            assert_eq!(field("Seccomp"), "2", "{status}");
            workers += 1;
        }
    }
    assert!(workers > 0);
    server.stop();
}
