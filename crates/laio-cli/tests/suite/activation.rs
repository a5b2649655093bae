//! `laio serve` under a service manager: with an inherited listening socket and a notification socket.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A time limit far above the duration of any step.
const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// Kills the process when dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The shell moves its standard input to descriptor 3, and knows its own process id, which `exec` keeps.
const SCRIPT: &str = r#"LISTEN_FDS=1 LISTEN_PID=$$ exec "$@" 3<&0 </dev/null"#;

#[test]
fn an_inherited_socket_is_served_and_the_manager_notified() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.html"), "home").unwrap();
    for listen in [&[][..], &["--listen", "systemd:web"]] {
        let manager = NotifySocket::new(dir.path().join("notify"));
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        // A client that connects before the server runs waits in the accept queue.
        let mut early = TcpStream::connect(address).unwrap();
        early.set_read_timeout(LONG).unwrap();
        ask(&mut early);
        let mut command = Command::new("sh");
        command
            .args(["-c", SCRIPT, "sh", env!("CARGO_BIN_EXE_laio"), "serve"])
            .arg(dir.path())
            .args(listen)
            .env("LISTEN_FDNAMES", "web")
            .env("NOTIFY_SOCKET", &manager.path)
            .stdin(Stdio::from(OwnedFd::from(socket)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        laio_testing::process::restore_signals();
        let mut running = KillOnDrop(command.spawn().unwrap());
        assert_eq!(manager.receive(), "READY=1\n");
        assert!(answer(early).ends_with("home"));
        let banner = BufReader::new(running.0.stderr.take().unwrap());
        let shown = format!("  http://{address}/");
        let mut lines = banner.lines().map(Result::unwrap);
        assert!(lines.any(|line| line == shown));

        let signal = |signal| {
            let process = Pid::from_raw(running.0.id().try_into().unwrap()).unwrap();
            kill_process(process, signal).unwrap();
        };
        signal(Signal::HUP);
        let message = manager.receive();
        assert!(
            message.starts_with("RELOADING=1\nMONOTONIC_USEC="),
            "{message}"
        );
        assert_eq!(manager.receive(), "READY=1\n");
        let mut late = TcpStream::connect(address).unwrap();
        late.set_read_timeout(LONG).unwrap();
        ask(&mut late);
        assert!(answer(late).ends_with("home"));
        signal(Signal::TERM);
        assert_eq!(manager.receive(), "STOPPING=1\n");
        // Its other messages do not matter: it ends successfully.
        assert!(lines.any(|line| line.starts_with("served ")));
        assert!(running.0.wait().unwrap().success());
    }
}

/// The receiver of the server's `sd_notify` messages.
struct NotifySocket {
    path: std::path::PathBuf,
    socket: UnixDatagram,
}

impl NotifySocket {
    fn new(path: std::path::PathBuf) -> NotifySocket {
        laio_testing::watchdog::enter();
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(LONG).unwrap();
        NotifySocket { path, socket }
    }

    fn receive(&self) -> String {
        let mut buffer = [0; 100];
        let length = loop {
            match self.socket.recv(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => break received.unwrap(),
            }
        };
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }
}

fn ask(stream: &mut TcpStream) {
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
}

fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_packaged_units_are_valid() {
    let dir = tempfile::tempdir().unwrap();
    let packaging = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");
    let mut units = Vec::new();
    for unit in ["laio.service", "laio.socket"] {
        let text = std::fs::read_to_string(format!("{packaging}/{unit}")).unwrap();
        let path = dir.path().join(unit);
        // The programs of the units must exist.
        let text = text.replace("/usr/bin/laio", env!("CARGO_BIN_EXE_laio"));
        std::fs::write(&path, text).unwrap();
        units.push(path);
    }
    let mut verify = Command::new("systemd-analyze");
    verify.arg("verify").arg("--man=no").args(units);
    let output = match verify.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return laio_testing::skip("systemd-analyze", "systemd-analyze is not installed");
        }
        output => output.unwrap(),
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !text.contains("laio."), "{text}");
}

#[test]
fn a_missing_socket_name_is_a_clear_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_laio"))
        .args(["serve", "--listen", "systemd:web"])
        .env_remove("LISTEN_FDS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("web"), "{text}");
}
