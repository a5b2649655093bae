//! The operands of the command: which file is copied where, by the rules of `cp`.

use crate::outcome::Failure;
use crate::quote::quote;
use crate::rules::backup;
use crate::session::Session;
use crate::tree::{Argument, Directory, Entry, Handle, Handles, without_trailing_slashes};
use laio_rt::fs::FileType;
use rustix::fs::{CWD, Mode, OFlags, open, openat, statat};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The sources and the destination, as given on the command line.
#[derive(Clone, Debug, Default)]
pub struct Operands {
    /// The sources; unless `directory` is set, the last element is the destination.
    pub files: Vec<PathBuf>,
    /// Sources read from a list (`--files-from0`). `files` then holds the destination, or the
    /// directory that contains the listed sources and the destination.
    pub listed: Option<Vec<PathBuf>>,
    /// The directory that receives the copies (`-t`).
    pub directory: Option<PathBuf>,
    /// The destination is never treated as a directory that receives the copies (`-T`).
    pub no_directory: bool,
    /// Copies keep the full path of their source, not only its last component (`--parents`).
    pub parents: bool,
    /// Trailing slashes of the sources are removed.
    pub strip_slashes: bool,
}

/// Why the arguments are rejected.
#[derive(Debug)]
pub enum Misuse {
    /// The command line is wrong; the caller should point to `--help`.
    Usage(String),
    /// A named file is missing or has the wrong type.
    Target(Failure),
}

impl From<Failure> for Misuse {
    fn from(failure: Failure) -> Misuse {
        Misuse::Target(failure)
    }
}

/// Where the sources are copied to.
#[derive(Default)]
pub(crate) struct Targets {
    handle: Option<Handle>,
    path: PathBuf,
    /// The directory that contains the sources, if not the working directory.
    base: Option<(Handle, PathBuf)>,
    /// Each source and its name in the target directory.
    pairs: Vec<(OsString, OsString)>,
}

impl Operands {
    /// Determines the destination of each source.
    pub(crate) fn resolve(mut self, session: &Session) -> Result<Targets, Misuse> {
        if let Some(listed) = self.listed.take() {
            return self.resolve_listed(listed);
        }
        let least = if self.directory.is_some() { 1 } else { 2 };
        if self.files.len() < least {
            return Err(Misuse::Usage(match self.files.first() {
                None => "missing file operand".to_owned(),
                Some(file) => format!("missing destination file operand after {}", quote(file)),
            }));
        }
        if self.no_directory {
            if self.directory.is_some() {
                let both = "cannot combine --target-directory (-t) and --no-target-directory (-T)";
                return Err(Misuse::Target(Failure::from_message(both)));
            }
            if let Some(extra) = self.files.get(2) {
                return Err(Misuse::Usage(format!("extra operand {}", quote(extra))));
            }
        }
        let directory = self.take_target_directory()?;
        let stripped = |file: PathBuf| {
            if self.strip_slashes {
                without_trailing_slashes(file.as_os_str())
            } else {
                file.into_os_string()
            }
        };
        if let Some((handle, path)) = directory {
            let pairs = self.files.into_iter().map(|file| {
                let file = stripped(file);
                let name = if self.parents {
                    without_trailing_slashes(&file)
                } else {
                    file_name(&file)
                };
                (file, name)
            });
            return Ok(Targets {
                handle: Some(handle),
                path,
                pairs: pairs.collect(),
                base: None,
            });
        }
        if self.parents {
            let text = "with --parents, the destination must be a directory";
            return Err(Misuse::Usage(text.to_owned()));
        }
        let (source, target) = (self.files.swap_remove(0), self.files.pop());
        let source = stripped(source);
        let target = target.unwrap_or_default().into_os_string();
        let target = backup::target_of_self_copy(&session.options, &source, target);
        Ok(Targets {
            pairs: vec![(source, target)],
            ..Targets::default()
        })
    }

    /// Resolves sources from a list. Sources below the base directory keep their path relative to
    /// it.
    fn resolve_listed(mut self, listed: Vec<PathBuf>) -> Result<Targets, Misuse> {
        let least = if self.directory.is_some() { 0 } else { 1 };
        if self.files.len() < least || self.files.len() > least + 1 {
            let text = "with --files-from0, the operands are the directory that contains the files, if any, and \
                        the directory for the copies";
            return Err(Misuse::Usage(text.to_owned()));
        }
        if self.directory.is_none() {
            self.directory = self.files.pop();
        }
        let target = self.take_target_directory()?;
        let base = match self.files.pop() {
            Some(path) => {
                let opened = open_directory(&path);
                let opened =
                    opened.map_err(|error| target_error(error, "cannot open directory", &path))?;
                Some((Arc::new(opened), path))
            }
            None => None,
        };
        let keeps_names = self.parents || base.is_some();
        let pairs = listed.into_iter().map(|file| {
            let file = match &base {
                Some((_, base)) => file
                    .strip_prefix(base)
                    .map_or(file.clone(), Path::to_path_buf),
                None => file,
            };
            // An absolute path, or one with `..`, must not leave the directory.
            let file = without_trailing_slashes(file.as_os_str());
            let name = if keeps_names {
                file.clone()
            } else {
                file_name(&file)
            };
            (file, name)
        });
        let pairs = pairs.collect();
        let (handle, path) = target.unzip();
        Ok(Targets {
            handle,
            path: path.unwrap_or_default(),
            pairs,
            base,
        })
    }

