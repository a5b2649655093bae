//! Exceptions: `OSError` and its subclasses, with the name of the file.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::io;

/// The exception of an error, without a file name.
pub(crate) fn of(error: io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(errno) => Python::attach(|py| match text(py, errno) {
            Ok(text) => PyOSError::new_err((errno, text)),
            Err(error) => error,
        }),
        None => error.into(),
    }
}

/// The exception of an error about one file.
pub(crate) fn about(py: Python<'_>, error: io::Error, name: &Py<PyAny>) -> PyErr {
    match error.raw_os_error() {
        Some(errno) => match text(py, errno) {
            Ok(text) => PyOSError::new_err((errno, text, name.clone_ref(py))),
            Err(error) => error,
        },
        None => error.into(),
    }
}

/// The exception of an error about two files, for example of a renaming.
pub(crate) fn about_two(
    py: Python<'_>,
    error: io::Error,
    name: &Py<PyAny>,
    second: &Py<PyAny>,
) -> PyErr {
    match error.raw_os_error() {
        Some(errno) => match text(py, errno) {
            Ok(text) => {
                let (name, second) = (name.clone_ref(py), second.clone_ref(py));
                PyOSError::new_err((errno, text, name, py.None(), second))
            }
            Err(error) => error,
        },
        None => error.into(),
    }
}

/// What `os.strerror` says.
fn text(py: Python<'_>, errno: i32) -> PyResult<Py<PyAny>> {
    static STRERROR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let strerror = STRERROR.import(py, "os", "strerror")?;
    Ok(strerror.call1((errno,))?.unbind())
}
