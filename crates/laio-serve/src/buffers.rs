//! Buffers for requests in progress. Idle connections have none.

use crate::options::Limits;
use std::cell::RefCell;

/// The buffers of one request.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The bytes to send.
    pub(crate) output: Vec<u8>,
    /// The name of the file.
    pub(crate) name: Vec<u8>,
}

/// Buffers that no request uses.
#[derive(Default)]
pub(crate) struct BufferPool(RefCell<Vec<Buffers>>);

impl BufferPool {
    pub(crate) fn take(&self) -> Buffers {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Puts buffers back, unless the pool is full or they are too large.
    pub(crate) fn put_back(&self, mut buffers: Buffers) {
        let mut pool = self.0.borrow_mut();
        if pool.len() < Limits::POOLED_BUFFERS
            && buffers.output.capacity() <= Limits::POOLED_BUFFER_BYTES
        {
            buffers.output.clear();
            pool.push(buffers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_bounded() {
        let pool = BufferPool::default();
        let buffers = |bytes| Buffers {
            output: Vec::with_capacity(bytes),
            name: Vec::new(),
        };
        pool.put_back(buffers(Limits::POOLED_BUFFER_BYTES + 1));
        assert_eq!(pool.0.borrow().len(), 0);
        (0..2 * Limits::POOLED_BUFFERS).for_each(|_| pool.put_back(buffers(100)));
        assert_eq!(pool.0.borrow().len(), Limits::POOLED_BUFFERS);
        assert!(pool.take().output.capacity() >= 100);
    }
}
