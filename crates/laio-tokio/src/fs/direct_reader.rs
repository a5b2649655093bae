//! Reads a file from one position on, past the page cache, with a read-ahead of its own.

use super::{Direct, File, RangeStats, RangesRead};
use bytes::Bytes;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io::{self, SeekFrom};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncSeek, ReadBuf};

/// The length of the first window after the beginning and after a seek.
const FIRST_WINDOW: u64 = 128 * 1024;

/// The length to which windows grow.
const LARGEST_WINDOW: u64 = 2 * 1024 * 1024;

/// The number of windows that are read ahead of the one that the program takes bytes of.
const AHEAD: usize = 2;

/// The largest position of a file.
const LARGEST_POSITION: u64 = i64::MAX as u64;

/// Reads a file in order, past the page cache, as `AsyncRead`, `AsyncBufRead` and `AsyncSeek`.
///
/// The kernel reads nothing ahead for direct reads, so each would wait for the device. This reads ahead
/// itself: the first window has 128 KiB, each further one twice as much, to 2 MiB. Two windows are in flight
/// while the program takes the bytes of a third; together they have at most 6.4 MiB of the
/// [pool](laio::ranges::set_pool_limit). A seek out of the windows cancels them. Programs that read here and
/// there use [`File::read_ranges_with`].
///
/// As with [`File::read_ranges_with`], the bytes are what plain reads returned when the window was read: what
/// is written to the window later is not seen. The end of the file is looked for when the program gets
/// there, so a file that grows can be read on.
///
/// ```
/// use laio_tokio::fs::{Direct, DirectReader, File};
/// use tokio::io::AsyncReadExt;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let mut reader = DirectReader::new(File::open("Cargo.toml").await?, Direct::Always);
/// let mut text = String::new();
/// reader.read_to_string(&mut text).await?;
/// assert!(text.starts_with("[package]"));
/// println!("{}", reader.stats().reason);
/// # Ok(())
/// # }
/// ```
pub struct DirectReader {
    file: Arc<File>,
    direct: Direct,
    /// Of the next byte for the program.
    position: u64,
    /// One after the other; the first has the position, or is at it.
    windows: VecDeque<Window>,
    /// The length of the next window.
    length: u64,
    /// Whether the program has taken bytes since it began, or since a seek out of the windows.
    is_in_order: bool,
    seek: Option<SeekFromEnd>,
    stats: RangeStats,
}

/// A part of the file.
struct Window {
    range: Range<u64>,
    state: State,
    /// Whether it was started for a program that waits for it: then it may find the end of the file.
    is_awaited: bool,
    /// Whether fewer bytes were there than asked for.
    is_short: bool,
}

enum State {
    InFlight(Running<RangesRead>),
    Read(Bytes),
    Failed(io::Error),
}

/// A seek that asks for the size of the file, and adds this.
struct SeekFromEnd(Running<u64>, i64);

type Running<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

impl DirectReader {
    /// A reader that begins at the beginning of the file, whatever the position of the file is. With
    /// [`Direct::Always`] it reads from the device where that is possible; with [`Direct::Auto`] files that
    /// are larger than half of the memory.
    pub fn new(file: File, direct: Direct) -> DirectReader {
        DirectReader {
            file: Arc::new(file),
            direct,
            position: 0,
            windows: VecDeque::new(),
            length: FIRST_WINDOW,
            is_in_order: false,
            seek: None,
            stats: RangeStats::default(),
        }
    }

    /// What was read until now, and why directly or not; also what was read ahead and not taken.
    #[must_use]
    pub fn stats(&self) -> RangeStats {
        self.stats
    }

    /// Returns the file. Cancels what is in flight, and forgets what was read ahead.
    pub fn into_file(self) -> File {
        drop((self.windows, self.seek));
        Arc::into_inner(self.file).expect("only reads in flight share the file")
    }

    /// Starts a window behind the last one.
    fn start(&mut self, is_awaited: bool) {
        let start = self
            .windows
            .back()
            .map_or(self.position, |last| last.range.end);
        let end = (start + self.length).next_multiple_of(FIRST_WINDOW);
        let range = start..end.min(LARGEST_POSITION);
        self.length = (self.length * 2).min(LARGEST_WINDOW);
        let (file, direct, wanted) = (Arc::clone(&self.file), self.direct, range.clone());
        let read = async move {
            let ranges = std::slice::from_ref(&wanted);
            file.read_ranges_with(ranges, direct).await
        };
        self.windows.push_back(Window {
            range,
            // One poll starts it, however much the task has done.
            state: State::InFlight(Box::pin(tokio::task::coop::unconstrained(read))),
            is_awaited,
            is_short: false,
        });
    }

