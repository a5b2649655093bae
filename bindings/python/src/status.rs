//! `os.stat_result` from the status of a file.

use laio::ops::{FileStatus, Timestamp};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// Makes the object that `os.stat` returns.
pub(crate) fn stat_result(py: Python<'_>, status: &FileStatus) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let (accessed, modified, changed) = (status.accessed(), status.modified(), status.changed());
    // In the order of the structure's fields, named and unnamed.
    let head = (
        status.mode(),
        status.inode(),
        status.device(),
        status.links(),
        status.user(),
        status.group(),
        status.size(),
        accessed.seconds,
        modified.seconds,
        changed.seconds,
    )
        .into_pyobject(py)?;
    let rest = (
        seconds(accessed),
        seconds(modified),
        seconds(changed),
        nanoseconds(accessed),
        nanoseconds(modified),
        nanoseconds(changed),
        status.block_size(),
        status.blocks(),
        status.represented_device(),
    )
        .into_pyobject(py)?;
    let class = CLASS.import(py, "os", "stat_result")?;
    Ok(class.call1((head.add(rest)?,))?.unbind())
}

fn seconds(time: Timestamp) -> f64 {
    time.seconds as f64 + 1e-9 * f64::from(time.nanoseconds)
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}
