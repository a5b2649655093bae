//! Opening a name one component at a time, without `openat2`.

use crate::knowledge::facts::resolves_beneath;
use crate::ops::{Name, Open, ReadLink};
use libc::{O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_PATH};
use libc::{RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS};
use std::ffi::{CStr, CString};
use std::io;
use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Opens a name that must stay beneath a directory, as [`Open::beneath`] does, where `openat2` is missing:
/// before Linux 5.6, under an older seccomp filter, and in emulators.
///
/// The walk makes no call itself. It says which operation comes next, and takes the result, so that any
/// executor can run it:
///
/// ```
/// use laio::ops::{Name, Open};
/// use laio::walk::{Walk, WalkStep};
/// use laio::{Context, Operation, Options, Outcome};
/// use std::ops::ControlFlow;
/// # fn run<O: Operation>(context: &mut Context, operation: O) -> O::Output {
/// #     match context.submit(operation) {
/// #         Outcome::Done(output) => output,
/// #         Outcome::Pending(ticket) => {
/// #             let mut completions = Vec::new();
/// #             context.poll(&mut completions, None).unwrap();
/// #             context.take(ticket).unwrap()
/// #         }
/// #     }
/// # }
/// let mut context = Context::new(Options::new())?;
/// let process = run(&mut context, Open::new(Name::new(c"/proc/self"), libc::O_PATH))?;
/// let mut walk = Walk::new(std::sync::Arc::new(process), c"task/../comm", libc::O_RDONLY, libc::RESOLVE_BENEATH);
/// let file = loop {
///     let after = match walk.step()? {
///         WalkStep::Open(open) => walk.opened(run(&mut context, open)),
///         WalkStep::ReadLink(read) => walk.link_read(run(&mut context, read)),
///     };
///     if let ControlFlow::Break(opened) = after {
///         break opened?;
///     }
/// };
/// # drop(file);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// Every directory of the path stays open until the walk ends, and `..` leads back to the one from which the
/// walk came. So a directory that another process moves away meanwhile does not lead the walk out of the first
/// directory, and the walk does not fail with `EAGAIN`.
#[derive(Debug)]
pub struct Walk<F> {
    start: F,
    /// The directories below `start` that the walk is in.
    inside: Vec<Arc<OwnedFd>>,
    /// The components that are left, the next one last.
    left: Vec<CString>,
    flags: i32,
    mode: u32,
    resolve: u64,
    /// The number of symbolic links followed.
    links: u32,
    asking: Asking,
}

/// The component in front of an absolute path.
const ROOT: &CStr = c"/";

/// What the walk wants to know.
#[derive(Debug)]
enum Asking {
    /// Opens the component.
    Component(CString),
    /// Whether the component, which could not be opened, is a symbolic link. The error if it is none.
    Link(CString, i32),
    /// Whether what was opened with `O_PATH` is a symbolic link.
    Itself(Arc<OwnedFd>),
    Nothing,
}

/// The next operation of a [`Walk`].
#[derive(Debug)]
pub enum WalkStep<F: AsFd> {
    /// Its result is the argument of [`Walk::opened`].
    Open(Open<WalkedFrom<F>>),
    /// Its result is the argument of [`Walk::link_read`].
    ReadLink(ReadLink<WalkedFrom<F>>),
}

/// A directory that a [`Walk`] is in.
#[derive(Clone, Debug)]
pub enum WalkedFrom<F> {
    /// The directory in which it began.
    Start(F),
    /// One below.
    Inside(Arc<OwnedFd>),
}

impl<F: AsFd> AsFd for WalkedFrom<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            WalkedFrom::Start(start) => start.as_fd(),
            WalkedFrom::Inside(directory) => directory.as_fd(),
        }
    }
}

impl Walk<()> {
    /// The most symbolic links that a walk follows, as in the kernel.
    pub const LINKS_MAX: u32 = 40;

    /// Whether an open with these `RESOLVE_*` bits has failed because `openat2` is missing, and a walk can
    /// replace it. `EPERM` and `EACCES` may also be about the file: then this makes one system call.
    pub fn replaces(error: &io::Error, resolve: u64) -> bool {
        let known = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
        resolve & RESOLVE_BENEATH != 0
            && resolve & !known == 0
            && match error.raw_os_error() {
                Some(libc::ENOSYS) => true,
                Some(libc::EPERM | libc::EACCES) => !resolves_beneath(),
                _ => false,
            }
    }
}

impl<F: AsFd + Clone> Walk<F> {
    /// Returns a walk from `start` along `path`, which opens its end with `O_*` flags. `RESOLVE_NO_SYMLINKS`
    /// in `resolve` forbids symbolic links; others may not lead out of `start` in any case.
    pub fn new(start: F, path: &CStr, flags: i32, resolve: u64) -> Walk<F> {
        let mut walk = Walk {
            start,
            inside: Vec::new(),
            left: Vec::new(),
            flags,
            mode: 0o666,
            resolve,
            links: 0,
            asking: Asking::Nothing,
        };
        walk.enter(path);
        walk
    }

