//! Server processes: starts, measures and stops them.

use super::USUAL;
use super::accelerator::{Accelerator, Socket};
use super::process::{LOOK, START_TIMEOUT, end, free_port, usage};
use laio::measure::Usage;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;

/// A server that can be started.
#[derive(Clone, Debug)]
pub(in crate::published) struct Server {
    pub(in crate::published) name: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// `laio serve` with these arguments.
    Laio(Vec<String>),
    /// The same, with a stat accelerator.
    Accelerated(Vec<String>, Socket),
    Nginx,
    Lighttpd,
}

impl Server {
    /// Returns `laio serve` with one worker.
    pub(in crate::published) fn laio(name: &str, arguments: &[&str]) -> Server {
        let arguments = arguments.iter().map(|word| (*word).to_owned());
        Server {
            name: name.to_owned(),
            kind: Kind::Laio(arguments.collect()),
        }
    }

    /// Returns `laio serve` with a back end, without its cache, so that all back ends make the same calls.
    pub(super) fn backend(name: &str) -> Server {
        Server::laio(name, &["--backend", name, "--no-cache"])
    }

    /// Returns `laio serve` with default options.
    pub(super) fn usual() -> Server {
        Server::laio(USUAL, &[])
    }

    pub(super) fn preset(name: &str) -> Server {
        Server::laio(name, &["--preset", name])
    }

    /// Returns a preset that uses the stat accelerator.
    pub(super) fn accelerated(name: &str, preset: &str, socket: Socket) -> Server {
        let arguments = ["--preset", preset].map(str::to_owned);
        Server {
            name: name.to_owned(),
            kind: Kind::Accelerated(arguments.into(), socket),
        }
    }

    /// Returns the same server with another name.
    pub(in crate::published) fn called(mut self, name: &str) -> Server {
        name.clone_into(&mut self.name);
        self
    }

    /// Returns other servers, configured as in today's distributions.
    pub(in crate::published) fn peers() -> [Server; 2] {
        [
            Server {
                name: "nginx".to_owned(),
                kind: Kind::Nginx,
            },
            Server {
                name: "lighttpd".to_owned(),
                kind: Kind::Lighttpd,
            },
        ]
    }

    pub(super) fn is_there(&self) -> bool {
        let program = match self.kind {
            // Whether the accelerator is installed shows when it is started.
            Kind::Laio(_) | Kind::Accelerated(..) => return true,
            Kind::Nginx => "nginx",
            Kind::Lighttpd => "lighttpd",
        };
        let found = Command::new(program)
            .arg("-v")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        found.is_ok_and(|status| status.success())
    }

    /// Starts it, and waits until it responds.
    pub(in crate::published) fn start(&self, laio: &Path, root: &Path) -> Result<Serving, String> {
        let message = |error: io::Error| format!("cannot start {}: {error}", self.name);
        let scratch = tempfile::tempdir().map_err(message)?;
        let said = tempfile::tempfile().map_err(message)?;
        let mut accelerator = None;
        let (mut command, address) = match &self.kind {
            Kind::Accelerated(arguments, socket) => {
                let accelerator_process = Accelerator::start(laio, *socket, scratch.path())?;
                let all = [arguments.as_slice(), &accelerator_process.arguments(root)].concat();
                accelerator = Some(accelerator_process);
                (serve(laio, root, &all), None)
            }
            Kind::Laio(arguments) => (serve(laio, root, arguments), None),
            Kind::Nginx => nginx(scratch.path(), root).map_err(message)?,
            Kind::Lighttpd => lighttpd(scratch.path(), root).map_err(message)?,
        };
        let stderr = said.try_clone().map_err(message)?;
        let stdout = said.try_clone().map_err(message)?;
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let child = command.spawn().map_err(message)?;
        let mut serving = Serving {
            child,
            said,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            _accelerator: accelerator,
            _scratch: scratch,
        };
        serving.wait_for(address)?;
        Ok(serving)
    }
}

