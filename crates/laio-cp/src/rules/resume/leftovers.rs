//! Removes temporary files that no run will continue, because their sources have changed or are
//! gone.

use super::partial::{DIGITS, PREFIX, lock};
use crate::io::Io;
use crate::quote::quote;
use crate::session::Session;
use crate::tree::{Directory, Handle, identity};
use laio::ops::{Name, Open, ReadDir, StatFile, StatPath, Unlink};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Removes leftovers from a finished directory. Files that are locked, or that an earlier run
/// cannot have left, stay.
pub(crate) fn remove(io: &Io, session: &Session, directory: &Directory, target: &Handle) {
    for name in list(io, target) {
        if remove_one(io, session, target, &name) == Some(()) && session.options.verbose {
            let path = quote(directory.target_path().join(name));
            session.console.print(&format!("removed {path}"));
        }
    }
}

fn list(io: &Io, target: &Handle) -> Vec<OsString> {
    let mut names = Vec::new();
    // This descriptor was not read before, so it starts at the beginning.
    while let Ok(entries) = io.call_blocking(ReadDir::new(target.clone())) {
        if entries.is_empty() {
            break;
        }
        let left = entries.iter().map(|entry| entry.name());
        names.extend(left.filter(|name| is_temporary(name)).map(OsStr::to_owned));
    }
    names
}

fn is_temporary(name: &OsStr) -> bool {
    let digits = name.as_bytes().strip_prefix(PREFIX.as_bytes());
    digits.is_some_and(|digits| {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        digits.len() == DIGITS && digits.iter().all(is_digit)
    })
}

fn remove_one(io: &Io, session: &Session, target: &Handle, name: &OsStr) -> Option<()> {
    let at = || Name::from_path_at(target.clone(), name).ok();
    let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = Arc::new(io.call_blocking(Open::new(at()?, flags)).ok()?);
    let _lock = lock(&file).ok()?;
    let status = io.call_blocking(StatFile::new(file)).ok()?;
    let existing = io.call_blocking(StatPath::new(at()?).no_follow()).ok()?;
    let process = &session.process;
    let is_ours = status.user() == process.user || process.is_privileged();
    if identity(&existing) != identity(&status)
        || !status.is_file()
        || status.links() != 1
        || !is_ours
    {
        return None;
    }
    io.call_blocking(Unlink::new(at()?)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_are_not_temporary() {
        let name = |text: &str| is_temporary(OsStr::new(text));
        assert!(name(".laio-cp-r-0123456789abcdef0123456789abcdef"));
        assert!(!name(".laio-cp-r-0123456789abcdef0123456789abcde"));
        assert!(!name(".laio-cp-r-0123456789abcdef0123456789abcdeF"));
        assert!(!name(".laio-cp-r-0123456789abcdef0123456789abcdef0"));
        assert!(!name(".laio-cp-123-0-0badcafe"));
        assert!(!name("r-0123456789abcdef0123456789abcdef"));
    }
}