    /// Sets the permissions of a created file, as [`Open::mode`].
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Returns the next operation.
    ///
    /// # Errors
    /// `EXDEV` if the path leads out of the first directory; `ENOENT` if it is empty.
    ///
    /// # Panics
    /// After the end of the walk.
    pub fn step(&mut self) -> io::Result<WalkStep<F>> {
        match &self.asking {
            Asking::Component(_) => {}
            Asking::Link(name, _) => {
                let name = Name::at(self.directory(), name.clone());
                return Ok(WalkStep::ReadLink(ReadLink::new(name)));
            }
            Asking::Itself(opened) => {
                let name = Name::at(WalkedFrom::Inside(opened.clone()), c"");
                return Ok(WalkStep::ReadLink(ReadLink::new(name)));
            }
            Asking::Nothing => self.asking = Asking::Component(self.next_component()?),
        }
        let Asking::Component(name) = &self.asking else {
            unreachable!("assigned above");
        };
        let flags = if self.left.is_empty() {
            self.flags | O_NOFOLLOW
        } else {
            O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
        };
        let open = Open::new(Name::at(self.directory(), name.clone()), flags);
        Ok(WalkStep::Open(open.mode(self.mode)))
    }

    /// Takes the result of [`WalkStep::Open`]. The walk continues, or has ended.
    pub fn opened(&mut self, result: io::Result<OwnedFd>) -> ControlFlow<io::Result<OwnedFd>> {
        let Asking::Component(name) = std::mem::replace(&mut self.asking, Asking::Nothing) else {
            panic!("the walk did not ask for this");
        };
        match result {
            Ok(directory) if !self.left.is_empty() => self.inside.push(Arc::new(directory)),
            // With O_PATH and O_NOFOLLOW also a link itself is opened.
            Ok(file) if self.flags & O_PATH != 0 && self.flags & O_NOFOLLOW == 0 => {
                self.asking = Asking::Itself(Arc::new(file));
            }
            Ok(file) => return Break(Ok(file)),
            Err(error) => match error.raw_os_error() {
                Some(code @ (libc::ELOOP | libc::ENOTDIR)) => {
                    self.asking = Asking::Link(name, code);
                }
                _ => return Break(Err(error)),
            },
        }
        Continue(())
    }

    /// Takes the result of [`WalkStep::ReadLink`]. The walk continues, or has ended.
    pub fn link_read(&mut self, result: io::Result<PathBuf>) -> ControlFlow<io::Result<OwnedFd>> {
        let asked = std::mem::replace(&mut self.asking, Asking::Nothing);
        match (asked, result) {
            (Asking::Link(..) | Asking::Itself(_), Ok(text)) => self
                .follow(text)
                .map_or_else(|code| Break(Err(errno(code))), Continue),
            (Asking::Link(_, code), Err(_)) => Break(Err(errno(code))),
            (Asking::Itself(file), Err(_)) => {
                // The operation that read the link has ended, so this is the only clone.
                let file = Arc::try_unwrap(file);
                Break(file.or_else(|shared| shared.try_clone()))
            }
            (Asking::Component(_) | Asking::Nothing, _) => panic!("the walk did not ask for this"),
        }
    }

    /// Puts the target of a symbolic link in front of what is left.
    fn follow(&mut self, text: PathBuf) -> Result<(), i32> {
        let is_last = self.left.is_empty();
        if self.resolve & RESOLVE_NO_SYMLINKS != 0 || (is_last && self.flags & O_NOFOLLOW != 0) {
            return Err(libc::ELOOP);
        }
        self.links += 1;
        if self.links > Walk::LINKS_MAX {
            return Err(libc::ELOOP);
        }
        let text = CString::new(text.into_os_string().into_vec()).map_err(|_| libc::ENOENT)?;
        self.enter(&text);
        Ok(())
    }

    fn enter(&mut self, path: &CStr) {
        let path = path.to_bytes();
        // A path that ends in a slash leads to a directory: to its entry `.`.
        if path.ends_with(b"/") {
            self.left.push(c".".to_owned());
        }
        let components = path.split(|&byte| byte == b'/');
        let components = components.filter(|component| !component.is_empty());
        let owned = |component| CString::new(component).expect("a part of a C string");
        self.left.extend(components.rev().map(owned));
        if path.starts_with(b"/") {
            self.left.push(ROOT.to_owned());
        }
    }

    /// Goes up for each `..`, and returns the next component to open.
    fn next_component(&mut self) -> io::Result<CString> {
        loop {
            let next = self.left.pop().ok_or_else(|| errno(libc::ENOENT))?;
            match next.as_bytes() {
                _ if *next == *ROOT => return Err(errno(libc::EXDEV)),
                b".." if self.inside.pop().is_none() => return Err(errno(libc::EXDEV)),
                // The end is a directory: open it again, with the flags of the walk.
                b"." | b".." if self.left.is_empty() => return Ok(c".".to_owned()),
                b"." | b".." => {}
                _ => return Ok(next),
            }
        }
    }

    fn directory(&self) -> WalkedFrom<F> {
        match self.inside.last() {
            Some(directory) => WalkedFrom::Inside(directory.clone()),
            None => WalkedFrom::Start(self.start.clone()),
        }
    }
}

fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}
