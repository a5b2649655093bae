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
pub(crate) struct Spare(RefCell<Vec<Buffers>>);

impl Spare {
    pub(crate) fn take(&self) -> Buffers {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Puts buffers back, unless the pool is full or they are too large.
    pub(crate) fn give_back(&self, mut buffers: Buffers) {
        let mut spare = self.0.borrow_mut();
        if spare.len() < Limits::SPARE_BUFFERS && buffers.output.capacity() <= Limits::SPARE_BYTES {
            buffers.output.clear();
            spare.push(buffers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_and_no_more() {
        let spare = Spare::default();
        let buffers = |bytes| Buffers {
            output: Vec::with_capacity(bytes),
            name: Vec::new(),
        };
        spare.give_back(buffers(Limits::SPARE_BYTES + 1));
        assert_eq!(spare.0.borrow().len(), 0);
        (0..2 * Limits::SPARE_BUFFERS).for_each(|_| spare.give_back(buffers(100)));
        assert_eq!(spare.0.borrow().len(), Limits::SPARE_BUFFERS);
        assert!(spare.take().output.capacity() >= 100);
    }
}
