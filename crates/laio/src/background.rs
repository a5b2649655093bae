//! The parts of which back ends are composed: a ring, a reactor, helpers, and the bell that wakes the
//! context. Which calls go where is decided in [`crate::route`].

pub(crate) mod activations;
pub(crate) mod aio;
pub(crate) mod doorbell;
pub(crate) mod helpers;
pub(crate) mod lane;
pub(crate) mod one_shot;
pub(crate) mod prepare;
pub(crate) mod reactor;
pub(crate) mod ring;
