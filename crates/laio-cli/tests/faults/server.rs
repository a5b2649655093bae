//! `laio serve`: a file, a listing, a zip file, WebDAV, uploads.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use laio_testing::fail_nth::{self, Faults, KINDS, Kind};
use laio_testing::{Skip, temp};
use libtest_mimic::{Completion, Failed, Trial};

use crate::http::{Received, request};
use crate::snapshot::{self, Tree};
use crate::tree;

/// Far longer than a server takes to start.
const LIMIT: Duration = Duration::from_secs(120);

/// A request for the tree, and what a complete answer to it is.
struct Job {
    name: &'static str,
    backend: &'static str,
    line: &'static str,
    fields: &'static [(&'static str, &'static str)],
    body: &'static [u8],
    complete: Complete,
}

enum Complete {
    /// A body that is the same as without a fault.
    SameBody,
    /// This directory has the same contents as `/inner`.
    CopyOf(&'static str),
    /// This file has the body of the request, or is absent if the answer is an error.
    Stored(&'static str),
    /// This name is absent.
    Removed(&'static str),
}

const fn get(name: &'static str, line: &'static str) -> Job {
    Job {
        name,
        backend: "lazy",
        line,
        fields: &[],
        body: &[],
        complete: Complete::SameBody,
    }
}

static UPLOADED: [u8; 200_000] = [b'u'; 200_000];

static JOBS: &[Job] = &[
    get("file", "GET /large"),
    Job {
        backend: "hybrid",
        ..get("file by helpers", "GET /large")
    },
    get("listing", "GET /inner/"),
    get("zip", "GET /inner/?zip"),
    Job {
        backend: "hybrid",
        ..get("zip by helpers", "GET /inner/?zip")
    },
    Job {
        fields: &[("Depth", "1")],
        ..get("PROPFIND", "PROPFIND /inner/")
    },
    Job {
        fields: &[("Destination", "/copied/")],
        complete: Complete::CopyOf("copied"),
        ..get("COPY", "COPY /inner/")
    },
    Job {
        backend: "hybrid",
        fields: &[("Destination", "/copied/")],
        complete: Complete::CopyOf("copied"),
        ..get("COPY by helpers", "COPY /inner/")
    },
    Job {
        body: &UPLOADED,
        complete: Complete::Stored("stored"),
        ..get("PUT", "PUT /stored")
    },
    Job {
        complete: Complete::Removed("removed"),
        ..get("DELETE", "DELETE /removed/")
    },
];

/// Kinds that fail a server before it has begun a request, or that no request makes.
const NOT_OURS: &[&str] = &["mmap", "madvise", "chdir", "clone3"];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (number, job) in JOBS.iter().enumerate() {
        for (index, kind) in KINDS.iter().enumerate() {
            if NOT_OURS.contains(&kind.name) {
                continue;
            }
            let name = format!("serve {}: {}", job.name, kind.name);
            trials.push(Trial::ignorable_test(name.clone(), move || {
                if let Err(skip) = Skip::unless_there("seccomp") {
                    skip.record(&name).map_err(Failed::from)?;
                    return Ok(Completion::ignored_with(skip.to_string()));
                }
                check(job, kind, number + index)
            }));
        }
    }
    trials
}

fn check(job: &Job, kind: &'static Kind, trial: usize) -> Result<Completion, Failed> {
    let mut server = Server::start(job, kind);
    server.prepare();
    server.faults.disarm();
    let complete = server.ask(job);
    let calls = server.faults.seen(kind);
    let Received::Response {
        status: 200..=299,
        body,
    } = complete
    else {
        return Err(format!("without a fault: {complete:?}").into());
    };
    let mut wrong = Vec::new();
    for fault in fail_nth::chosen(kind, calls, trial) {
        server.prepare();
        server.faults.arm(fault);
        let received = server.ask(job);
        let hit = server.faults.hit();
        server.faults.disarm();
        let mut found = server.judge(job, &received, &body);
        found.extend(server.is_dead());
        if hit.is_some() && !found.is_empty() {
            let is = match &received {
                Received::Response { status, .. } => status.to_string(),
                other => format!("{other:?}"),
            };
            wrong.push(format!(
                "{fault}\n  {}\n  answer: {is}\n  {}",
                hit.unwrap_or_default(),
                found.join("\n  ")
            ));
            server = Server::start(job, kind);
        }
    }
    if wrong.is_empty() {
        Ok(Completion::Completed)
    } else {
        Err(wrong.join("\n").into())
    }
}

/// A server of the tree, whose calls of one kind can fail.
struct Server {
    root: tempfile::TempDir,
    process: Child,
    address: SocketAddr,
    faults: Faults,
    messages: Receiver<String>,
}

impl Server {
    fn start(job: &Job, kind: &'static Kind) -> Server {
        let root = temp::scratch();
        tree::make(&root.path().join("files"));
        // A request meets what it never saw: nothing is cached.
        let options = "--listen 127.0.0.1:0 --workers 1 --listing --zip --webdav --upload=anyone --cache-bytes 0 --seccomp off";
        let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
        command
            .arg("serve")
            .arg(root.path().join("files"))
            .args(options.split(' '));
        command
            .args(["--backend", job.backend])
            .env_remove("LAIO_BACKEND");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let (mut process, faults) =
            fail_nth::spawn(&mut command, &[kind], None).expect("the server starts");
        let lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let address = address(&messages);
        Server {
            root,
            process,
            address,
            faults,
            messages,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("files").join(name)
    }

    /// Makes the tree as it is before the request.
    fn prepare(&self) {
        let _ = fs::remove_dir_all(self.path("copied"));
        let _ = fs::remove_file(self.path("stored"));
        let removed = self.path("removed");
        let _ = fs::create_dir_all(removed.join("below"));
        fs::write(removed.join("below/file"), "text").expect("a file");
        fs::write(removed.join("other"), "text").expect("a file");
    }

    fn ask(&self, job: &Job) -> Received {
        request(self.address, job.line, job.fields, job.body)
    }

    fn judge(&self, job: &Job, received: &Received, complete: &[u8]) -> Vec<String> {
        let (status, body) = match received {
            Received::Hung => return vec!["it hangs".into()],
            Received::Cut => (0, &[][..]),
            Received::Response { status, body } => (*status, &body[..]),
        };
        let mut wrong = Vec::new();
        let promised = (200..300).contains(&status);
        // The members that could not be changed are in the body of a 207, except of PROPFIND.
        let with_errors = status == 207 && !matches!(job.complete, Complete::SameBody);
        match job.complete {
            Complete::SameBody if promised && body != complete => {
                let is = String::from_utf8_lossy(&body[..body.len().min(2000)]).into_owned();
                wrong.push(format!(
                    "{} bytes, expected {}: {is}",
                    body.len(),
                    complete.len()
                ));
            }
            Complete::CopyOf(name) if promised && !with_errors => {
                wrong.extend(differences(
                    &contents(&self.path("inner")),
                    &contents(&self.path(name)),
                ));
            }
            Complete::Stored(name) => {
                let stored = fs::read(self.path(name)).ok();
                match stored {
                    Some(bytes) if bytes != job.body => {
                        wrong.push(format!("a part is stored: {} bytes", bytes.len()))
                    }
                    None if promised => wrong.push("nothing is stored".into()),
                    _ => {}
                }
            }
            Complete::Removed(name) if promised && !with_errors && self.path(name).exists() => {
                wrong.push("it is still there".into());
            }
            _ => {}
        }
        wrong
    }

    /// Returns why the server does not serve any more.
    fn is_dead(&mut self) -> Option<String> {
        let messages: Vec<String> = self.messages.try_iter().collect();
        if let Some(line) = messages.iter().find(|line| line.contains("panicked")) {
            return Some(line.clone());
        }
        if let Ok(Some(status)) = self.process.try_wait() {
            return Some(format!("the server ended: {status}: {messages:?}"));
        }
        let received = request(self.address, "GET /inner/text", &[], &[]);
        match received {
            Received::Response { status: 200, body } if body == tree::contents("inner/text") => {
                None
            }
            Received::Response { status, .. } => {
                Some(format!("the next request gets {status}: {messages:?}"))
            }
            other => Some(format!("the next request: {other:?}: {messages:?}")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for the address in the banner.
fn address(messages: &Receiver<String>) -> SocketAddr {
    let mut seen = Vec::new();
    loop {
        match messages.recv_timeout(LIMIT) {
            Ok(line) => match line.trim().strip_prefix("http://") {
                Some(address) => return address.trim_end_matches('/').parse().expect("an address"),
                None => seen.push(line),
            },
            Err(error) => panic!("the server does not listen ({error}): {seen:#?}"),
        }
    }
}

fn contents(root: &Path) -> Tree {
    if root.exists() {
        snapshot::of(root, &BTreeSet::new())
    } else {
        Tree::new()
    }
}

/// Returns the names whose type or contents differ.
fn differences(source: &Tree, copy: &Tree) -> Vec<String> {
    let what = |line: &str| line.split(", mode").next().unwrap_or_default().to_owned();
    let differs = |(name, entry): (&Vec<u8>, &snapshot::Entry)| {
        let is = copy.get(name).map(|is| what(&is.line));
        let line = what(&entry.line);
        // A copy has files, directories and links.
        (is.as_ref() != Some(&line) && !line.starts_with("Fifo")).then(|| {
            format!(
                "`{}` is {is:?}, expected {line}",
                String::from_utf8_lossy(name)
            )
        })
    };
    source.iter().filter_map(differs).collect()
}
