//! Bytes that Python gives to write.

use laio::ops::{Owned, Part, Source};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyMemoryView};

/// The bytes of a `bytes` object, which the kernel reads in place, or a copy of those of another object:
/// the program may change them meanwhile.
pub(crate) struct Data(PyBackedBytes);

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Data {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// A buffer of an operation.
    pub(crate) fn into_source(self) -> impl Source {
        self.into_source_from(0)
    }

    /// A buffer of an operation that writes from byte `start` on. It gives the bytes back.
    pub(crate) fn into_source_from(self, start: usize) -> Part<Owned<Data>> {
        Part::new(Owned::new(self), start..)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Data {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Data> {
        if object.is_instance_of::<PyBytes>() {
            return Ok(Data(object.extract()?));
        }
        // The limited API of Python 3.10 has no buffers, but it has these.
        let copy = PyMemoryView::from(&object)?.call_method0("tobytes")?;
        Ok(Data(copy.extract()?))
    }
}
