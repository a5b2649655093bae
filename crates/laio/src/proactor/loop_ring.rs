//! The ring of an event loop.

#![expect(dead_code, reason = "the ring itself follows")]

mod reads;
