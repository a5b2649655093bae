//! What all clones of a proactor share.

use super::generation::Generation;
use crate::Options;
use crate::composition::Composition;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering::*};

/// What all clones of a proactor share.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) composition: Composition,
    /// From [`Arc::into_raw`]; replaced in a forked child.
    generation: AtomicPtr<Generation>,
}

impl Shared {
    pub(super) fn new(options: Options, composition: Composition) -> Shared {
        Shared {
            options,
            composition,
            generation: AtomicPtr::new(null_mut()),
        }
    }

    /// What the proactor has in this process.
    #[inline]
    pub(super) fn generation(&self) -> &Generation {
        let pointer = self.generation.load(Acquire);
        // SAFETY: it is freed with `self` only.
        match unsafe { pointer.as_ref() } {
            Some(generation) if generation.life.is_current() => generation,
            _ => self.replace_generation(pointer),
        }
    }

    pub(super) fn generation_arc(&self) -> Arc<Generation> {
        let generation: *const Generation = self.generation();
        // SAFETY: it comes from `Arc::into_raw`, and `self` holds a reference.
        unsafe {
            Arc::increment_strong_count(generation);
            Arc::from_raw(generation)
        }
    }

    /// Makes what this process has; a forked child leaks that of its parent, whose locks another
    /// thread of the parent may have held.
    #[cold]
    fn replace_generation(&self, before: *mut Generation) -> &Generation {
        let drivers = self.options.drivers.unwrap_or(Options::DRIVERS);
        let new = Arc::into_raw(Arc::new(Generation::new(drivers, &self.options))).cast_mut();
        match self
            .generation
            .compare_exchange(before, new, AcqRel, Acquire)
        {
            // SAFETY: it is freed with `self` only.
            Ok(_) => unsafe { &*new },
            Err(theirs) => {
                // SAFETY: no other thread has it.
                drop(unsafe { Arc::from_raw(new) });
                // SAFETY: as above. Only threads of this process get here, so theirs is current.
                unsafe { &*theirs }
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let pointer = *self.generation.get_mut();
        // SAFETY: it is null or comes from `Arc::into_raw`.
        match unsafe { pointer.as_ref() } {
            Some(generation) if generation.life.is_current() => {
                generation.started().for_each(|driver| driver.finish());
                // SAFETY: `self` held this reference.
                drop(unsafe { Arc::from_raw(pointer) });
            }
            // A child leaks what its parent uses.
            _ => {}
        }
    }
}
