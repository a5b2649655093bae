//! Timed loops of system calls for `laio bench`, which contains no unsafe code: a call by number is
//! unsafe. Only with the feature `measure`.
//!
//! Each subject owns its descriptors. Its buffers are never freed, because the kernel may still write to them
//! after a failed measurement; they are few and small.
//!
//! Every loop is compiled once for each way of making the call, so that the same code measures the
//! plain call and the library's.

mod answered;
mod examined;
mod flight;
mod handoff;
mod inline;
mod sleeps;
mod usage;
mod window;

pub use answered::AnsweredRead;
pub use examined::OpenStatClose;
pub use flight::{BareRing, CachedBatch, ColdReads, ManyPipes};
pub use handoff::{BlockingReads, Held};
pub use inline::Inline;
pub use sleeps::Sleeps;
pub use usage::Usage;
pub use window::Getpids;

use crate::{Call, Context, Errno, Outcome, PollOptions};
use std::os::fd::{AsRawFd, OwnedFd};

/// The way in which a subject makes its calls.
#[derive(Debug)]
pub enum Via<'a> {
    /// By `syscall` of the C library, as in a program without laio.
    Plain,
    /// By the library's own system-call instruction alone.
    Direct,
    /// Through a context, waiting for the completion of a pending call. The context must have no
    /// other operation in flight.
    Context(&'a mut Context),
    /// On a bare io_uring.
    Ring(&'a mut BareRing),
}

/// A call that can be timed.
pub trait Subject {
    /// Makes `count` calls (or sets of calls). Returns the nanoseconds spent in them, without their
    /// preparation.
    ///
    /// # Errors
    /// The error of a call that did not have the expected result; `EOPNOTSUPP` if the subject does
    /// not support this way.
    fn run(&mut self, via: &mut Via<'_>, count: usize) -> Result<u64, Errno>;
}

/// Makes one call at a time and returns its result.
trait Caller {
    /// # Safety
    /// As for the system call; memory that its arguments point to is never freed.
    unsafe fn call(&mut self, call: &Call) -> Result<usize, Errno>;
}

struct Plain;

impl Caller for Plain {
    #[inline(always)]
    unsafe fn call(&mut self, call: &Call) -> Result<usize, Errno> {
        let [a, b, c, d, e, f] = call.args;
        // SAFETY: by the caller.
        let result = unsafe { libc::syscall(call.number as libc::c_long, a, b, c, d, e, f) };
        if result == -1 {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok(result as usize)
    }
}

struct Direct;

impl Caller for Direct {
    #[inline(always)]
    unsafe fn call(&mut self, call: &Call) -> Result<usize, Errno> {
        // SAFETY: by the caller.
        unsafe { call.plain() }
    }
}

impl Caller for &mut Context {
    #[inline(always)]
    unsafe fn call(&mut self, call: &Call) -> Result<usize, Errno> {
        // SAFETY: by the caller; the memory outlives the operation too.
        match unsafe { Context::call(self, *call) } {
            Outcome::Done(result) => result,
            Outcome::Pending(_) => the_completion(self),
        }
    }
}

/// The result of the only operation in flight.
fn the_completion(context: &mut Context) -> Result<usize, Errno> {
    let mut result = None;
    while result.is_none() {
        let delivered = context.poll_with(
            PollOptions {
                most: 1,
                ..PollOptions::default()
            },
            |completion| result = Some(completion.result),
        )?;
        if delivered == 0 && context.pending() == 0 {
            // Nothing is in flight, so no completion would ever arrive.
            return Err(Errno::IO);
        }
    }
    result.expect("the loop ends with one")
}

/// Fails unless a call moved the expected number of bytes.
#[inline(always)]
fn expect(result: Result<usize, Errno>, expected: usize) -> Result<(), Errno> {
    match result {
        Ok(value) if value == expected => Ok(()),
        Ok(_) => Err(Errno::IO),
        Err(errno) => Err(errno),
    }
}

/// Memory that is never freed.
fn leaked_buffer(bytes: usize) -> *mut u8 {
    Vec::leak(vec![0u8; bytes]).as_mut_ptr()
}

/// A descriptor as an argument.
fn word(fd: &OwnedFd) -> usize {
    fd.as_raw_fd() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendKind, Options};
    use std::io::Write;

    fn ways() -> Vec<Option<Context>> {
        let contexts = BackendKind::ALL.map(|kind| Options::new().backend(kind));
        let lazy = Options::new().backend(BackendKind::Lazy).ring(false);
        let contexts = contexts.into_iter().chain([lazy]).map(Context::new);
        // Back ends that are not available here are skipped.
        let contexts = contexts.filter_map(Result::ok).map(Some);
        std::iter::once(None).chain(contexts).collect()
    }

    fn run_everywhere(subject: &mut dyn Subject, count: usize) {
        for mut way in ways() {
            let name = format!("{way:?}");
            laio_testing::watchdog::step(&name);
            let mut via = match &mut way {
                None => Via::Plain,
                Some(context) => Via::Context(context),
            };
            let time = subject.run(&mut via, count);
            assert!(time.is_ok_and(|time| time > 0), "{name}: {time:?}");
            if let Some(context) = way {
                assert_eq!(context.pending(), 0, "{name}");
            }
        }
    }

    #[test]
    fn every_subject_runs_every_way() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[1; 1 << 18]).unwrap();
        let open = || OwnedFd::from(file.reopen().unwrap());
        let mut subjects: Vec<Box<dyn Subject>> = vec![
            Box::new(Inline::getpid()),
            Box::new(Inline::read_file(open(), 4096)),
            Box::new(Inline::write_file(open(), 4096)),
            Box::new(Inline::open_fstat_close(file.path()).unwrap()),
            Box::new(OpenStatClose::new(file.path()).unwrap()),
            Box::new(Inline::stat(file.path()).unwrap()),
            Box::new(Inline::receive(64).unwrap()),
            Box::new(Inline::receive(4096).unwrap()),
            Box::new(Inline::send(64).unwrap()),
            Box::new(Inline::send(4096).unwrap()),
            Box::new(Inline::write_pipe(64).unwrap()),
            Box::new(Inline::write_pipe(4096).unwrap()),
            Box::new(AnsweredRead::near(None).unwrap()),
            Box::new(AnsweredRead::far(None).unwrap()),
            Box::new(ColdReads::new(open(), 8).unwrap()),
            Box::new(CachedBatch::new(open(), 64).unwrap()),
            Box::new(ManyPipes::new(100).unwrap()),
            Box::new(Getpids::new(10)),
        ];
        for subject in &mut subjects {
            run_everywhere(subject.as_mut(), 200);
        }
        assert!(Inline::getpid().run(&mut Via::Direct, 10).is_ok());
    }

    #[test]
    fn a_pipe_that_holds_one_page_is_not_overfilled() {
        for bytes in [64, 4096] {
            let mut subject = Inline::write_pipe_of(4096, bytes).unwrap();
            run_everywhere(&mut subject, 200);
        }
        assert!(matches!(
            Inline::write_pipe_of(4096, 8192),
            Err(Errno::MSGSIZE)
        ));
    }

    #[test]
    fn a_bare_ring_runs_what_it_is_compared_in() {
        let mut ring = match BareRing::new() {
            Ok(ring) => ring,
            Err(errno) => return laio_testing::skip("io_uring", format!("no ring: {errno}")),
        };
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 1 << 18]).unwrap();
        let open = || OwnedFd::from(file.try_clone().unwrap());
        let mut subjects: Vec<Box<dyn Subject>> = vec![
            Box::new(AnsweredRead::near(None).unwrap()),
            Box::new(ColdReads::new(open(), 128).unwrap()),
            Box::new(CachedBatch::new(open(), 64).unwrap()),
            Box::new(ManyPipes::new(100).unwrap()),
        ];
        for subject in &mut subjects {
            assert!(subject.run(&mut Via::Ring(&mut ring), 300).is_ok());
        }
        let refused = Inline::getpid().run(&mut Via::Ring(&mut ring), 1);
        assert_eq!(refused, Err(Errno::OPNOTSUPP));
    }

    #[test]
    fn what_goes_wrong_is_reported() {
        let file = tempfile::tempfile().unwrap();
        let result = Inline::read_file(file.into(), 4096).run(&mut Via::Plain, 1);
        assert_eq!(result, Err(Errno::IO), "an empty file has nothing to read");
    }
}
