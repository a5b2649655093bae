//! Pools of pipes and buffers for transfers.

use crate::options::Limits;
use laio::ops::SharedBuffer;
use laio_rt::Descriptor;
use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};
use std::cell::RefCell;
use std::io;

/// The pipes and buffers that a worker keeps for later transfers.
#[derive(Debug, Default)]
pub struct Pools {
    pipes: RefCell<Vec<Pipe>>,
    buffers: RefCell<Vec<SharedBuffer>>,
    chunks: RefCell<Vec<Vec<u8>>>,
}

/// An empty pipe.
#[derive(Debug)]
pub struct Pipe {
    /// The end to read from.
    pub reader: Descriptor,
    /// The end to write to.
    pub writer: Descriptor,
    /// The capacity of the pipe in bytes.
    pub capacity: usize,
}

impl Pools {
    /// Returns a buffer that was kept.
    pub fn buffer(&self) -> Option<SharedBuffer> {
        self.buffers.borrow_mut().pop()
    }

    /// Returns a pipe, which may have been kept, for chunks of so many bytes.
    ///
    /// # Errors
    /// If there is no descriptor for a new one.
    pub fn pipe(&self, chunk: usize) -> io::Result<Pipe> {
        if let Some(kept) = self.pipes.borrow_mut().pop() {
            return Ok(kept);
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Without the privilege for larger pipes, use the default size.
        let _ = fcntl_setpipe_size(&writer, chunk);
        let capacity = fcntl_getpipe_size(&writer)?;
        Ok(Pipe {
            reader: reader.into(),
            writer: writer.into(),
            capacity,
        })
    }

    /// Returns an empty buffer for a chunk.
    pub fn chunk(&self) -> Vec<u8> {
        self.chunks.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes back an empty buffer for a chunk.
    pub fn keep_chunk(&self, chunk: Vec<u8>) {
        keep(&self.chunks, Some(chunk));
    }

    /// Takes back the pipe and the buffer of a completed transfer.
    pub fn keep(&self, pipe: Option<Pipe>, buffer: Option<SharedBuffer>) {
        keep(&self.pipes, pipe);
        // The kernel may still send from its memory, so the buffer gets new memory.
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
