//! Arguments that name a file.

use laio::ops::Name;
use napi::bindgen_prelude::{BufferSlice, Either};
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// A path: text, or bytes. JavaScript passes no path with a zero byte.
pub(crate) type Path<'a> = Either<String, BufferSlice<'a>>;

/// The name for a call.
pub(crate) fn name(path: &Path<'_>) -> io::Result<Name> {
    Name::from_path(OsStr::from_bytes(bytes(path)))
}

/// The path as the text of a symbolic link.
pub(crate) fn text(path: &Path<'_>) -> io::Result<CString> {
    Ok(CString::new(bytes(path))?)
}

fn bytes<'a>(path: &'a Path<'_>) -> &'a [u8] {
    match path {
        Either::A(text) => text.as_bytes(),
        Either::B(bytes) => bytes,
    }
}
