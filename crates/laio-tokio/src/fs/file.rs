//! An open file with a position: `AsyncRead`, `AsyncWrite` and `AsyncSeek`, as `tokio::fs::File`.
//!
//! A read or write is attempted on the memory that the caller lends. What would block becomes an
//! operation on memory of the file's own ([`Busy`]), because the caller may take its memory back.

use super::direct_ranges::Devices;
use super::metadata;
use super::opened::Opened;
use super::writing::Writing;
use super::{FileTimes, OpenOptions};
use crate::waiting::Waiting;
use crate::{proactor, run};
use laio::Submission;
use laio::ops::{Fsync, OpenFile, Read, Seek, SetMode, Truncate, Whence};
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
///
/// Dropping the future of a read, write, flush or seek loses no byte: the file keeps the operation in flight,
/// and the next call goes on with it.
pub struct File {
    pub(super) open: Opened,
    pub(super) devices: Devices,
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
    /// The end of the file or the error that a read has found, and that no caller has got.
    read_end: Option<io::Result<()>>,
    last_write_err: Option<io::Error>,
    pos: u64,
    waiting: Arc<Waiting>,
}

/// The operation in flight.
enum Busy {
    Idle,
    Reading(Submission<Read<OpenFile, Vec<u8>>>),
    Writing(Writing),
    Seeking(Submission<Seek<OpenFile>>),
    /// A seek back to the first byte that was read and not taken, before a write or a change of the length.
    GoingBack(Submission<Seek<OpenFile>>),
    /// A seek that was done at once, and whose result `poll_complete` has not returned yet.
    Sought(io::Result<u64>),
}

