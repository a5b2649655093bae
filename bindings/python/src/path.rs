//! Arguments that name a file.

use crate::error;
use laio::ops::{Name, OpenFile};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString};
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A path as `os.fspath` returns it (`str` or `bytes`), and its bytes.
pub(crate) struct PathArgument {
    pub(crate) object: Py<PyAny>,
    bytes: Vec<u8>,
}

impl PathArgument {
    /// The name for a call: relative to `directory`, or to the working directory.
    pub(crate) fn name(&self, directory: Option<OpenFile>) -> Name<OpenFile> {
        Name::from_path_in(directory, self.as_path()).expect("it has no zero byte")
    }

    pub(crate) fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.bytes))
    }

    /// A name from the kernel, of the same type as the path.
    pub(crate) fn same_type(&self, py: Python<'_>, name: Vec<u8>) -> PyResult<Py<PyAny>> {
        if self.object.bind(py).is_instance_of::<PyBytes>() {
            return Ok(PyBytes::new(py, &name).into_any().unbind());
        }
        Ok(OsString::from_vec(name)
            .into_pyobject(py)?
            .into_any()
            .unbind())
    }

    /// The path as the text of a symbolic link.
    pub(crate) fn to_c_string(&self) -> CString {
        CString::new(self.bytes.clone()).expect("it has no zero byte")
    }
}

/// A directory to which a path is relative, by its descriptor's number.
pub(crate) fn directory(number: Option<RawFd>) -> PyResult<Option<OpenFile>> {
    let duplicate = number.map(OpenFile::duplicate).transpose();
    duplicate.map_err(|errno| error::of(errno.into()))
}

impl<'a, 'py> FromPyObject<'a, 'py> for PathArgument {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<PathArgument> {
        let py = object.py();
        let object = if object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>() {
            object.to_owned()
        } else {
            static FSPATH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            FSPATH.import(py, "os", "fspath")?.call1((object,))?
        };
        let bytes = if let Ok(text) = object.cast::<PyString>() {
            match text.to_str() {
                Ok(text) => text.as_bytes().to_owned(),
                // Bytes that are not UTF-8, as surrogates.
                Err(_) => {
                    static FSENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
                    let encoded = FSENCODE.import(py, "os", "fsencode")?.call1((text,))?;
                    encoded.extract()?
                }
            }
        } else {
            object.extract::<Vec<u8>>()?
        };
        if bytes.contains(&0) {
            return Err(PyValueError::new_err("embedded null byte"));
        }
        let object = object.unbind();
        Ok(PathArgument { object, bytes })
    }
}
