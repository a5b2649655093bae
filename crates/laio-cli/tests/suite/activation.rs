//! Started as a service manager starts it: with a socket that listens already, and somebody to be told.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Far more than anything here takes.
const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// Ends with the test, whatever comes of it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The shell makes its standard input descriptor 3, and knows its own process id, which stays.
const SCRIPT: &str = r#"LISTEN_FDS=1 LISTEN_PID=$$ exec "$@" 3<&0 </dev/null"#;

#[test]
fn a_socket_that_was_passed_on_is_served_and_the_manager_told() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.html"), "home").unwrap();
    for listen in [&[][..], &["--listen", "systemd:web"]] {
        let manager = Manager::new(dir.path().join("notify"));
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        // Whoever comes before the server waits in the queue of the socket.
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
        let mut running = Running(command.spawn().unwrap());
        assert_eq!(manager.hears(), "READY=1\n");
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
        let told = manager.hears();
        assert!(told.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{told}");
        assert_eq!(manager.hears(), "READY=1\n");
        let mut late = TcpStream::connect(address).unwrap();
        late.set_read_timeout(LONG).unwrap();
        ask(&mut late);
        assert!(answer(late).ends_with("home"));
        signal(Signal::TERM);
        assert_eq!(manager.hears(), "STOPPING=1\n");
        // Whatever it says besides, it ends, and well.
        assert!(lines.any(|line| line.starts_with("served ")));
        assert!(running.0.wait().unwrap().success());
    }
}

/// Somebody who is told.
struct Manager {
    path: std::path::PathBuf,
    socket: UnixDatagram,
}

impl Manager {
    fn new(path: std::path::PathBuf) -> Manager {
        laio_testing::watchdog::enter();
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(LONG).unwrap();
        Manager { path, socket }
    }

    fn hears(&self) -> String {
        let mut told = [0; 100];
        let length = self.socket.recv(&mut told).unwrap();
        String::from_utf8(told[..length].to_vec()).unwrap()
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
fn the_units_among_the_examples_make_sense() {
    let dir = tempfile::tempdir().unwrap();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut units = Vec::new();
    for unit in ["laio.service", "laio.socket"] {
        let text = std::fs::read_to_string(format!("{examples}/{unit}")).unwrap();
        let path = dir.path().join(unit);
        // What is started has to be there.
        let text = text.replace("/usr/local/bin/laio", env!("CARGO_BIN_EXE_laio"));
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
fn a_name_that_was_not_passed_on_is_a_clear_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_laio"))
        .args(["serve", "--listen", "systemd:web"])
        .env_remove("LISTEN_FDS")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("web"), "{text}");
}
