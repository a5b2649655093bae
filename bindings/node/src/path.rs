//! Arguments that name a file.

use laio::ops::Name;
use napi::bindgen_prelude::{BufferSlice, Either};
use std::ffi::CString;
use std::io;

/// A path: text, or bytes. JavaScript passes no path with a zero byte.
pub(crate) type Path<'a> = Either<String, BufferSlice<'a>>;

/// The name for a call.
pub(crate) fn name(path: Path<'_>) -> io::Result<Name> {
    text(path).map(Name::new)
}

/// The path as the text of a symbolic link.
pub(crate) fn text(path: Path<'_>) -> io::Result<CString> {
    let text = match path {
        Either::A(text) => CString::new(text),
        Either::B(bytes) => CString::new(&bytes[..]),
    };
    Ok(text?)
}
