//! Messages that are damaged, ambiguous or hostile.

mod guards;
mod robustness;
mod smuggling;
