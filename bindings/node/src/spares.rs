//! Memory that was read into or written from, for later calls.

/// So many bytes are kept: many reads of small files are in flight together.
const LIMIT: usize = 1024 * 1024;

#[derive(Default)]
pub(crate) struct Spares {
    kept: Vec<Vec<u8>>,
    bytes: usize,
}

impl Spares {
    /// Empty memory, of the call that ended last: it is most likely in the processor's cache.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let memory = self.kept.pop().unwrap_or_default();
        self.bytes -= memory.capacity();
        memory
    }

    pub(crate) fn keep(&mut self, mut memory: Vec<u8>) {
        if memory.capacity() == 0 || self.bytes + memory.capacity() > LIMIT {
            return;
        }
        memory.clear();
        self.bytes += memory.capacity();
        self.kept.push(memory);
    }
}
