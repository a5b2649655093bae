//! Buffers for requests in progress, and for receives.

use laio::ops::Slab;
use laio_http::Output;
use laio_serve_base::options::Limits;
use std::cell::RefCell;

/// The buffers of one request.
#[derive(Default)]
pub struct Buffers {
    /// The head of the response, and what of the body is sent with it.
    pub output: Output,
    /// The name of the file.
    pub name: Vec<u8>,
}

/// Buffers that no request uses.
#[derive(Default)]
pub struct BufferPool(RefCell<Vec<Buffers>>);

impl BufferPool {
    /// Returns buffers that were put back, or new ones.
    pub fn take(&self) -> Buffers {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Puts buffers back, unless the pool is full or they are too large.
    pub fn put_back(&self, mut buffers: Buffers) {
        let mut pool = self.0.borrow_mut();
        if pool.len() < Limits::POOLED_BUFFERS
            && buffers.output.bytes.capacity() <= Limits::POOLED_BUFFER_BYTES
        {
            buffers.output.clear();
            pool.push(buffers);
        }
    }
}

/// The buffers of receives.
pub struct ReceiveBuffers {
    /// Buffers of [`Limits::IDLE_BYTES`], for receives that wait for the next request.
    pub idle: Slab,
    /// Empty buffers for received bytes, which no connection uses.
    inputs: RefCell<Vec<Vec<u8>>>,
}

impl Default for ReceiveBuffers {
    fn default() -> ReceiveBuffers {
        ReceiveBuffers {
            idle: Slab::new(Limits::IDLE_BYTES),
            inputs: RefCell::default(),
        }
    }
}

impl ReceiveBuffers {
    /// Returns a copy of received bytes, in a buffer for more.
    pub fn input_of(&self, received: &[u8]) -> Vec<u8> {
        let pooled = self.inputs.borrow_mut().pop();
        let mut input = pooled.unwrap_or_else(|| Vec::with_capacity(Limits::IDLE_BYTES));
        input.extend_from_slice(received);
        input
    }

    /// Takes the empty buffer of a connection that becomes idle.
    pub fn put_back(&self, input: Vec<u8>) {
        let mut inputs = self.inputs.borrow_mut();
        let fits = Limits::IDLE_BYTES..=Limits::POOLED_INPUT_BYTES;
        if inputs.len() < Limits::POOLED_BUFFERS && fits.contains(&input.capacity()) {
            debug_assert!(input.is_empty());
            inputs.push(input);
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
            output: Vec::with_capacity(bytes).into(),
            name: Vec::new(),
        };
        pool.put_back(buffers(Limits::POOLED_BUFFER_BYTES + 1));
        assert_eq!(pool.0.borrow().len(), 0);
        (0..2 * Limits::POOLED_BUFFERS).for_each(|_| pool.put_back(buffers(100)));
        assert_eq!(pool.0.borrow().len(), Limits::POOLED_BUFFERS);
        assert!(pool.take().output.bytes.capacity() >= 100);
    }
}
