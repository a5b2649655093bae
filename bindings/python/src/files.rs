//! Responses with the files below a directory, for servers written in Python.

use crate::descriptor::{Descriptor, Found as Kind};
use crate::engine::{self, Engine, Step};
use crate::error;
use crate::path::PathArgument;
use laio::ops::{FileStatus, Name, Open, OpenFile, OpenStat, Opened, StatFile};
use laio_http::Coding;
use laio_http::files::{
    Attributes, Body, Failure, FileResponse, FileRules, Found, Lookup, Part, Search,
};
use libc::{O_CLOEXEC, O_NOCTTY, O_NONBLOCK};
use libc::{RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use rustix::fs::{OFlags, fcntl_setfl};
use std::ffi::CString;
use std::fs::File;
use std::io;
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

/// How often a name is opened again after a race with a rename.
const RACES: u32 = 16;

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
        engine::make(py, move |py, engine| {
            let lookup = Lookup::new(&config.rules, head);
            advance(py, engine, config, lookup, 0)
        })
    }
}

/// Opens what is looked for, and responds in the end.
fn advance(
    py: Python<'_>,
    engine: &mut Engine,
    config: Arc<Config>,
    lookup: Lookup<Source>,
    races: u32,
) -> PyResult<Step> {
    let search = match lookup {
        Lookup::Open(search) => search,
        Lookup::Respond(response) => return into_python(py, response).map(Step::Done),
    };
    let name = Name::at(config.root.clone(), CString::new(search.name())?);
    // Opening a FIFO does not wait for a writer.
    let open = Open::new(name, O_NONBLOCK | O_NOCTTY | O_CLOEXEC).resolve(config.resolve);
    engine.run(py, OpenStat::from(open), move |py, engine, opened| {
        match opened {
            // A directory of the path was renamed meanwhile, so that the kernel could not verify that the
            // name stays below the root.
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && races < RACES => {
                advance(py, engine, config, Lookup::Open(search), races + 1)
            }
            Err(error) => found(py, engine, config, search, Err(error)),
            Ok(opened) => examine(py, engine, config, search, opened),
        }
    })
}

fn examine(
    py: Python<'_>,
    engine: &mut Engine,
    config: Arc<Config>,
    search: Search<Source>,
    opened: Opened,
) -> PyResult<Step> {
    let (status, ignores_mode) = (opened.status().copied(), opened.is_stored());
    let file = OpenFile::from(opened.into_own_descriptor());
    if let Some(status) = status {
        let source = source(file, &status, ignores_mode);
        return found(py, engine, config, search, source);
    }
    engine.run(
        py,
        StatFile::new(file.clone()),
        move |py, engine, status| {
            let source = status.and_then(|status| source(file, &status, ignores_mode));
            found(py, engine, config, search, source)
        },
    )
}

fn found(
    py: Python<'_>,
    engine: &mut Engine,
    config: Arc<Config>,
    search: Search<Source>,
    found: io::Result<Found<Source>>,
) -> PyResult<Step> {
    let found = found.map_err(|error| Failure::of_errno(error.raw_os_error().unwrap_or(0)));
    let lookup = search.found(&config.rules, found, unix_time());
    advance(py, engine, config, lookup, 0)
}

fn source(file: OpenFile, status: &FileStatus, ignores_mode: bool) -> io::Result<Found<Source>> {
    if status.is_dir() {
        return Ok(Found::Directory);
    }
    if !status.is_file() {
        return Ok(Found::Special);
    }
    if !ignores_mode {
        // A read of the file itself may block: that happens in the background.
        fcntl_setfl(&file, OFlags::empty())?;
    }
    let modified = status.modified();
    let attributes = Attributes {
        inode: status.inode(),
        size: status.size(),
        modified: (modified.seconds, modified.nanoseconds),
    };
    let kind = status.into();
    Ok(Found::File(Source { file, kind }, attributes))
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
