//! The awaitable of a call that did not finish at once.

use crate::engine::{self, Engine, Start, Step, Taken};
use pyo3::exceptions::{PyBaseException, PyRuntimeError, PyStopIteration, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use std::sync::Mutex;
use std::thread::ThreadId;

/// Makes a call. Returns its value if it does not block and the event loop is not due to run, else a
/// [`Call`] that the coroutine awaits.
///
/// If the event loop is due, it runs before the call: a coroutine that is cancelled in that turn has made none,
/// so that it cannot lose a result.
pub(crate) fn make(
    py: Python<'_>,
    start: impl FnOnce(Python<'_>, &mut Engine) -> PyResult<Step> + Send + 'static,
) -> PyResult<Py<PyAny>> {
    let call = engine::with(|engine| {
        if engine.is_turn_over() {
            return Ok(Err(Call::due(Box::new(start))));
        }
        match start(py, engine)? {
            Step::Done(value) => Ok(Ok(value)),
            Step::InFlight(next) => Ok(Err(Call::waiting(engine.keep(next)?))),
        }
    })?;
    match call {
        Ok(value) => Ok(value),
        Err(call) => Ok(Py::new(py, call)?.into_any()),
    }
}

/// What a coroutine of the package awaits: a call in the background, or a turn of the event loop.
///
/// It is a generator: `send`, `throw` and `close` are those of Python's generators.
#[pyclass(module = "laio")]
pub(crate) struct Call {
    /// Never contended: Python gives out one `&mut` at a time.
    state: Mutex<State>,
}

enum State {
    /// The event loop runs once, and then the call begins.
    Due {
        others: Option<Py<PyAny>>,
        start: Start,
    },
    Waiting(Background),
    Over,
}

/// A call in the background.
struct Background {
    /// Its key in the engine of its thread.
    key: u64,
    thread: ThreadId,
    /// The iterator of the event loop's future. `None` until the coroutine waits.
    future: Option<Py<PyAny>>,
}

/// What a coroutine does next: pass something to the event loop, or return.
enum Next {
    Yield(Py<PyAny>),
    Return(Py<PyAny>),
}

impl Call {
    /// A call that begins when the event loop, which is due to run, has run.
    pub(crate) fn due(start: Start) -> Call {
        let others = None;
        Call::new(State::Due { others, start })
    }

    /// A call that this thread's engine knows by `key`.
    pub(crate) fn waiting(key: u64) -> Call {
        Call::new(State::Waiting(Background::new(key)))
    }

    fn new(state: State) -> Call {
        let state = Mutex::new(state);
        Call { state }
    }

    fn replace(&mut self, new: State) -> State {
        let state = match self.state.get_mut() {
            Ok(state) => state,
            Err(poisoned) => poisoned.into_inner(),
        };
        std::mem::replace(state, new)
    }

    fn advance(&mut self, value: &Bound<'_, PyAny>) -> PyResult<Next> {
        let py = value.py();
        match self.replace(State::Over) {
            State::Due { others, start } => {
                let others = match others {
                    Some(others) => others,
                    None => engine::yield_to_loop(py)?,
                };
                if let Some(yielded) = send(others.bind(py), value)? {
                    let others = Some(others);
                    self.replace(State::Due { others, start });
                    return Ok(Next::Yield(yielded));
                }
                self.begin(py, start)
            }
            State::Waiting(background) => {
                background.check_thread()?;
                self.wait(background, value)
            }
            State::Over => Err(PyRuntimeError::new_err(
                "cannot reuse already awaited coroutine",
            )),
        }
    }

    /// Begins a call after the event loop has run.
    fn begin(&mut self, py: Python<'_>, start: Start) -> PyResult<Next> {
        let begun = engine::with(|engine| match start(py, engine)? {
            Step::Done(value) => Ok(Ok(value)),
            Step::InFlight(next) => Ok(Err(engine.keep(next)?)),
        })?;
        match begun {
            Ok(value) => Ok(Next::Return(value)),
            Err(key) => self.wait(Background::new(key), py.None().bind(py)),
        }
    }

    /// Passes the event loop's future on, until the call is over.
    fn wait(&mut self, background: Background, value: &Bound<'_, PyAny>) -> PyResult<Next> {
        let key = background.key;
        let next = self.wait_or_fail(background, value);
        next.inspect_err(|_| engine::cancel(key))
    }

    fn wait_or_fail(
        &mut self,
        mut background: Background,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Next> {
        let py = value.py();
        let key = background.key;
        // A coroutine that continues with its call, and has to wait once more, gets another future.
        loop {
            let future = match background.future.take() {
                Some(future) => future,
                None => match engine::with(|engine| engine.take(py, key))? {
                    Taken::InFlight => future_of(py, key)?,
                    taken => return taken.into_next(),
                },
            };
            if let Some(yielded) = send(future.bind(py), value)? {
                background.future = Some(future);
                self.replace(State::Waiting(background));
                return Ok(Next::Yield(yielded));
            }
        }
    }

    /// Throws into the event loop's future, which mostly raises the exception again.
    fn throw_in_background(
        &mut self,
        py: Python<'_>,
        background: Background,
        error: PyErr,
    ) -> PyResult<Next> {
        let Some(future) = &background.future else {
            return Err(error);
        };
        match future.call_method1(py, "throw", (error,)) {
            Ok(yielded) => {
                self.replace(State::Waiting(background));
                Ok(Next::Yield(yielded))
            }
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                let future = None;
                let none = py.None();
                self.wait(
                    Background {
                        future,
                        ..background
                    },
                    none.bind(py),
                )
            }
            Err(error) => Err(error),
        }
    }
}

#[pymethods]
impl Call {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.send(py.None().bind(py))
    }

    fn send(&mut self, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.advance(value)
            .and_then(|next| next.into_python(value.py()))
    }

    #[pyo3(signature = (kind, value=None, traceback=None))]
    fn throw(
        &mut self,
        py: Python<'_>,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let _ = traceback;
        let error = exception(kind, value)?;
        match self.replace(State::Over) {
            State::Over | State::Due { others: None, .. } => Err(error),
            State::Due {
                others: Some(others),
                start,
            } => match others.call_method1(py, "throw", (error,)) {
                Ok(yielded) => {
                    let others = Some(others);
                    self.replace(State::Due { others, start });
                    Ok(yielded)
                }
                Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                    self.begin(py, start)?.into_python(py)
                }
                Err(error) => Err(error),
            },
            State::Waiting(background) => {
                background.check_thread()?;
                let key = background.key;
                let next = self.throw_in_background(py, background, error);
                next.inspect_err(|_| engine::cancel(key))?.into_python(py)
            }
        }
    }

    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        let inner = match self.replace(State::Over) {
            State::Waiting(background) => {
                background.check_thread()?;
                engine::cancel(background.key);
                background.future
            }
            State::Due { others, .. } => others,
            State::Over => None,
        };
        match inner {
            Some(inner) if inner.bind(py).hasattr("close")? => {
                inner.call_method0(py, "close").map(drop)
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let State::Waiting(background) = self.replace(State::Over)
            && background.check_thread().is_ok()
        {
            engine::cancel(background.key);
        }
    }
}

impl Background {
    fn new(key: u64) -> Background {
        Background {
            key,
            thread: std::thread::current().id(),
            future: None,
        }
    }

    fn check_thread(&self) -> PyResult<()> {
        if self.thread == std::thread::current().id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(
            "a call of laio continues only in the thread that has started it",
        ))
    }
}

