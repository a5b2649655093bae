//! Pipes and buffers between two transfers.

use crate::options::Limits;
use laio::ops::SharedBuffer;
use laio_rt::Descriptor;
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};
use std::cell::RefCell;
use std::io;

/// What a worker keeps for the next transfer.
#[derive(Default)]
pub(crate) struct Pools {
    pipes: RefCell<Vec<Pipe>>,
    buffers: RefCell<Vec<SharedBuffer>>,
    chunks: RefCell<Vec<Vec<u8>>>,
}

/// An empty pipe.
pub(crate) struct Pipe {
    pub(super) reader: Descriptor,
    pub(super) writer: Descriptor,
    /// Bytes that it holds.
    pub(super) room: usize,
}

impl Pools {
    pub(super) fn buffer(&self) -> Option<SharedBuffer> {
        self.buffers.borrow_mut().pop()
    }

    pub(super) fn pipe(&self, chunk: usize) -> io::Result<Pipe> {
        if let Some(kept) = self.pipes.borrow_mut().pop() {
            return Ok(kept);
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Who may not have larger ones uses them as they are.
        let _ = fcntl_setpipe_size(&writer, chunk);
        let room = fcntl_getpipe_size(&writer)?;
        Ok(Pipe {
            reader: reader.into(),
            writer: writer.into(),
            room,
        })
    }

    /// An empty buffer for a chunk.
    pub(super) fn chunk(&self) -> Vec<u8> {
        self.chunks.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes back such a buffer, which is empty.
    pub(super) fn keep_chunk(&self, chunk: Vec<u8>) {
        keep(&self.chunks, Some(chunk));
    }

    /// Takes back what a transfer that came to its end has used.
    pub(super) fn keep(&self, pipe: Option<Pipe>, buffer: Option<SharedBuffer>) {
        keep(&self.pipes, pipe);
        // Its memory may be waiting for the client still, and is given back besides.
        let renewed = buffer.and_then(|mut buffer| buffer.renew().ok().map(|()| buffer));
        keep(&self.buffers, renewed);
    }
}

fn keep<T>(kept: &RefCell<Vec<T>>, one: Option<T>) {
    let mut kept = kept.borrow_mut();
    if kept.len() < Limits::TRANSFERS_KEPT {
        kept.extend(one);
    }
}
