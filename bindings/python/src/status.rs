//! `os.stat_result` from the status of a file.

use laio::ops::{FileStatus, Timestamp};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyInt, PyTuple};

/// Makes the object that `os.stat` returns.
pub(crate) fn stat_result(py: Python<'_>, status: &FileStatus) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let number = |value: u64| integer(py, value as i128);
    let (accessed, modified, changed) = (status.accessed(), status.modified(), status.changed());
    // In the order of the structure's fields, named and unnamed.
    let fields = [
        number(status.mode().into()),
        number(status.inode()),
        number(status.device()),
        number(status.links().into()),
        number(status.user().into()),
        number(status.group().into()),
        number(status.size()),
        integer(py, accessed.seconds.into()),
        integer(py, modified.seconds.into()),
        integer(py, changed.seconds.into()),
        seconds(py, accessed),
        seconds(py, modified),
        seconds(py, changed),
        integer(py, nanoseconds(accessed)),
        integer(py, nanoseconds(modified)),
        integer(py, nanoseconds(changed)),
        number(status.block_size().into()),
        number(status.blocks()),
        number(status.represented_device()),
    ];
    let class = CLASS.import(py, "os", "stat_result")?;
    let fields = PyTuple::new(py, fields)?;
    Ok(class.call1((fields,))?.unbind())
}

/// Most numbers fit into 64 bits, of which Python makes an integer faster.
fn integer(py: Python<'_>, value: i128) -> Bound<'_, PyAny> {
    let Ok(small) = i64::try_from(value) else {
        return value.into_pyobject(py).map_or_else(never, Bound::into_any);
    };
    small
        .into_pyobject(py)
        .map_or_else(never, Bound::<PyInt>::into_any)
}

fn seconds(py: Python<'_>, time: Timestamp) -> Bound<'_, PyAny> {
    let value = time.seconds as f64 + 1e-9 * f64::from(time.nanoseconds);
    PyFloat::new(py, value).into_any()
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

fn never<T>(never: std::convert::Infallible) -> T {
    match never {}
}
