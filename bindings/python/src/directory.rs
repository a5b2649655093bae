//! Reading directories.

use crate::call;
use crate::engine::{Engine, Step};
use crate::error;
use crate::path::{self, PathArgument};
use laio::ops::{Close, FileType, Open, OpenFile, ReadDir};
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;

/// An entry: the name of the type of the path, the type as in `st_mode` (0 if it is not known), the inode.
type Found = (Vec<u8>, u32, u64);

/// Reads all entries of a directory: a list of (name, type, inode).
#[pyfunction]
#[pyo3(signature = (path, dir_fd=None))]
fn read_directory(
    py: Python<'_>,
    path: PathArgument,
    dir_fd: Option<RawFd>,
) -> PyResult<Py<PyAny>> {
    let parent = path::directory(dir_fd)?;
    call::make(py, move |py, engine| {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        engine.run(
            py,
            Open::new(path.name(parent), flags),
            move |py, engine, file| {
                let file = file.map_err(|error| error::about(py, error, &path.object))?;
                read_more(py, engine, OpenFile::from(file), path, Vec::new())
            },
        )
    })
}

fn read_more(
    py: Python<'_>,
    engine: &mut Engine,
    directory: OpenFile,
    path: PathArgument,
    mut found: Vec<Found>,
) -> PyResult<Step> {
    let read = ReadDir::new(directory.clone());
    engine.run(py, read, move |py, engine, entries| match entries {
        Ok(entries) if !entries.is_empty() => {
            found.extend(entries.iter().map(|entry| {
                let name = entry.name().as_bytes().to_owned();
                (name, type_bits(entry.file_type()), entry.inode())
            }));
            read_more(py, engine, directory, path, found)
        }
        entries => finish(py, engine, directory, path, entries.map(|_| found)),
    })
}

fn finish(
    py: Python<'_>,
    engine: &mut Engine,
    directory: OpenFile,
    path: PathArgument,
    found: io::Result<Vec<Found>>,
) -> PyResult<Step> {
    let list = match found {
        Ok(found) => {
            let entries = found
                .into_iter()
                .map(|(name, kind, inode)| Ok((path.same_type(py, name)?, kind, inode)));
            let entries = entries.collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, entries)?.into_any().unbind())
        }
        Err(error) => Err(error::about(py, error, &path.object)),
    };
    engine.forget(&directory);
    match directory.try_into_owned() {
        Ok(directory) => engine.run(py, Close::new(directory), move |_, _, _| {
            list.map(Step::Done)
        }),
        Err(_shared) => list.map(Step::Done),
    }
}

fn type_bits(file_type: FileType) -> u32 {
    match file_type {
        FileType::Regular => libc::S_IFREG,
        FileType::Directory => libc::S_IFDIR,
        FileType::Symlink => libc::S_IFLNK,
        FileType::Fifo => libc::S_IFIFO,
        FileType::Socket => libc::S_IFSOCK,
        FileType::CharDevice => libc::S_IFCHR,
        FileType::BlockDevice => libc::S_IFBLK,
        _ => 0,
    }
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(read_directory, module)?)
}
