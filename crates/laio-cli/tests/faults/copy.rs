//! `laio cp` in its modes.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use laio_testing::fail_nth::{self, Fault, KINDS, Kind};
use laio_testing::{Skip, child, temp};
use libtest_mimic::{Completion, Failed, Trial};

use crate::snapshot::{self, Tree};
use crate::tree;

/// A copy of `SRC` to `DST`.
struct Job {
    command: &'static str,
    /// Whether an older tree stands in the destination.
    over: bool,
    /// Whether each name of the destination always has its old or its new contents.
    atomic: bool,
    /// Whether a second run without a fault must complete the copy.
    resumes: bool,
}

const fn job(command: &'static str) -> Job {
    Job {
        command,
        over: false,
        atomic: false,
        resumes: false,
    }
}

const JOBS: &[Job] = &[
    job("cp -r SRC DST"),
    job("cp -a SRC DST"),
    job("cp -al SRC DST"),
    job("cp -a --verify SRC DST"),
    job("cp -a --fsync SRC DST"),
    job("cp -a --sparse=always SRC DST"),
    job("cp -a --backend threads --backend-writes SRC DST"),
    job("cp -a --backend hybrid --backend-writes SRC DST"),
    job("cp -a --backend uring --backend-writes SRC DST"),
    job("cp -a --backend sync SRC DST"),
    Job {
        over: true,
        ..job("cp -aT SRC DST")
    },
    Job {
        over: true,
        atomic: true,
        ..job("cp -aT --atomic SRC DST")
    },
    Job {
        over: true,
        atomic: true,
        resumes: true,
        ..job("cp -aT --resume SRC DST")
    },
];

/// Kinds whose failure the C library or the loader answers, so that it says nothing about the copy.
const NOT_OURS: &[&str] = &[
    "mmap",
    "madvise",
    "chdir",
    "sendto",
    "setsockopt",
    "inotify_add_watch",
    "inotify_init1",
];

/// Far longer than any copy takes.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (number, job) in JOBS.iter().enumerate() {
        let prepared = Arc::new(OnceLock::new());
        for (index, kind) in KINDS.iter().enumerate() {
            if NOT_OURS.contains(&kind.name) {
                continue;
            }
            let prepared = prepared.clone();
            let name = format!("{}: {}", job.command, kind.name);
            trials.push(Trial::ignorable_test(name.clone(), move || {
                if let Err(skip) = Skip::unless_there("seccomp") {
                    skip.record(&name).map_err(Failed::from)?;
                    return Ok(Completion::ignored_with(skip.to_string()));
                }
                let prepared = prepared.get_or_init(|| Prepared::new(job));
                check(job, prepared, kind, number + index)
            }));
        }
    }
    trials
}

/// What a job does without a fault.
struct Prepared {
    /// The copy.
    complete: Tree,
    /// The number of calls of each kind, in the order of [`KINDS`].
    calls: Vec<u32>,
}

impl Prepared {
    fn new(job: &Job) -> Prepared {
        let kinds: Vec<&'static Kind> = KINDS.iter().collect();
        let copy = Copy::start(job, &kinds, None);
        let calls = KINDS.iter().map(|kind| copy.seen(kind)).collect();
        assert_eq!(copy.status, Some(0), "{}", copy.stderr);
        let complete = copy.tree();
        Prepared { complete, calls }
    }
}

fn check(
    job: &Job,
    prepared: &Prepared,
    kind: &'static Kind,
    trial: usize,
) -> Result<Completion, Failed> {
    let index = KINDS
        .iter()
        .position(|other| other == kind)
        .expect("one of all");
    let calls = prepared.calls[index];
    let mut wrong = Vec::new();
    for fault in fail_nth::chosen(kind, calls, trial) {
        let copy = Copy::start(job, &[kind], Some(fault));
        let hit = copy.hit.clone().unwrap_or_default();
        let ended = format!("exit {:?}: {}", copy.status, copy.stderr.trim_end());
        let mut found = copy.judge(job, kind, &prepared.complete);
        if job.resumes && !hit.is_empty() {
            found.extend(copy.resumed(job, &prepared.complete));
        }
        if !found.is_empty() {
            let found = found.join("\n  ");
            wrong.push(format!("{fault}\n  {hit}\n  {ended}\n  {found}"));
        }
    }
    if wrong.is_empty() {
        Ok(Completion::Completed)
    } else {
        Err(wrong.join("\n").into())
    }
}

