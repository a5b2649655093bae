//! Arguments that name a file.

use crate::engine::Engine;
use laio::ops::Name;
use napi::bindgen_prelude::{BufferSlice, Either};
use std::ffi::{CStr, CString};
use std::io;

/// A path: text, or bytes. JavaScript passes no path with a zero byte.
pub(crate) type Path<'a> = Either<String, BufferSlice<'a>>;

/// The name for a call.
pub(crate) fn name(path: Path<'_>) -> io::Result<Name> {
    text(path).map(Name::new)
}

/// The name that JavaScript has placed at the start of the scratch memory, with a zero byte behind it.
pub(crate) fn placed(engine: &Engine) -> io::Result<Name> {
    let scratch = engine.scratch();
    let name = CStr::from_bytes_until_nul(&scratch);
    let name = name.map_err(|_| io::Error::from_raw_os_error(libc::ENAMETOOLONG))?;
    Ok(Name::new(name))
}

/// The path as the text of a symbolic link.
pub(crate) fn text(path: Path<'_>) -> io::Result<CString> {
    let text = match path {
        Either::A(text) => CString::new(text),
        Either::B(bytes) => CString::new(&bytes[..]),
    };
    Ok(text?)
}
