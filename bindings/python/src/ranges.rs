//! Many ranges of a file at a time, past the page cache if the program wants that.

use crate::engine::{Engine, InFlight, Step};
use crate::error;
use laio::ops::OpenFile;
use laio::ranges::{DeviceFile, Direct, RangeOptions, RangeRequest, RangeStats, RequestedRanges};
use laio::{Context, Errno};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

/// Each range begins at a multiple of this in the `bytes` object, for the types of numpy.
const ALIGNMENT: usize = 64;

/// Reads ranges of a file. The value is a `bytes` object with all of them, where each is in it, and what was
/// done.
pub(crate) fn read(
    py: Python<'_>,
    engine: &mut Engine,
    file: OpenFile,
    devices: Devices,
    ranges: Vec<Range<u64>>,
    options: RangeOptions,
) -> PyResult<Step> {
    let request = RangeRequest::new(file, ranges, options).with_device(devices.first());
    Box::new(Reading { request, devices }).resume(py, engine)
}

/// The descriptors of a file for direct reads: one, or some more if coroutines have opened them at the same
/// time. They are closed with the file: to close one before would end the locks of the process on it.
#[derive(Clone, Default)]
pub(crate) struct Devices(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    devices: Vec<DeviceFile<OpenFile>>,
    is_closed: bool,
}

impl Devices {
    /// Keeps no more, and returns what there is, for the end of the file.
    pub(crate) fn close(&self) -> impl Send + use<> {
        let mut kept = self.lock();
        kept.is_closed = true;
        std::mem::take(&mut kept.devices)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first(&self) -> Option<DeviceFile<OpenFile>> {
        self.lock().devices.first().cloned()
    }

    fn keep(&self, device: Option<DeviceFile<OpenFile>>) {
        let mut kept = self.lock();
        if let Some(device) = device
            && !kept.is_closed
            && !kept.devices.iter().any(|known| known.is_same(&device))
        {
            kept.devices.push(device);
        }
    }
}

/// The ranges that a program has given as pairs.
///
/// # Errors
/// `ValueError` for a range that ends before it begins.
pub(crate) fn from_pairs(pairs: Vec<(u64, u64)>) -> PyResult<Vec<Range<u64>>> {
    let range = |(start, stop)| match start <= stop {
        true => Ok(start..stop),
        false => Err(PyValueError::new_err(format!(
            "a range stops at byte {stop}, before it starts, at byte {start}"
        ))),
    };
    pairs.into_iter().map(range).collect()
}

/// What `direct` says.
///
/// # Errors
/// `ValueError` for another word.
pub(crate) fn direct(word: &str) -> PyResult<Direct> {
    match word {
        "never" => Ok(Direct::Never),
        "auto" => Ok(Direct::Auto),
        "always" => Ok(Direct::Always),
        _ => Err(PyValueError::new_err(format!(
            "direct must be 'never', 'auto' or 'always', not '{word}'"
        ))),
    }
}

/// A request in the background.
struct Reading {
    request: RangeRequest<OpenFile>,
    devices: Devices,
}

impl InFlight for Reading {
    fn set_key(&mut self, context: &mut Context, key: u64) -> Result<(), Errno> {
        let started = self.request.started();
        let mut set = started.into_iter().map(|it| context.set_user_data(it, key));
        set.try_for_each(|set| set)
    }

    fn resume(mut self: Box<Self>, py: Python<'_>, engine: &mut Engine) -> PyResult<Step> {
        let Poll::Ready(read) = self.request.advance(&mut engine.context) else {
            return Ok(Step::InFlight(self));
        };
        self.devices.keep(self.request.device());
        let RequestedRanges { bytes, stats, .. } = read.map_err(error::of)?;
        let found: Result<Vec<_>, Errno> = bytes.into_iter().collect();
        let found = found.map_err(|errno| error::of(io::Error::from(errno)))?;
        let mut total = 0;
        let mut spans = Vec::with_capacity(found.len());
        for bytes in &found {
            spans.push((total, total + bytes.len()));
            total = (total + bytes.len()).next_multiple_of(ALIGNMENT);
        }
        engine.note_bytes(total);
        let buffer = PyBytes::new_with(py, total, |memory| {
            for (bytes, (start, stop)) in found.iter().zip(&spans) {
                memory[*start..*stop].copy_from_slice(bytes);
            }
            Ok(())
        })?;
        let value = (buffer, spans, in_python(py, &stats)?);
        Ok(Step::Done(value.into_pyobject(py)?.into_any().unbind()))
    }

    fn abandon(mut self: Box<Self>, context: &mut Context) {
        self.request.stop(context, Errno::CANCELED);
        self.devices.keep(self.request.device());
    }
}

/// The statistics as a dictionary.
fn in_python<'py>(py: Python<'py>, stats: &RangeStats) -> PyResult<Bound<'py, PyDict>> {
    let values = PyDict::new(py);
    values.set_item("direct", stats.reason.is_direct())?;
    values.set_item("reason", stats.reason.to_string())?;
    for (name, value) in [
        ("reads", stats.reads),
        ("direct_reads", stats.direct_reads),
        ("direct_bytes", stats.direct_bytes),
        ("cached_reads", stats.cached_reads),
        ("cached_bytes", stats.cached_bytes),
        ("found_in_cache", stats.found_in_cache),
        ("read_before", stats.read_before),
        ("file_ends", stats.file_ends),
        ("repeated", stats.repeated),
    ] {
        values.set_item(name, value)?;
    }
    Ok(values)
}
