//! Messages on standard error. A thread writes them, so that a stopped terminal or a full pipe does
//! not block a worker.

use crate::options::Limits;
use std::fmt;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Messages queued for standard error; further ones are counted and dropped.
const QUEUE_LENGTH: usize = 64;
/// Time limit for writing the remaining messages when the server ends.
const FLUSH_TIME: Duration = Duration::from_secs(1);

enum Message {
    Text(String),
    /// A request to confirm that all earlier messages were written.
    Flush(SyncSender<()>),
}

/// Created by the first message, and kept for the life of the process.
static WRITER: OnceLock<Option<SyncSender<Message>>> = OnceLock::new();
static LOST: AtomicU64 = AtomicU64::new(0);

/// Queues a message, or drops it if the queue is full.
pub fn print(text: impl fmt::Display) {
    let Some(writer) = WRITER.get_or_init(start) else {
        // No thread could be started: the message is worth more than the wait for a slow reader.
        return write_line(&text.to_string());
    };
    if writer.try_send(Message::Text(text.to_string())).is_err() {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until the queued messages are written, up to a time limit and the deadline.
pub fn flush(deadline: Option<Instant>) {
    if let Some(Some(writer)) = WRITER.get() {
        let (done, wait) = sync_channel(1);
        if writer.try_send(Message::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(Limits::final_time(deadline, FLUSH_TIME));
        }
    }
}

fn start() -> Option<SyncSender<Message>> {
    let (sender, receiver) = sync_channel(QUEUE_LENGTH);
    let thread = laio::thread::start("laio-messages", "the thread that prints", move || {
        write(&receiver)
    });
    thread.ok().map(|_| sender)
}

/// Writes a line in one write, because several processes may print at the same time. If writing to
/// standard error fails, there is no place to report it.
fn write_line(text: &str) {
    let _ = std::io::stderr().write_all(format!("laio: {text}\n").as_bytes());
}

fn write(messages: &Receiver<Message>) {
    for message in messages {
        match message {
            Message::Text(text) => {
                write_line(&text);
                let lost = LOST.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    write_line(&format!("{lost} messages were dropped"));
                }
            }
            Message::Flush(done) => {
                let _ = done.try_send(());
            }
        }
    }
}