fn serve(laio: &Path, root: &Path, arguments: &[String]) -> Command {
    let mut command = Command::new(laio);
    command
        .arg("serve")
        .arg(root)
        .args(["--listen", "127.0.0.1:0", "--log", "off", "--workers", "1"])
        .args(["--max-requests", "1000000000"])
        .args(arguments)
        .env_remove("LAIO_BACKEND");
    command
}

fn nginx(scratch: &Path, root: &Path) -> io::Result<(Command, Option<SocketAddr>)> {
    let address = free_port()?;
    let (place, root) = (scratch.display(), root.display());
    let configuration = format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\nerror_log stderr crit;\npid {place}/pid;\n\
         events {{ worker_connections 20000; }}\n\
         http {{\n  access_log off;\n  sendfile on;\n  tcp_nopush on;\n  keepalive_requests 1000000000;\n  \
         client_body_temp_path {place}/body;\n  proxy_temp_path {place}/proxy;\n  fastcgi_temp_path {place}/fastcgi;\n  \
         uwsgi_temp_path {place}/uwsgi;\n  scgi_temp_path {place}/scgi;\n  default_type application/octet-stream;\n  \
         server {{ listen {address} backlog=4096; root \"{root}\"; }}\n}}\n"
    );
    let file = scratch.join("nginx.conf");
    std::fs::write(&file, configuration)?;
    let mut command = Command::new("nginx");
    command
        .arg("-p")
        .arg(scratch)
        .arg("-e")
        .arg("stderr")
        .arg("-c")
        .arg(file);
    Ok((command, Some(address)))
}

fn lighttpd(scratch: &Path, root: &Path) -> io::Result<(Command, Option<SocketAddr>)> {
    let address = free_port()?;
    let (port, root) = (address.port(), root.display());
    let configuration = format!(
        "server.document-root = \"{root}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
         server.max-connections = 8000\nserver.max-fds = 17000\nserver.listen-backlog = 4096\n\
         server.max-keep-alive-requests = 65535\n"
    );
    let file = scratch.join("lighttpd.conf");
    std::fs::write(&file, configuration)?;
    let mut command = Command::new("lighttpd");
    command.arg("-D").arg("-f").arg(file);
    Ok((command, Some(address)))
}

/// A running server, stopped when dropped.
#[derive(Debug)]
pub(in crate::published) struct Serving {
    child: Child,
    said: File,
    pub(in crate::published) address: SocketAddr,
    _accelerator: Option<Accelerator>,
    _scratch: TempDir,
}

impl Serving {
    /// Waits until it listens: on the configured address, or on the one that it prints.
    fn wait_for(&mut self, address: Option<SocketAddr>) -> Result<(), String> {
        let until = Instant::now() + START_TIMEOUT;
        while Instant::now() < until {
            let ended = self.child.try_wait().ok().flatten();
            if let Some(status) = ended {
                return Err(format!("it ended, {status}: {}", self.complaint()));
            }
            let found = address.or_else(|| announced(&self.words()));
            if let Some(found) = found
                && TcpStream::connect(found).is_ok()
            {
                self.address = found;
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        Err(format!("it does not answer: {}", self.complaint()))
    }

    fn words(&mut self) -> String {
        let mut bytes = Vec::new();
        if self.said.rewind().is_ok() {
            let _ = (&mut self.said).take(64 << 10).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns its messages, as one line.
    fn complaint(&mut self) -> String {
        let words = self.words();
        let mut lines = words.lines().map(str::trim).filter(|line| !line.is_empty());
        lines
            .next_back()
            .unwrap_or("it said nothing")
            .chars()
            .take(200)
            .collect()
    }

    /// Returns the usage of its threads; that of ended threads is only contained in the processor time.
    pub(in crate::published) fn usage(&self) -> Usage {
        usage(self.child.id())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Returns the address in the banner of `laio serve`.
fn announced(words: &str) -> Option<SocketAddr> {
    let rest = words.split_once("http://")?.1;
    let (address, _) = rest.split_once('/')?;
    address.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_what_the_server_says() {
        let words = "laio 0.1.0 serves x\n\n  http://127.0.0.1:4711/\n\n1 worker";
        assert_eq!(announced(words), "127.0.0.1:4711".parse().ok());
        assert_eq!(announced("http://127.0"), None);
    }
}
