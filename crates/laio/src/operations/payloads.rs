//! The values of typed operations, which own the memory that the kernel uses.

use super::Slot;
use std::any::Any;

/// Typed operations, by slot.
#[derive(Debug, Default)]
pub(crate) struct Payloads(Vec<Option<Box<dyn Any>>>);

impl Payloads {
    /// Keeps a typed operation.
    pub(crate) fn put(&mut self, slot: Slot, payload: Box<dyn Any>) {
        let index = slot as usize;
        if index >= self.0.len() {
            self.0.resize_with((index + 1).next_power_of_two(), || None);
        }
        self.0[index] = Some(payload);
    }

    /// Whether the operation is typed, and its value has not been taken.
    pub(crate) fn has(&self, slot: Slot) -> bool {
        self.0.get(slot as usize).is_some_and(Option::is_some)
    }

    pub(crate) fn take(&mut self, slot: Slot) -> Option<Box<dyn Any>> {
        self.0.get_mut(slot as usize)?.take()
    }

    /// Leaks all values: the kernel, or a parent process, may still use their memory.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.0));
    }

    /// Bytes of memory held, without the values.
    pub(crate) fn memory(&self) -> usize {
        self.0.capacity() * size_of::<Option<Box<dyn Any>>>()
    }
}
