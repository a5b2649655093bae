//! Reading into memory of Python.

use crate::engine::{Engine, SCRATCH, Step};
use crate::error;
use crate::left::{self, Left};
use laio::ops::{OpenFile, ReadAt, Readiness};
use laio::{Outcome, TryRead};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PySlice};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;

/// The kernel reads at most this much at once, in bytes.
pub(crate) const READ_MAX: usize = 0x7fff_f000;

/// Where to read: at a position, or where the stream or the file stands.
#[derive(Clone)]
pub(crate) enum Place {
    At(u64),
    /// After what cancelled reads have left.
    Next(Left),
}

/// Reads at most `length` bytes into a `bytes` object.
pub(crate) fn into_bytes(
    py: Python<'_>,
    engine: &mut Engine,
    file: OpenFile,
    length: usize,
    place: Place,
) -> PyResult<Step> {
    if let Place::Next(left) = &place {
        if length == 0 {
            return done(PyBytes::new(py, b""));
        }
        if let Some(bytes) = left.take(py, length) {
            return done(bytes);
        }
        if let Some(step) = left::go_on(engine, left, length) {
            return Ok(step);
        }
    }
    // To clear a new object would cost more than to copy what was read.
    if length > SCRATCH {
        return in_place(py, engine, file, length, place);
    }
    let (context, scratch) = engine.scratch();
    match try_read(context, &file, &mut scratch[..length], &place) {
        TryRead::Done(Ok(count)) => done(PyBytes::new(py, &scratch[..count])),
        TryRead::Done(Err(errno)) => Err(error::of(errno.into())),
        TryRead::WouldBlock { done } => {
            let head = scratch[..done].to_vec();
            in_background(py, engine, file, head, length, place)
        }
    }
}

/// Reads into an object of the largest length, which is copied only if the file is shorter.
fn in_place(
    py: Python<'_>,
    engine: &mut Engine,
    file: OpenFile,
    length: usize,
    place: Place,
) -> PyResult<Step> {
    engine.note_bytes(length);
    let mut tried = TryRead::WouldBlock { done: 0 };
    let bytes = PyBytes::new_with(py, length, |memory| {
        tried = try_read(&mut engine.context, &file, memory, &place);
        Ok(())
    })?;
    match tried {
        TryRead::Done(Ok(count)) if count == length => done(bytes),
        TryRead::Done(Ok(count)) => done(PyBytes::new(py, &bytes.as_bytes()[..count])),
        TryRead::Done(Err(errno)) => Err(error::of(errno.into())),
        TryRead::WouldBlock { done } => {
            let head = bytes.as_bytes()[..done].to_vec();
            in_background(py, engine, file, head, length, place)
        }
    }
}

/// Reads what is left after `head`.
fn in_background(
    py: Python<'_>,
    engine: &mut Engine,
    file: OpenFile,
    mut head: Vec<u8>,
    length: usize,
    place: Place,
) -> PyResult<Step> {
    match place {
        Place::At(position) => {
            let before = head.len();
            head.reserve_exact(length - before);
            let read = ReadAt::new(file, head, position + before as u64);
            engine.run(py, read, move |py, _, (result, bytes)| match result {
                Err(_) if before > 0 => done(PyBytes::new(py, &bytes[..before])),
                Err(error) => Err(error::of(error)),
                Ok(_) => done(PyBytes::new(py, &bytes)),
            })
        }
        Place::Next(_) if !head.is_empty() => done(PyBytes::new(py, &head)),
        Place::Next(left) => when_readable(py, engine, file, left, length),
    }
}

/// Waits until there is data, and reads it when the coroutine continues.
fn when_readable(
    py: Python<'_>,
    engine: &mut Engine,
    file: OpenFile,
    left: Left,
    length: usize,
) -> PyResult<Step> {
    let readable = Readiness::readable(file.clone());
    let next = move |py: Python<'_>, engine: &mut Engine, events: io::Result<i16>| {
        events.map_err(error::of)?;
        read_ready(py, engine, file, left, length)
    };
    match engine.context.submit(readable) {
        Outcome::Done(events) => next(py, engine, events),
        Outcome::Pending(ticket) => Ok(Step::with_coroutine(ticket, next)),
    }
}

fn read_ready(
    py: Python<'_>,
    engine: &mut Engine,
    file: OpenFile,
    left: Left,
    length: usize,
) -> PyResult<Step> {
    if let Some(bytes) = left.take(py, length) {
        return done(bytes);
    }
    let mut bytes = vec![0; length];
    match engine.context.try_read(&file, &mut bytes) {
        TryRead::Done(Ok(count)) | TryRead::WouldBlock { done: count @ 1.. } => {
            done(PyBytes::new(py, &bytes[..count]))
        }
        TryRead::Done(Err(errno)) => Err(error::of(errno.into())),
        TryRead::WouldBlock { .. } if is_readable(&file) => {
            left::read(py, engine, file, left, length)
        }
        // Another reader has taken the data.
        TryRead::WouldBlock { .. } => when_readable(py, engine, file, left, length),
    }
}

/// Whether a descriptor is readable now. If so, and an attempt has not read, it has no non-blocking reads.
fn is_readable(file: &OpenFile) -> bool {
    let mut polled = [PollFd::new(file, PollFlags::IN)];
    !matches!(poll(&mut polled, Some(&Timespec::default())), Ok(0))
}

/// Reads into memory that a Python object lends (its buffer protocol). The result is the number of bytes.
///
/// The bytes are copied: the memory belongs to the program, which may use it in other threads.
pub(crate) fn into_buffer(
    py: Python<'_>,
    engine: &mut Engine,
    file: OpenFile,
    memory: Py<PyMemoryView>,
    place: Place,
) -> PyResult<Step> {
    let length = memory.bind(py).len()?;
    let bytes = into_bytes(py, engine, file, length.min(READ_MAX), place)?;
    bytes.map(py, move |py, bytes| {
        let bytes = bytes.bind(py);
        let length = bytes.len()?;
        let part = PySlice::new(py, 0, length as isize, 1);
        memory.bind(py).set_item(part, bytes)?;
        Ok(length.into_pyobject(py)?.into_any().unbind())
    })
}

/// The memory that an object lends, as a view of bytes.
pub(crate) fn writable_bytes(buffer: &Bound<'_, PyAny>) -> PyResult<Py<PyMemoryView>> {
    let view = PyMemoryView::from(buffer)?;
    let is = |attribute| view.getattr(attribute)?.is_truthy();
    if is("readonly")? || !is("c_contiguous")? {
        return Err(PyTypeError::new_err(
            "a read-write bytes-like object is required",
        ));
    }
    // An empty view cannot be cast.
    if view.len()? == 0 {
        return Ok(view.unbind());
    }
    let bytes = view.call_method1("cast", ("B",))?;
    Ok(bytes.cast_into::<PyMemoryView>()?.unbind())
}

fn try_read(
    context: &mut laio::Context,
    file: &OpenFile,
    memory: &mut [u8],
    place: &Place,
) -> TryRead {
    match place {
        Place::At(position) => context.try_read_at(file, memory, *position),
        Place::Next(_) => context.try_read(file, memory),
    }
}

fn done(bytes: Bound<'_, PyBytes>) -> PyResult<Step> {
    Ok(Step::Done(bytes.into_any().unbind()))
}
