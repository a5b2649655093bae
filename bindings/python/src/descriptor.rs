//! An open file, without buffers: the coroutines of the calls on it.

use crate::call;
use crate::data::Data;
use crate::engine::{self, Engine, Step};
use crate::error;
use crate::left::Left;
use crate::path::PathArgument;
use crate::ranges::{self, Devices};
use crate::reading::{self, Place, READ_MAX};
use crate::status::stat_result;
use laio::ops::{
    Advice, Advise, Allocate, Close, CopyRange, FileStatus, Fsync, OpenFile, SendFile, StatFile,
    Truncate, Write, WriteAt,
};
use laio::ranges::RangeOptions;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::sync::Mutex;

/// A file descriptor, which is closed with the object.
#[pyclass(module = "laio", frozen)]
pub(crate) struct Descriptor {
    /// `None` when it was closed.
    file: Mutex<Option<OpenFile>>,
    /// What the program has opened, for messages.
    name: Py<PyAny>,
    /// What it was when it was opened.
    found: Found,
    left: Left,
    devices: Devices,
}

/// What is known of a file from the time when it was opened.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// As in `st_mode`.
    file_type: u32,
    /// In bytes.
    size: u64,
}

impl From<&FileStatus> for Found {
    fn from(status: &FileStatus) -> Found {
        Found {
            file_type: status.mode() & libc::S_IFMT,
            size: status.size(),
        }
    }
}

impl Descriptor {
    /// The step after a file was opened: its status follows, if it is not known yet.
    pub(crate) fn opened(
        py: Python<'_>,
        engine: &mut Engine,
        file: OpenFile,
        name: Py<PyAny>,
        status: Option<&FileStatus>,
    ) -> PyResult<Step> {
        if let Some(status) = status {
            let descriptor = Descriptor::new(file, name, status.into());
            return Ok(Step::Done(Py::new(py, descriptor)?.into_any()));
        }
        engine.run(py, StatFile::new(file.clone()), |py, _, status| {
            let status = status.map_err(|error| error::about(py, error, &name))?;
            let descriptor = Descriptor::new(file, name, Found::from(&status));
            Ok(Step::Done(Py::new(py, descriptor)?.into_any()))
        })
    }

    pub(crate) fn new(file: OpenFile, name: Py<PyAny>, found: Found) -> Descriptor {
        Descriptor {
            file: Mutex::new(Some(file)),
            name,
            found,
            left: Left::default(),
            devices: Devices::default(),
        }
    }

    fn take(&self) -> Option<OpenFile> {
        match self.file.lock() {
            Ok(mut file) => file.take(),
            Err(poisoned) => poisoned.into_inner().take(),
        }
    }

    pub(crate) fn file(&self) -> PyResult<OpenFile> {
        let file = match self.file.lock() {
            Ok(file) => file.clone(),
            Err(poisoned) => poisoned.into_inner().clone(),
        };
        file.ok_or_else(|| PyValueError::new_err("I/O operation on closed file."))
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.left.abandon();
        if let Some(file) = self.take() {
            engine::forget(&file);
        }
    }
}

#[pymethods]
impl Descriptor {
    /// A duplicate of a descriptor of which only the number is known.
    #[staticmethod]
    fn duplicate(py: Python<'_>, number: RawFd, name: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let file = OpenFile::duplicate(number).map_err(|errno| error::of(errno.into()))?;
        call::make(py, move |py, engine| {
            Descriptor::opened(py, engine, file, name, None)
        })
    }

    /// What kind of file it is, as in `st_mode`.
    #[getter]
    fn file_type(&self) -> u32 {
        self.found.file_type
    }

    /// The size in bytes when the file was opened.
    #[getter]
    fn size_at_open(&self) -> u64 {
        self.found.size
    }

    fn fileno(&self) -> PyResult<RawFd> {
        Ok(self.file()?.as_raw_fd())
    }

    #[getter]
    fn closed(&self) -> bool {
        self.file().is_err()
    }

    #[getter]
    fn name(&self, py: Python<'_>) -> Py<PyAny> {
        self.name.clone_ref(py)
    }

