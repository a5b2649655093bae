//! The extension module of laio for Python: coroutines that make system calls.
//!
//! A coroutine makes its call when it is awaited first. A call that does not block is then over, and the
//! event loop is not involved. Otherwise the coroutine waits for a future of the loop; the loop watches
//! the descriptor of this thread's [`laio::Context`] (`laio/_loops.py`).

#![forbid(unsafe_code)]

mod attributes;
mod call;
mod created;
mod data;
mod descriptor;
mod directory;
mod engine;
mod error;
mod files;
mod left;
mod names;
mod numbers;
mod path;
mod ranges;
mod reading;
mod stalls;
mod status;
mod whole;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use std::sync::OnceLock;

/// The functions and classes on which the Python package is built.
#[pymodule(gil_used = false)]
fn _laio(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<call::Call>()?;
    module.add_class::<descriptor::Descriptor>()?;
    module.add_class::<files::Files>()?;
    engine::add_to(module)?;
    names::add_to(module)?;
    numbers::add_to(module)?;
    attributes::add_to(module)?;
    whole::add_to(module)?;
    directory::add_to(module)?;
    created::add_to(module)?;
    stalls::add_to(module)?;
    module.add_function(wrap_pyfunction!(claim_process, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}

/// Refuses every interpreter of the process but the first one that imports the package: objects of Python that
/// the module keeps belong to one interpreter. Python itself refuses only interpreters with a lock of their own.
#[pyfunction]
fn claim_process(py: Python<'_>) -> PyResult<()> {
    // Each interpreter has a module `sys` of its own.
    static FIRST: OnceLock<usize> = OnceLock::new();
    let own = py.import("sys")?.as_ptr().addr();
    if *FIRST.get_or_init(|| own) == own {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "laio does not support subinterpreters: another interpreter of this process has imported it",
    ))
}
