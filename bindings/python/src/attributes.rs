//! File systems, and extended attributes.

use crate::call;
use crate::descriptor::nothing_about;
use crate::engine::Step;
use crate::error;
use crate::path::PathArgument;
use laio::ops::{
    ATTRIBUTE_MAX, FileSystemStatus, GetAttribute, ListAttributes, RemoveAttribute, SetAttribute,
    StatFileSystem, attribute_names,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList};
use std::ffi::CString;

/// The status of the file system of a file, as `os.statvfs`.
#[pyfunction]
fn statvfs(py: Python<'_>, path: PathArgument) -> PyResult<Py<PyAny>> {
    call::make(py, move |py, engine| {
        let stat = StatFileSystem::named(path.name(None));
        engine.run(py, stat, move |py, _, status| {
            let status = status.map_err(|error| error::about(py, error, &path.object))?;
            statvfs_result(py, &status).map(Step::Done)
        })
    })
}

fn statvfs_result(py: Python<'_>, status: &FileSystemStatus) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let fields = (
        status.block_size(),
        status.fragment_size(),
        status.blocks(),
        status.free_blocks(),
        status.available_blocks(),
        status.inodes(),
        status.free_inodes(),
        // Linux does not tell apart what is free for users without privileges.
        status.free_inodes(),
        status.flags(),
        status.name_max(),
    );
    let class = CLASS.import(py, "os", "statvfs_result")?;
    Ok(class.call1((fields,))?.unbind())
}

/// The names of the extended attributes of a file; of a symbolic link itself.
#[pyfunction]
fn list_attributes(py: Python<'_>, path: PathArgument) -> PyResult<Py<PyAny>> {
    call::make(py, move |py, engine| {
        let list = ListAttributes::named(path.name(None), Vec::with_capacity(ATTRIBUTE_MAX));
        engine.run(py, list, move |py, _, (result, bytes)| {
            result.map_err(|error| error::about(py, error, &path.object))?;
            let names = attribute_names(&bytes)
                .map(|name| String::from_utf8_lossy(name.to_bytes()).into_owned());
            let names = PyList::new(py, names.collect::<Vec<_>>())?;
            Ok(Step::Done(names.into_any().unbind()))
        })
    })
}

/// The value of an extended attribute of a file; of a symbolic link itself.
#[pyfunction]
fn get_attribute(py: Python<'_>, path: PathArgument, attribute: String) -> PyResult<Py<PyAny>> {
    let attribute = attribute_name(attribute)?;
    call::make(py, move |py, engine| {
        let buffer = Vec::with_capacity(ATTRIBUTE_MAX);
        let get = GetAttribute::named(path.name(None), attribute, buffer);
        engine.run(py, get, move |py, _, (result, bytes)| {
            result.map_err(|error| error::about(py, error, &path.object))?;
            Ok(Step::Done(PyBytes::new(py, &bytes).into_any().unbind()))
        })
    })
}

/// Sets an extended attribute of a file; of a symbolic link itself.
#[pyfunction]
fn set_attribute(
    py: Python<'_>,
    path: PathArgument,
    attribute: String,
    value: Vec<u8>,
) -> PyResult<Py<PyAny>> {
    let attribute = attribute_name(attribute)?;
    call::make(py, move |py, engine| {
        let set = SetAttribute::named(path.name(None), attribute, value);
        engine.run(py, set, move |py, engine, (result, _)| {
            nothing_about(path)(py, engine, result)
        })
    })
}

/// Removes an extended attribute of a file; of a symbolic link itself.
#[pyfunction]
fn remove_attribute(py: Python<'_>, path: PathArgument, attribute: String) -> PyResult<Py<PyAny>> {
    let attribute = attribute_name(attribute)?;
    call::make(py, move |py, engine| {
        let remove = RemoveAttribute::named(path.name(None), attribute);
        engine.run(py, remove, nothing_about(path))
    })
}

fn attribute_name(name: String) -> PyResult<CString> {
    CString::new(name).map_err(|_| PyValueError::new_err("embedded null byte"))
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(statvfs, module)?)?;
    module.add_function(wrap_pyfunction!(list_attributes, module)?)?;
    module.add_function(wrap_pyfunction!(get_attribute, module)?)?;
    module.add_function(wrap_pyfunction!(set_attribute, module)?)?;
    module.add_function(wrap_pyfunction!(remove_attribute, module)?)
}
