//! Names of files, and the operations that make, change and remove them.

use super::storage::done;
use super::word;
use crate::typed::Operation;
use crate::{Call, Errno};
use std::ffi::{CString, OsStr};
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

    /// Returns the first argument word of the `*at` calls.
    pub(super) fn directory(&self) -> usize {
        self.directory
            .as_ref()
            .map_or(libc::AT_FDCWD as usize, word)
    }
}

impl<F> Name<F> {
    /// Returns the second argument word. The string is on the heap: its address is stable when the
    /// name moves.
    pub(super) fn address(&self) -> usize {
        self.path.as_ptr() as usize
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

/// Removes a name; the file is deleted with its last name, once it is not open any more.
#[derive(Debug)]
pub struct Unlink<F = OwnedFd> {
    name: Name<F>,
    flags: i32,
}

impl<F> Unlink<F> {
    /// Removes the name of a file that is not a directory.
    pub fn new(name: Name<F>) -> Self {
        Unlink { name, flags: 0 }
    }

    /// Removes an empty directory.
    pub fn directory(name: Name<F>) -> Self {
        Unlink {
            name,
            flags: libc::AT_REMOVEDIR,
        }
    }
}

// SAFETY: the name is on the operation's heap.
unsafe impl<F: AsFd + 'static> Operation for Unlink<F> {
    /// `EISDIR` and `ENOTDIR` for the wrong kind, `ENOTEMPTY` if the directory is not empty.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        let (directory, path) = (self.name.directory(), self.name.address());
        Call::new(libc::SYS_unlinkat, [directory, path, self.flags as usize])
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
}

/// Makes a directory.
#[derive(Debug)]
pub struct Mkdir<F = OwnedFd> {
    name: Name<F>,
    mode: u32,
}

impl<F> Mkdir<F> {
    /// Makes a directory with these permissions, reduced by the umask.
    pub fn new(name: Name<F>, mode: u32) -> Self {
        Mkdir { name, mode }
    }
}

// SAFETY: the name is on the operation's heap.
unsafe impl<F: AsFd + 'static> Operation for Mkdir<F> {
    /// `EEXIST` if the name exists.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        let (directory, path) = (self.name.directory(), self.name.address());
        Call::new(libc::SYS_mkdirat, [directory, path, self.mode as usize])
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
}

/// Renames a file atomically.
#[derive(Debug)]
pub struct Rename<F = OwnedFd, G = OwnedFd> {
    from: Name<F>,
    to: Name<G>,
    flags: u32,
}

impl<F, G> Rename<F, G> {
    /// Renames a file; it replaces a file with the new name.
    pub fn new(from: Name<F>, to: Name<G>) -> Self {
        Rename { from, to, flags: 0 }
    }

    /// Sets `RENAME_*` flags, such as `RENAME_NOREPLACE`. Not all file systems support them.
    pub fn flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }
}

// SAFETY: the names are on the operation's heap.
unsafe impl<F: AsFd + 'static, G: AsFd + 'static> Operation for Rename<F, G> {
    /// `EXDEV` if the names are on different mounts.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        let args = [
            self.from.directory(),
            self.from.address(),
            self.to.directory(),
            self.to.address(),
            self.flags as usize,
        ];
        Call::new(libc::SYS_renameat2, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
}

/// Makes a symbolic link.
#[derive(Debug)]
pub struct Symlink<F = OwnedFd> {
    text: CString,
    name: Name<F>,
}

impl<F> Symlink<F> {
    /// Makes `name` a link with the target `text`, which need not exist.
    pub fn new(text: impl Into<CString>, name: Name<F>) -> Self {
        Symlink {
            text: text.into(),
            name,
        }
    }
}

// SAFETY: text and name are on the operation's heap.
unsafe impl<F: AsFd + 'static> Operation for Symlink<F> {
    /// `EEXIST` if the name exists.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        let text = self.text.as_ptr() as usize;
        let args = [text, self.name.directory(), self.name.address()];
        Call::new(libc::SYS_symlinkat, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
}

/// Gives a file a further name (a hard link).
#[derive(Debug)]
pub struct Link<F = OwnedFd, G = OwnedFd> {
    file: Name<F>,
    name: Name<G>,
}

impl<F, G> Link<F, G> {
    /// Gives `file` the name `name` too. If `file` is a symbolic link, the link gets the name.
    pub fn new(file: Name<F>, name: Name<G>) -> Self {
        Link { file, name }
    }
}

// SAFETY: the names are on the operation's heap.
unsafe impl<F: AsFd + 'static, G: AsFd + 'static> Operation for Link<F, G> {
    /// `EXDEV` if the names are on different mounts, `EMLINK` if the file has too many.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        let args = [
            self.file.directory(),
            self.file.address(),
            self.name.directory(),
            self.name.address(),
            0,
        ];
        Call::new(libc::SYS_linkat, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
}

/// Reads the target of a symbolic link.
#[derive(Debug)]
pub struct ReadLink<F = OwnedFd> {
    name: Name<F>,
    text: Vec<u8>,
}

impl<F> ReadLink<F> {
    /// Reads the link.
    pub fn new(name: Name<F>) -> Self {
        ReadLink {
            name,
            text: Vec::with_capacity(libc::PATH_MAX as usize),
        }
    }
}

// SAFETY: the name and the buffer are on the operation's heap.
unsafe impl<F: AsFd + 'static> Operation for ReadLink<F> {
    /// The target of the link; `EINVAL` if it is not a symbolic link.
    type Output = io::Result<PathBuf>;

    fn call(&mut self) -> Call {
        let spare = self.text.spare_capacity_mut();
        let args = [
            self.name.directory(),
            self.name.address(),
            spare.as_mut_ptr() as usize,
            spare.len(),
        ];
        Call::new(libc::SYS_readlinkat, args)
    }

    fn finish(mut self, result: Result<usize, Errno>) -> Self::Output {
        let count = result?;
        if count == self.text.capacity() {
            // The target may be truncated; no file system of Linux makes such links.
            return Err(Errno::NAMETOOLONG.into());
        }
        // SAFETY: the buffer was empty, and the kernel has written that many bytes.
        unsafe { self.text.set_len(count) };
        Ok(std::ffi::OsString::from_vec(self.text).into())
    }
}
