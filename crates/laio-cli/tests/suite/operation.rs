//! Operating the server: its configuration file, its signals, and its behaviour when a process dies or a disk
//! is full.

use crate::common::server::{
    self, LONG, ServerProcess, TcpServer, get, send_request, send_signal, wait_until,
};
use rustix::process::Signal;
use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

/// A server on a Unix socket.
struct SocketServer {
    process: ServerProcess,
    socket: PathBuf,
}

/// A directory with a site, a configuration file and the server's socket.
struct ServerDir(TempDir);

impl ServerDir {
    fn new() -> ServerDir {
        laio_testing::watchdog::enter();
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("site/b")).unwrap();
        fs::write(dir.path().join("site/index.html"), "home").unwrap();
        fs::write(dir.path().join("site/b/index.html"), "bee").unwrap();
        fs::write(dir.path().join("site/large.bin"), vec![7; 8_000_000]).unwrap();
        ServerDir(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn configure(&self, text: &str) {
        let text = text.replace("DIR", self.0.path().to_str().unwrap());
        fs::write(self.path("laio.toml"), text).unwrap();
    }

    fn command(&self, flags: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
        command.arg("serve").args(flags.split_whitespace());
        command.current_dir(self.0.path());
        command.env_remove("LAIO_BACKEND");
        command
    }

    /// Starts a server with these flags, which are separated by spaces, on a socket.
    fn start(&self, flags: &str) -> SocketServer {
        laio_testing::watchdog::step(flags);
        self.run(self.command(&format!("--listen unix:socket {flags}")))
    }

    fn run(&self, mut command: Command) -> SocketServer {
        let process = ServerProcess::spawn(command.stdout(Stdio::null()));
        process.wait_for_line("Ctrl-C stops");
        SocketServer {
            process,
            socket: self.path("socket"),
        }
    }

    /// Runs the command to its end, and compares its exit code and parts of its messages. Returns these.
    #[track_caller]
    fn says(&self, flags: &str, code: i32, parts: &[&str]) -> String {
        let output = self.command(flags).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{flags}: {text}");
        for part in parts {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        text
    }

    /// As `says`, with a configuration file.
    #[track_caller]
    fn configured_says(&self, configuration: &str, code: i32, parts: &[&str]) -> String {
        self.configure(configuration);
        self.says("--config laio.toml --check", code, parts)
    }
}

impl SocketServer {
    fn wait_for_line(&self, text: &str) -> String {
        self.process.wait_for_line(text)
    }

    fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    fn connect(&self) -> UnixStream {
        connect(&self.socket)
    }

    /// Returns the body of a response on a new connection.
    fn get(&self, host: &str, target: &str) -> String {
        self.try_get(host, target).expect("an answer")
    }

    /// As `get`; `None` if the connection ends without a response.
    fn try_get(&self, host: &str, target: &str) -> Option<String> {
        fetch(&self.socket, host, target)
    }

    /// Begins a request for the large file, and reads some of the response.
    fn begin(&self) -> UnixStream {
        let mut stream = self.connect();
        send_request(&mut stream, "a", "/large.bin").unwrap();
        stream.read_exact(&mut [0; 1000]).unwrap();
        stream
    }

    fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        let last = self.wait_for_line("served ");
        assert!(self.process.child.wait().unwrap().success());
        last
    }
}

fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Returns the body of a response on a new connection; `None` if the connection ends without a response.
fn fetch(socket: &Path, host: &str, target: &str) -> Option<String> {
    let mut stream = connect(socket);
    send_request(&mut stream, host, target).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some(body.to_owned())
}

/// Reads the rest of the response that [`SocketServer::begin`] has begun.
fn finish(mut stream: UnixStream) {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.len() > 7_999_000, "the old answer is whole");
}

