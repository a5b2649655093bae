//! Responses with the files below a directory, for servers written in Python.

use crate::call;
use crate::descriptor::{Descriptor, Found as Kind};
use crate::engine::{Engine, Step};
use crate::error;
use crate::path::PathArgument;
use laio::below::{BelowStep, OpenBelow};
use laio::ops::{FileStatus, OpenFile};
use laio::{Operation, Outcome};
use laio_http::Coding;
use laio_http::files::{
    Attributes, Body, Failure, FileResponse, FileRules, Found, Lookup, Part, Search,
};
use libc::{RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::ops::ControlFlow::{self, Break, Continue};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::SystemTime;

/// A directory whose files are served, and the rules for them.
#[pyclass(module = "laio", frozen)]
pub(crate) struct Files(Arc<Config>);

struct Config {
    root: OpenFile,
    rules: FileRules,
    /// How `openat2` resolves names.
    resolve: u64,
}

/// A file to respond with.
struct Source {
    file: OpenFile,
    kind: Kind,
}

#[pymethods]
impl Files {
    /// Opens the directory, which may block. `symlinks`: "within", "refuse" or "follow".
    #[new]
    fn new(
        py: Python<'_>,
        directory: PathArgument,
        index: Vec<String>,
        precompressed: Vec<String>,
        dotfiles: bool,
        symlinks: &str,
    ) -> PyResult<Files> {
        let resolve = match symlinks {
            "within" => RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
            "refuse" => RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
            "follow" => 0,
            _ => {
                let text = "symlinks must be 'within', 'refuse' or 'follow'";
                return Err(PyValueError::new_err(text));
            }
        };
        let codings = precompressed.iter().map(|coding| coding.parse::<Coding>());
        let precompressed = codings.collect::<Result<_, _>>();
        let precompressed = precompressed.map_err(PyValueError::new_err)?;
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_DIRECTORY);
        let root = py.detach(|| options.open(directory.as_path()));
        let root = root.map_err(|error| error::about(py, error, &directory.object))?;
        let rules = FileRules {
            index,
            precompressed,
            dotfiles,
        };
        Ok(Files(Arc::new(Config {
            root: OpenFile::from(root),
            rules,
            resolve,
        })))
    }

    /// Decides the response to a request, whose head is written as in HTTP/1.1. Returns (status, fields,
    /// open file or None, parts): a part is `bytes`, or (begin, end) of the file.
    fn respond(&self, py: Python<'_>, head: Vec<u8>) -> PyResult<Py<PyAny>> {
        let config = self.0.clone();
        call::make(py, move |py, engine| {
            let lookup = Lookup::new(&config.rules, head);
            advance(py, engine, config, lookup)
        })
    }
}

/// Opens what is looked for, and responds in the end.
fn advance(
    py: Python<'_>,
    engine: &mut Engine,
    config: Arc<Config>,
    lookup: Lookup<Source>,
) -> PyResult<Step> {
    let search = match lookup {
        Lookup::Open(search) => search,
        Lookup::Respond(response) => return into_python(py, response).map(Step::Done),
    };
    let below = OpenBelow::new(
        config.root.clone(),
        CString::new(search.name())?,
        config.resolve,
    );
    let opening = Opening {
        config,
        search,
        below,
    };
    open(py, engine, opening)
}

/// A name that is being opened.
struct Opening {
    config: Arc<Config>,
    search: Search<Source>,
    below: OpenBelow<OpenFile>,
}

/// What a result leads to: a further step, or the end.
type After = ControlFlow<io::Result<(OpenFile, FileStatus)>>;

/// Makes the steps of an open one after the other; those that do not wait, in a loop, because a path has as many
/// as its text allows.
fn open(py: Python<'_>, engine: &mut Engine, mut opening: Opening) -> PyResult<Step> {
    loop {
        let made = match opening.below.step() {
            Err(error) => Ok((opening, Break(Err(error)))),
            Ok(BelowStep::Open(open)) => make(engine, opening, open, OpenBelow::opened),
            Ok(BelowStep::Component(open)) => {
                make(engine, opening, open, OpenBelow::component_opened)
            }
            Ok(BelowStep::ReadLink(read)) => make(engine, opening, read, OpenBelow::link_read),
            Ok(BelowStep::Stat(stat)) => make(engine, opening, stat, OpenBelow::examined),
        };
        match made {
            Ok((next, Continue(()))) => opening = next,
            Ok((next, Break(below))) => return found(py, engine, next, below),
            Err(in_flight) => return Ok(in_flight),
        }
    }
}

/// Makes a step of an open, and passes its result on.
///
/// # Errors
/// The operation in the background, if it waits.
fn make<O: Operation>(
    engine: &mut Engine,
    mut opening: Opening,
    operation: O,
    take: fn(&mut OpenBelow<OpenFile>, O::Output) -> After,
) -> Result<(Opening, After), Step> {
    match engine.context.submit(operation) {
        Outcome::Done(output) => {
            let after = take(&mut opening.below, output);
            Ok((opening, after))
        }
        Outcome::Pending(ticket) => {
            Err(Step::later(ticket, move |py, engine, output| {
                match take(&mut opening.below, output) {
                    Continue(()) => open(py, engine, opening),
                    Break(opened) => found(py, engine, opening, opened),
                }
            }))
        }
    }
}

fn found(
    py: Python<'_>,
    engine: &mut Engine,
    opening: Opening,
    opened: io::Result<(OpenFile, FileStatus)>,
) -> PyResult<Step> {
    let Opening { config, search, .. } = opening;
    let found = opened.map(|(file, status)| source(file, &status));
    let found = found.map_err(Failure::from);
    let lookup = search.found(&config.rules, found, unix_time());
    advance(py, engine, config, lookup)
}

fn source(file: OpenFile, status: &FileStatus) -> Found<Source> {
    let modified = status.modified();
    let attributes = Attributes {
        inode: status.inode(),
        size: status.size(),
        modified: (modified.seconds, modified.nanoseconds),
    };
    let kind = Kind::from(status);
    Found::from_mode(Source { file, kind }, status.mode(), attributes)
}

fn into_python(py: Python<'_>, response: FileResponse<Source>) -> PyResult<Py<PyAny>> {
    let fields = response.fields.iter().map(|(name, value)| {
        let name = PyBytes::new(py, name.as_bytes());
        (name, PyBytes::new(py, value))
    });
    let fields = PyList::new(py, fields.collect::<Vec<_>>())?;
    let (file, parts) = match response.body {
        Body::Empty => (py.None(), Vec::new()),
        Body::Bytes(bytes) => (py.None(), vec![Part::Bytes(bytes)]),
        Body::File { file, parts } => {
            let file = Descriptor::new(file.file, py.None(), file.kind);
            (Py::new(py, file)?.into_any(), parts)
        }
    };
    let parts = parts.into_iter().map(|part| match part {
        Part::Bytes(bytes) => Ok(PyBytes::new(py, &bytes).into_any()),
        Part::Range(range) => Ok((range.start, range.end).into_pyobject(py)?.into_any()),
    });
    let parts = parts.collect::<PyResult<Vec<_>>>()?;
    let response = (response.status.code(), fields, file, parts);
    Ok(response.into_pyobject(py)?.into_any().unbind())
}

fn unix_time() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}
