//! The example `stat_accelerator` as a process: it calls stat on behalf of a server, over FastCGI.

use super::process::{LOOK, START_TIMEOUT, free_port};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const PROGRAM: &str = "stat_accelerator";
/// As many processes as in lighttpd's program. Each serves one connection.
const THREADS: &str = "20";

/// The protocol between a server and the accelerator.
#[derive(Clone, Copy, Debug)]
pub(super) enum Socket {
    Tcp,
    Unix,
}

/// A running accelerator, stopped when dropped.
#[derive(Debug)]
pub(super) struct Accelerator {
    child: Child,
    address: String,
}

impl Accelerator {
    /// Starts it, and waits until it listens.
    pub(super) fn start(
        laio: &Path,
        socket: Socket,
        scratch: &Path,
    ) -> Result<Accelerator, String> {
        let message = |error: std::io::Error| format!("cannot start {PROGRAM}: {error}");
        let path = scratch.join("accelerator");
        let (address, listening): (String, Box<dyn Fn() -> bool>) = match socket {
            Socket::Tcp => {
                let address = free_port().map_err(message)?;
                let listening = move || TcpStream::connect(address).is_ok();
                (address.to_string(), Box::new(listening))
            }
            Socket::Unix => {
                let address = format!("unix:{}", path.display());
                (
                    address,
                    Box::new(move || UnixStream::connect(&path).is_ok()),
                )
            }
        };
        let child = Command::new(program(laio)?)
            .args([&address, THREADS])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(message)?;
        let accelerator = Accelerator { child, address };
        let until = Instant::now() + START_TIMEOUT;
        while !listening() {
            if Instant::now() > until {
                return Err(format!("{PROGRAM} does not listen"));
            }
            std::thread::sleep(LOOK);
        }
        Ok(accelerator)
    }

    /// Returns the server's arguments for it.
    pub(super) fn arguments(&self, root: &Path) -> Vec<String> {
        let root = root.display().to_string();
        let upstream = format!("/={}", self.address);
        let words = [
            "--fastcgi",
            &upstream,
            "--sendfile-root",
            &root,
            "--max-upstream-connections",
            THREADS,
            "--max-upstream-idle",
            THREADS,
        ];
        words.map(str::to_owned).into()
    }
}

impl Drop for Accelerator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Finds it in the command's directory, in Cargo's directory for examples, or in PATH.
fn program(laio: &Path) -> Result<PathBuf, String> {
    let directory = laio.parent().unwrap_or(Path::new("."));
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(directory.join("examples"))
        .chain([directory.to_owned()])
        .chain(std::env::split_paths(&path))
        .map(|directory| directory.join(PROGRAM))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            format!(
                "{PROGRAM} is not there (cargo build --release -p laio-serve --example {PROGRAM})"
            )
        })
}
