//! The file, and the expected contents of its blocks.

use crate::content::Random;
use crate::error::{Error, While};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The size of a block, and the alignment of offsets and memory for direct I/O.
pub(super) const BLOCK: usize = 4096;

/// A file of blocks, each of which contains the number of times it has been written.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    path: PathBuf,
    /// For each block, how often it has been written.
    written: Arc<[AtomicU64]>,
}

impl Blocks {
    pub(super) fn make(path: &Path, bytes: u64) -> Result<Blocks, Error> {
        let doing = || format!("cannot make a file of {bytes} bytes, {}", path.display());
        let mut file = File::create_new(path).doing(doing())?;
        let mut piece = vec![0; 1 << 20];
        let mut random = Random::new(1);
        let count = bytes / BLOCK as u64;
        // Not zeros, which some storage does not store; but the counter at the start is zero.
        for word in piece.chunks_exact_mut(8) {
            word.copy_from_slice(&random.word().to_ne_bytes());
        }
        for block in piece.chunks_exact_mut(BLOCK) {
            block[..8].fill(0);
        }
        for _ in 0..bytes.div_ceil(piece.len() as u64) {
            file.write_all(&piece).doing(doing())?;
        }
        file.sync_all().doing(doing())?;
        Ok(Blocks {
            path: path.to_owned(),
            written: (0..count).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn flags() -> i32 {
        OFlags::DIRECT.bits() as i32
    }

    /// Opens the file for plain calls.
    pub(super) fn open(&self) -> io::Result<File> {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(Blocks::flags());
        options.open(&self.path)
    }

    /// Returns one of the blocks of a client.
    pub(super) fn draw(&self, random: &mut Random, client: usize, clients: usize) -> usize {
        let each = self.written.len() / clients;
        random.below(each as u64) as usize * clients + client
    }

    /// Checks a block that was read, and modifies it.
    pub(super) fn modify(&self, number: usize, block: &mut [u8]) -> io::Result<()> {
        let written = self.written[number].load(Relaxed);
        let (count, rest) = block.split_at_mut(8);
        if count != written.to_le_bytes() {
            let words = format!("block {number} is not as it was written last");
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        count.copy_from_slice(&(written + 1).to_le_bytes());
        for byte in rest.iter_mut().step_by(64) {
            *byte = byte.wrapping_add(1);
        }
        Ok(())
    }

    /// Notes that a block has been written.
    pub(super) fn written(&self, number: usize) {
        self.written[number].fetch_add(1, Relaxed);
    }
}

/// Aligned memory for one block.
#[derive(Debug)]
pub(super) struct BlockBuffer {
    /// The offset of the block; its length shows whether it is filled.
    pub(super) memory: Vec<u8>,
    pub(super) start: usize,
}

impl BlockBuffer {
    pub(super) fn new() -> BlockBuffer {
        let memory: Vec<u8> = Vec::with_capacity(2 * BLOCK);
        let start = memory.as_ptr().align_offset(BLOCK);
        BlockBuffer { memory, start }
    }

    /// Returns an empty buffer.
    pub(super) fn emptied(mut self) -> BlockBuffer {
        self.memory.resize(self.start, 0);
        self
    }

    /// Returns a buffer with a block.
    pub(super) fn filled(mut self) -> BlockBuffer {
        self.memory.resize(self.start + BLOCK, 0);
        self
    }

    pub(super) fn block(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }
}
