//! The directory of a plan, and its JSON files.

use super::records::VERSION;
use super::settings::Settings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The summary of a plan. The planner writes it last, so an incomplete plan has none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    pub(crate) version: u32,
    /// The plan's ID, which all its files contain.
    pub(crate) id: String,
    pub(crate) parts: u32,
    pub(crate) directories: u64,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) failures: u64,
    /// The first errors of the planner.
    pub(crate) errors: Vec<String>,
    pub(crate) options: Settings,
}

/// The result of a part.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartReport {
    pub(crate) part: u32,
    /// The process that copied it.
    pub(crate) by: String,
    pub(crate) files: u64,
    pub(crate) others: u64,
    pub(crate) skipped: u64,
    pub(crate) bytes: u64,
    pub(crate) by_memory: u64,
    pub(crate) by_range: u64,
    pub(crate) by_reflink: u64,
    pub(crate) background: u64,
    pub(crate) failures: u64,
    pub(crate) errors: Vec<String>,
    /// Temporary names of files with a region that was not copied.
    pub(crate) incomplete: Vec<String>,
    /// Files that were not copied, by the hashes of their paths: `--finish` must not link to them.
    pub(crate) lost: Vec<String>,
    /// Further files were not copied; their names are unknown.
    pub(crate) lost_all: bool,
}

/// The directory of a plan.
#[derive(Clone, Debug)]
pub(crate) struct PlanDir {
    path: PathBuf,
}

/// The last step of a plan.
pub(crate) const FINISH: &str = "finish";
/// The subdirectories of a plan.
const SUBDIRECTORIES: [&str; 4] = ["parts", "claims", "attempts", "done"];

impl PlanDir {
    pub(crate) fn new(path: &Path) -> PlanDir {
        PlanDir {
            path: path.to_owned(),
        }
    }

    /// Creates the directory. It must not exist, or be empty, so that two plans are not mixed.
    pub(crate) fn make(&self) -> Result<(), String> {
        let cannot = |error: io::Error| {
            let error = super::error_text(&error);
            format!("cannot make the plan '{}': {error}", self.path.display())
        };
        match fs::DirBuilder::new().mode(0o700).create(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mut names = laio::directory::names(&self.path).map_err(cannot)?;
                if names.next().transpose().map_err(cannot)?.is_some() {
                    let path = self.path.display();
                    return Err(format!(
                        "cannot make a plan in '{path}': the directory is not empty; remove its contents, or name another directory"
                    ));
                }
            }
            made => made.map_err(cannot)?,
        }
        for subdirectory in SUBDIRECTORIES {
            let made = fs::DirBuilder::new()
                .mode(0o700)
                .create(self.path.join(subdirectory));
            made.map_err(cannot)?;
        }
        Ok(())
    }

    /// Removes the directories of a plan that was not started.
    pub(crate) fn discard(&self) {
        // `rmdir` keeps a directory that is not empty.
        for subdirectory in SUBDIRECTORIES {
            let _ = fs::remove_dir(self.path.join(subdirectory));
        }
        let _ = fs::remove_dir(&self.path);
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the header.
    pub(crate) fn header(&self) -> PathBuf {
        self.path.join("plan.json")
    }

    /// The path of the records for the finish phase.
    pub(crate) fn last(&self) -> PathBuf {
        self.path.join("last")
    }

    pub(crate) fn finished(&self) -> PathBuf {
        self.path.join("finished.json")
    }

    /// The path of a part.
    pub(crate) fn part(&self, part: u32) -> PathBuf {
        self.path.join("parts").join(number(part))
    }

    /// The path of a part's result.
    pub(crate) fn done(&self, part: u32) -> PathBuf {
        self.path.join("done").join(number(part))
    }

    pub(crate) fn claims(&self) -> PathBuf {
        self.path.join("claims")
    }

    /// Records that a process has started a step: a part, or [`FINISH`]. If several have, some were
    /// killed.
    pub(crate) fn record_attempt(&self, step: &str, token: &str) -> io::Result<()> {
        let name = format!("{step}.{token}");
        fs::File::create(self.path.join("attempts").join(name)).map(drop)
    }

    /// The tokens of the processes that have started each step.
    pub(crate) fn attempts(&self) -> io::Result<HashMap<String, Vec<String>>> {
        let mut tokens: HashMap<_, Vec<_>> = HashMap::new();
        for name in laio::directory::names(self.path.join("attempts"))? {
            let name = name?.into_string().unwrap_or_default();
            if let Some((step, token)) = name.split_once('.') {
                let of_step = tokens.entry(step.to_owned()).or_default();
                of_step.push(token.to_owned());
            }
        }
        Ok(tokens)
    }

    /// Reads the header of a complete plan of this version.
    pub(crate) fn read_header(&self) -> Result<Header, String> {
        let path = self.header();
        let bytes = fs::read(&path).map_err(|error| {
            let (plan, cause) = (self.path.display(), super::error_text(&error));
            match error.kind() {
                io::ErrorKind::NotFound => format!(
                    "there is no complete plan in '{plan}' ({}: {cause}); make one with --plan",
                    path.display()
                ),
                _ => format!("cannot read the plan '{}': {cause}", path.display()),
            }
        })?;
        let wrong = |cause: String| format!("the plan's file '{}': {cause}", path.display());
        let value: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("it is damaged: {error}")))?;
        let version = value.get("version").and_then(serde_json::Value::as_u64);
        match version {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => return Err(wrong(super::version_error(version))),
            None => return Err(wrong("it is damaged: it has no version".to_owned())),
        }
        serde_json::from_value(value).map_err(|error| wrong(format!("it is damaged: {error}")))
    }

    /// Reads the result of a part; `None` if it is not done.
    pub(crate) fn read_done(&self, part: u32) -> Result<Option<PartReport>, String> {
        read_json(&self.done(part))
    }
}

/// A part's number in file names, padded so that names sort by number.
pub(crate) fn number(part: u32) -> String {
    format!("{part:05}")
}

/// Reads a file of the plan; `None` if it does not exist.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let cause = super::error_text(&error);
            return Err(format!("cannot read '{}': {cause}", path.display()));
        }
    };
    let parsed = serde_json::from_slice(&bytes);
    parsed.map(Some).map_err(|error| {
        let path = path.display();
        format!("the plan's file '{path}': it is damaged: {error}; remove it, and repeat the step that wrote it")
    })
}

/// Writes a file of the plan atomically. `unique` keeps concurrent writers apart.
pub(crate) fn write_json(path: &Path, unique: &str, value: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{unique}.tmp"));
    fs::write(&unfinished, bytes)?;
    fs::rename(&unfinished, path)
}
