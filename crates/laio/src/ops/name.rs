//! Names of files, and the operations that make, change and remove them.

use super::storage::done;
use super::word;
use crate::typed::Operation;
use crate::{Call, Errno};
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
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
    /// A path that begins at `/`, or in the working directory of the moment it is used.
    pub fn new(path: impl Into<CString>) -> Name {
        Name {
            directory: None,
            path: path.into(),
        }
    }

    /// As [`Name::new`].
    ///
    /// # Errors
    /// `InvalidInput` if the path has a zero byte.
    pub fn from_path(path: impl AsRef<Path>) -> io::Result<Name> {
        Ok(Name::new(c_string(path.as_ref().as_os_str())?))
    }
}

impl<F> Name<F> {
    /// A path that begins in `directory`, unless it begins at `/`.
    pub fn at(directory: F, path: impl Into<CString>) -> Name<F> {
        Name {
            directory: Some(directory),
            path: path.into(),
        }
    }

    /// As [`Name::at`].
    ///
    /// # Errors
    /// `InvalidInput` if the path has a zero byte.
    pub fn from_path_at(directory: F, path: impl AsRef<Path>) -> io::Result<Name<F>> {
        Name::from_path_in(Some(directory), path)
    }

    /// As [`Name::at`]; with no directory, as [`Name::new`].
    ///
    /// # Errors
    /// `InvalidInput` if the path has a zero byte.
    pub fn from_path_in(directory: Option<F>, path: impl AsRef<Path>) -> io::Result<Name<F>> {
        let path = c_string(path.as_ref().as_os_str())?;
        Ok(Name { directory, path })
    }
}

impl<F: AsFd> Name<F> {
    /// The first argument word of the `*at` calls.
    pub(super) fn directory(&self) -> usize {
        self.directory
            .as_ref()
            .map_or(libc::AT_FDCWD as usize, word)
    }
}

impl<F> Name<F> {
    /// The second. The string is on the heap: it stays where it is when the name moves.
    pub(super) fn address(&self) -> usize {
        self.path.as_ptr() as usize
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path with a zero byte"))
}

/// Opens a file. The descriptor is closed on `exec` (`O_CLOEXEC`).
pub struct Open<F = OwnedFd> {
    name: Name<F>,
    how: libc::open_how,
}

impl<F> Open<F> {
    /// Opens with `O_*` flags.
    pub fn new(name: Name<F>, flags: i32) -> Self {
        // SAFETY: plain data, for which all zeros is a valid value.
        let mut how: libc::open_how = unsafe { std::mem::zeroed() };
        how.flags = (flags | libc::O_CLOEXEC) as u64;
        if makes_file(flags) {
            how.mode = 0o666;
        }
        Open { name, how }
    }

    /// The permissions of a file that is made, less the umask. 0o666 if not given.
    pub fn mode(mut self, mode: u32) -> Self {
        // openat2 refuses a mode that would not be used.
        if makes_file(self.how.flags as i32) {
            self.how.mode = (mode & 0o7777).into();
        }
        self
    }

    /// Does not leave the directory: neither through `..`, an absolute path, nor symbolic links, nor
    /// links of `/proc` (`RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS`). A name that would fails with
    /// `EXDEV`.
    pub fn beneath(self) -> Self {
        self.resolve(libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS)
    }

    /// Restricts how the name is resolved: `RESOLVE_*` bits of `openat2`, which Linux has since 5.6.
    pub fn resolve(mut self, bits: u64) -> Self {
        self.how.resolve |= bits;
        self
    }
}

fn makes_file(flags: i32) -> bool {
    flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE
}

impl<F: std::fmt::Debug> std::fmt::Debug for Open<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open")
            .field("name", &self.name)
            .field("flags", &format_args!("{:#o}", self.how.flags))
            .field("resolve", &format_args!("{:#x}", self.how.resolve))
            .finish_non_exhaustive()
    }
}

// SAFETY: the name is on the operation's heap, and `open_how` is part of the operation.
unsafe impl<F: AsFd + 'static> Operation for Open<F> {
    /// The new descriptor. With [`Open::beneath`] `EAGAIN` means that a directory on the way was
    /// renamed meanwhile (or that a limit of the context is reached): try again.
    type Output = io::Result<OwnedFd>;

    fn call(&mut self) -> Call {
        let (directory, path) = (self.name.directory(), self.name.address());
        if self.how.resolve == 0 {
            // Also where openat2 is not there, or forbidden by a filter older than it.
            let (flags, mode) = (self.how.flags as usize, self.how.mode as usize);
            return Call::new(libc::SYS_openat, [directory, path, flags, mode]);
        }
        let how = (&raw const self.how) as usize;
        let args = [directory, path, how, size_of::<libc::open_how>()];
        Call::new(libc::SYS_openat2, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        descriptor(result)
    }
}

/// The descriptor that a call has yielded.
pub(super) fn descriptor(result: Result<usize, Errno>) -> io::Result<OwnedFd> {
    let fd = result? as RawFd;
    // SAFETY: the kernel has just made it for this operation, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Removes a name; with the last one, and when nobody has it open, the file.
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
    /// Makes a directory with these permissions, less the umask.
    pub fn new(name: Name<F>, mode: u32) -> Self {
        Mkdir { name, mode }
    }
}

// SAFETY: the name is on the operation's heap.
unsafe impl<F: AsFd + 'static> Operation for Mkdir<F> {
    /// `EEXIST` if the name is there, whatever it is.
    type Output = io::Result<()>;

    fn call(&mut self) -> Call {
        let (directory, path) = (self.name.directory(), self.name.address());
        Call::new(libc::SYS_mkdirat, [directory, path, self.mode as usize])
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        done(result)
    }
}

/// Gives a file another name, in one step: whoever looks finds the old or the new state.
#[derive(Debug)]
pub struct Rename<F = OwnedFd, G = OwnedFd> {
    from: Name<F>,
    to: Name<G>,
    flags: u32,
}

impl<F, G> Rename<F, G> {
    /// Renames; a file that has the new name loses it.
    pub fn new(from: Name<F>, to: Name<G>) -> Self {
        Rename { from, to, flags: 0 }
    }

    /// `RENAME_*` flags, such as `RENAME_NOREPLACE`. Not all file systems have them.
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
    /// Makes `name` a link that says `text`, which need not be the name of anything.
    pub fn new(text: impl Into<CString>, name: Name<F>) -> Self {
        Symlink {
            text: text.into(),
            name,
        }
    }
}

// SAFETY: text and name are on the operation's heap.
unsafe impl<F: AsFd + 'static> Operation for Symlink<F> {
    /// `EEXIST` if the name is there, whatever it is.
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

/// Gives a file one more name (a hard link).
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

/// Reads what a symbolic link says.
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
    /// What the link says; `EINVAL` if it is not a symbolic link.
    type Output = io::Result<PathBuf>;

    fn call(&mut self) -> Call {
        let room = self.text.spare_capacity_mut();
        let args = [
            self.name.directory(),
            self.name.address(),
            room.as_mut_ptr() as usize,
            room.len(),
        ];
        Call::new(libc::SYS_readlinkat, args)
    }

    fn finish(mut self, result: Result<usize, Errno>) -> Self::Output {
        let count = result?;
        if count == self.text.capacity() {
            // Cut off, and nobody could tell; no file system of Linux makes such links.
            return Err(Errno::NAMETOOLONG.into());
        }
        // SAFETY: the buffer was empty, and the kernel has written that many bytes.
        unsafe { self.text.set_len(count) };
        Ok(std::ffi::OsString::from_vec(self.text).into())
    }
}
