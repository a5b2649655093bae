//! Files that options of a site name, and that must exist before the first request needs them.

use super::Rules;
use crate::messages::print;
use crate::options::Site;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Reports each error page and fallback page that cannot be sent. The server starts nevertheless, because the built-in
/// page takes its place.
pub(super) fn report_missing(site: &Site, rules: &Rules, root: &OwnedFd) {
    let pages = site.error_pages.iter().map(|page| {
        let option = format!("--error-page {}={}", page.status, page.file);
        (option, &page.file)
    });
    let fallback = site.fallback.iter();
    let fallback = fallback.map(|file| (format!("--fallback {file}"), file));
    for (option, file) in pages.chain(fallback) {
        let name = super::name(file);
        if let Err(error) = find(&name, rules, root) {
            let path = rules.file_path(&name);
            let path = Path::new(OsStr::from_bytes(&path)).display();
            print(format_args!(
                "{option}: cannot send {path}: {error}; the server answers with its own page instead"
            ));
        }
    }
}

/// Looks a file up as a request would.
fn find(name: &[u8], rules: &Rules, root: &OwnedFd) -> io::Result<()> {
    let (directory, name) = rules.aliases.place(name).unwrap_or((root, name));
    match FileType::from_raw_mode(status(name, rules, directory)?.st_mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(io::Error::other("it is no file")),
    }
}

fn status(name: &[u8], rules: &Rules, directory: &OwnedFd) -> rustix::io::Result<Stat> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::from_bits_retain(rules.resolve);
    match rustix::fs::openat2(directory, name, flags, Mode::empty(), resolve) {
        Ok(file) => rustix::fs::fstat(file),
        // No such call here; only links that lead out of the root make a difference.
        Err(Errno::NOSYS | Errno::PERM) => rustix::fs::statat(directory, name, AtFlags::empty()),
        Err(errno) => Err(errno),
    }
}