/// What the operation in flight has done.
enum Over {
    /// [`Inner::read`] or [`Inner::read_end`] has the result.
    Read,
    Written(io::Result<()>),
    Sought(io::Result<u64>),
    WentBack(io::Result<()>),
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
            open: open.into(),
            devices: Devices::default(),
            state: Mutex::new(Inner {
                busy: Busy::Idle,
                read: Vec::new(),
                taken: 0,
                read_end: None,
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
        self.go_back().await?;
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
        self.go_back().await?;
        let descriptor = self.open.as_fd().try_clone_to_owned()?;
        let mut file = File::from_open(OpenFile::from(descriptor));
        file.set_max_buf_size(self.max_buf_size);
        Ok(file)
    }

    /// Converts this into a file of the standard library, after the operation in flight. Its position is
    /// before the bytes that a read whose future was dropped has read; those of a pipe are lost.
    pub async fn into_std(self) -> StdFile {
        self.complete_inflight().await;
        let _ = self.go_back().await;
        match self.try_into_std() {
            Ok(std) => std,
            Err(file) => {
                // An operation that was cancelled still has the descriptor, or bytes of a pipe are left.
                let copy = file.open.as_fd().try_clone_to_owned();
                StdFile::from(copy.expect("no descriptor is left for `into_std`"))
            }
        }
    }

    /// Tries to convert this into a file of the standard library at once.
    ///
    /// # Errors
    /// Returns the file if an operation is in flight, or if it has bytes of a pipe that were read by a read
    /// whose future was dropped.
    #[allow(clippy::result_large_err, reason = "the signature is tokio's")]
    pub fn try_into_std(self) -> Result<StdFile, File> {
        if !lock(&self.state).is_even(&self.open) {
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
                inner.last_write_err = Some(error);
            }
            let waiting = inner.waiting.clone();
            drop(inner);
            waiting.wake_others(context.waker());
            Poll::Ready(())
        })
        .await;
    }

    /// Moves the position of the file to the first byte that was read and not taken.
    async fn go_back(&self) -> io::Result<()> {
        poll_fn(|context| lock(&self.state).poll_go_back(&self.open, context)).await
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
                self.read_end = match result {
                    Ok(0) => Some(Ok(())),
                    Ok(_) => None,
                    Err(error) => Some(Err(error)),
                };
                Over::Read
            }
            Busy::Writing(write) => {
                let (result, bytes) = ready!(write.poll(context));
                // Bytes that were read before a write to a stream are still there.
                if self.read.is_empty() {
                    (self.read, self.taken) = (bytes, 0);
                }
                Over::Written(result)
            }
            Busy::Seeking(seek) => {
                let result = ready!(Pin::new(seek).poll(context));
                if result.is_ok() {
                    self.discard_read();
                }
                Over::Sought(result)
            }
            Busy::GoingBack(seek) => {
                let result = ready!(Pin::new(seek).poll(context));
                Over::WentBack(self.went_back(result))
            }
            Busy::Sought(result) => Over::Sought(std::mem::replace(result, Ok(0))),
        };
        self.busy = Busy::Idle;
        Poll::Ready(Some(over))
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = self.last_write_err.take() {
            return Poll::Ready(Err(error));
        }
        match ready!(self.poll_over(context)) {
            Some(Over::Written(result)) => Poll::Ready(result),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// The number of bytes that were read and not taken.
    fn unread(&self) -> i64 {
        (self.read.len() - self.taken) as i64
    }

    /// Forgets what was read and not taken.
    fn discard_read(&mut self) {
        self.read.clear();
        self.taken = 0;
        self.read_end = None;
    }

    /// Moves the position of the file to the first byte that was read and not taken: that is the position of
    /// the program.
    fn poll_go_back(&mut self, open: &OpenFile, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Busy::GoingBack(seek) = &mut self.busy {
            let result = ready!(Pin::new(seek).poll(context));
            self.busy = Busy::Idle;
            return Poll::Ready(self.went_back(result));
        }
        if self.unread() == 0 {
            return Poll::Ready(Ok(()));
        }
        let whence = Whence::Current(-self.unread());
        let mut seek = proactor()?.submit(Seek::new(open.clone(), whence));
        match Pin::new(&mut seek).poll(context) {
            Poll::Ready(result) => Poll::Ready(self.went_back(result)),
            Poll::Pending => {
                self.busy = Busy::GoingBack(seek);
                Poll::Pending
            }
        }
    }

    fn went_back(&mut self, result: io::Result<u64>) -> io::Result<()> {
        match result {
            Ok(_) => self.discard_read(),
            // A stream has no position: what was read stays for the next read.
            Err(error) if error.raw_os_error() == Some(libc::ESPIPE) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether no operation is in flight, and the position of the file is that of the program.
    fn is_even(&mut self, open: &OpenFile) -> bool {
        let is_idle = matches!(self.busy, Busy::Idle | Busy::Sought(_));
        let mut context = Context::from_waker(Waker::noop());
        is_idle
            && matches!(self.poll_go_back(open, &mut context), Poll::Ready(Ok(())))
            && self.unread() == 0
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
        let mut memory = match self.unread() {
            0 => std::mem::take(&mut self.read),
            _ => return Vec::with_capacity(capacity),
        };
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
            ..
        } = self.get_mut();
        let inner = state
            .get_mut()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        loop {
            match ready!(inner.poll_over(context)) {
                Some(Over::Written(Err(error))) => inner.last_write_err = Some(error),
                Some(Over::Sought(Ok(pos))) => inner.pos = pos,
                Some(
                    Over::Read | Over::Written(Ok(())) | Over::Sought(Err(_)) | Over::WentBack(_),
                ) => {}
                None => {
                    if !inner.read.is_empty() || dst.remaining() == 0 {
                        inner.give(dst);
                        budget.made_progress();
                        return Poll::Ready(Ok(()));
                    }
                    if let Some(end) = inner.read_end.take() {
                        budget.made_progress();
                        return Poll::Ready(end);
                    }
                    let length = dst.remaining().min(*most);
                    let proactor = proactor()?;
                    let free = dst.initialize_unfilled_to(length);
                    if let Some(result) = proactor.try_read(open, free) {
                        budget.made_progress();
                        return Poll::Ready(result.map(|count| dst.advance(count)));
                    }
                    let memory = inner.memory(length);
                    inner.busy =
                        Busy::Reading(crate::submission(proactor, Read::new(open.clone(), memory)));
                }
            }
        }
    }
}

impl File {
    /// Waits for the operation before a write. Returns its error.
    fn poll_ready_to_write(inner: &mut Inner, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(error) = inner.last_write_err.take() {
            return Poll::Ready(Err(error));
        }
        while let Some(over) = ready!(inner.poll_over(context)) {
            if let Over::Written(Err(error)) | Over::WentBack(Err(error)) = over {
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
            ..
        } = self;
        let most = *most;
        let inner = state
            .get_mut()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        ready!(File::poll_ready_to_write(inner, context))?;
        budget.made_progress();
        let proactor = proactor()?;
        ready!(inner.poll_go_back(open, context))?;
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
        let mut write = Writing::new(proactor, open, memory);
        // Starts it. If it is over, the next call notices.
        let polled = write.poll(&mut Context::from_waker(Waker::noop()));
        let done = write.done();
        match polled {
            Poll::Pending => inner.busy = Busy::Writing(write),
            Poll::Ready((Err(error), _)) if done == 0 => return Poll::Ready(Err(error)),
            Poll::Ready((Err(error), _)) => {
                inner.last_write_err = Some(error);
                return Poll::Ready(Ok(done));
            }
            Poll::Ready((Ok(()), _)) => {}
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
        let unread = inner.unread();
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
            Poll::Ready(result) => {
                if result.is_ok() {
                    inner.discard_read();
                }
                Busy::Sought(result)
            }
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
                Some(Over::Written(Err(error))) => inner.last_write_err = Some(error),
                Some(Over::Read | Over::Written(Ok(())) | Over::WentBack(_)) => {}
            }
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Busy::Writing(write) = std::mem::replace(&mut self.inner().busy, Busy::Idle) {
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
            .field("std", self.open.as_std())
            .finish()
    }
}
