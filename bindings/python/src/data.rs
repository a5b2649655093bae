//! Bytes that Python gives to write.

use laio::ops::{Owned, Part, Source};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

/// The bytes of a `bytes` object, which the kernel reads in place, or a copy of those of another object:
/// the program may change them meanwhile.
pub(crate) enum Data {
    Bytes(PyBackedBytes),
    Copy(Vec<u8>),
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        match self {
            Data::Bytes(bytes) => bytes,
            Data::Copy(bytes) => bytes,
        }
    }
}

impl Data {
    pub(crate) fn len(&self) -> usize {
        self.as_ref().len()
    }

    /// A buffer of an operation.
    pub(crate) fn into_source(self) -> impl Source {
        Part::new(Owned::new(self), ..)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Data {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Data> {
        if object.is_instance_of::<PyBytes>() {
            return Ok(Data::Bytes(object.extract()?));
        }
        let view = PyBuffer::<u8>::get(&object)?;
        Ok(Data::Copy(view.to_vec(object.py())?))
    }
}
