//! Bytes of a stream that a cancelled coroutine has left: the next read of the file gets them.
//!
//! Most reads wait until there is something, and read when their coroutine continues (`reading.rs`), so that
//! one that is cancelled has taken nothing. Only a descriptor without non-blocking reads, such as a terminal,
//! needs a read in the background; if its coroutine is cancelled, it stays with the file.

use crate::engine::{self, Engine, InFlight, Step};
use crate::error;
use laio::ops::{OpenFile, Read};
use laio::{Context, Errno, Outcome, Ticket};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

/// What cancelled reads have left with an open file.
#[derive(Clone, Default)]
pub(crate) struct Left(Arc<Mutex<Contents>>);

#[derive(Default)]
struct Contents {
    bytes: Vec<u8>,
    /// The read that goes on without its coroutine: its thread, and its key in the engine there.
    read: Option<(ThreadId, u64)>,
}

impl Left {
    fn lock(&self) -> MutexGuard<'_, Contents> {
        match self.0.lock() {
            Ok(contents) => contents,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Puts bytes before those that are there.
    pub(crate) fn give_back(&self, bytes: &[u8]) {
        self.lock().bytes.splice(0..0, bytes.iter().copied());
    }

    /// Takes at most `length` bytes. `None` if there are none.
    pub(crate) fn take<'py>(&self, py: Python<'py>, length: usize) -> Option<Bound<'py, PyBytes>> {
        let mut contents = self.lock();
        if contents.bytes.is_empty() {
            return None;
        }
        let length = length.min(contents.bytes.len());
        let taken = PyBytes::new(py, &contents.bytes[..length]);
        contents.bytes.drain(..length);
        Some(taken)
    }

    /// Cancels the read that goes on without its coroutine: the file is closed.
    pub(crate) fn abandon(&self) {
        let read = self.lock().read.take();
        if let Some((thread, key)) = read
            && thread == thread::current().id()
        {
            engine::abandon(key);
        }
    }

    /// The read that goes on without its coroutine, for another coroutine of this thread.
    fn resume(&self, engine: &mut Engine) -> Option<Box<dyn InFlight>> {
        let mut contents = self.lock();
        let (_, key) = contents
            .read
            .filter(|(thread, _)| *thread == thread::current().id())?;
        contents.read = None;
        engine.take_parted(key)
    }
}

/// Goes on with a read whose coroutine was cancelled.
pub(crate) fn go_on(engine: &mut Engine, left: &Left, length: usize) -> Option<Step> {
    let read = left.resume(engine)?;
    Some(Step::InFlight(Box::new(Taking {
        read,
        left: left.clone(),
        length,
    })))
}

/// Reads in the background from a descriptor without non-blocking reads.
pub(crate) fn read(
    py: Python<'_>,
    engine: &mut Engine,
    file: OpenFile,
    left: Left,
    length: usize,
) -> PyResult<Step> {
    let read = Read::new(file, Vec::with_capacity(length));
    match engine.context.submit(read) {
        Outcome::Done((result, bytes)) => {
            result.map_err(error::of)?;
            Ok(Step::Done(PyBytes::new(py, &bytes).into_any().unbind()))
        }
        Outcome::Pending(ticket) => {
            let read = Box::new(Reading {
                ticket,
                left: left.clone(),
            });
            Ok(Step::InFlight(Box::new(Taking { read, left, length })))
        }
    }
}

/// A read in the background, whose bytes stay with the file.
struct Reading {
    ticket: Ticket<Read<OpenFile, Vec<u8>>>,
    left: Left,
}

impl InFlight for Reading {
    fn set_key(&mut self, context: &mut Context, key: u64) -> Result<(), Errno> {
        context.set_user_data(self.ticket.handle(), key)
    }

    fn resume(self: Box<Self>, py: Python<'_>, engine: &mut Engine) -> PyResult<Step> {
        let Reading { ticket, left } = *self;
        let mut contents = left.lock();
        contents.read = None;
        if let Ok((result, bytes)) = engine.context.take(ticket) {
            result.map_err(error::of)?;
            contents.bytes.extend_from_slice(&bytes);
        }
        Ok(Step::Done(py.None()))
    }

    fn abandon(self: Box<Self>, context: &mut Context) {
        context.abandon(self.ticket);
    }
}

/// A coroutine that waits for a read, and takes at most `length` bytes.
struct Taking {
    read: Box<dyn InFlight>,
    left: Left,
    length: usize,
}

impl InFlight for Taking {
    fn set_key(&mut self, context: &mut Context, key: u64) -> Result<(), Errno> {
        self.read.set_key(context, key)
    }

    fn resume(self: Box<Self>, py: Python<'_>, engine: &mut Engine) -> PyResult<Step> {
        let Taking { read, left, length } = *self;
        read.resume(py, engine)?;
        let bytes = left.take(py, length);
        let bytes = bytes.unwrap_or_else(|| PyBytes::new(py, b""));
        Ok(Step::Done(bytes.into_any().unbind()))
    }

    fn abandon(self: Box<Self>, context: &mut Context) {
        self.read.abandon(context);
    }

    fn waits_for_coroutine(&self) -> bool {
        true
    }

    fn part(self: Box<Self>, _: &mut Context, key: u64) -> Option<Box<dyn InFlight>> {
        self.left.lock().read = Some((thread::current().id(), key));
        Some(self.read)
    }
}
