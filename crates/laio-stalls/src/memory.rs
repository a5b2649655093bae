//! Reads the memory of another process, without stopping it.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The longest text that is read: `PATH_MAX`.
const MAX_TEXT: usize = 4096;

/// How much of a text is read at a time: the next page may not be mapped.
const PIECE: u64 = 256;

/// The memory of a process.
#[derive(Debug)]
pub(crate) struct Memory(File);

impl Memory {
    /// Opens it; `None` if this is not permitted.
    pub(crate) fn of(pid: u32) -> Option<Memory> {
        File::open(format!("/proc/{pid}/mem")).ok().map(Memory)
    }

    /// Reads up to this many bytes. `None` if nothing is mapped there.
    pub(crate) fn bytes(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let read = self.0.read_at(&mut bytes, address).ok()?;
        bytes.truncate(read);
        Some(bytes)
    }

    /// Reads a word of eight bytes.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(address, 8)?.try_into().ok()?))
    }

    /// Reads a number of four bytes.
    pub(crate) fn number(&self, address: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(address, 4)?.try_into().ok()?))
    }

    /// Reads a text that ends with a zero byte.
    pub(crate) fn text(&self, address: u64) -> Option<String> {
        let mut text = Vec::new();
        while text.len() < MAX_TEXT {
            let place = address.checked_add(text.len() as u64)?;
            let piece = self.bytes(place, (PIECE - place % PIECE) as usize)?;
            if piece.is_empty() {
                return None;
            }
            let end = piece.iter().position(|byte| *byte == 0);
            text.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
            if end.is_some() {
                break;
            }
        }
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_this_process() {
        let memory = Memory::of(std::process::id()).unwrap();
        let long = format!("{}\0rest", "x".repeat(1000));
        let read = memory.text(long.as_ptr() as u64).unwrap();
        assert_eq!(read, "x".repeat(1000));
        assert_eq!(memory.text(0), None);
        assert_eq!(memory.text(u64::MAX), None);
    }
}
