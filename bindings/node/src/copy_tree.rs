//! Copying a directory with all that it has to a new name.

use crate::answer::Answer;
use crate::directory::names_here;
use crate::engine::{Memory, engine, nothing};
use crate::path::{self, Path as Named};
use laio::Stop;
use napi::{Env, Result};
use napi_derive::napi;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

/// Copies a directory: one function on a helper thread. Both paths are absolute. Fails if the target exists,
/// or if something in the directory is neither a file, a directory nor a link, or has a name that is no text.
/// After an error nothing is left of what it has made.
#[napi]
pub fn copy_tree(env: Env, from: Named<'_>, to: Named<'_>, verbatim: bool) -> Result<Answer> {
    let engine = engine()?;
    let (proactor, from, to) = (engine.proactor, path::text(from), path::text(to));
    engine.run(env, Memory::New, async move {
        let (from, to) = (owned(from?), owned(to?));
        let copied = proactor.blocking(move |stop| {
            let mut copy = TreeCopy {
                made: Vec::new(),
                is_verbatim: verbatim,
                stop,
            };
            let copied = copy.directory(&from, &to);
            if copied.is_err() {
                copy.undo();
            }
            copied
        });
        nothing(copied.await?)
    })
}

fn owned(path: CString) -> PathBuf {
    OsString::from_vec(path.into_bytes()).into()
}

struct TreeCopy<'a> {
    /// What it has made, in turn.
    made: Vec<PathBuf>,
    /// Whether links stay as they are; otherwise relative ones become absolute.
    is_verbatim: bool,
    stop: &'a Stop,
}

impl TreeCopy<'_> {
    fn directory(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let mode = fs::symlink_metadata(from)?.permissions();
        fs::create_dir(to)?;
        self.made.push(to.to_owned());
        // `fs::read_dir` panics if the directory cannot be closed.
        for name in names_here(from)? {
            if self.stop.is_requested() {
                return Err(io::Error::from_raw_os_error(libc::ECANCELED));
            }
            // Of bytes that are no text Node makes other names.
            let name = name.to_str().ok_or(io::ErrorKind::InvalidData)?;
            self.entry(&from.join(name), &to.join(name))?;
        }
        fs::set_permissions(to, mode)
    }

    fn entry(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let kind = fs::symlink_metadata(from)?.file_type();
        if kind.is_dir() {
            return self.directory(from, to);
        }
        if fs::symlink_metadata(to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.made.push(to.to_owned());
        if kind.is_symlink() {
            symlink(self.target(from)?, to)
        } else if kind.is_file() {
            fs::copy(from, to).map(drop)
        } else {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn target(&self, link: &Path) -> io::Result<PathBuf> {
        let target = fs::read_link(link)?;
        target.to_str().ok_or(io::ErrorKind::InvalidData)?;
        if self.is_verbatim || target.is_absolute() {
            return Ok(target);
        }
        // By its text alone, as Node's `path.resolve`.
        let mut resolved = link.parent().unwrap_or(link).to_owned();
        for part in target.components() {
            match part {
                Component::ParentDir => drop(resolved.pop()),
                Component::Normal(name) => resolved.push(name),
                Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
            }
        }
        Ok(resolved)
    }

    fn undo(&self) {
        for path in self.made.iter().rev() {
            // One that another process has filled stays.
            if fs::remove_file(path).is_err() {
                let _ = fs::remove_dir(path);
            }
        }
    }
}