#[test]
fn mistakes_are_reported_with_line_numbers() {
    let dir = ServerDir::new();
    dir.configure(
        "root = 'site'\nlistn = ['127.0.0.1:0']\nworkers = 'many'\nmax_headers = 7\nlisting = 'yes'\ncheck = true\n\
         [host.'example.org']\nworkers = 3\nsymlinks = 'nowhere'\nhost = 'a=b'\n",
    );
    let expected = [
        "laio.toml:2: there is no key listn; did you mean listen?",
        "laio.toml:3: invalid value 'many' for '--workers <N>'",
        "laio.toml:4: there is no key max_headers; did you mean max-headers?",
        "laio.toml:5: listing is either true or false",
        "laio.toml:6: check is a flag, not a key",
        "laio.toml:8: there is no key workers of a host",
        "laio.toml:9: invalid value 'nowhere'",
        "laio.toml:10: a host has no hosts of its own",
    ];
    let text = dir.says("--config laio.toml", 2, &expected);
    assert_eq!(text.lines().count(), 8, "{text}");
    dir.configure("root = 'site'\nlisten = [\n");
    let text = dir.says("--config laio.toml", 2, &[]);
    let is_located = text.contains("laio.toml:2") || text.contains("laio.toml:3");
    assert!(is_located, "{text}");
    dir.says("--config absent.toml", 2, &["cannot read absent.toml"]);
}

#[test]
fn check_reports_without_serving() {
    let dir = ServerDir::new();
    let text = dir.configured_says("root = 'site'\nlog = 'off'\n", 0, &[]);
    assert_eq!(text, "ok\n");
    let flags = "--config laio.toml --check absent";
    dir.says(flags, 1, &["cannot serve absent"]);
    for example in ["laio.toml", "php.toml", "app.toml"] {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let mut command = dir.command(&format!("--config {root}/examples/{example} --check"));
        let output = command.current_dir(root).output().unwrap();
        assert!(output.status.success(), "{example}: {output:?}");
    }
}

#[test]
fn hosts_have_keys_of_their_own_and_flags_come_first() {
    let dir = ServerDir::new();
    dir.configure(
        "root = 'absent'\nlisting = true\nlog = 'off'\nindex = ['absent.html']\n\
         [redirect]\n'/old/*' = '/new/*'\n\
         [host.'b.org www.b.org']\nroot = 'site/b'\nindex = 'index.html'\n",
    );
    let server = dir.start("--config laio.toml site");
    assert!(server.get("a.org", "/").contains("large.bin"), "a listing");
    assert_eq!(server.get("b.org", "/"), "bee");
    assert_eq!(server.get("www.b.org", "/"), "bee");
    let mut stream = server.connect();
    send_request(&mut stream, "b.org", "/old/x").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("Location: /new/x"), "{answer}");
    server.stop();
}

#[test]
fn a_reload_is_all_or_nothing_and_responses_in_flight_finish() {
    let dir = ServerDir::new();
    dir.configure("root = 'DIR/site'\nlog = 'off'\nworkers = 1\n");
    let server = dir.start("--config laio.toml");
    let busy = server.begin();
    assert_eq!(server.get("a", "/"), "home");

    dir.configure("root = 'DIR/site'\nworkers = 'x'\n");
    server.signal(Signal::HUP);
    server.wait_for_line("keeping the old options");
    server.wait_for_line("laio.toml:2: invalid value 'x'");
    dir.configure("root = 'DIR/absent'\nworkers = 1\nlog = 'off'");
    server.signal(Signal::HUP);
    server.wait_for_line("cannot serve");
    assert_eq!(server.get("a", "/"), "home");

    dir.configure("root = 'DIR/site/b'\nlog = 'off'\nworkers = 2\n");
    server.signal(Signal::HUP);
    let said = server.wait_for_line("reloaded the options");
    assert!(said.contains("changes of workers need a restart"), "{said}");
    // An old worker may still accept one connection.
    wait_until("new options are in force", || server.get("a", "/") == "bee");
    finish(busy);
    server.stop();
}

#[test]
fn the_log_is_reopened() {
    let dir = ServerDir::new();
    let server = dir.start("site --log access.log --log-format common");
    let lines = |name: &str| fs::read_to_string(dir.path(name)).unwrap().lines().count();
    server.get("a", "/");
    wait_until("the first line is written", || lines("access.log") == 1);
    fs::rename(dir.path("access.log"), dir.path("old.log")).unwrap();
    server.signal(Signal::USR1);
    server.wait_for_line("reopened the access log");
    server.get("a", "/");
    wait_until("the second line is written", || lines("access.log") == 1);
    assert_eq!(lines("old.log"), 1);
    server.stop();
}

#[test]
fn a_log_on_a_full_disk_loses_lines_and_nothing_else() {
    let dir = ServerDir::new();
    let server = dir.start("site --log /dev/full --workers 1");
    for _ in 0..50 {
        assert_eq!(server.get("a", "/"), "home");
    }
    let said = server.wait_for_line("/dev/full");
    assert!(said.contains("No space left on device"), "{said}");
    let last = server.stop();
    let dropped = "50 lines of the access log were dropped";
    assert!(last.contains(dropped), "{last}");
}

