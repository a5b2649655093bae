//! The names in a directory, read by the calling thread.
//!
//! `std::fs::read_dir` panics if closing the directory fails, which network file systems and full quotas make
//! possible. Here an error of `close` changes nothing: all names have been read.

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// Returns the names in a directory, without `.` and `..`, in no order.
///
/// # Errors
/// Those of `open`. Errors of `getdents64` are in the iterator.
pub fn names(path: impl AsRef<Path>) -> io::Result<impl Iterator<Item = io::Result<OsString>>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, path.as_ref(), flags, Mode::empty())?;
    let entries = Dir::new(directory)?.map(|entry| {
        let name = entry?.file_name().to_bytes().to_vec();
        Ok(OsString::from_vec(name))
    });
    Ok(entries.filter(|name| !matches!(name, Ok(name) if name == "." || name == "..")))
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn all_names_are_returned() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(names(directory.path()).unwrap().count(), 0);
        for name in ["a", ".b"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let mut all: Vec<_> = names(directory.path())
            .unwrap()
            .map(Result::unwrap)
            .collect();
        all.sort();
        assert_eq!(all, [".b", "a"]);
        let error = names(directory.path().join("absent")).err().unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    }
}
