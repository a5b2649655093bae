//! What a running server has to say to who runs it: on standard error, and without waiting for it. A terminal
//! that was stopped, or a pipe that nobody reads, must not hold up who serves.

use crate::options::Limits;
use std::fmt;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Messages that wait for standard error; further ones are counted, not kept.
const WAITING: usize = 64;
/// For what is left to be written, when the server ends.
const LAST: Duration = Duration::from_secs(1);

enum Message {
    Text(String),
    /// Everything before has been written.
    Flush(SyncSender<()>),
}

/// There for the life of the process: made by whoever has something to say first.
static WRITER: OnceLock<Option<SyncSender<Message>>> = OnceLock::new();
static LOST: AtomicU64 = AtomicU64::new(0);

/// Says something, now or never.
pub(crate) fn say(text: impl fmt::Display) {
    let Some(writer) = WRITER.get_or_init(start) else {
        return;
    };
    if writer.try_send(Message::Text(text.to_string())).is_err() {
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits a moment until what was said is written, and not beyond a deadline.
pub(crate) fn flush(deadline: Option<Instant>) {
    if let Some(Some(writer)) = WRITER.get() {
        let (done, wait) = sync_channel(1);
        if writer.try_send(Message::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(Limits::last(deadline, LAST));
        }
    }
}

fn start() -> Option<SyncSender<Message>> {
    let (sender, receiver) = sync_channel(WAITING);
    let thread = std::thread::Builder::new().name("laio-messages".to_owned());
    thread.spawn(move || write(&receiver)).ok().map(|_| sender)
}

fn write(messages: &Receiver<Message>) {
    for message in messages {
        match message {
            Message::Text(text) => {
                // In one write: several processes may say something at a time.
                let mut said = format!("laio: {text}\n");
                let lost = LOST.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    said += &format!("laio: {lost} messages were left out\n");
                }
                // If standard error is gone, there is nobody to tell.
                let _ = std::io::stderr().write_all(said.as_bytes());
            }
            Message::Flush(done) => {
                let _ = done.try_send(());
            }
        }
    }
}
