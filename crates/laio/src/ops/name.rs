//! Names of files, and the operations that make, change and remove them.

use super::buffer::spare;
use super::outputs::{append, done};
use super::word;
use crate::{Call, Errno};
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The name of a file: a path, from an open directory or from the working directory.
///
/// ```
/// use laio::ops::Name;
/// let name = Name::from_path("notes/today.txt").unwrap();
/// assert!(Name::from_path("a\0b").is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Name<F = OwnedFd> {
    directory: Option<F>,
    path: CString,
}

impl Name {
    /// Returns a name relative to the working directory at the time of use, unless it begins with
    /// `/`.
    pub fn new(path: impl Into<CString>) -> Name {
        Name {
            directory: None,
            path: path.into(),
        }
    }

    /// Returns a name like [`Name::new`], from a path.
    ///
    /// # Errors
    /// `InvalidInput` if the path has a zero byte.
    pub fn from_path(path: impl AsRef<Path>) -> io::Result<Name> {
        Ok(Name::new(c_string(path.as_ref().as_os_str())?))
    }
}

impl<F> Name<F> {
    /// Returns a name relative to `directory`, unless it begins with `/`.
    pub fn at(directory: F, path: impl Into<CString>) -> Name<F> {
        Name {
            directory: Some(directory),
            path: path.into(),
        }
    }

    /// Returns a name like [`Name::at`], from a path.
    ///
    /// # Errors
    /// `InvalidInput` if the path has a zero byte.
    pub fn from_path_at(directory: F, path: impl AsRef<Path>) -> io::Result<Name<F>> {
        Name::from_path_in(Some(directory), path)
    }

    /// Returns a name like [`Name::at`]; without a directory, like [`Name::new`].
    ///
    /// # Errors
    /// `InvalidInput` if the path has a zero byte.
    pub fn from_path_in(directory: Option<F>, path: impl AsRef<Path>) -> io::Result<Name<F>> {
        let path = c_string(path.as_ref().as_os_str())?;
        Ok(Name { directory, path })
    }
}

impl<F: AsFd> Name<F> {
    /// Returns the name of an open file in `/proc`, for calls that take a name only, and for files
    /// opened with `O_PATH`. It is a symbolic link to the open file itself, even if it was renamed:
    /// calls that do not follow links use the link.
    pub fn of_open(file: F) -> Name<F> {
        let path = c_string(OsStr::new(&in_proc(&file))).expect("it has no zero byte");
        Name {
            directory: Some(file),
            path,
        }
    }

    /// Returns the same name for calls without a directory argument.
    pub(super) fn without_directory(mut self) -> Name<F> {
        let path = self.path.as_bytes();
        if let Some(directory) = &self.directory
            && !matches!(path.first(), None | Some(b'/'))
        {
            let path = [in_proc(directory).as_bytes(), b"/", path].concat();
            self.path = c_string(OsStr::from_bytes(&path)).expect("neither part has a zero byte");
        }
        self
    }

    /// Returns the first two argument words of the `*at` calls: the directory, and the address of
    /// the path. The path is on the heap: its address is stable when the name moves.
    pub(super) fn words(&self) -> (usize, usize) {
        let directory = self.directory.as_ref();
        let directory = directory.map_or(libc::AT_FDCWD as usize, word);
        (directory, self.path.as_ptr() as usize)
    }
}

/// The thread's entry, because threads may have their own descriptor tables
/// (`unshare(CLONE_FILES)`); helpers share that of the context's thread.
fn in_proc(descriptor: &impl AsFd) -> String {
    format!("/proc/thread-self/fd/{}", descriptor.as_fd().as_raw_fd())
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path with a zero byte"))
}

operation! {
    /// Removes a name; the file is deleted with its last name, once it is not open any more.
    pub struct Unlink<F: AsFd = OwnedFd> {
        /// Removes the name of a file that is not a directory.
        new(name: Name<F>);
        flags: i32 = 0,
    }

    // SAFETY: the name is on the operation's heap.
    unsafe call(self) {
        let (directory, path) = self.name.words();
        Call::new(libc::SYS_unlinkat, [directory, path, self.flags as usize])
    }

    /// `EISDIR` and `ENOTDIR` for the wrong kind, `ENOTEMPTY` if the directory is not empty.
    finish(self, result) -> io::Result<()> { done(result) }
}

