//! An open file with a position: `AsyncRead`, `AsyncWrite` and `AsyncSeek`, as `tokio::fs::File`.
//!
//! A read or write is attempted on the memory that the caller lends. What would block becomes an
//! operation on memory of the file's own ([`Busy`]), because the caller may take its memory back.

use super::metadata;
use super::{FileTimes, OpenOptions};
use crate::waiting::Waiting;
use crate::{proactor, run};
use laio::Submission;
use laio::ops::{Fsync, OpenFile, Read, Seek, SetMode, Truncate, Whence, Write};
use std::fmt;
use std::fs::{File as StdFile, Metadata, Permissions};
use std::future::poll_fn;
use std::io::{self, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

/// A reference to an open file on the filesystem.
///
/// As with `tokio::fs::File`, a write may return before the data was written: call
/// [`flush`](https://docs.rs/tokio/latest/tokio/io/trait.AsyncWriteExt.html#method.flush) to wait for it and
/// for its error. A write in flight is finished although the file is dropped.
pub struct File {
    pub(super) open: OpenFile,
    state: Mutex<Inner>,
    max_buf_size: usize,
}

/// The size of the largest operation on memory of the file's own, as in tokio.
const DEFAULT_MAX_BUF_SIZE: usize = 2 * 1024 * 1024;

struct Inner {
    busy: Busy,
    /// Bytes read beyond what the caller has taken, from `taken` on.
    read: Vec<u8>,
    taken: usize,
    last_write_err: Option<io::ErrorKind>,
    pos: u64,
    waiting: Arc<Waiting>,
}

/// The operation in flight.
enum Busy {
    Idle,
    Reading(Submission<Read<OpenFile, Vec<u8>>>),
    Writing(Submission<Write<OpenFile, Vec<u8>>>, usize),
    Seeking(Submission<Seek<OpenFile>>),
    /// A seek that was done at once, and whose result `poll_complete` has not returned yet.
    Sought(io::Result<u64>),
}

/// What the operation in flight has done.
enum Over {
    Read(io::Result<usize>),
    Written(io::Result<()>),
    Sought(io::Result<u64>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl File {
    /// Attempts to open a file in read-only mode.
    ///
    /// # Errors
    /// Those of [`OpenOptions::open`].
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Opens a file in write-only mode. Creates it, or truncates it if it exists.
    ///
    /// # Errors
    /// Those of [`OpenOptions::open`].
    pub async fn create(path: impl AsRef<Path>) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        options.open(path).await
    }

    /// Opens a file in read-write mode. Fails if it exists.
    ///
    /// # Errors
    /// Those of [`OpenOptions::open`].
    pub async fn create_new(path: impl AsRef<Path>) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.open(path).await
    }

    /// Returns a new [`OpenOptions`] object.
    #[must_use]
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Converts a file of the standard library.
    pub fn from_std(std: StdFile) -> File {
        File::from_open(OpenFile::from(std))
    }

    pub(crate) fn from_open(open: OpenFile) -> File {
        File {
            open,
            state: Mutex::new(Inner {
                busy: Busy::Idle,
                read: Vec::new(),
                taken: 0,
                last_write_err: None,
                pos: 0,
                waiting: Arc::default(),
            }),
            max_buf_size: DEFAULT_MAX_BUF_SIZE,
        }
    }

    /// Attempts to sync all data and metadata to disk.
    ///
    /// # Errors
    /// Those of `fsync`.
    pub async fn sync_all(&self) -> io::Result<()> {
        self.complete_inflight().await;
        run(Fsync::new(self.open.clone())).await
    }

    /// Attempts to sync the data to disk, and of the metadata what is needed to read it again.
    ///
    /// # Errors
    /// Those of `fdatasync`.
    pub async fn sync_data(&self) -> io::Result<()> {
        self.complete_inflight().await;
        run(Fsync::data(self.open.clone())).await
    }

    /// Truncates or extends the file.
    ///
    /// # Errors
    /// `InvalidInput` if the file is not open for writing.
    pub async fn set_len(&self, size: u64) -> io::Result<()> {
        self.complete_inflight().await;
        let unread = lock(&self.state).discard_read();
        if unread > 0 {
            run(Seek::new(self.open.clone(), Whence::Current(-unread))).await?;
        }
        run(Truncate::new(self.open.clone(), size)).await?;
        // As tokio, which returns the result of this as that of a seek.
        lock(&self.state).pos = 0;
        Ok(())
    }

    /// Queries the metadata of the file.
    ///
    /// # Errors
    /// Those of `fstat`.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        metadata::of_open(self.open.clone()).await
    }

    /// Creates a new `File` that shares the file and its position with this one.
    ///
    /// # Errors
    /// Those of `dup`.
    pub async fn try_clone(&self) -> io::Result<File> {
        self.complete_inflight().await;
        let descriptor = self.open.as_fd().try_clone_to_owned()?;
        let mut file = File::from_open(OpenFile::from(descriptor));
        file.set_max_buf_size(self.max_buf_size);
        Ok(file)
    }

    /// Converts this into a file of the standard library, after the operation in flight.
    pub async fn into_std(self) -> StdFile {
        self.complete_inflight().await;
        match self.try_into_std() {
            Ok(std) => std,
            Err(file) => {
                // An operation that was cancelled still has the descriptor.
                let copy = file.open.as_fd().try_clone_to_owned();
                StdFile::from(copy.expect("no descriptor is left for `into_std`"))
            }
        }
    }

    /// Tries to convert this into a file of the standard library at once.
    ///
    /// # Errors
    /// Returns the file if an operation is in flight.
    #[allow(clippy::result_large_err, reason = "the signature is tokio's")]
    pub fn try_into_std(self) -> Result<StdFile, File> {
        if !matches!(lock(&self.state).busy, Busy::Idle | Busy::Sought(_)) {
            return Err(self);
        }
        let File { max_buf_size, .. } = self;
        // `Drop` of a file that is idle does nothing.
        let open = self.open.clone();
        drop(self);
        match open.try_into_owned() {
            Ok(descriptor) => Ok(StdFile::from(descriptor)),
            Err(open) => {
                let mut file = File::from_open(open);
                file.max_buf_size = max_buf_size;
                Err(file)
            }
        }
    }

    /// Changes the permissions of the file.
    ///
    /// # Errors
    /// `PermissionDenied` if the file belongs to another user.
    pub async fn set_permissions(&self, perm: Permissions) -> io::Result<()> {
        run(SetMode::new(self.open.clone(), perm.mode())).await
    }

    /// Changes the times of the file.
    ///
    /// # Errors
    /// `PermissionDenied` if the file belongs to another user.
    pub async fn set_times(&self, times: FileTimes) -> io::Result<()> {
        self.complete_inflight().await;
        run(times.set(self.open.clone())).await
    }

    /// Changes the time of the last modification.
    ///
    /// # Errors
    /// Those of [`File::set_times`].
    pub async fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.set_times(FileTimes::new().set_modified(time)).await
    }

    /// Sets the maximum size of an operation on memory of the file's own.
    ///
    /// # Panics
    /// If it is 0.
    #[track_caller]
    pub fn set_max_buf_size(&mut self, max_buf_size: usize) {
        assert!(max_buf_size > 0, "`max_buf_size` must be greater than 0");
        self.max_buf_size = max_buf_size;
    }

    /// Returns the maximum size of an operation on memory of the file's own.
    pub fn max_buf_size(&self) -> usize {
        self.max_buf_size
    }

    /// Waits for the operation in flight. An error of a write is kept for the next write or flush.
    async fn complete_inflight(&self) {
        poll_fn(|context| {
            let mut inner = lock(&self.state);
            // Methods that borrow the file may wait at the same time.
            inner.waiting.add(context.waker());
            let waker = Waker::from(inner.waiting.clone());
            let flushed = ready!(inner.poll_flush(&mut Context::from_waker(&waker)));
            if let Err(error) = flushed {
                inner.last_write_err = Some(error.kind());
            }
            let waiting = inner.waiting.clone();
            drop(inner);
            waiting.wake_others(context.waker());
            Poll::Ready(())
        })
        .await;
    }

    fn inner(&mut self) -> &mut Inner {
        self.state
            .get_mut()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Inner {
    /// Polls the operation in flight; `None` if there is none.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<Option<Over>> {
        let over = match &mut self.busy {
            Busy::Idle => return Poll::Ready(None),
            Busy::Reading(read) => {
                let (result, bytes) = ready!(Pin::new(read).poll(context));
                (self.read, self.taken) = (bytes, 0);
                Over::Read(result)
            }
            Busy::Writing(write, length) => {
                let length = *length;
                let (result, mut bytes) = ready!(Pin::new(write).poll(context));
                bytes.clear();
                (self.read, self.taken) = (bytes, 0);
                Over::Written(match result {
                    // An error came after some of the bytes; the next call reports it.
                    Ok(count) if count < length => Err(io::ErrorKind::WriteZero.into()),
                    result => result.map(drop),
                })
            }
            Busy::Seeking(seek) => Over::Sought(ready!(Pin::new(seek).poll(context))),
            Busy::Sought(result) => Over::Sought(std::mem::replace(result, Ok(0))),
        };
        self.busy = Busy::Idle;
        Poll::Ready(Some(over))
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.last_write_err.take() {
            return Poll::Ready(Err(error.into()));
        }
        match ready!(self.poll_over(context)) {
            Some(Over::Written(result)) => Poll::Ready(result),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Forgets the bytes that were read and not taken; returns their number.
    fn discard_read(&mut self) -> i64 {
        let unread = self.read.len() - self.taken;
        self.read.clear();
        self.taken = 0;
        unread as i64
    }

    /// Copies bytes that were read before.
    fn give(&mut self, dst: &mut ReadBuf<'_>) {
        let unread = &self.read[self.taken..];
        let count = unread.len().min(dst.remaining());
        dst.put_slice(&unread[..count]);
        self.taken += count;
        if self.taken == self.read.len() {
            self.read.clear();
            self.taken = 0;
        }
    }

    /// Memory for an operation, if the last one has left any.
    fn memory(&mut self, capacity: usize) -> Vec<u8> {
        let mut memory = std::mem::take(&mut self.read);
        self.taken = 0;
        memory.clear();
        if memory.capacity() > capacity {
            // A read fills the capacity.
            memory = Vec::new();
        }
        memory.reserve_exact(capacity);
        memory
    }
}

impl AsyncRead for File {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        dst: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let budget = ready!(tokio::task::coop::poll_proceed(context));
        let File {
            open,
            state,
            max_buf_size: most,
        } = self.get_mut();
        let inner = state
            .get_mut()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        loop {
            match ready!(inner.poll_over(context)) {
                Some(Over::Read(Err(error))) => {
                    budget.made_progress();
                    return Poll::Ready(Err(error));
                }
                Some(Over::Read(Ok(_))) => {
                    // Also at the end of the file.
                    inner.give(dst);
                    budget.made_progress();
                    return Poll::Ready(Ok(()));
                }
                Some(Over::Written(Err(error))) => inner.last_write_err = Some(error.kind()),
                Some(Over::Sought(Ok(pos))) => inner.pos = pos,
                Some(Over::Written(Ok(())) | Over::Sought(Err(_))) => {}
                None => {
                    if !inner.read.is_empty() || dst.remaining() == 0 {
                        inner.give(dst);
                        budget.made_progress();
                        return Poll::Ready(Ok(()));
                    }
                    let proactor = proactor()?;
                    if let Some(result) = proactor.try_read(open, dst.initialize_unfilled()) {
                        budget.made_progress();
                        return Poll::Ready(result.map(|count| dst.advance(count)));
                    }
                    let memory = inner.memory(dst.remaining().min(*most));
                    inner.busy = Busy::Reading(proactor.submit(Read::new(open.clone(), memory)));
                }
            }
        }
    }
}

impl File {
    /// Waits for the operation before a write. Returns its error.
    fn poll_ready_to_write(inner: &mut Inner, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = inner.last_write_err.take() {
            return Poll::Ready(Err(error.into()));
        }
        while let Some(over) = ready!(inner.poll_over(context)) {
            if let Over::Written(Err(error)) = over {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes the first bytes of `slices`, or begins to.
    fn write_some<'a>(
        &mut self,
        context: &mut Context<'_>,
        mut slices: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Poll<io::Result<usize>> {
        let budget = ready!(tokio::task::coop::poll_proceed(context));
        let File {
            open,
            state,
            max_buf_size: most,
        } = self;
        let most = *most;
        let inner = state
            .get_mut()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        ready!(File::poll_ready_to_write(inner, context))?;
        budget.made_progress();
        let proactor = proactor()?;
        if !inner.read.is_empty() {
            // The position of the file is that of the bytes that the program has taken.
            let whence = Whence::Current(-inner.discard_read());
            let mut seek = proactor.submit(Seek::new(open.clone(), whence));
            match Pin::new(&mut seek).poll(context) {
                Poll::Ready(result) => drop(result?),
                Poll::Pending => {
                    inner.busy = Busy::Seeking(seek);
                    return Poll::Pending;
                }
            }
        }
        let attempt = slices.clone().find(|slice| !slice.is_empty());
        let Some(first) = attempt else {
            return Poll::Ready(Ok(0));
        };
        if let Some(result) = proactor.try_write(open, &first[..first.len().min(most)]) {
            return Poll::Ready(result);
        }
        let total: usize = slices.clone().map(<[u8]>::len).sum();
        let length = total.min(most);
        let mut memory = inner.memory(length);
        while memory.len() < length
            && let Some(slice) = slices.next()
        {
            let left = length - memory.len();
            memory.extend_from_slice(&slice[..slice.len().min(left)]);
        }
        let mut write = proactor.submit(Write::new(open.clone(), memory));
        // Starts it. If it is over, the next call notices.
        let polled = Pin::new(&mut write).poll(&mut Context::from_waker(Waker::noop()));
        match polled {
            Poll::Pending => inner.busy = Busy::Writing(write, length),
            Poll::Ready((result, mut bytes)) => {
                bytes.clear();
                inner.read = bytes;
                return Poll::Ready(result);
            }
        }
        Poll::Ready(Ok(length))
    }
}

impl AsyncWrite for File {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        src: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().write_some(context, std::iter::once(src))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .write_some(context, slices.iter().map(|slice| &**slice))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().inner().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

impl AsyncSeek for File {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        let file = self.get_mut();
        let open = file.open.clone();
        let inner = file.inner();
        if !matches!(inner.busy, Busy::Idle) {
            return Err(io::Error::other(
                "other file operation is pending, call poll_complete before start_seek",
            ));
        }
        let unread = inner.discard_read();
        let whence = match position {
            SeekFrom::Start(offset) => Whence::Start(offset),
            SeekFrom::End(offset) => Whence::End(offset),
            // The program's position is before the bytes that it has not taken.
            SeekFrom::Current(offset) => match offset.checked_sub(unread) {
                Some(offset) => Whence::Current(offset),
                None => return Err(io::ErrorKind::InvalidInput.into()),
            },
        };
        let mut seek = proactor()?.submit(Seek::new(open, whence));
        let polled = Pin::new(&mut seek).poll(&mut Context::from_waker(Waker::noop()));
        inner.busy = match polled {
            Poll::Ready(result) => Busy::Sought(result),
            Poll::Pending => Busy::Seeking(seek),
        };
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let inner = self.get_mut().inner();
        loop {
            match ready!(inner.poll_over(context)) {
                None => return Poll::Ready(Ok(inner.pos)),
                Some(Over::Sought(result)) => {
                    if let Ok(pos) = result {
                        inner.pos = pos;
                    }
                    return Poll::Ready(result);
                }
                Some(Over::Written(Err(error))) => inner.last_write_err = Some(error.kind()),
                Some(Over::Read(_) | Over::Written(Ok(()))) => {}
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Busy::Writing(write, _) = std::mem::replace(&mut self.inner().busy, Busy::Idle) {
            write.detach();
        }
    }
}

impl From<StdFile> for File {
    fn from(std: StdFile) -> File {
        File::from_std(std)
    }
}

impl From<OwnedFd> for File {
    fn from(descriptor: OwnedFd) -> File {
        File::from_open(OpenFile::from(descriptor))
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.open.as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.open.as_raw_fd()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("laio_tokio::fs::File")
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}
