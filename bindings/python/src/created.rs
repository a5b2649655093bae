//! Making a file or directory under a new name: if the coroutine is cancelled, it is removed again.

use crate::call;
use crate::descriptor::Descriptor;
use crate::engine::{Engine, InFlight, Step};
use crate::error;
use crate::path::PathArgument;
use laio::ops::{Mkdir, Open, OpenFile, OpenStat, Unlink};
use laio::{Context, Errno};
use pyo3::prelude::*;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// Makes a file that only this user may open, and opens it for reading and writing.
#[pyfunction]
fn create_file(py: Python<'_>, path: PathArgument) -> PyResult<Py<PyAny>> {
    call::make(py, move |py, engine| {
        let path = Arc::new(path);
        let new = New::of(&path, Unlink::new);
        let is_made = new.is_made.clone();
        let flags =
            libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let open = OpenStat::from(Open::new(path.name(None), flags).mode(0o600));
        let step = engine.run(py, open, move |py, engine, opened| {
            let opened = opened.map_err(|error| error::about(py, error, &path.object))?;
            is_made.set(true);
            let status = opened.status().copied();
            let file = OpenFile::from(opened.into_descriptor().map_err(error::of)?);
            let name = path.object.clone_ref(py);
            Descriptor::opened(py, engine, file, name, status.as_ref())
        });
        new.after(py, engine, step)
    })
}

/// Makes a directory that only this user may use.
#[pyfunction]
fn create_directory(py: Python<'_>, path: PathArgument) -> PyResult<Py<PyAny>> {
    call::make(py, move |py, engine| {
        let path = Arc::new(path);
        let new = New::of(&path, Unlink::directory);
        let is_made = new.is_made.clone();
        let step = engine.run(
            py,
            Mkdir::new(path.name(None), 0o700),
            move |py, _, made| {
                made.map_err(|error| error::about(py, error, &path.object))?;
                is_made.set(true);
                Ok(Step::Done(py.None()))
            },
        );
        new.after(py, engine, step)
    })
}

/// A name that gets a file or a directory.
struct New {
    path: Arc<PathArgument>,
    /// Whether it has been made.
    is_made: Rc<Cell<bool>>,
    removal: fn(laio::ops::Name<OpenFile>) -> Unlink<OpenFile>,
}

impl New {
    fn of(
        path: &Arc<PathArgument>,
        removal: fn(laio::ops::Name<OpenFile>) -> Unlink<OpenFile>,
    ) -> New {
        New {
            path: path.clone(),
            is_made: Rc::default(),
            removal,
        }
    }

    /// What a step of the creation leads to. If it has failed after the name was made, the name is removed.
    fn after(self, py: Python<'_>, engine: &mut Engine, step: PyResult<Step>) -> PyResult<Step> {
        match step {
            Ok(Step::InFlight(inner)) => {
                Ok(Step::InFlight(Box::new(Creating { inner, new: self })))
            }
            Ok(done) => Ok(done),
            Err(error) if self.is_made.get() => {
                let removal = (self.removal)(self.path.name(None));
                engine.run(py, removal, move |_, _, _| Err(error))
            }
            Err(error) => Err(error),
        }
    }
}

/// A creation in the background.
struct Creating {
    inner: Box<dyn InFlight>,
    new: New,
}

impl InFlight for Creating {
    fn set_key(&mut self, context: &mut Context, key: u64) -> Result<(), Errno> {
        self.inner.set_key(context, key)
    }

    fn resume(self: Box<Self>, py: Python<'_>, engine: &mut Engine) -> PyResult<Step> {
        let step = self.inner.resume(py, engine);
        self.new.after(py, engine, step)
    }

    fn abandon(self: Box<Self>, context: &mut Context) {
        self.inner.abandon(context);
    }

    fn waits_for_coroutine(&self) -> bool {
        true
    }

    fn part(self: Box<Self>, _: &mut Context, _: u64) -> Option<Box<dyn InFlight>> {
        // Not cancelled: of a cancelled call it would not be known whether it has made the name.
        Some(Box::new(Removing(*self)))
    }
}

/// A creation whose coroutine was cancelled: it ends, and what it has made is removed.
struct Removing(Creating);

impl InFlight for Removing {
    fn set_key(&mut self, context: &mut Context, key: u64) -> Result<(), Errno> {
        self.0.set_key(context, key)
    }

    fn resume(self: Box<Self>, py: Python<'_>, engine: &mut Engine) -> PyResult<Step> {
        let Creating { inner, new } = self.0;
        match inner.resume(py, engine) {
            Ok(Step::InFlight(inner)) => {
                Ok(Step::InFlight(Box::new(Removing(Creating { inner, new }))))
            }
            _ if new.is_made.get() => {
                let removal = (new.removal)(new.path.name(None));
                let removed = engine.run(py, removal, |py, _, _| Ok(Step::Done(py.None())))?;
                Ok(match removed {
                    Step::InFlight(inner) => Step::InFlight(Box::new(Ending(inner))),
                    done => done,
                })
            }
            _ => Ok(Step::Done(py.None())),
        }
    }

    fn abandon(self: Box<Self>, context: &mut Context) {
        self.0.inner.abandon(context);
    }

    fn is_awaited_at_exit(&self) -> bool {
        true
    }
}

/// A removal that must end.
struct Ending(Box<dyn InFlight>);

impl InFlight for Ending {
    fn set_key(&mut self, context: &mut Context, key: u64) -> Result<(), Errno> {
        self.0.set_key(context, key)
    }

    fn resume(self: Box<Self>, py: Python<'_>, engine: &mut Engine) -> PyResult<Step> {
        self.0.resume(py, engine)
    }

    fn abandon(self: Box<Self>, context: &mut Context) {
        self.0.abandon(context);
    }

    fn is_awaited_at_exit(&self) -> bool {
        true
    }
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(create_file, module)?)?;
    module.add_function(wrap_pyfunction!(create_directory, module)?)
}
