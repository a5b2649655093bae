//! Where the thread of an event loop is blocked.

use laio_stalls::{OwnLook, OwnThread};
use pyo3::prelude::*;
use std::time::Duration;

/// How long a thread has to take the interpreter's lock, which the calling thread had.
const PAUSE: Duration = Duration::from_millis(1);

/// A thread of this process.
#[pyclass(frozen)]
struct LoopThread(OwnThread);

/// What a thread did when its loop was late.
#[pyclass(frozen)]
struct ThreadLook(OwnLook);

#[pymethods]
impl LoopThread {
    #[new]
    fn new() -> PyResult<LoopThread> {
        Ok(LoopThread(OwnThread::current()?))
    }

    fn look(&self) -> Option<ThreadLook> {
        self.0.look().map(ThreadLook)
    }

    /// The call in which it is blocked, or what takes its place, its file, and what laio would do. Empty
    /// texts if it runs.
    fn place(
        &self,
        py: Python<'_>,
        before: Option<&ThreadLook>,
    ) -> (&'static str, String, &'static str) {
        py.detach(|| {
            std::thread::sleep(PAUSE);
            let place = self
                .0
                .look()
                .map(|look| self.0.place(&look, before.map(|before| &before.0)));
            let place = place.unwrap_or_default();
            (place.call, place.subject, place.remedy)
        })
    }
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LoopThread>()
}
