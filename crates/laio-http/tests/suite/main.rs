//! Messages that are damaged, ambiguous or hostile.

mod robustness;
mod smuggling;