#[test]
fn a_log_continues_with_a_whole_line_when_the_disk_has_space_again() {
    let dir = ServerDir::new();
    fs::create_dir(dir.path("small")).unwrap();
    let _mounted = match Mounted::new(&dir.path("small")) {
        Ok(mounted) => mounted,
        Err(error) => {
            return laio_testing::skip("mounts", format!("nothing can be mounted: {error}"));
        }
    };
    let flags = "site --log small/access.log --log-format common --workers 1";
    let server = dir.start(flags);
    server.get("a", "/before");
    let log = || fs::read(dir.path("small/access.log")).unwrap();
    wait_until("a line is written", || !log().is_empty());
    let mut filler = fs::File::create(dir.path("small/filler")).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
    // The last page of the log file still has space for some lines.
    for number in 0..100 {
        server.get("a", &format!("/full/{number}"));
    }
    server.wait_for_line("No space left on device");
    fs::remove_file(dir.path("small/filler")).unwrap();
    drop(filler);
    wait_until("lines are written again", || {
        server.get("a", "/after");
        let log = log();
        log.ends_with(b"\n") && contains(&log, b"GET /after HTTP/1.1")
    });
    let text = String::from_utf8(log()).unwrap();
    let last = text.lines().last().unwrap();
    let is_whole = last.starts_with("- - - [") && last.contains("GET /after HTTP/1.1");
    assert!(is_whole, "{last:?}");
    server.stop();
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// A small tmpfs.
struct Mounted(PathBuf);

impl Mounted {
    fn new(path: &Path) -> std::io::Result<Mounted> {
        use rustix::mount::{MountFlags, mount};
        let options = Some(c"size=64k");
        mount("tmpfs", path, "tmpfs", MountFlags::empty(), options)?;
        Ok(Mounted(path.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_log_without_a_reader_does_not_delay_responses() {
    let dir = ServerDir::new();
    let fifo = dir.path("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).unwrap();
    let flags = "site --log fifo --listen unix:other";
    dir.says(flags, 1, &["a FIFO without a reader"]);
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
    let _reader = rustix::fs::open(&fifo, flags, rustix::fs::Mode::empty()).unwrap();
    let server = dir.start("site --log fifo --workers 1");
    let mut stream = server.connect();
    let target = "x".repeat(8000);
    let request = format!("HEAD /{target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    // More than the pipe and the worker's buffer hold.
    for _ in 0..300 {
        stream.write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert!(answers.read_line(&mut line).unwrap() > 0);
        }
    }
    server.wait_for_line("it cannot be written as fast as lines arrive");
    drop((stream, answers));
    let last = server.stop();
    let dropped = "lines of the access log were dropped";
    assert!(last.contains(dropped), "{last}");
}

#[test]
fn the_next_version_takes_the_sockets_only_when_it_serves() {
    let dir = ServerDir::new();
    dir.configure("root = 'DIR/site'\nlog = 'off'\nworkers = 2\n");
    let mut server = dir.start("--config laio.toml");
    dir.configure("root = 'DIR/absent'\n");
    server.signal(Signal::USR2);
    server.wait_for_line("failed to start; this process continues");
    assert_eq!(server.get("a", "/"), "home");

    dir.configure("root = 'DIR/site/b'\nlog = 'off'\nworkers = 2\n");
    let busy = server.begin();
    server.signal(Signal::USR2);
    let said = server.wait_for_line("finishing the responses in progress here");
    let next: u32 = said.split(' ').nth(1).unwrap().parse().unwrap();
    wait_until("the new one answers", || server.get("a", "/") == "bee");
    finish(busy);
    assert!(server.process.child.wait().unwrap().success());
    assert_eq!(server.get("a", "/"), "bee");
    send_signal(next, Signal::TERM);
    wait_until("the socket is removed", || !server.socket.exists());
}

#[test]
fn hand_overs_lose_no_connection_and_add_no_socket() {
    const HAND_OVERS: usize = 8;
    let dir = ServerDir::new();
    let flags = "site --listen 127.0.0.1:0 --log off --workers 2";
    let server = dir.start(flags);
    let (over, socket) = (AtomicBool::new(false), &server.socket);
    let mut serving = server.process.child.id();
    let mut sockets = Vec::new();
    std::thread::scope(|scope| {
        let asking = || {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(fetch(socket, "a", "/").as_deref(), Some("home"));
            }
        };
        let clients = [scope.spawn(asking), scope.spawn(asking)];
        for _ in 0..HAND_OVERS {
            send_signal(serving, Signal::USR2);
            let said = server.wait_for_line("finishing the responses in progress here");
            serving = said.split(' ').nth(1).unwrap().parse().unwrap();
            sockets.push(listening(serving));
        }
        over.store(true, Ordering::Relaxed);
        let lost = clients.map(|client| client.join().is_err());
        send_signal(serving, Signal::TERM);
        wait_until("the socket is removed", || !socket.exists());
        assert_eq!(lost, [false, false]);
    });
    assert!(sockets.iter().all(|&it| it == sockets[0]), "{sockets:?}");
}

/// Returns the number of sockets on which a process listens.
fn listening(process: u32) -> usize {
    let mut inodes = HashSet::new();
    for table in ["tcp", "unix"] {
        let text = fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap();
        for line in text.lines() {
            let fields: Vec<_> = line.split_whitespace().collect();
            // The TCP state, or the flag of a Unix socket, that means listening.
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
    let dir = ServerDir::new();
    let server = dir.start("site --log off --processes 2 --workers 1");
    let supervisor = server.process.child.id();
    let children = || {
        let path = format!("/proc/{supervisor}/task/{supervisor}/children");
        let text = fs::read_to_string(path).unwrap();
        let numbers = text.split_whitespace().map(|number| number.parse::<u32>());
        numbers.collect::<Result<Vec<_>, _>>().unwrap()
    };
    assert_eq!(children().len(), 2);
    for _ in 0..2 {
        let killed = children()[0];
        send_signal(killed, Signal::KILL);
        let answers = (0..20).filter(|_| server.try_get("a", "/").as_deref() == Some("home"));
        // The killed process may have accepted a connection just before.
        assert!(answers.count() >= 19);
        server.wait_for_line("restarting it");
        wait_until("there are two again", || {
            let now = children();
            now.len() == 2 && !now.contains(&killed)
        });
    }
    let left = children();
    server.signal(Signal::TERM);
    let has_ended = |child: &u32| !Path::new(&format!("/proc/{child}")).exists();
    wait_until("all have ended", || left.iter().all(has_ended));
}

#[test]
fn all_processes_serve_the_port_that_the_kernel_chose() {
    let dir = ServerDir::new();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(dir.path("cert.pem"), pair.cert.pem()).unwrap();
    fs::write(dir.path("key.pem"), pair.signing_key.serialize_pem()).unwrap();
    // The encrypted address must not get the port of the other one.
    let flags = "site --log off --workers 1 --listen 127.0.0.1:0 --listen tls:127.0.0.1:0 \
                 --tls-cert cert.pem --tls-key key.pem";
    let [alone, supervised] = ["finishing the responses in progress here", "has taken over"];
    for (processes, taken_over) in [("", alone), ("1", supervised), ("2", supervised)] {
        laio_testing::watchdog::step(format!("processes: {processes}"));
        let mut command = dir.command(flags);
        if !processes.is_empty() {
            command.args(["--processes", processes]);
        }
        let process = ServerProcess::spawn(command.stdout(Stdio::null()));
        let TcpServer {
            process, address, ..
        } = TcpServer::listening(process);
        let answers = || {
            // Each process gets some of the connections.
            for _ in 0..16 {
                let answer = get(server::connect(address), "/").unwrap();
                assert!(answer.ends_with("home"), "{processes:?}: {answer}");
            }
        };
        answers();
        process.signal(Signal::USR2);
        let said = process.wait_for_line(taken_over);
        let next = said.split(' ').nth(1).unwrap().parse().unwrap();
        answers();
        process.wait_for_success();
        answers();
        send_signal(next, Signal::TERM);
        wait_until("the port is free", || TcpListener::bind(address).is_ok());
    }
}

#[test]
fn connections_wait_while_all_descriptors_are_in_use() {
    // An emulator needs some of the 64 descriptors itself.
    if laio_testing::lacks("native") {
        return;
    }
    let dir = ServerDir::new();
    let mut command = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_laio");
    let script = format!(
        "ulimit -n 64; exec {program} serve site --listen unix:socket --log off --workers 1"
    );
    command.args(["-c", &script]).current_dir(dir.0.path());
    let server = dir.run(command);
    let mut held: Vec<_> = (0..100).map(|_| server.connect()).collect();
    for stream in &mut held {
        // An idle connection is closed when another needs its descriptor.
        let _ = send_request(stream, "a", "/large.bin");
    }
    // No response is cut off, and all waiting connections are served in the end.
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
fn it_drops_privileges_and_its_workers_are_sandboxed() {
    if !rustix::process::geteuid().is_root() {
        return laio_testing::skip("root", "only root can become another user");
    }
    if laio_testing::lacks("seccomp") {
        return;
    }
    let dir = ServerDir::new();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(dir.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let server = dir.start("site --log off --user 65534 --landlock auto --seccomp on");
    assert_eq!(server.get("a", "/"), "home");
    assert!(server.get("a", "/large.bin").len() == 8_000_000);
    let mut workers = 0;
    for task in fs::read_dir(format!("/proc/{}/task", server.process.child.id())).unwrap() {
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

#[test]
fn an_answer_is_explained_instead_of_served() {
    let dir = ServerDir::new();
    dir.configure("root = \"DIR/site\"\nredirect = [\"/old=/new\"]\n");
    let explained = |flags: &[&str]| {
        let mut command = dir.command("--config laio.toml");
        let output = command.args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let out = explained(&["--explain", "/b"]);
    for part in ["b is a directory", "\nLocation: /b/\n"] {
        assert!(out.contains(part), "{out}");
    }
    let mut flags = vec![
        "--explain",
        "http://example.org/",
        "--explain-method",
        "HEAD",
    ];
    flags.extend(["--explain-header", "If-None-Match: *", "--explain-json"]);
    let json: serde_json::Value = serde_json::from_str(&explained(&flags)).unwrap();
    assert_eq!(json["response"]["status"], 304);
    assert_eq!(json["request"]["method"], "HEAD");
    for wrong in [
        "--explain example.org",
        "--explain / --explain-header x",
        "--explain-json",
        "--explain / --check",
    ] {
        dir.says(&format!("--config laio.toml {wrong}"), 2, &[]);
    }
    let mut command = dir.command("--config laio.toml --explain / --explain-method");
    assert_eq!(command.arg("A B").status().unwrap().code(), Some(2));
    dir.says("--config laio.toml --explain / absent", 1, &[]);
    let configuration = "root = \"DIR/site\"\nexplain = \"/\"\n";
    dir.configured_says(configuration, 2, &["explain is a flag, not a key"]);
}

#[test]
fn mistakes_in_values_say_what_to_write() {
    let dir = ServerDir::new();
    #[rustfmt::skip]
    let cases = [
        ("--workers 0", "invalid value '0' for '--workers <N>': it must be at least 1"),
        (
            "--cache-bytes 1x",
            "invalid value '1x' for '--cache-bytes <BYTES>': write a number of bytes in digits, without a unit",
        ),
        ("--max-headers many", "'--max-headers <N>': write a whole number in digits"),
        ("--max-requests 99999999999999999999999", "it is too large"),
    ];
    for (flags, expected) in cases {
        dir.says(flags, 2, &[expected]);
    }
    dir.configure("root = 'DIR/site'\ncache-bytes = '64M'\nworkers = 0\n");
    let expected = [
        "laio.toml:2: invalid value '64M'",
        "without a unit",
        "laio.toml:3: invalid value '0'",
        "at least 1",
    ];
    dir.says("--config laio.toml", 2, &expected);
}

#[test]
fn files_that_options_name_are_looked_for_at_the_start() {
    let dir = ServerDir::new();
    let configuration = "root = 'DIR/site'\nerror-page = ['404=absent.html', '500=b']\n\
                         fallback = 'gone.html'\nalias = ['/media=DIR/media']\n";
    let expected = [
        "--error-page 404=absent.html: cannot send ",
        "/site/absent.html: No such file or directory (os error 2)",
        "--error-page 500=b: cannot send ",
        "it is no file",
        "--fallback gone.html: cannot send ",
        "/media as /media: No such file or directory (os error 2); its paths are 404 until",
    ];
    let text = dir.configured_says(configuration, 0, &expected);
    assert!(text.ends_with("ok\n"), "{text}");
    let configuration =
        "root = 'DIR/site'\nerror-page = ['404=index.html']\nfallback = '/index.html'\n";
    assert_eq!(dir.configured_says(configuration, 0, &[]), "ok\n");
}
