//! A future of a read is dropped at each point between its start and the delivery of its bytes: no byte is lost.

use crate::support::{directory, on_each_runtime};
use laio_testing::limit::wait_until;
use laio_testing::or_skip;
use laio_testing::temp::{pipe, stream_pair, terminal};
use laio_tokio::fs::File;
use laio_tokio::io::Stream;
use std::fs::File as StdFile;
use std::future::Future;
use std::io::{SeekFrom, Write};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufReader};
use tokio::task::unconstrained;

const LIMIT: Duration = Duration::from_secs(60);

/// Where a future is dropped.
#[derive(Clone, Copy, Debug)]
enum At {
    /// It was not polled.
    NotPolled,
    /// Its operation waits.
    Waiting,
    /// There are bytes, and the driver may have read them or not.
    Racing,
    /// The driver has read them, and has woken the task.
    Woken,
}

const POINTS: [At; 4] = [At::NotPolled, At::Waiting, At::Racing, At::Woken];

/// Counts how often it was woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Count>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Polls a future, lets bytes arrive, and drops the future at that point. Returns its output if it had one.
fn dropped_at<F: Future>(at: At, future: F, arrive: impl FnOnce()) -> Option<F::Output> {
    let woken = Arc::new(Count::default());
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    // A task that has used up its budget gets Pending, and its wakeup only when it returns to the runtime.
    let mut future = pin!(unconstrained(future));
    if !matches!(at, At::NotPolled)
        && let Poll::Ready(output) = future.as_mut().poll(&mut context)
    {
        return Some(output);
    }
    if !matches!(at, At::Waiting) {
        arrive();
    }
    if matches!(at, At::Woken) {
        assert!(wait_until(LIMIT, || woken.0.load(SeqCst) > 0));
    }
    None
}

/// Reads numbered bytes through reads that are dropped, and checks that each comes once.
async fn loses_nothing(mut from: impl AsyncRead + Unpin, mut to: StdFile, kind: &str) {
    let mut next = 0u8;
    for round in 0..60 {
        let at = POINTS[round % POINTS.len()];
        let sent: Vec<u8> = (0..5).map(|more| next.wrapping_add(more)).collect();
        let mut buffer = [0; 3];
        let early = dropped_at(at, from.read(&mut buffer), || to.write_all(&sent).unwrap());
        assert!(early.is_none(), "{kind}, {at:?}: nothing was there");
        if matches!(at, At::Waiting) {
            to.write_all(&sent).unwrap();
        }
        let mut found = [0; 5];
        from.read_exact(&mut found).await.unwrap();
        assert_eq!(found, sent[..], "{kind}, {at:?}");
        next = next.wrapping_add(5);
    }
    drop(to);
}

#[test]
fn a_read_that_is_dropped_anywhere_loses_nothing() {
    on_each_runtime(|| async {
        let (from, to) = pipe();
        loses_nothing(Stream::from(from), to.into(), "pipe").await;
        let (from, to) = pipe();
        loses_nothing(File::from(from), to.into(), "file of a pipe").await;
        let (from, to) = stream_pair();
        loses_nothing(Stream::from(from), to.into(), "socket").await;
        let (from, to) = pipe();
        loses_nothing(BufReader::new(Stream::from(from)), to.into(), "buffered").await;
    });
}

#[test]
fn lines_of_a_terminal_survive() {
    let Some((master, slave)) = or_skip(terminal()) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut master = StdFile::from(master);
    let mut lines = BufReader::new(Stream::from(slave)).lines();
    for round in 0..20 {
        let at = POINTS[round % POINTS.len()];
        let line = format!("line {round}");
        let send = |master: &mut StdFile| writeln!(master, "{line}").unwrap();
        let early = dropped_at(at, lines.next_line(), || send(&mut master));
        assert!(early.is_none(), "{at:?}");
        if matches!(at, At::Waiting) {
            send(&mut master);
        }
        let found = runtime.block_on(lines.next_line()).unwrap();
        assert_eq!(found.as_deref(), Some(&line[..]), "{at:?}");
    }
}

/// What a cancelled read has read is still there after another call on the same file.
#[test]
fn other_calls_keep_what_was_read() {
    on_each_runtime(|| async {
        for call in [
            "write",
            "seek",
            "set_len",
            "try_clone",
            "flush",
            "try_into_std",
        ] {
            let (ours, theirs) = stream_pair();
            let mut ours = File::from(ours);
            let mut theirs = StdFile::from(theirs);
            let mut buffer = [0; 16];
            let read = ours.read(&mut buffer);
            assert!(dropped_at(At::Woken, read, || theirs.write_all(b"text").unwrap()).is_none());
            match call {
                "write" => ours.write_all(b"answer").await.unwrap(),
                "seek" => assert!(ours.seek(SeekFrom::Start(0)).await.is_err()),
                "set_len" => assert!(ours.set_len(0).await.is_err()),
                "try_clone" => drop(ours.try_clone().await.unwrap()),
                "flush" => ours.flush().await.unwrap(),
                _ => {
                    // The operation is over for the file when it was polled.
                    ours.flush().await.unwrap();
                    ours = ours.try_into_std().unwrap_err();
                }
            }
            let count = ours.read(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..count], b"text", "{call}");
        }
    });
}

/// A seek that fails leaves the position, and the bytes that were read ahead of the program.
#[test]
fn a_refused_seek_moves_nothing() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        std::fs::write(at.join("file"), "0123456789").unwrap();
        let mut file = File::open(at.join("file")).await.unwrap();
        let mut two = [0; 2];
        file.read_exact(&mut two).await.unwrap();
        assert!(file.seek(SeekFrom::Current(-3)).await.is_err());
        file.read_exact(&mut two).await.unwrap();
        assert_eq!(&two, b"23");
    });
}

/// The end of a stream and an error reach the next read too.
#[test]
fn the_end_is_not_lost() {
    on_each_runtime(|| async {
        let (from, to) = pipe();
        let mut from = File::from(from);
        let mut buffer = [0; 4];
        let read = from.read(&mut buffer);
        assert!(dropped_at(At::Woken, read, || drop(to)).is_none());
        from.flush().await.unwrap();
        assert_eq!(from.read(&mut buffer).await.unwrap(), 0);
    });
}

#[test]
fn reads_are_no_larger_than_they_may_be() {
    on_each_runtime(|| async {
        let (_kept, at) = directory();
        std::fs::write(at.join("file"), "0123456789").unwrap();
        let mut file = File::open(at.join("file")).await.unwrap();
        file.set_max_buf_size(3);
        let mut buffer = [0; 10];
        assert_eq!(file.read(&mut buffer).await.unwrap(), 3);
        let mut rest = String::new();
        file.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "3456789");
        let (from, to) = pipe();
        StdFile::from(to).write_all(b"0123456789").unwrap();
        let mut from = Stream::from(from);
        assert_eq!(from.read(&mut buffer).await.unwrap(), 10);
    });
}
