//! Several buffers in one write: a header and a body, without copying them together.

use super::outputs::count;
use super::{Source, pointer, word};
use crate::Call;
use crate::sys::abi;
use std::io;
use std::os::fd::AsFd;

/// Several [`Source`]s, written one after the other: a tuple of two to four of them, an array, or a
/// `Vec`. The kernel takes at most 1,024.
///
/// # Safety
/// The slices that `visit` passes must stay valid and unchanged while the value is neither moved,
/// dropped nor otherwise used, and `count` must be their number.
pub unsafe trait Sources: 'static {
    /// Returns the number of slices.
    fn count(&self) -> usize;

    /// Passes each slice to `show`, in order.
    fn visit(&self, show: &mut dyn FnMut(&[u8]));
}

macro_rules! tuple {
    ($($name:ident $index:tt),*) => {
        // SAFETY: each source has the wanted property.
        unsafe impl<$($name: Source),*> Sources for ($($name,)*) {
            fn count(&self) -> usize {
                [$($index),*].len()
            }

            fn visit(&self, show: &mut dyn FnMut(&[u8])) {
                $(show(self.$index.bytes());)*
            }
        }
    };
}

tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);

// SAFETY: each source has the wanted property.
unsafe impl<S: Source> Sources for Vec<S> {
    fn count(&self) -> usize {
        self.len()
    }

    fn visit(&self, show: &mut dyn FnMut(&[u8])) {
        self.iter().for_each(|source| show(source.bytes()));
    }
}

// SAFETY: each source has the wanted property.
unsafe impl<S: Source, const N: usize> Sources for [S; N] {
    fn count(&self) -> usize {
        N
    }

    fn visit(&self, show: &mut dyn FnMut(&[u8])) {
        self.iter().for_each(|source| show(source.bytes()));
    }
}

/// The kernel's array of buffers: inline if there are few.
#[derive(Debug)]
struct Vectors {
    few: [libc::iovec; Vectors::FEW],
    many: Vec<libc::iovec>,
}

const UNUSED: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

impl Vectors {
    const FEW: usize = 4;
    const EMPTY: Vectors = Vectors {
        few: [UNUSED; Vectors::FEW],
        many: Vec::new(),
    };

    /// Fills the array; returns its address and the number of buffers.
    fn fill(&mut self, sources: &impl Sources) -> (*mut libc::iovec, usize) {
        let vectors = match sources.count() {
            ..=Vectors::FEW => &mut self.few[..],
            count => {
                self.many.resize(count, UNUSED);
                &mut self.many[..]
            }
        };
        let mut count = 0;
        sources.visit(&mut |bytes| {
            vectors[count] = libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            };
            count += 1;
        });
        (vectors.as_mut_ptr(), count)
    }
}

operation! {
    /// Writes all of several buffers to a stream, or at the position of a file (`writev`).
    pub struct WriteVectored<F: AsFd, S: Sources> {
        /// Writes the sources in order.
        new(file: F, sources: S);
        vectors: Vectors = Vectors::EMPTY,
    }

    // SAFETY: the array is part of the operation or on its heap, and the bytes are in the sources.
    unsafe call(self) {
        let (vectors, count) = self.vectors.fill(&self.sources);
        let args = [word(&self.file), vectors as usize, count];
        Call::new(libc::SYS_writev, args)
    }

    /// Bytes written (fewer than all only on an error in between), and the sources.
    finish(self, result) -> (io::Result<usize>, S) { (count(result), self.sources) }
}

operation! {
    /// Sends all of several buffers on a connected socket (`sendmsg`). It raises no `SIGPIPE`.
    pub struct SendVectored<F: AsFd, S: Sources> {
        /// Sends the sources in order.
        new(socket: F, sources: S);
        vectors: Vectors = Vectors::EMPTY,
        // SAFETY: plain data, for which all zeros is a valid value.
        header: abi::msghdr = unsafe { std::mem::zeroed() },
        flags: i32 = libc::MSG_NOSIGNAL,
    }

    /// More `MSG_*` flags, such as `MSG_MORE`: more is to follow at once.
    with flags(self, flags: i32) { self.flags |= flags }

    // SAFETY: header and array are part of the operation or on its heap, and the bytes are in the sources.
    unsafe call(self) {
        let (vectors, count) = self.vectors.fill(&self.sources);
        self.header.msg_iov = vectors;
        self.header.msg_iovlen = count as _;
        let header = pointer(&mut self.header);
        Call::new(libc::SYS_sendmsg, [word(&self.socket), header, self.flags as usize])
    }

    /// Bytes sent (fewer than all only on an error in between), and the sources.
    finish(self, result) -> (io::Result<usize>, S) { (count(result), self.sources) }
}
