//! Calls on files that the program has opened, by the number of their descriptor.
//!
//! They use the number itself: to close a duplicate of it would drop the locks of the process on the file
//! (`fcntl`).

use crate::call;
use crate::descriptor::{nothing, value};
use crate::error;
use crate::reading::READ_MAX;
use laio::ops::{Fsync, Lent, OpenFile, SendFile, Truncate};
use pyo3::prelude::*;
use rustix::fs::{FileType, fstat};
use std::os::fd::{AsFd, AsRawFd, RawFd};

#[pyfunction]
fn fsync(py: Python<'_>, number: RawFd) -> PyResult<Py<PyAny>> {
    let file = lent(number)?;
    call::make(py, move |py, engine| {
        engine.run(py, Fsync::new(file), nothing)
    })
}

#[pyfunction]
fn fdatasync(py: Python<'_>, number: RawFd) -> PyResult<Py<PyAny>> {
    let file = lent(number)?;
    call::make(py, move |py, engine| {
        engine.run(py, Fsync::data(file), nothing)
    })
}

#[pyfunction]
fn truncate(py: Python<'_>, number: RawFd, length: u64) -> PyResult<Py<PyAny>> {
    let file = lent(number)?;
    call::make(py, move |py, engine| {
        engine.run(py, Truncate::new(file, length), nothing)
    })
}

/// Sends at most `count` bytes of the file `from`, from `offset` on; without one, from where the file
/// stands, which moves. Returns the number of bytes.
#[pyfunction]
fn sendfile(
    py: Python<'_>,
    to: RawFd,
    from: RawFd,
    offset: Option<u64>,
    count: usize,
) -> PyResult<Py<PyAny>> {
    let (to, from, count) = (lent(to)?, lent(from)?, count.min(READ_MAX));
    let kind = fstat(to).map_err(|errno| error::of(errno.into()))?.st_mode;
    if FileType::from_raw_mode(kind) == FileType::RegularFile {
        return call::make(py, move |py, engine| {
            let send = SendFile::new(to, from, offset, count);
            engine.run(py, send, |py, _, result| value(py, result))
        });
    }
    // A socket or pipe has no locks. A duplicate stays the same one while the operation waits for it.
    let to =
        OpenFile::duplicate(to.as_fd().as_raw_fd()).map_err(|errno| error::of(errno.into()))?;
    call::make(py, move |py, engine| {
        let send = SendFile::new(to, from, offset, count);
        engine.run(py, send, |py, _, result| value(py, result))
    })
}

fn lent(number: RawFd) -> PyResult<Lent> {
    Lent::new(number).map_err(|errno| error::of(errno.into()))
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(fsync, module)?)?;
    module.add_function(wrap_pyfunction!(fdatasync, module)?)?;
    module.add_function(wrap_pyfunction!(truncate, module)?)?;
    module.add_function(wrap_pyfunction!(sendfile, module)?)
}
