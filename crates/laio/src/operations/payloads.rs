//! The values of typed operations, which own the memory that the kernel uses.

use super::Slot;
use std::any::Any;
use std::ptr::NonNull;

/// Typed operations, by slot.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    values: Vec<Option<Payload>>,
    /// Values of abandoned operations that are over.
    discarded: Vec<Payload>,
}

/// A typed operation on the heap. Not a box: to move a box claims that no other pointer leads to its
/// contents, but the kernel's do.
#[derive(Debug)]
pub(crate) struct Payload(NonNull<dyn Any>);

impl Payloads {
    /// Keeps a typed operation.
    pub(crate) fn put(&mut self, slot: Slot, payload: Payload) {
        let index = slot as usize;
        if index >= self.values.len() {
            let length = (index + 1).next_power_of_two();
            self.values.resize_with(length, || None);
        }
        self.values[index] = Some(payload);
    }

    /// Whether the operation is typed, and its value has not been taken.
    pub(crate) fn has(&self, slot: Slot) -> bool {
        self.values.get(slot as usize).is_some_and(Option::is_some)
    }

    pub(crate) fn take(&mut self, slot: Slot) -> Option<Payload> {
        self.values.get_mut(slot as usize)?.take()
    }

    /// Keeps the value of an operation that is over until [`Payloads::take_discarded`]: its
    /// destructor is the program's, and may panic, or fork.
    pub(crate) fn discard(&mut self, slot: Slot) {
        let payload = self.take(slot);
        self.discarded.extend(payload);
    }

    /// A value to drop.
    pub(crate) fn take_discarded(&mut self) -> Option<Payload> {
        self.discarded.pop()
    }

    /// Leaks all values: the kernel, or a parent process, may still use their memory.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(self));
    }

    /// Bytes of memory held, without the values.
    pub(crate) fn memory(&self) -> usize {
        self.values.capacity() * size_of::<Option<Payload>>()
            + self.discarded.capacity() * size_of::<Payload>()
    }
}

impl Payload {
    /// # Safety
    /// The operation comes from [`Box::into_raw`], and nothing else frees it.
    pub(crate) unsafe fn new(operation: NonNull<dyn Any>) -> Payload {
        Payload(operation)
    }

    /// Returns the operation, whose memory the kernel no longer uses.
    pub(crate) fn into_box(self) -> Box<dyn Any> {
        let operation = std::mem::ManuallyDrop::new(self).0;
        // SAFETY: it comes from a box, and this is not dropped.
        unsafe { Box::from_raw(operation.as_ptr()) }
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        // SAFETY: it comes from a box, and nothing else frees it.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}
