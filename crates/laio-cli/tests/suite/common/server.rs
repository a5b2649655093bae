//! A running `laio serve`: its process, its messages on standard error, and requests to it.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A time limit far above the duration of any step, however busy the machine is.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The process of a server. Dropping it kills the process.
pub(crate) struct ServerProcess {
    pub(crate) child: Child,
    messages: Receiver<String>,
}

impl ServerProcess {
    /// Starts a server, and collects the lines of its standard error in the background.
    pub(crate) fn spawn(command: &mut Command) -> ServerProcess {
        laio_testing::process::restore_signals();
        ServerProcess::from_child(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Collects the lines of the standard error of a server, which is a pipe.
    pub(crate) fn from_child(mut child: Child) -> ServerProcess {
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        ServerProcess { child, messages }
    }

    /// Waits for a message that contains `text`, and returns its line. Discards the lines before it.
    #[track_caller]
    pub(crate) fn wait_for_line(&self, text: &str) -> String {
        let end = Instant::now() + LONG;
        let mut others = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.messages.recv_timeout(left) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => others.push(line),
                Err(error) => panic!("no message {text:?} ({error}), but {others:#?}"),
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send_signal(self.child.id(), signal);
    }

    /// Waits until the process has ended, and checks that it was successful.
    pub(crate) fn wait_for_success(mut self) {
        wait_until("the process has ended", || {
            self.child.try_wait().unwrap().is_some()
        });
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that listens on a TCP address.
pub(crate) struct TcpServer {
    pub(crate) process: ServerProcess,
    pub(crate) address: SocketAddr,
    /// The last line of the banner.
    pub(crate) banner: String,
}

impl TcpServer {
    /// Waits until the server listens, and reads its address from the banner.
    pub(crate) fn listening(process: ServerProcess) -> TcpServer {
        let line = process.wait_for_line("  http://");
        let address = line.trim().trim_start_matches("http://");
        TcpServer {
            address: address.trim_end_matches('/').parse().unwrap(),
            banner: process.wait_for_line("Ctrl-C stops"),
            process,
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.address)
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.set_write_timeout(Some(LONG)).unwrap();
    stream
}

/// Sends a GET request, after whose response the server closes the connection.
pub(crate) fn send_request(
    stream: &mut impl Write,
    host: &str,
    target: &str,
) -> std::io::Result<()> {
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())
}

/// Sends a GET request, and returns the response with its head.
pub(crate) fn get(mut stream: impl Read + Write, target: &str) -> std::io::Result<String> {
    send_request(&mut stream, "a", target)?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

pub(crate) fn send_signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
}

/// Waits until a condition holds; panics if it does not hold in time.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < end, "not within {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