    /// Takes and opens the directory that receives the copies; `None` if the destination is no
    /// directory.
    fn take_target_directory(&mut self) -> Result<Option<(Handle, PathBuf)>, Misuse> {
        if let Some(path) = self.directory.take() {
            let opened = open_directory(&path)
                .map_err(|error| target_error(error, "target directory", &path));
            return Ok(Some((Arc::new(opened?), path)));
        }
        if self.no_directory {
            return Ok(None);
        }
        let Some(last) = self.files.last() else {
            return Ok(None);
        };
        match open_directory(last) {
            Ok(opened) => {
                let path = self.files.pop().unwrap_or_default();
                Ok(Some((Arc::new(opened), path)))
            }
            Err(error) if self.files.len() > 2 => Err(target_error(error, "target", last)),
            Err(_) => Ok(None),
        }
    }
}

fn target_error(error: rustix::io::Errno, what: &str, path: &Path) -> Misuse {
    Failure::from_error(error.into(), format!("{what} {}", quote(path))).into()
}

fn open_directory(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(path, flags, Mode::empty())
}

/// The name of the copy of a source. `..` would leave the target directory.
fn file_name(path: &OsStr) -> OsString {
    let path = without_trailing_slashes(path);
    let bytes = path.as_bytes();
    let name = &bytes[bytes
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |slash| slash + 1)..];
    match name {
        b"" | b".." => OsString::from("."),
        name => OsString::from_vec(name.to_vec()),
    }
}

impl Targets {
    /// Returns the root of all directories, and the arguments as entries of it.
    pub(crate) fn entries(self, session: &Session) -> (Arc<Directory>, Vec<Entry>) {
        let (base, base_path) = self.base.unzip();
        let handles = Handles {
            source: base,
            target: self.handle.clone(),
        };
        let paths = (base_path.unwrap_or_default(), self.path.clone());
        let root = Directory::root(handles.clone(), paths);
        session
            .seen_targets
            .look_for_duplicates(&self.pairs, session.is_listed);
        let entries = self.pairs.into_iter().map(|(source, name)| {
            let argument = Arc::new(Argument {
                nested: session.options.recursive && is_inside(&handles, &name, &source),
                source: root.source_path().join(&source),
                target: self.path.join(&name),
                makes_parents: self.handle.is_some(),
                ..Argument::default()
            });
            Entry {
                directory: root.clone(),
                name: source,
                new_name: Some(name),
                kind: FileType::Unknown,
                argument: Some(argument),
                handles: None,
            }
        });
        let entries = entries.collect();
        (root, entries)
    }
}

/// The maximum number of directories above the destination that are compared.
const LEVELS_MAX: u32 = 4096;

/// Whether the source is a directory that contains the destination.
fn is_inside(root: &Handles, name: &OsStr, source: &OsStr) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let identity = |status: rustix::fs::Stat| (status.st_dev, status.st_ino);
    let from = root.source.as_ref().map_or(CWD, |handle| handle.as_fd());
    // `open` would change the access time of a symbolic link.
    let Ok(source) = statat(from, source, rustix::fs::AtFlags::SYMLINK_NOFOLLOW) else {
        return false;
    };
    if rustix::fs::FileType::from_raw_mode(source.st_mode) != rustix::fs::FileType::Directory {
        return false;
    }
    let source = identity(source);
    let above = Path::new(name)
        .parent()
        .filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    let to = root.target.as_ref().map_or(CWD, |handle| handle.as_fd());
    let Ok(mut at) = openat(to, above, flags, Mode::empty()) else {
        return false;
    };
    let mut before = None;
    for _ in 0..LEVELS_MAX {
        let Ok(status) = statat(&at, "", rustix::fs::AtFlags::EMPTY_PATH) else {
            return false;
        };
        let here = identity(status);
        if here == source {
            return true;
        }
        // The parent of the root is the root.
        if before.replace(here) == Some(here) {
            return false;
        }
        let Ok(above) = openat(&at, "..", flags, Mode::empty()) else {
            return false;
        };
        at = above;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_gets_the_last_component() {
        for (source, name) in [
            ("a", "a"),
            ("a/b", "b"),
            ("a/b//", "b"),
            ("a/..", "."),
            ("a/.", "."),
            ("/", "."),
        ] {
            assert_eq!(file_name(OsStr::new(source)), name, "{source}");
        }
        assert_eq!(without_trailing_slashes(OsStr::new("/")), "/");
        assert_eq!(without_trailing_slashes(OsStr::new("a/b//")), "a/b");
    }
}