/// A copy that has ended, in a directory of its own.
struct Copy {
    directory: tempfile::TempDir,
    source: PathBuf,
    /// `None` if it was killed.
    status: Option<i32>,
    hung: bool,
    stderr: String,
    hit: Option<String>,
    seen: Vec<u32>,
}

impl Copy {
    fn start(job: &Job, kinds: &[&'static Kind], fault: Option<Fault>) -> Copy {
        let directory = temp::scratch();
        let source = directory.path().join("src");
        tree::make(&source);
        tree::make_old(&directory.path().join("old"));
        if job.over {
            tree::make_old(&directory.path().join("dst"));
        }
        let mut copy = Copy {
            directory,
            source,
            status: None,
            hung: false,
            stderr: String::new(),
            hit: None,
            seen: Vec::new(),
        };
        copy.run(job, kinds, fault);
        copy
    }

    fn run(&mut self, job: &Job, kinds: &[&'static Kind], fault: Option<Fault>) {
        let words = job.command.split(' ').map(|word| match word {
            "SRC" => self.source.clone(),
            "DST" => self.destination(),
            other => PathBuf::from(other),
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
        command
            .args(words)
            .env_clear()
            .env("LC_ALL", "C")
            .env("PATH", "/usr/bin:/bin");
        command.current_dir(self.directory.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let (mut child, faults) =
            fail_nth::spawn(&mut command, kinds, fault).expect("the copy starts");
        let mut stderr = child.stderr.take().expect("a pipe");
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let status = child::wait_within(LIMIT, child);
        self.hung = status.is_none();
        self.status = status.and_then(|status| status.code());
        self.stderr = reader.join().expect("a reader does not panic");
        self.hit = faults.hit();
        self.seen = kinds.iter().map(|kind| faults.seen(kind)).collect();
    }

    fn destination(&self) -> PathBuf {
        self.directory.path().join("dst")
    }

    fn seen(&self, kind: &Kind) -> u32 {
        let index = KINDS
            .iter()
            .position(|other| other == kind)
            .expect("one of all");
        self.seen[index]
    }

    fn tree(&self) -> Tree {
        match fs::symlink_metadata(self.destination()) {
            Ok(_) => snapshot::of(&self.destination(), &BTreeSet::new()),
            Err(_) => Tree::new(),
        }
    }

    /// Returns what is wrong with the copy.
    fn judge(&self, job: &Job, kind: &Kind, complete: &Tree) -> Vec<String> {
        if self.hit.is_none() && self.status == Some(0) {
            return Vec::new();
        }
        let loader = self.stderr.contains("error while loading shared libraries");
        match self.status {
            _ if self.hung => return vec!["it hangs".into()],
            _ if loader => return Vec::new(),
            None => return vec!["a signal ended it".into()],
            Some(0 | 1) => {}
            Some(other) => return vec![format!("exit status {other}")],
        }
        let mut wrong = Vec::new();
        if self.stderr.contains("panicked") {
            wrong.push("a panic".into());
        }
        if self.status == Some(1) && self.stderr.trim().is_empty() {
            wrong.push("no message".into());
        }
        let tree = self.tree();
        for (name, entry) in complete {
            let is = tree.get(name);
            let text = String::from_utf8_lossy(name).into_owned();
            let expected = compared(&entry.line, job, kind);
            let line = is.map_or("missing", |is| compared(&is.line, job, kind));
            // A file is complete even if another of its names, which a message names, could not be made.
            let (alone, links) = without_links(expected);
            let others = complete
                .iter()
                .filter(|(_, other)| links.is_some() && without_links(&other.line).1 == links);
            let lost_link = without_links(line).0 == alone
                && others
                    .map(|(name, _)| String::from_utf8_lossy(name))
                    .any(|other| self.names(&other));
            if line != expected && (self.status == Some(0) || !(self.names(&text) || lost_link)) {
                wrong.push(format!(
                    "no message: `{text}` is {line}, expected {expected}"
                ));
            }
        }
        if !job.resumes {
            let left = |name: &&Vec<u8>| String::from_utf8_lossy(name).contains(".laio-");
            wrong.extend(
                tree.keys()
                    .filter(left)
                    .map(|name| format!("left: {}", String::from_utf8_lossy(name))),
            );
        }
        if job.atomic {
            wrong.extend(self.torn(complete, &tree));
        }
        wrong
    }

    /// Returns the names that have neither their old nor their new contents.
    fn torn(&self, complete: &Tree, tree: &Tree) -> Vec<String> {
        let source = self.source.with_file_name("old");
        let old = snapshot::of(&source, &BTreeSet::new());
        let what = |line: &str| line.split(", mode").next().unwrap_or_default().to_owned();
        let is_torn = |name: &&Vec<u8>| {
            let is = tree.get(*name).map(|entry| what(&entry.line));
            let of = |tree: &Tree| tree.get(*name).map(|entry| what(&entry.line));
            is != of(&old) && is != of(complete)
        };
        let names = complete.keys().filter(is_torn);
        names
            .map(|name| format!("neither old nor new: {}", String::from_utf8_lossy(name)))
            .collect()
    }

    /// Whether a message names this file, or a directory above it.
    fn names(&self, name: &str) -> bool {
        let mut above = Some(Path::new(name));
        while let Some(path) = above {
            let named = |root: &Path| {
                let path = if path.as_os_str().is_empty() {
                    root.to_owned()
                } else {
                    root.join(path)
                };
                let path = path.display();
                ["'", ":", "\n"]
                    .iter()
                    .any(|end| self.stderr.contains(&format!("{path}{end}")))
            };
            if named(&self.source) || named(&self.destination()) {
                return true;
            }
            above = path.parent();
        }
        // The copy ended before it began.
        !self.destination().exists() || self.stderr.contains("cannot start")
    }

    /// Runs the copy again without a fault, and returns what is wrong with its result.
    fn resumed(mut self, job: &Job, complete: &Tree) -> Vec<String> {
        let kinds: [&'static Kind; 1] = [&KINDS[0]];
        self.run(job, &kinds, None);
        if self.status != Some(0) {
            return vec![format!(
                "the second run ends with {:?}: {}",
                self.status, self.stderr
            )];
        }
        let tree = self.tree();
        let differs = |(name, entry): (&Vec<u8>, &snapshot::Entry)| {
            let is = tree.get(name).map(|is| &is.line);
            (is != Some(&entry.line)).then(|| {
                format!(
                    "after the second run `{}` is {is:?}, expected {}",
                    String::from_utf8_lossy(name),
                    entry.line
                )
            })
        };
        let mut wrong: Vec<String> = complete.iter().filter_map(differs).collect();
        let left = tree.keys().filter(|name| !complete.contains_key(*name));
        wrong.extend(
            left.map(|name| format!("after the second run: {}", String::from_utf8_lossy(name))),
        );
        wrong
    }
}

/// Returns what must be equal of a line of a snapshot. As GNU cp, `-a` says nothing of extended attributes that it
/// cannot copy, unless it verifies.
fn compared<'a>(line: &'a str, job: &Job, kind: &Kind) -> &'a str {
    if kind.name.contains("xattr") && !job.command.contains("--verify") {
        line.split(", user.").next().unwrap_or_default()
    } else {
        line
    }
}

/// Splits the part about hard links off a line of a snapshot: the first name of the file.
fn without_links(line: &str) -> (String, Option<&str>) {
    let Some((before, links)) = line.split_once(" names, first ") else {
        return (line.to_owned(), None);
    };
    let (first, after) = links.split_once(", ").unwrap_or((links, ""));
    let before = before
        .rsplit_once(", ")
        .map_or(before, |(before, _)| before);
    (
        format!("{before}, {after}")
            .trim_end_matches(", ")
            .to_owned(),
        Some(first),
    )
}
