//! Opening a file below a directory, in order to send its contents.

use crate::ops::{FileStatus, Name, Open, OpenFile, OpenStat, Opened, ReadLink, StatFile};
use crate::walk::{Walk, WalkStep, WalkedFrom};
use libc::{O_NOCTTY, O_NONBLOCK, O_RDONLY};
use rustix::fs::{OFlags, fcntl_setfl};
use std::ffi::CString;
use std::io;
use std::ops::ControlFlow::{self, Break, Continue};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// Opens a name below a directory for reading, as a program does that publishes files: it waits for no writer of
/// a FIFO, reads the status, and lets reads of a regular file wait for the data.
///
/// As a [`Walk`], it makes no call itself: it says which operation comes next, and takes the result. Where
/// `openat2` is missing, the operations are those of a walk.
///
/// ```
/// use laio::below::{BelowStep, OpenBelow};
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
/// let root = std::sync::Arc::new(std::fs::File::open("/proc/self")?);
/// let mut opening = OpenBelow::new(root, c"comm".into(), libc::RESOLVE_BENEATH);
/// let (_file, status) = loop {
///     let after = match opening.step()? {
///         BelowStep::Open(open) => opening.opened(run(&mut context, open)),
///         BelowStep::Component(open) => opening.component_opened(run(&mut context, open)),
///         BelowStep::ReadLink(read) => opening.link_read(run(&mut context, read)),
///         BelowStep::Stat(stat) => opening.examined(run(&mut context, stat)),
///     };
///     if let ControlFlow::Break(found) = after {
///         break found?;
///     }
/// };
/// assert!(status.is_file());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct OpenBelow<F> {
    start: F,
    name: CString,
    resolve: u64,
    /// How often the open was repeated.
    races: u32,
    stage: Stage<F>,
}

#[derive(Debug)]
enum Stage<F> {
    Open,
    Walk(Walk<F>),
    Stat(OpenFile),
}

/// The next operation of an [`OpenBelow`].
#[derive(Debug)]
pub enum BelowStep<F: AsFd> {
    /// Its result is the argument of [`OpenBelow::opened`].
    Open(OpenStat<F>),
    /// Its result is the argument of [`OpenBelow::component_opened`].
    Component(Open<WalkedFrom<F>>),
    /// Its result is the argument of [`OpenBelow::link_read`].
    ReadLink(ReadLink<WalkedFrom<F>>),
    /// Its result is the argument of [`OpenBelow::examined`].
    Stat(StatFile<OpenFile>),
}

/// What a result leads to: a further step, or the end. A read in the background of a regular file waits for the
/// data; a file of another kind is still in non-blocking mode.
type After = ControlFlow<io::Result<(OpenFile, FileStatus)>>;

/// Opening a FIFO does not wait for a writer.
const FLAGS: i32 = O_RDONLY | O_NONBLOCK | O_NOCTTY;

impl OpenBelow<()> {
    /// How often a name is opened again after a race with a rename.
    pub const RACES_MAX: u32 = 16;
}

impl<F: AsFd + Clone> OpenBelow<F> {
    /// Opens `name` relative to `start`. `resolve`: `RESOLVE_*` bits of `openat2`, which say where symbolic links
    /// may lead; with 0, anywhere.
    pub fn new(start: F, name: CString, resolve: u64) -> OpenBelow<F> {
        OpenBelow {
            start,
            name,
            resolve,
            races: 0,
            stage: Stage::Open,
        }
    }

    /// Returns the next operation.
    ///
    /// # Errors
    /// Those of [`Walk::step`].
    pub fn step(&mut self) -> io::Result<BelowStep<F>> {
        match &mut self.stage {
            Stage::Open => {
                let name = Name::at(self.start.clone(), self.name.clone());
                let open = Open::new(name, FLAGS).resolve(self.resolve);
                Ok(BelowStep::Open(OpenStat::from(open)))
            }
            Stage::Walk(walk) => Ok(match walk.step()? {
                WalkStep::Open(open) => BelowStep::Component(open),
                WalkStep::ReadLink(read) => BelowStep::ReadLink(read),
            }),
            Stage::Stat(file) => Ok(BelowStep::Stat(StatFile::new(file.clone()))),
        }
    }

    /// Takes the result of [`BelowStep::Open`].
    pub fn opened(&mut self, result: io::Result<Opened>) -> After {
        let opened = match result {
            Ok(opened) => opened,
            Err(error) if Walk::replaces(&error, self.resolve) => {
                let walk = Walk::new(self.start.clone(), &self.name, FLAGS, self.resolve);
                self.stage = Stage::Walk(walk);
                return Continue(());
            }
            // A directory of the path was renamed meanwhile, so that the kernel could not verify that the
            // name stays below the start.
            Err(error) if is_race(&error) && self.races < OpenBelow::RACES_MAX => {
                self.races += 1;
                return Continue(());
            }
            Err(error) => return Break(Err(error)),
        };
        let (status, ignores_mode) = (opened.status().copied(), opened.is_stored());
        let file = OpenFile::from(opened.into_own_descriptor());
        match status {
            Some(status) => Break(ready(file, status, ignores_mode)),
            None => self.examine(file),
        }
    }

    /// Takes the result of [`BelowStep::Component`].
    ///
    /// # Panics
    /// If there was no such step.
    pub fn component_opened(&mut self, result: io::Result<OwnedFd>) -> After {
        let after = self.walk().opened(result);
        self.walked(after)
    }

    /// Takes the result of [`BelowStep::ReadLink`].
    ///
    /// # Panics
    /// If there was no such step.
    pub fn link_read(&mut self, result: io::Result<PathBuf>) -> After {
        let after = self.walk().link_read(result);
        self.walked(after)
    }

    /// Takes the result of [`BelowStep::Stat`].
    ///
    /// # Panics
    /// If there was no such step.
    pub fn examined(&mut self, result: io::Result<FileStatus>) -> After {
        let Stage::Stat(file) = &self.stage else {
            panic!("no status was asked for");
        };
        Break(result.and_then(|status| ready(file.clone(), status, false)))
    }

    fn walk(&mut self) -> &mut Walk<F> {
        match &mut self.stage {
            Stage::Walk(walk) => walk,
            _ => panic!("the name is not walked"),
        }
    }

    fn walked(&mut self, after: ControlFlow<io::Result<OwnedFd>>) -> After {
        match after {
            Continue(()) => Continue(()),
            Break(Ok(descriptor)) => self.examine(OpenFile::from(descriptor)),
            Break(Err(error)) => Break(Err(error)),
        }
    }

    fn examine(&mut self, file: OpenFile) -> After {
        self.stage = Stage::Stat(file);
        Continue(())
    }
}

/// `ignores_mode`: `O_NONBLOCK` has no effect on the file.
fn ready(
    file: OpenFile,
    status: FileStatus,
    ignores_mode: bool,
) -> io::Result<(OpenFile, FileStatus)> {
    if status.is_file() && !ignores_mode {
        // A read of the file itself may block: that happens in the background.
        fcntl_setfl(&file, OFlags::empty())?;
    }
    Ok((file, status))
}

fn is_race(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EAGAIN)
}
