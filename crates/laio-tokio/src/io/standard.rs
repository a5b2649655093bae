//! The standard streams of the process.

use super::Stream;
use crate::waiting::Waiting;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A handle to the standard input of the process.
///
/// All handles share what was read and not yet taken, so dropping a handle loses no byte. A byte goes to
/// one reader. What [`std::io::stdin`] has buffered is not seen here.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Stdin;

/// A handle to the standard output of the process. All handles share one order of writes. What
/// [`std::io::stdout`] has buffered is written when that is flushed.
///
/// A write may return before its bytes were written: call `flush` before the process ends.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Stdout;

/// A handle to the standard error of the process, as [`Stdout`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Stderr;

/// Returns a handle to the standard input of the process.
pub fn stdin() -> Stdin {
    Stdin
}

/// Returns a handle to the standard output of the process.
pub fn stdout() -> Stdout {
    Stdout
}

/// Returns a handle to the standard error of the process.
pub fn stderr() -> Stderr {
    Stderr
}

/// A standard stream, shared by its handles.
struct Shared {
    /// Of a duplicate of the descriptor; or the error of duplicating it.
    stream: Mutex<Result<Stream, i32>>,
    waiting: Arc<Waiting>,
}

impl Shared {
    fn new(descriptor: io::Result<OwnedFd>) -> Shared {
        let stream = descriptor.map(Stream::from);
        let errno = |error: io::Error| error.raw_os_error().unwrap_or(libc::EBADF);
        Shared {
            stream: Mutex::new(stream.map_err(errno)),
            waiting: Arc::default(),
        }
    }

    /// Polls the stream for one of its handles.
    fn poll<T>(
        &self,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut Stream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let mut stream = self
            .stream
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let stream = match &mut *stream {
            Ok(stream) => stream,
            Err(errno) => return Poll::Ready(Err(io::Error::from_raw_os_error(*errno))),
        };
        // An operation in flight wakes the handle that has polled it last; others may wait for it too.
        self.waiting.add(context.waker());
        let waker = Waker::from(self.waiting.clone());
        let polled = poll(Pin::new(stream), &mut Context::from_waker(&waker));
        if polled.is_ready() {
            self.waiting.wake_others(context.waker());
        }
        polled
    }
}

fn input() -> &'static Shared {
    static INPUT: OnceLock<Shared> = OnceLock::new();
    INPUT.get_or_init(|| Shared::new(io::stdin().as_fd().try_clone_to_owned()))
}

fn output() -> &'static Shared {
    static OUTPUT: OnceLock<Shared> = OnceLock::new();
    OUTPUT.get_or_init(|| Shared::new(io::stdout().as_fd().try_clone_to_owned()))
}

fn error() -> &'static Shared {
    static ERROR: OnceLock<Shared> = OnceLock::new();
    ERROR.get_or_init(|| Shared::new(io::stderr().as_fd().try_clone_to_owned()))
}

impl AsyncRead for Stdin {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        dst: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        input().poll(context, |stream, context| stream.poll_read(context, dst))
    }
}

macro_rules! writes_to {
    ($handle:ident, $shared:ident) => {
        impl AsyncWrite for $handle {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                src: &[u8],
            ) -> Poll<io::Result<usize>> {
                $shared().poll(context, |stream, context| stream.poll_write(context, src))
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                $shared().poll(context, |stream, context| stream.poll_flush(context))
            }

            fn poll_shutdown(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                self.poll_flush(context)
            }
        }
    };
}

writes_to!(Stdout, output);
writes_to!(Stderr, error);
