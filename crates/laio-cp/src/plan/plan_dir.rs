//! The directory that a plan is in, and the files in it that are for people too (JSON).

use super::records::VERSION;
use super::settings::Settings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What the planner made: written last, so that a plan that was not completed has none.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    pub(crate) version: u32,
    /// All files of the plan bear it.
    pub(crate) id: String,
    pub(crate) parts: u32,
    pub(crate) directories: u64,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) failures: u64,
    /// What the planner could not do, as far as it was kept.
    pub(crate) errors: Vec<String>,
    pub(crate) options: Settings,
}

/// What became of a part.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartReport {
    pub(crate) part: u32,
    /// Who has done it.
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
    /// Files, by their temporary names, of which a region could not be copied.
    pub(crate) incomplete: Vec<String>,
    /// Files that were not copied, by the hashes of their paths: no other name must become a link to them.
    pub(crate) lost: Vec<String>,
    /// Nothing is known of some files.
    pub(crate) lost_all: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct PlanDir {
    path: PathBuf,
}

/// Directories in it.
const SUBDIRECTORIES: [&str; 4] = ["parts", "claims", "attempts", "done"];

impl PlanDir {
    pub(crate) fn new(path: &Path) -> PlanDir {
        PlanDir {
            path: path.to_owned(),
        }
    }

    /// Makes it. It must not be there, or be empty: two plans in one directory would be mixed up.
    pub(crate) fn make(&self) -> Result<(), String> {
        let cannot = |error: io::Error| {
            let error = super::describe(&error);
            format!("cannot make the plan '{}': {error}", self.path.display())
        };
        match fs::DirBuilder::new().mode(0o700).create(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if fs::read_dir(&self.path).map_err(cannot)?.next().is_some() {
                    let path = self.path.display();
                    return Err(format!(
                        "cannot make a plan in '{path}': something is there; remove it, or name another directory"
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

    /// Removes what was made for a plan that has not been begun.
    pub(crate) fn discard(&self) {
        // If something else is there by now, it stays.
        for subdirectory in SUBDIRECTORIES {
            let _ = fs::remove_dir(self.path.join(subdirectory));
        }
        let _ = fs::remove_dir(&self.path);
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn header(&self) -> PathBuf {
        self.path.join("plan.json")
    }

    pub(crate) fn last(&self) -> PathBuf {
        self.path.join("last")
    }

    pub(crate) fn finished(&self) -> PathBuf {
        self.path.join("finished.json")
    }

    pub(crate) fn part(&self, part: u32) -> PathBuf {
        self.path.join("parts").join(number(part))
    }

    pub(crate) fn done(&self, part: u32) -> PathBuf {
        self.path.join("done").join(number(part))
    }

    pub(crate) fn claims(&self) -> PathBuf {
        self.path.join("claims")
    }

    pub(crate) fn attempts(&self) -> PathBuf {
        self.path.join("attempts")
    }

    /// Reads the header of a plan that is complete, and of this version.
    pub(crate) fn read_header(&self) -> Result<Header, String> {
        let path = self.header();
        let bytes = fs::read(&path).map_err(|error| {
            let (plan, cause) = (self.path.display(), super::describe(&error));
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
            Some(version) => return Err(wrong(super::wrong_version(version))),
            None => return Err(wrong("it is damaged: it tells no version".to_owned())),
        }
        serde_json::from_value(value).map_err(|error| wrong(format!("it is damaged: {error}")))
    }

    /// Reads what became of a part; none if it is not done.
    pub(crate) fn read_done(&self, part: u32) -> Result<Option<PartReport>, String> {
        read_json(&self.done(part))
    }
}

/// As it is in names of files: so that they sort as they count.
pub(crate) fn number(part: u32) -> String {
    format!("{part:05}")
}

/// Reads a file of the plan, if it is there.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, String> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let cause = super::describe(&error);
            return Err(format!("cannot read '{}': {cause}", path.display()));
        }
    };
    let parsed = serde_json::from_slice(&bytes);
    parsed.map(Some).map_err(|error| {
        let path = path.display();
        format!("the plan's file '{path}': it is damaged: {error}; remove it, and do again what it is about")
    })
}

/// Writes a file of the plan: whole, or not at all. `unique` tells apart those who write it at the same time.
pub(crate) fn write_json(path: &Path, unique: &str, value: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{unique}.tmp"));
    fs::write(&unfinished, bytes)?;
    fs::rename(&unfinished, path)
}
