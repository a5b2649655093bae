//! Where the thread of an event loop is blocked.

use laio_stalls::{OwnLook, OwnThread};
use napi::Result;
use napi_derive::napi;

/// A thread of this process.
#[napi]
pub struct LoopThread {
    thread: OwnThread,
    /// What it did when its loop was late.
    before: Option<OwnLook>,
}

/// The number of the calling thread.
#[napi]
pub fn thread_id() -> Result<u32> {
    Ok(OwnThread::current()?.tid())
}

#[napi]
impl LoopThread {
    #[napi(constructor)]
    pub fn new(number: u32) -> Result<LoopThread> {
        Ok(LoopThread {
            thread: OwnThread::open(number)?,
            before: None,
        })
    }

    #[napi]
    pub fn remember(&mut self) {
        self.before = self.thread.look();
    }

    /// The call in which it is blocked, or what takes its place, its file, and what laio would do. Empty
    /// texts if it runs.
    #[napi]
    pub fn place(&self) -> Vec<String> {
        let look = self.thread.look();
        let place = look.map(|look| self.thread.place(&look, self.before.as_ref()));
        let place = place.unwrap_or_default();
        vec![
            place.call.to_owned(),
            place.subject,
            place.remedy.to_owned(),
        ]
    }
}