    /// Makes this thread's calls on the file complete in the order in which they were made, also those of
    /// cancelled coroutines.
    fn set_ordered(&self) -> PyResult<()> {
        let file = self.file()?;
        engine::with(|engine| {
            let set = engine.context.set_ordered(file.as_raw_fd(), true);
            set.map_err(|errno| error::of(errno.into()))
        })
    }

    /// Reads at most `length` bytes at `offset`.
    fn pread(&self, py: Python<'_>, length: i64, offset: i64) -> PyResult<Py<PyAny>> {
        // PyO3 converts numbers with a sign faster.
        let (length, offset) = (unsigned(length)?, unsigned(offset)?);
        let file = self.file()?;
        call::make(py, move |py, engine| {
            let length = length.min(READ_MAX as u64) as usize;
            reading::into_bytes(py, engine, file, length, Place::At(offset))
        })
    }

    /// Reads ranges, each a pair of its first byte and the byte after its last.
    fn read_ranges(
        &self,
        py: Python<'_>,
        pairs: Vec<(u64, u64)>,
        direct: &str,
        depth: usize,
    ) -> PyResult<Py<PyAny>> {
        let ranges = ranges::from_pairs(pairs)?;
        let options = RangeOptions::new(ranges::direct(direct)?).with_depth(depth);
        let (file, devices) = (self.file()?, self.devices.clone());
        call::make(py, move |py, engine| {
            ranges::read(py, engine, file, devices, ranges, options)
        })
    }

    /// Reads at `offset` into an object with the buffer protocol. Returns the number of bytes.
    fn pread_into(
        &self,
        py: Python<'_>,
        buffer: Bound<'_, PyAny>,
        offset: u64,
    ) -> PyResult<Py<PyAny>> {
        self.read_to(py, &buffer, Place::At(offset))
    }

    /// Reads at most `length` bytes from a stream, or where the file stands.
    fn read(&self, py: Python<'_>, length: usize) -> PyResult<Py<PyAny>> {
        let file = self.file()?;
        let place = Place::Next(self.left.clone());
        call::make(py, move |py, engine| {
            let length = length.min(READ_MAX);
            reading::into_bytes(py, engine, file, length, place)
        })
    }

    /// Hands bytes of a stream back: the next read gets them first.
    fn give_back(&self, data: Data) {
        self.left.give_back(data.as_ref());
    }

    /// Reads from a stream into an object with the buffer protocol. Returns the number of bytes.
    fn read_into(&self, py: Python<'_>, buffer: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.read_to(py, &buffer, Place::Next(self.left.clone()))
    }

    /// Writes at `offset`. Returns the number of bytes: fewer than all only after an error in between.
    fn pwrite(&self, py: Python<'_>, data: Data, offset: u64) -> PyResult<Py<PyAny>> {
        let file = self.file()?;
        call::make(py, move |py, engine| {
            let write = WriteAt::new(file, data.into_source(), offset);
            engine.run(py, write, |py, _, (result, _)| value(py, result))
        })
    }

    /// Writes to a stream, where the file stands, or at its end (`O_APPEND`).
    fn write(&self, py: Python<'_>, data: Data) -> PyResult<Py<PyAny>> {
        let file = self.file()?;
        call::make(py, move |py, engine| {
            let write = Write::new(file, data.into_source());
            engine.run(py, write, |py, _, (result, _)| value(py, result))
        })
    }

    /// The status, as `os.fstat`.
    fn stat(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let file = self.file()?;
        call::make(py, move |py, engine| {
            engine.run(py, StatFile::new(file), |py, _, status| {
                let status = status.map_err(error::of)?;
                stat_result(py, &status).map(Step::Done)
            })
        })
    }

    fn truncate(&self, py: Python<'_>, length: u64) -> PyResult<Py<PyAny>> {
        let file = self.file()?;
        call::make(py, move |py, engine| {
            engine.run(py, Truncate::new(file, length), nothing)
        })
    }

    fn fsync(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let file = self.file()?;
        call::make(py, move |py, engine| {
            engine.run(py, Fsync::new(file), nothing)
        })
    }

    fn fdatasync(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let file = self.file()?;
        call::make(py, move |py, engine| {
            engine.run(py, Fsync::data(file), nothing)
        })
    }