impl Next {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Next::Yield(yielded) => Ok(yielded),
            Next::Return(value) => Err(stop_iteration(py, value)),
        }
    }
}

impl Taken {
    fn into_next(self) -> PyResult<Next> {
        match self {
            Taken::Result(result) => result.map(Next::Return),
            Taken::InFlight | Taken::Nothing => Err(PyRuntimeError::new_err(
                "the engine of laio in which this call was made has ended",
            )),
        }
    }
}

/// Makes the event loop wait for a call. Returns the iterator of its future.
fn future_of(py: Python<'_>, key: u64) -> PyResult<Py<PyAny>> {
    let (future, wake) = engine::wait_in_loop(py)?;
    engine::with(|engine| {
        engine.set_wake(key, wake);
        Ok(())
    })?;
    Ok(future)
}

/// Sends a value to an iterator. Returns what it yields; `None` when it has returned.
fn send(iterator: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let py = iterator.py();
    let sent = if value.is_none() {
        static NEXT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        NEXT.import(py, "builtins", "next")?.call1((iterator,))
    } else {
        iterator.call_method1("send", (value,))
    };
    match sent {
        Ok(yielded) => Ok(Some(yielded.unbind())),
        Err(error) if error.is_instance_of::<PyStopIteration>(py) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The exception by which a coroutine returns a value.
fn stop_iteration(py: Python<'_>, value: Py<PyAny>) -> PyErr {
    let bound = value.bind(py);
    // Python takes a tuple for the arguments of the exception, and an exception for itself.
    if bound.is_instance_of::<PyTuple>() || bound.is_instance_of::<PyBaseException>() {
        PyStopIteration::new_err((value,))
    } else {
        PyStopIteration::new_err(value)
    }
}

/// The exception that the arguments of `throw` describe.
fn exception(kind: Bound<'_, PyAny>, value: Option<Bound<'_, PyAny>>) -> PyResult<PyErr> {
    if kind.is_instance_of::<PyBaseException>() {
        return Ok(PyErr::from_value(kind));
    }
    let made = match value {
        Some(value) if value.is_instance_of::<PyBaseException>() => value,
        Some(value) => kind.call1((value,))?,
        None => kind.call0()?,
    };
    if !made.is_instance_of::<PyBaseException>() {
        return Err(PyTypeError::new_err(
            "exceptions must derive from BaseException",
        ));
    }
    Ok(PyErr::from_value(made))
}
