//! Checks whether memory can be accessed: a bad pointer in a system call is `EFAULT`, and must not
//! become a crash because the engine reads it first.

use super::raw;
use crate::Errno;

/// The bytes that the kernel reads or writes in one check: the size of its signal set.
const PROBE: usize = 8;
/// The smallest page size.
const PAGE_MIN: usize = 4096;

/// Whether all of a range can be read.
///
/// rt_sigprocmask reads the set before it checks the operation, which is invalid here. One call for
/// each page; the trick is that of abseil's `AddressIsReadable`.
pub(crate) fn can_read(address: usize, length: usize) -> bool {
    pages(address, length).is_some_and(|mut probes| {
        probes.all(|probe| {
            const NOTHING: usize = 0x7fff_ffff;
            // SAFETY: the kernel reads the address itself, and refuses what it is asked to do.
            let result = unsafe { raw(libc::SYS_rt_sigprocmask, [NOTHING, probe, 0, PROBE]) };
            result != Err(Errno::FAULT)
        })
    })
}

/// Copies a string that ends with a zero within `most` bytes. `None` if there is none that can be read, or the address
/// is null.
/// `is_good`: the kernel has read it just now.
pub(crate) fn read_string(address: usize, most: usize, is_good: bool) -> Option<Vec<u8>> {
    // Calls that may take a descriptor alone (`utimensat`) have no name.
    if address == 0 {
        return None;
    }
    let mut bytes = Vec::new();
    while bytes.len() < most {
        let at = address.checked_add(bytes.len())?;
        let length = (PAGE_MIN - at % PAGE_MIN).min(most - bytes.len());
        if !is_good && !can_read(at, length) {
            return None;
        }
        // SAFETY: bytes of one page that can be read. They belong to a call in flight, so nothing changes
        // them.
        let chunk = unsafe { std::slice::from_raw_parts(at as *const u8, length) };
        let end = chunk.iter().position(|byte| *byte == 0);
        bytes.extend_from_slice(&chunk[..end.unwrap_or(length)]);
        if end.is_some() {
            return Some(bytes);
        }
    }
    None
}

/// Returns an address in each page of a range, followed by [`PROBE`] bytes of the range, or of the
/// page.
fn pages(address: usize, length: usize) -> Option<impl Iterator<Item = usize>> {
    let end = address.checked_add(length)?;
    let first = address & !(PROBE - 1);
    let starts = (address / PAGE_MIN + 1..end.div_ceil(PAGE_MIN)).map(|page| page * PAGE_MIN);
    // The kernel takes null for "no set".
    (address >= PAGE_MIN && end < isize::MAX as usize).then(|| std::iter::once(first).chain(starts))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use rustix::mm;

    #[test]
    fn bad_memory_is_distinguished_from_good() {
        assert_eq!(read_string(0, 100, true), None);
        // SAFETY: fresh mappings that only this test knows.
        let base = unsafe {
            let all = mm::MapFlags::PRIVATE;
            let base = mm::mmap_anonymous(
                std::ptr::null_mut(),
                3 * PAGE_MIN,
                mm::ProtFlags::READ | mm::ProtFlags::WRITE,
                all,
            )
            .unwrap();
            mm::mprotect(base.byte_add(PAGE_MIN), PAGE_MIN, mm::MprotectFlags::READ).unwrap();
            mm::munmap(base.byte_add(2 * PAGE_MIN), PAGE_MIN).unwrap();
            base.addr()
        };
        assert!(can_read(base, 2 * PAGE_MIN) && can_read(base + 3, 1));
        assert!(can_read(base + 2 * PAGE_MIN - 1, 1));
        assert!(!can_read(base + 2 * PAGE_MIN - 1, 2));
        assert!(!can_read(base, 3 * PAGE_MIN));
        for wild in [
            0,
            1,
            4095,
            usize::MAX,
            usize::MAX - 7,
            1 << 63,
            (1 << 47) - 8,
        ] {
            assert!(!can_read(wild, 8), "{wild:#x}");
            assert_eq!(read_string(wild, 8, false), None, "{wild:#x}");
        }
        // Two pages of zeros, the first of which can be written.
        let (text, at) = (b"0123456789", base + PAGE_MIN - 5);
        // SAFETY: five bytes of that page.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), at as *mut u8, 5) };
        let read = |at, most| read_string(at, most, false);
        assert_eq!(read(at, 100).expect("a string"), b"01234");
        assert_eq!(read_string(at, 100, true).expect("a string"), b"01234");
        assert_eq!(read(at, 5), None);
        assert_eq!(read(base, 10).expect("a string"), b"");
        // SAFETY: as above.
        unsafe { mm::munmap(base as *mut _, 2 * PAGE_MIN).unwrap() };
    }
}