impl<F> Unlink<F> {
    /// Removes an empty directory.
    pub fn directory(name: Name<F>) -> Self {
        let flags = libc::AT_REMOVEDIR;
        Unlink { name, flags }
    }
}

operation! {
    /// Makes a directory.
    pub struct Mkdir<F: AsFd = OwnedFd> {
        /// Makes a directory with these permissions, reduced by the umask.
        new(name: Name<F>, mode: u32)
    }

    // SAFETY: the name is on the operation's heap.
    unsafe call(self) {
        let (directory, path) = self.name.words();
        Call::new(libc::SYS_mkdirat, [directory, path, self.mode as usize])
    }

    /// `EEXIST` if the name exists.
    finish(self, result) -> io::Result<()> { done(result) }
}

operation! {
    /// Renames a file atomically.
    pub struct Rename<F: AsFd = OwnedFd, G: AsFd = OwnedFd> {
        /// Renames a file; it replaces a file with the new name.
        new(from: Name<F>, to: Name<G>);
        flags: u32 = 0,
    }

    /// Sets `RENAME_*` flags, such as `RENAME_NOREPLACE`. Not all file systems support them.
    with flags(self, flags: u32) { self.flags = flags }

    // SAFETY: the names are on the operation's heap.
    unsafe call(self) {
        let (from_directory, from) = self.from.words();
        let (to_directory, to) = self.to.words();
        let args = [from_directory, from, to_directory, to, self.flags as usize];
        Call::new(libc::SYS_renameat2, args)
    }

    /// `EXDEV` if the names are on different mounts.
    finish(self, result) -> io::Result<()> { done(result) }
}

operation! {
    /// Makes a symbolic link.
    pub struct Symlink<F: AsFd = OwnedFd> {
        text: CString,
        name: Name<F>,
    }

    // SAFETY: text and name are on the operation's heap.
    unsafe call(self) {
        let text = self.text.as_ptr() as usize;
        let (directory, path) = self.name.words();
        Call::new(libc::SYS_symlinkat, [text, directory, path])
    }

    /// `EEXIST` if the name exists.
    finish(self, result) -> io::Result<()> { done(result) }
}

impl<F> Symlink<F> {
    /// Makes `name` a link with the target `text`, which need not exist.
    pub fn new(text: impl Into<CString>, name: Name<F>) -> Self {
        let text = text.into();
        Symlink { text, name }
    }
}

operation! {
    /// Gives a file a further name (a hard link).
    pub struct Link<F: AsFd = OwnedFd, G: AsFd = OwnedFd> {
        /// Gives `file` the name `name` too. If `file` is a symbolic link, the link gets the name.
        new(file: Name<F>, name: Name<G>);
        flags: i32 = 0,
    }

    /// If `file` is a symbolic link, gives the file to which it leads the name.
    with follow(self) { self.flags = libc::AT_SYMLINK_FOLLOW }

    // SAFETY: the names are on the operation's heap.
    unsafe call(self) {
        let (from_directory, from) = self.file.words();
        let (to_directory, to) = self.name.words();
        let args = [from_directory, from, to_directory, to, self.flags as usize];
        Call::new(libc::SYS_linkat, args)
    }

    /// `EXDEV` if the names are on different mounts, `EMLINK` if the file has too many.
    finish(self, result) -> io::Result<()> { done(result) }
}

operation! {
    /// Reads the target of a symbolic link.
    pub struct ReadLink<F: AsFd = OwnedFd> {
        /// Reads the link.
        new(name: Name<F>);
        text: Vec<u8> = Vec::with_capacity(libc::PATH_MAX as usize),
    }

    // SAFETY: the name and the buffer are on the operation's heap.
    unsafe call(self) {
        let (directory, path) = self.name.words();
        let (address, length) = spare(&mut self.text);
        Call::new(libc::SYS_readlinkat, [directory, path, address, length])
    }

    /// The target of the link; `EINVAL` if it is not a symbolic link.
    finish(self, result) -> io::Result<PathBuf> {
        // SAFETY: the result is that of the call on the buffer, which was empty.
        let (result, text) = unsafe { append(self.text, result) };
        if result? == text.capacity() {
            // The target may be truncated; no file system of Linux makes such links.
            return Err(Errno::NAMETOOLONG.into());
        }
        Ok(OsString::from_vec(text).into())
    }
}
