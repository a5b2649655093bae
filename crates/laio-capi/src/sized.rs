//! Structs that begin with their size, so that a program and a library of different versions are
//! compatible.
//!
//! A struct grows at its end only, and in every field 0 means the earlier behaviour. So a shorter
//! one is filled with zeros, and a longer one is accepted if the rest of it is zero.

use laio::Errno;

/// A struct with `size: u32` as its first field.
///
/// # Safety
/// The type is `repr(C)`, all of its bytes may have any value, and its first field is the size.
pub(crate) unsafe trait Sized32: Copy {
    /// Size of the first version that was published.
    const FIRST: usize;
}

/// Reads such a struct.
///
/// # Errors
/// `EFAULT` for null, `EINVAL` for a size that no version had, `E2BIG` for a field that is not known here.
///
/// # Safety
/// `place` is null or points to as many readable bytes as its size says.
pub(crate) unsafe fn read<T: Sized32>(place: *const T) -> Result<T, Errno> {
    let size = unsafe {
        // SAFETY: by the caller.
        given_size(place)?
    };
    let known = size.min(size_of::<T>());
    // SAFETY: by the caller; any bytes make a T, zeros too.
    unsafe {
        let bytes = place.cast::<u8>();
        let mut value = std::mem::zeroed::<T>();
        std::ptr::copy_nonoverlapping(bytes, (&raw mut value).cast::<u8>(), known);
        let rest = std::slice::from_raw_parts(bytes.add(known), size - known);
        if rest.iter().any(|&byte| byte != 0) {
            return Err(Errno::TOOBIG);
        }
        Ok(value)
    }
}

/// Fills such a struct, with the fields that both versions have; its size is not changed.
///
/// # Errors
/// `EFAULT` for null, `EINVAL` for a size that no version had.
///
/// # Safety
/// `place` is null or points to as many writable bytes as its size says.
pub(crate) unsafe fn write<T: Sized32>(place: *mut T, value: &T) -> Result<(), Errno> {
    let size = unsafe {
        // SAFETY: by the caller.
        given_size(place)?
    };
    let known = size.min(size_of::<T>()) - size_of::<u32>();
    // SAFETY: by the caller. The size itself is left out.
    unsafe {
        let from = (&raw const *value).cast::<u8>().add(size_of::<u32>());
        let to = place.cast::<u8>().add(size_of::<u32>());
        std::ptr::copy_nonoverlapping(from, to, known);
        // Fields unknown to this library are zero.
        let rest = size - size_of::<u32>() - known;
        std::ptr::write_bytes(to.add(known), 0, rest);
    }
    Ok(())
}

/// Checks the size of a struct that will be filled.
///
/// # Errors
/// As for [`write`].
///
/// # Safety
/// `place` is null or points to four readable bytes.
pub(crate) unsafe fn check<T: Sized32>(place: *const T) -> Result<(), Errno> {
    // SAFETY: by the caller.
    unsafe { given_size(place) }.map(drop)
}

/// A struct that is larger than this is a mistake, not a later version: it would be read to its end.
const SIZE_MAX: usize = 4096;

/// # Safety
/// `place` is null or points to four readable bytes.
unsafe fn given_size<T: Sized32>(place: *const T) -> Result<usize, Errno> {
    if place.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: by the caller.
    let size = unsafe { place.cast::<u32>().read_unaligned() } as usize;
    if (T::FIRST..=SIZE_MAX).contains(&size) {
        Ok(size)
    } else {
        Err(Errno::INVAL)
    }
}
