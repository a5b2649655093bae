//! Looks at threads of this process, for programs that watch themselves.

use crate::description::Description;
use crate::proc_files::{BlockedCall, Position, ThreadFiles};
use crate::report::Cause;
#[cfg(feature = "watch")]
use crate::stack::{self, Frame};
#[cfg(feature = "watch")]
use crate::symbols::Symbols;
use crate::{calls, idle, mappings};
use std::fmt;
use std::io;
use std::time::Instant;

/// A thread of this process.
#[derive(Debug)]
pub struct OwnThread {
    tid: u32,
    files: ThreadFiles,
}

/// Where a thread was at one moment.
#[derive(Clone, Copy, Debug)]
pub struct OwnLook {
    /// How often the thread had got a processor. If it is the same in two looks, the thread did not run
    /// between them.
    pub turns: u64,
    /// How long it had run, in nanoseconds.
    pub run: u64,
    /// How long it had waited for a processor while it could have run, in nanoseconds.
    pub delay: u64,
    at: Instant,
    call: Option<BlockedCall>,
}

/// What a thread was in.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Why it did not go on. `None` if it ran, and if it is not known that it waited for a processor.
    pub cause: Option<Cause>,
    /// The name of the call, or what takes its place.
    pub call: &'static str,
    /// The file, the peer or the child; empty where there is no such thing.
    pub subject: String,
    /// What laio would do.
    pub remedy: &'static str,
}

impl OwnThread {
    /// Opens the files of a thread.
    ///
    /// # Errors
    /// If this process has no such thread, or `/proc` is not there.
    pub fn open(tid: u32) -> io::Result<OwnThread> {
        let files = ThreadFiles::open(std::process::id(), tid)?;
        Ok(OwnThread { tid, files })
    }

    /// Opens the files of the calling thread.
    ///
    /// # Errors
    /// If `/proc` is not there.
    pub fn current() -> io::Result<OwnThread> {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        OwnThread::open(tid as u32)
    }

    /// Its number.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Its name when it was opened.
    pub fn name(&self) -> &str {
        &self.files.name
    }

    /// Looks where it is. `None` if it has ended.
    pub fn look(&self) -> Option<OwnLook> {
        let times = self.files.times()?;
        let position = self.files.position()?;
        Some(OwnLook {
            turns: times.turns,
            run: times.run,
            delay: times.delay,
            at: Instant::now(),
            call: match position {
                Position::Running => None,
                Position::Blocked(call) => Some(call),
            },
        })
    }

    /// Finds out what it was in at a look. The file of a call is right if it is there still. An earlier look
    /// tells a thread that runs from one that has no processor.
    pub fn place(&self, look: &OwnLook, before: Option<&OwnLook>) -> Place {
        let Some(call) = look.call else {
            let has_waited = before.is_some_and(|before| look.has_waited_for_a_processor(before));
            return if has_waited {
                Place::no_processor()
            } else {
                Place::default()
            };
        };
        let pid = std::process::id();
        let description = Description::of(pid, self.tid, &self.files.name, &call);
        let description = description.complete(pid, None);
        Place {
            cause: Some(description.key.cause),
            call: description.key.call,
            remedy: description.remedy(&call),
            subject: description.key.subject,
        }
    }

    /// Returns the program's functions at a look, the innermost first. It reads the symbols of the files in
    /// which they are.
    #[cfg(feature = "watch")]
    pub fn stack(&self, look: &OwnLook) -> Vec<Frame> {
        let Some(call) = look.call else {
            return Vec::new();
        };
        let mut frames = stack::read(
            std::process::id(),
            &call,
            &mappings::read(std::process::id()),
        );
        let mut symbols = Symbols::default();
        frames.iter_mut().for_each(|frame| symbols.name(frame));
        frames
    }
}

impl OwnLook {
    /// Whether the thread, which was not blocked, has waited for a processor more than it has run. The kernel
    /// adds a wait to the delay when it ends.
    fn has_waited_for_a_processor(&self, before: &OwnLook) -> bool {
        let run = self.run.saturating_sub(before.run);
        let time = self.at.saturating_duration_since(before.at).as_nanos() as u64;
        let waits_still = self.turns == before.turns && run < time / 2;
        waits_still || self.delay.saturating_sub(before.delay) > run
    }

    /// Whether it was blocked.
    pub fn is_blocked(&self) -> bool {
        self.call.is_some()
    }

    /// Whether it waited in epoll, `poll`, `select`, a ring or Linux AIO.
    pub fn waits_for_events(&self) -> bool {
        self.call.as_ref().is_some_and(idle::is_for_events)
    }

    /// Whether it waited for another thread.
    pub fn waits_for_a_thread(&self) -> bool {
        self.call.as_ref().is_some_and(calls::is_futex)
    }

    /// How deep its stack was, in bytes; 0 if it was not blocked.
    pub fn depth(&self) -> u64 {
        let Some(call) = self.call else { return 0 };
        let mappings = mappings::read(std::process::id());
        let stack = mappings.iter().find(|mapping| mapping.contains(call.stack));
        stack.map_or(0, |stack| stack.end - call.stack)
    }
}

impl Place {
    fn no_processor() -> Place {
        Place {
            cause: Some(Cause::Processor),
            call: "no processor",
            subject: String::new(),
            remedy: calls::other_remedy(Cause::Processor, ""),
        }
    }
}

/// The call and its file.
impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.cause, self.subject.is_empty()) {
            (None, _) => formatter.write_str("running"),
            (Some(_), true) => formatter.write_str(self.call),
            (Some(_), false) => write!(formatter, "{} {}", self.call, self.subject),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_thread_that_reads_a_pipe() {
        let (mut from, mut to) = io::pipe().unwrap();
        let (say, thread) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            say.send(OwnThread::current().unwrap()).unwrap();
            from.read_exact(&mut [0]).unwrap();
        });
        let thread = thread.recv().unwrap();
        // Until it has come to the call, and not to a lock before it.
        let look = loop {
            let look = thread.look().unwrap();
            if thread.place(&look, None).call == "read" {
                break look;
            }
            std::thread::yield_now();
        };
        let place = thread.place(&look, None);
        assert_eq!(
            (place.cause, place.to_string()),
            (Some(Cause::Call), "read a pipe".to_owned())
        );
        assert_eq!(
            place.remedy,
            "laio attempts it, then waits on the ring or for readiness"
        );
        assert!(look.is_blocked() && !look.waits_for_events() && !look.waits_for_a_thread());
        assert!(look.depth() > 0);
        #[cfg(feature = "watch")]
        assert!(!thread.stack(&look).is_empty());
        to.write_all(&[0]).unwrap();
        reader.join().unwrap();
    }

    #[test]
    fn a_thread_that_runs() {
        let (say, thread) = std::sync::mpsc::channel();
        let ends = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let end = ends.clone();
        let runner = std::thread::spawn(move || {
            say.send(OwnThread::current().unwrap()).unwrap();
            while !end.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let thread = thread.recv().unwrap();
        let look = loop {
            let look = thread.look().unwrap();
            if !look.is_blocked() {
                break look;
            }
        };
        assert_eq!(thread.place(&look, None).to_string(), "running");
        #[cfg(feature = "watch")]
        assert!(thread.stack(&look).is_empty());
        assert_eq!(look.depth(), 0);
        let mut before = look;
        before.at -= std::time::Duration::from_secs(1);
        assert_eq!(
            thread.place(&look, Some(&before)).to_string(),
            "no processor"
        );
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
        runner.join().unwrap();
        assert!(OwnThread::open(u32::MAX).is_err());
    }
}