    fn allocate(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<Py<PyAny>> {
        let file = self.file()?;
        call::make(py, move |py, engine| {
            engine.run(py, Allocate::new(file, offset, length), nothing)
        })
    }

    /// Asks the kernel to read a part of the file ahead.
    fn will_need(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<Py<PyAny>> {
        let file = self.file()?;
        call::make(py, move |py, engine| {
            let advise = Advise::new(file, offset, length, Advice::WillNeed);
            engine.run(py, advise, nothing)
        })
    }

    /// Sends at most `count` bytes from `offset` to the socket, pipe or file with the number `to`.
    /// Returns the number of bytes.
    fn sendfile(
        &self,
        py: Python<'_>,
        to: RawFd,
        offset: u64,
        count: usize,
    ) -> PyResult<Py<PyAny>> {
        let file = self.file()?;
        let to = OpenFile::duplicate(to).map_err(|errno| error::of(errno.into()))?;
        call::make(py, move |py, engine| {
            let send = SendFile::new(to, file, Some(offset), count.min(READ_MAX));
            engine.run(py, send, |py, _, result| value(py, result))
        })
    }

    /// Copies at most `count` bytes to another file inside the kernel (`copy_file_range`). Returns the
    /// number of bytes: 0 at the end of the file.
    fn copy_range(
        &self,
        py: Python<'_>,
        to: &Descriptor,
        offset: u64,
        to_offset: u64,
        count: usize,
    ) -> PyResult<Py<PyAny>> {
        let (file, to) = (self.file()?, to.file()?);
        call::make(py, move |py, engine| {
            let copy = CopyRange::new(file, offset, to, to_offset, count.min(READ_MAX));
            engine.run(py, copy, |py, _, result| value(py, result))
        })
    }

    /// Gives the descriptor's number to the program, which closes it.
    fn detach(&self) -> PyResult<RawFd> {
        self.left.abandon();
        let closed = || PyValueError::new_err("I/O operation on closed file.");
        let file = self.take().ok_or_else(closed)?;
        engine::forget(&file);
        let descriptor = match file.try_into_owned() {
            Ok(descriptor) => descriptor,
            // An operation in the background still uses it.
            Err(shared) => shared.as_std().try_clone()?.into(),
        };
        Ok(descriptor.into_raw_fd())
    }

    /// Closes the descriptor. Later calls fail; operations in the background end first.
    fn close(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.left.abandon();
        let file = self.take();
        let devices = self.devices.close();
        // Before the event loop can run, which may close the descriptor with the call.
        if let Some(file) = &file {
            engine::forget(file);
        }
        call::make(py, move |py, engine| {
            let Some(file) = file else {
                return Ok(Step::Done(py.None()));
            };
            drop(devices);
            match file.try_into_owned() {
                Ok(descriptor) => engine.run(py, Close::new(descriptor), nothing),
                Err(_shared) => Ok(Step::Done(py.None())),
            }
        })
    }
}

impl Descriptor {
    fn read_to(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        place: Place,
    ) -> PyResult<Py<PyAny>> {
        let file = self.file()?;
        let memory = reading::writable_bytes(buffer)?;
        call::make(py, move |py, engine| {
            reading::into_buffer(py, engine, file, memory, place)
        })
    }
}

fn unsigned(number: i64) -> PyResult<u64> {
    let error = |_| PyOverflowError::new_err("can't convert negative int to unsigned");
    u64::try_from(number).map_err(error)
}

/// The step after an operation that returns nothing.
pub(crate) fn nothing(
    py: Python<'_>,
    _: &mut Engine,
    result: std::io::Result<()>,
) -> PyResult<Step> {
    result.map_err(error::of)?;
    Ok(Step::Done(py.None()))
}

/// The step after an operation that returns nothing, about one file.
pub(crate) fn nothing_about(
    path: PathArgument,
) -> impl FnOnce(Python<'_>, &mut Engine, std::io::Result<()>) -> PyResult<Step> {
    move |py, _, result| {
        result.map_err(|error| error::about(py, error, &path.object))?;
        Ok(Step::Done(py.None()))
    }
}

/// The step after an operation that returns a number.
pub(crate) fn value(py: Python<'_>, result: std::io::Result<usize>) -> PyResult<Step> {
    let count = result.map_err(error::of)?;
    Ok(Step::Done(count.into_pyobject(py)?.into_any().unbind()))
}
