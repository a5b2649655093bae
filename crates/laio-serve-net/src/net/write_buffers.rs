//! A pool of output buffers for each thread, so that a connection with nothing to send has none.

use laio_serve_base::options::Limits;
use std::cell::RefCell;

thread_local! {
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Returns an empty buffer.
pub(crate) fn take() -> Vec<u8> {
    FREE.with_borrow_mut(Vec::pop).unwrap_or_default()
}

/// Keeps a buffer for later, unless it is too large or there are enough.
pub(crate) fn put_back(mut buffer: Vec<u8>) {
    let fits = 1..=Limits::WRITE_BUFFER_BYTES;
    FREE.with_borrow_mut(|free| {
        if free.len() < Limits::WRITE_BUFFERS && fits.contains(&buffer.capacity()) {
            buffer.clear();
            free.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_and_the_size_are_limited() {
        put_back(Vec::new());
        put_back(Vec::with_capacity(Limits::WRITE_BUFFER_BYTES + 1));
        assert_eq!(take().capacity(), 0);
        (0..2 * Limits::WRITE_BUFFERS).for_each(|_| put_back(vec![1; 10]));
        for _ in 0..Limits::WRITE_BUFFERS {
            let buffer = take();
            assert!(buffer.is_empty() && buffer.capacity() >= 10);
        }
        assert_eq!(take().capacity(), 0);
    }
}
