//! Calls on names of files, as those of the module `os`.

use crate::call;
use crate::descriptor::{Descriptor, nothing_about};
use crate::engine::Step;
use crate::error;
use crate::path::{PathArgument, directory};
use crate::status::stat_result;
use laio::ops::{
    Access, Link, Mkdir, Open, OpenFile, OpenStat, ReadLink, Rename, SetMode, SetOwner, SetTimes,
    StatPath, Symlink, Timestamp, Unlink,
};
use pyo3::prelude::*;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStringExt;

/// Opens a file with flags of the module `os`. The descriptor is not inherited by programs started.
#[pyfunction]
#[pyo3(signature = (path, flags, mode=0o666, dir_fd=None))]
fn open(
    py: Python<'_>,
    path: PathArgument,
    flags: i32,
    mode: u32,
    dir_fd: Option<RawFd>,
) -> PyResult<Py<PyAny>> {
    let directory = directory(dir_fd)?;
    call::make(py, move |py, engine| {
        let open = Open::new(path.name(directory), flags | libc::O_CLOEXEC).mode(mode);
        engine.run(py, OpenStat::from(open), move |py, engine, opened| {
            let opened = opened.map_err(|error| error::about(py, error, &path.object))?;
            let status = opened.status().copied();
            let file = opened.into_descriptor().map_err(error::of)?;
            let file = OpenFile::from(file);
            Descriptor::opened(py, engine, file, path.object, status.as_ref())
        })
    })
}

/// The status of a file.
#[pyfunction]
#[pyo3(signature = (path, dir_fd=None, follow_symlinks=true))]
fn stat(
    py: Python<'_>,
    path: PathArgument,
    dir_fd: Option<RawFd>,
    follow_symlinks: bool,
) -> PyResult<Py<PyAny>> {
    let directory = directory(dir_fd)?;
    call::make(py, move |py, engine| {
        let mut stat = StatPath::new(path.name(directory));
        if !follow_symlinks {
            stat = stat.no_follow();
        }
        engine.run(py, stat, move |py, _, status| {
            let status = status.map_err(|error| error::about(py, error, &path.object))?;
            stat_result(py, &status).map(Step::Done)
        })
    })
}

#[pyfunction]
#[pyo3(signature = (path, mode=0o777, dir_fd=None))]
fn mkdir(
    py: Python<'_>,
    path: PathArgument,
    mode: u32,
    dir_fd: Option<RawFd>,
) -> PyResult<Py<PyAny>> {
    let directory = directory(dir_fd)?;
    call::make(py, move |py, engine| {
        engine.run(
            py,
            Mkdir::new(path.name(directory), mode),
            nothing_about(path),
        )
    })
}

#[pyfunction]
#[pyo3(signature = (path, dir_fd=None))]
fn unlink(py: Python<'_>, path: PathArgument, dir_fd: Option<RawFd>) -> PyResult<Py<PyAny>> {
    let directory = directory(dir_fd)?;
    call::make(py, move |py, engine| {
        engine.run(py, Unlink::new(path.name(directory)), nothing_about(path))
    })
}

#[pyfunction]
#[pyo3(signature = (path, dir_fd=None))]
fn rmdir(py: Python<'_>, path: PathArgument, dir_fd: Option<RawFd>) -> PyResult<Py<PyAny>> {
    let directory = directory(dir_fd)?;
    call::make(py, move |py, engine| {
        let name = path.name(directory);
        engine.run(py, Unlink::directory(name), nothing_about(path))
    })
}

/// Renames a file. `flags`: those of `renameat2`.
#[pyfunction]
#[pyo3(signature = (src, dst, src_dir_fd=None, dst_dir_fd=None, flags=0))]
fn rename(
    py: Python<'_>,
    src: PathArgument,
    dst: PathArgument,
    src_dir_fd: Option<RawFd>,
    dst_dir_fd: Option<RawFd>,
    flags: u32,
) -> PyResult<Py<PyAny>> {
    let (from, to) = (directory(src_dir_fd)?, directory(dst_dir_fd)?);
    call::make(py, move |py, engine| {
        let rename = Rename::new(src.name(from), dst.name(to)).flags(flags);
        engine.run(py, rename, move |py, _, result| {
            result.map_err(|error| error::about_two(py, error, &src.object, &dst.object))?;
            Ok(Step::Done(py.None()))
        })
    })
}

#[pyfunction]
#[pyo3(signature = (src, dst, src_dir_fd=None, dst_dir_fd=None, follow_symlinks=false))]
fn link(
    py: Python<'_>,
    src: PathArgument,
    dst: PathArgument,
    src_dir_fd: Option<RawFd>,
    dst_dir_fd: Option<RawFd>,
    follow_symlinks: bool,
) -> PyResult<Py<PyAny>> {
    let (from, to) = (directory(src_dir_fd)?, directory(dst_dir_fd)?);
    call::make(py, move |py, engine| {
        let mut link = Link::new(src.name(from), dst.name(to));
        if follow_symlinks {
            link = link.follow();
        }
        engine.run(py, link, move |py, _, result| {
            result.map_err(|error| error::about_two(py, error, &src.object, &dst.object))?;
            Ok(Step::Done(py.None()))
        })
    })
}