    /// Forgets windows whose bytes were taken, and starts those that are missing.
    fn advance(&mut self, context: &mut Context<'_>) {
        while let Some(first) = self.windows.front()
            && matches!(first.state, State::Read(_))
            && first.range.end <= self.position
        {
            self.windows.pop_front();
        }
        if self.windows.is_empty() {
            self.start(true);
        }
        while self.is_in_order
            && self.windows.len() <= AHEAD
            && let Some(last) = self.windows.back()
            && !last.is_short
            && last.range.end < LARGEST_POSITION
        {
            self.start(false);
            let _ = self.poll_window(self.windows.len() - 1, context);
        }
    }

    /// Polls a window, and takes what was read.
    fn poll_window(&mut self, index: usize, context: &mut Context<'_>) -> Poll<()> {
        let window = &mut self.windows[index];
        let State::InFlight(read) = &mut window.state else {
            return Poll::Ready(());
        };
        window.state = match ready!(read.as_mut().poll(context)) {
            Err(error) => State::Failed(error),
            Ok(RangesRead { mut bytes, stats }) => {
                self.stats.add(&stats);
                let bytes = bytes.pop().unwrap_or_default();
                let end = window.range.start + bytes.len() as u64;
                window.is_short = end < window.range.end;
                window.range.end = end;
                State::Read(bytes)
            }
        };
        if window.is_short {
            // The file may have grown behind this end before the other windows were read.
            self.windows.truncate(index + 1);
            self.length = FIRST_WINDOW;
        }
        Poll::Ready(())
    }

    /// Waits for the first window. Returns whether the file ends at the position.
    fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            self.advance(context);
            if self.poll_window(0, context).is_pending() {
                // What needs several steps goes on meanwhile.
                let mut index = 1;
                while index < self.windows.len() {
                    let _ = self.poll_window(index, context);
                    index += 1;
                }
                return Poll::Pending;
            }
            let first = &mut self.windows[0];
            match &mut first.state {
                State::Failed(error) => {
                    let error = std::mem::replace(error, io::ErrorKind::Other.into());
                    self.forget();
                    return Poll::Ready(Err(error));
                }
                State::Read(_) if first.range.end > self.position => {
                    return Poll::Ready(Ok(false));
                }
                State::Read(_) if first.is_awaited && first.range.start == self.position => {
                    self.forget();
                    return Poll::Ready(Ok(true));
                }
                // Read ahead, and the file has ended before: it may have grown since.
                State::Read(_) | State::InFlight(_) => {}
            }
        }
    }

    /// Cancels what is in flight.
    fn forget(&mut self) {
        self.windows.clear();
        self.length = FIRST_WINDOW;
        self.is_in_order = false;
    }

    /// Moves the position. Windows that lie behind it stay.
    fn go(&mut self, position: u64) {
        self.position = position;
        let at = |window: &Window| window.range.contains(&position);
        match self.windows.iter().position(at) {
            Some(index) => drop(self.windows.drain(..index)),
            None => self.forget(),
        }
    }
}

impl AsyncBufRead for DirectReader {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let budget = ready!(tokio::task::coop::poll_proceed(context));
        let reader = self.get_mut();
        let is_end = ready!(reader.poll_first(context))?;
        budget.made_progress();
        Poll::Ready(Ok(match reader.windows.front() {
            Some(Window {
                range,
                state: State::Read(bytes),
                ..
            }) if !is_end => &bytes[(reader.position - range.start) as usize..],
            _ => &[],
        }))
    }

    fn consume(self: Pin<&mut Self>, count: usize) {
        let reader = self.get_mut();
        reader.position += count as u64;
        reader.is_in_order |= count > 0;
    }
}

impl AsyncRead for DirectReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        dst: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if dst.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let bytes = ready!(self.as_mut().poll_fill_buf(context))?;
        let count = bytes.len().min(dst.remaining());
        dst.put_slice(&bytes[..count]);
        self.consume(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for DirectReader {
    fn start_seek(self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        let reader = self.get_mut();
        let position = match to {
            SeekFrom::Start(position) => valid(Some(position))?,
            SeekFrom::Current(offset) => valid(reader.position.checked_add_signed(offset))?,
            SeekFrom::End(offset) => {
                let file = Arc::clone(&reader.file);
                let size = async move { Ok(file.metadata().await?.len()) };
                reader.seek = Some(SeekFromEnd(Box::pin(size), offset));
                return Ok(());
            }
        };
        reader.seek = None;
        reader.go(position);
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let reader = self.get_mut();
        if let Some(SeekFromEnd(size, offset)) = &mut reader.seek {
            let (size, offset) = (ready!(size.as_mut().poll(context)), *offset);
            reader.seek = None;
            let position = valid(size?.checked_add_signed(offset))?;
            reader.go(position);
        }
        Poll::Ready(Ok(reader.position))
    }
}

/// A position to which a file can be moved, as `lseek` says.
fn valid(position: Option<u64>) -> io::Result<u64> {
    let position = position.filter(|&position| position <= LARGEST_POSITION);
    position.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

impl fmt::Debug for DirectReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectReader")
            .field("file", &self.file)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
