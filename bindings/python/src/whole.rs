//! Whole files: reading one in as few calls as its size allows, writing one.

use crate::call;
use crate::data::Data;
use crate::descriptor::Descriptor;
use crate::engine::{Engine, SCRATCH, Step};
use crate::error;
use crate::path::PathArgument;
use laio::TryRead;
use laio::ops::{Close, OpenFile, OpenStat, Opened, ReadAt, WriteAt};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io;

/// How much is read at once from a file whose size is not known, in bytes.
const PIECE: usize = 256 * 1024;

/// Files from this size on are read piece by piece, in bytes: to copy them at once would keep the event
/// loop, and other threads of Python, from their work.
const LARGE: usize = 1024 * 1024;

/// Reads a whole file. Returns its bytes; of a large file the open [`Descriptor`].
#[pyfunction]
fn read_file(py: Python<'_>, path: PathArgument) -> PyResult<Py<PyAny>> {
    call::make(py, move |py, engine| {
        let open = OpenStat::new(path.name(None), libc::O_RDONLY | libc::O_CLOEXEC);
        engine.run(py, open.load_whole(), move |py, engine, opened| {
            let opened = opened.map_err(|error| error::about(py, error, &path.object))?;
            read_opened(py, engine, opened, path)
        })
    })
}

fn read_opened(
    py: Python<'_>,
    engine: &mut Engine,
    opened: Opened,
    path: PathArgument,
) -> PyResult<Step> {
    let size = opened.status().filter(|_| opened.is_stored());
    let size = size.and_then(|status| usize::try_from(status.size()).ok());
    if size.is_some_and(|size| size >= LARGE) {
        let status = opened.status().copied();
        let file = OpenFile::from(opened.into_descriptor().map_err(error::of)?);
        return Descriptor::opened(py, engine, file, path.object, status.as_ref());
    }
    let whole = Whole {
        file: OpenFile::from(opened.into_own_descriptor()),
        path,
    };
    match size {
        // One more byte shows that nothing follows.
        Some(size) if size < SCRATCH => whole.read_small(py, engine, size + 1),
        size => {
            let capacity = size.map_or(PIECE, |size| size.saturating_add(1));
            let mut bytes = Vec::new();
            if bytes.try_reserve_exact(capacity).is_err() {
                let error = io::Error::from_raw_os_error(libc::ENOMEM);
                return whole.fail(py, engine, error);
            }
            whole.read_rest(py, engine, bytes)
        }
    }
}

/// A file that is read to its end.
struct Whole {
    file: OpenFile,
    path: PathArgument,
}

impl Whole {
    fn read_small(self, py: Python<'_>, engine: &mut Engine, length: usize) -> PyResult<Step> {
        let (context, scratch) = engine.scratch();
        match context.try_read_at(&self.file, &mut scratch[..length], 0) {
            TryRead::Done(Ok(count)) if count < length => {
                let bytes = PyBytes::new(py, &scratch[..count]);
                self.close(py, engine, bytes)
            }
            TryRead::Done(Err(errno)) => self.fail(py, engine, errno.into()),
            TryRead::Done(Ok(done)) | TryRead::WouldBlock { done } => {
                let mut head = Vec::with_capacity(length.max(done + 1));
                head.extend_from_slice(&scratch[..done]);
                self.read_rest(py, engine, head)
            }
        }
    }

    /// Reads what follows the bytes that are in the buffer, into its free capacity, until the end.
    fn read_rest(self, py: Python<'_>, engine: &mut Engine, mut bytes: Vec<u8>) -> PyResult<Step> {
        if bytes.capacity() == bytes.len() {
            let more = bytes.len().max(PIECE);
            if bytes.try_reserve(more).is_err() {
                let error = io::Error::from_raw_os_error(libc::ENOMEM);
                return self.fail(py, engine, error);
            }
        }
        let position = bytes.len() as u64;
        let read = ReadAt::new(self.file.clone(), bytes, position);
        engine.run(py, read, move |py, engine, (result, bytes)| match result {
            Ok(0) => {
                let bytes = PyBytes::new(py, &bytes);
                self.close(py, engine, bytes)
            }
            Ok(_) => self.read_rest(py, engine, bytes),
            Err(error) => self.fail(py, engine, error),
        })
    }

    fn close(
        self,
        py: Python<'_>,
        engine: &mut Engine,
        bytes: Bound<'_, PyBytes>,
    ) -> PyResult<Step> {
        let bytes = bytes.into_any().unbind();
        close(py, engine, self.file, move |_, _| Ok(Step::Done(bytes)))
    }

    fn fail(self, py: Python<'_>, engine: &mut Engine, error: io::Error) -> PyResult<Step> {
        let error = error::about(py, error, &self.path.object);
        close(py, engine, self.file, move |_, _| Err(error))
    }
}

/// Writes a whole file. `flags` and `mode` are those of `open`. Returns the number of bytes.
#[pyfunction]
#[pyo3(signature = (path, data, flags, mode=0o666))]
fn write_file(
    py: Python<'_>,
    path: PathArgument,
    data: Data,
    flags: i32,
    mode: u32,
) -> PyResult<Py<PyAny>> {
    call::make(py, move |py, engine| {
        let open = laio::ops::Open::new(path.name(None), flags | libc::O_CLOEXEC).mode(mode);
        engine.run(py, open, move |py, engine, file| {
            let file = file.map_err(|error| error::about(py, error, &path.object))?;
            write_from(py, engine, OpenFile::from(file), path, data, 0)
        })
    })
}

/// Writes the bytes from `start` on. If only a part fits, writing the rest shows why.
fn write_from(
    py: Python<'_>,
    engine: &mut Engine,
    file: OpenFile,
    path: PathArgument,
    data: Data,
    start: usize,
) -> PyResult<Step> {
    let length = data.len();
    let write = WriteAt::new(file.clone(), data.into_source_from(start), start as u64);
    engine.run(py, write, move |py, engine, (result, source)| {
        let result = match result {
            Ok(count @ 1..) if start + count < length => {
                let data = source.into_inner().into_inner();
                return write_from(py, engine, file, path, data, start + count);
            }
            Ok(count) if start + count < length => Err(io::Error::from_raw_os_error(libc::EIO)),
            result => result,
        };
        let result = match result {
            Ok(count) => Ok((start + count).into_pyobject(py)?.into_any().unbind()),
            Err(error) => Err(error::about(py, error, &path.object)),
        };
        close(py, engine, file, move |_, closed| {
            let value = result?;
            closed.map(|()| Step::Done(value))
        })
    })
}

/// Closes a file, and goes on with the result.
fn close(
    py: Python<'_>,
    engine: &mut Engine,
    file: OpenFile,
    next: impl FnOnce(Python<'_>, PyResult<()>) -> PyResult<Step> + 'static,
) -> PyResult<Step> {
    engine.forget(&file);
    match file.try_into_owned() {
        Ok(descriptor) => engine.run(py, Close::new(descriptor), move |py, _, result| {
            next(py, result.map_err(error::of))
        }),
        Err(_shared) => next(py, Ok(())),
    }
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(read_file, module)?)?;
    module.add_function(wrap_pyfunction!(write_file, module)?)
}