#[pyfunction]
#[pyo3(signature = (src, dst, dir_fd=None))]
fn symlink(
    py: Python<'_>,
    src: PathArgument,
    dst: PathArgument,
    dir_fd: Option<RawFd>,
) -> PyResult<Py<PyAny>> {
    let directory = directory(dir_fd)?;
    call::make(py, move |py, engine| {
        let symlink = Symlink::new(src.to_c_string(), dst.name(directory));
        engine.run(py, symlink, move |py, _, result| {
            result.map_err(|error| error::about_two(py, error, &src.object, &dst.object))?;
            Ok(Step::Done(py.None()))
        })
    })
}

/// The text of a symbolic link, of the same type as the path.
#[pyfunction]
#[pyo3(signature = (path, dir_fd=None))]
fn readlink(py: Python<'_>, path: PathArgument, dir_fd: Option<RawFd>) -> PyResult<Py<PyAny>> {
    let directory = directory(dir_fd)?;
    call::make(py, move |py, engine| {
        let read = ReadLink::new(path.name(directory));
        engine.run(py, read, move |py, _, text| {
            let text = text.map_err(|error| error::about(py, error, &path.object))?;
            let bytes = text.into_os_string().into_vec();
            path.same_type(py, bytes).map(Step::Done)
        })
    })
}

/// Whether the process may access a file, with its real or its effective user and group. As `os.access`.
#[pyfunction]
#[pyo3(signature = (path, mode, dir_fd=None, effective_ids=false, follow_symlinks=true))]
fn access(
    py: Python<'_>,
    path: PathArgument,
    mode: u32,
    dir_fd: Option<RawFd>,
    effective_ids: bool,
    follow_symlinks: bool,
) -> PyResult<Py<PyAny>> {
    let directory = directory(dir_fd)?;
    call::make(py, move |py, engine| {
        let mut access = Access::new(path.name(directory), mode);
        if effective_ids {
            access = access.effective();
        }
        if !follow_symlinks {
            access = access.no_follow();
        }
        engine.run(py, access, |py, _, result| {
            let may = result.is_ok().into_pyobject(py)?.to_owned();
            Ok(Step::Done(may.into_any().unbind()))
        })
    })
}

#[pyfunction]
#[pyo3(signature = (path, mode, dir_fd=None, follow_symlinks=true))]
fn chmod(
    py: Python<'_>,
    path: PathArgument,
    mode: u32,
    dir_fd: Option<RawFd>,
    follow_symlinks: bool,
) -> PyResult<Py<PyAny>> {
    let directory = directory(dir_fd)?;
    call::make(py, move |py, engine| {
        let mut set = SetMode::named(path.name(directory), mode);
        if follow_symlinks {
            set = set.follow();
        }
        engine.run(py, set, nothing_about(path))
    })
}

/// Sets owner and group; -1 leaves one as it is.
#[pyfunction]
#[pyo3(signature = (path, uid, gid, dir_fd=None, follow_symlinks=true))]
fn chown(
    py: Python<'_>,
    path: PathArgument,
    uid: i64,
    gid: i64,
    dir_fd: Option<RawFd>,
    follow_symlinks: bool,
) -> PyResult<Py<PyAny>> {
    let directory = directory(dir_fd)?;
    let (user, group) = (identity(uid)?, identity(gid)?);
    call::make(py, move |py, engine| {
        let mut set = SetOwner::named(path.name(directory), user, group);
        if follow_symlinks {
            set = set.follow();
        }
        engine.run(py, set, nothing_about(path))
    })
}

/// Sets the times of a file: pairs of seconds and nanoseconds.
#[pyfunction]
#[pyo3(signature = (path, accessed, modified, dir_fd=None, follow_symlinks=true))]
fn utime(
    py: Python<'_>,
    path: PathArgument,
    accessed: (i64, u32),
    modified: (i64, u32),
    dir_fd: Option<RawFd>,
    follow_symlinks: bool,
) -> PyResult<Py<PyAny>> {
    let directory = directory(dir_fd)?;
    let time = |(seconds, nanoseconds)| Timestamp {
        seconds,
        nanoseconds,
    };
    let (accessed, modified) = (time(accessed), time(modified));
    call::make(py, move |py, engine| {
        let mut set = SetTimes::named(path.name(directory), Some(accessed), Some(modified));
        if follow_symlinks {
            set = set.follow();
        }
        engine.run(py, set, nothing_about(path))
    })
}

/// A user or group number; -1 is none.
fn identity(number: i64) -> PyResult<Option<u32>> {
    match number {
        -1 => Ok(None),
        number => Ok(Some(number.try_into()?)),
    }
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for function in [
        wrap_pyfunction!(open, module)?,
        wrap_pyfunction!(stat, module)?,
        wrap_pyfunction!(mkdir, module)?,
        wrap_pyfunction!(unlink, module)?,
        wrap_pyfunction!(rmdir, module)?,
        wrap_pyfunction!(rename, module)?,
        wrap_pyfunction!(link, module)?,
        wrap_pyfunction!(symlink, module)?,
        wrap_pyfunction!(readlink, module)?,
        wrap_pyfunction!(access, module)?,
        wrap_pyfunction!(chmod, module)?,
        wrap_pyfunction!(chown, module)?,
        wrap_pyfunction!(utime, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
