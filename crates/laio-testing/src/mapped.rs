//! Files that are mapped into memory, for tests of page faults.

use std::fs::File;
use std::io;
use std::ptr::null_mut;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The smallest page of all processors; the kernel maps whole pages.
const LENGTH: usize = 4096;

/// Maps the start of a file, reads its first byte, which is a page fault, and unmaps it.
///
/// # Errors
///
/// The errors of `fstat`, `mmap` and `munmap`, and [`io::ErrorKind::UnexpectedEof`] for an empty file.
pub fn first_byte(file: &File) -> io::Result<u8> {
    // A page behind the end of the file would raise SIGBUS.
    if file.metadata()?.len() == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // SAFETY: a new mapping at an address that the kernel chooses.
    let page = unsafe {
        mmap(
            null_mut(),
            LENGTH,
            ProtFlags::READ,
            MapFlags::SHARED,
            file,
            0,
        )?
    };
    // SAFETY: the mapping is readable, and its first page has a byte of the file. The read is volatile
    // because others may change the file. If they truncate it, SIGBUS ends the process.
    let byte = unsafe { page.cast::<u8>().read_volatile() };
    // SAFETY: the mapping is this function's own, and nothing refers to it.
    unsafe { munmap(page, LENGTH)? };
    Ok(byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_byte_is_read() {
        let mut file = tempfile::tempfile().unwrap();
        let empty = first_byte(&file).map_err(|error| error.kind());
        assert_eq!(empty, Err(io::ErrorKind::UnexpectedEof));
        file.write_all(b"xyz").unwrap();
        assert_eq!(first_byte(&file).unwrap(), b'x');
    }
}
