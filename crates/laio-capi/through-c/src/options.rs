//! `struct laio_options`.

use crate::c::*;
use crate::testing::Inject;
use crate::{BackPressure, BackendKind, Limits};
use std::ffi::CStr;
use std::ptr::null;

/// As `laio::Options`.
#[derive(Clone, Debug)]
pub struct Options(pub(crate) laio_options);

impl Options {
    /// The environment variable that overrides the back end chosen by default.
    pub const ENV_BACKEND: &'static str = laio::Options::ENV_BACKEND;

    /// `LAIO_OPTIONS_INIT`.
    #[expect(clippy::new_without_default, reason = "as the suite writes it")]
    pub fn new() -> Options {
        Options(laio_options {
            size: size_of::<laio_options>() as u32,
            flags: 0,
            backend: null(),
            operations: 0,
            helpers: 0,
            ring_entries: 0,
            inline_budget: 0,
            cancel_signal: 0,
            short_transfer: 0,
            carriers: 0,
            detector: 0,
            waiting_helpers: 0,
            spin_us: 0,
        })
    }

    /// Uses this back end.
    pub fn backend(mut self, kind: BackendKind) -> Options {
        self.0.backend = (0..)
            .map(|index| laio_strbackend(index))
            .take_while(|name| !name.is_null())
            // SAFETY: the names are strings, valid for ever.
            .find(|&name| unsafe { CStr::from_ptr(name) }.to_bytes() == kind.name().as_bytes())
            .expect("C knows the back end");
        self
    }

    /// Sets all limits.
    pub fn limits(mut self, limits: Limits) -> Options {
        self.0.operations = limits.operations;
        self.0.helpers = limits.helpers;
        self.0.waiting_helpers = limits.waiting_helpers;
        self.0.carriers = limits.carriers;
        self.0.ring_entries = limits.ring_entries;
        self.0.inline_budget = match limits.inline_budget {
            // 0 stands for the default in C.
            0 => u32::MAX,
            budget => budget,
        };
        self.0.spin_us = match limits.spin_us {
            0 => u32::MAX,
            spin_us => spin_us,
        };
        self
    }

    /// Bounds the operations in flight or not yet delivered.
    pub fn operations(mut self, operations: u32) -> Options {
        self.0.operations = operations;
        self
    }

    /// Bounds the helper threads.
    pub fn helpers(mut self, helpers: u32) -> Options {
        self.0.helpers = helpers;
        self
    }

    /// Bounds the further helper threads, for calls that may wait.
    pub fn waiting_helpers(mut self, helpers: u32) -> Options {
        self.0.waiting_helpers = helpers;
        self
    }

    /// What a call does at a limit.
    pub fn back_pressure(self, back_pressure: BackPressure) -> Options {
        self.flag(LAIO_WAIT_AT_LIMIT, back_pressure == BackPressure::Wait)
    }

    /// Imposes faults.
    pub fn inject(mut self, inject: Inject) -> Options {
        self.0.short_transfer = inject.short_transfer as u32;
        self.flag(LAIO_INJECT_INLINE, inject.force_inline)
            .flag(LAIO_INJECT_BACKGROUND, inject.force_block)
            .flag(LAIO_INJECT_FALSE_EOF, inject.false_eof)
            .flag(LAIO_INJECT_ATTEMPTS_FAIL, inject.attempts_fail)
    }

    /// Whether the `lazy` back end uses io_uring.
    pub fn ring(self, ring: bool) -> Options {
        self.flag(LAIO_WITHOUT_RING, !ring)
    }

    fn flag(mut self, flag: u32, on: bool) -> Options {
        self.0.flags = if on {
            self.0.flags | flag
        } else {
            self.0.flags & !flag
        };
        self
    }
}
