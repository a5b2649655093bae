//! Several buffers in one write: a header and a body, without copying them together.

use super::{Source, word};
use crate::typed::Operation;
use crate::{Call, Errno};
use std::fmt;
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
enum Vectors {
    Few([libc::iovec; Vectors::FEW]),
    Many(Vec<libc::iovec>),
}

const UNUSED: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

impl Vectors {
    const FEW: usize = 4;

    fn new(count: usize) -> Vectors {
        if count <= Vectors::FEW {
            Vectors::Few([UNUSED; Vectors::FEW])
        } else {
            Vectors::Many(vec![UNUSED; count])
        }
    }

    /// Fills the array; returns its address and the number of buffers.
    fn fill(&mut self, sources: &impl Sources) -> (*mut libc::iovec, usize) {
        let vectors = match self {
            Vectors::Few(vectors) => &mut vectors[..],
            Vectors::Many(vectors) => &mut vectors[..],
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

/// Writes all of several buffers to a stream, or at the position of a file (`writev`).
pub struct WriteVectored<F, S> {
    file: F,
    sources: S,
    vectors: Vectors,
}

impl<F, S: Sources> WriteVectored<F, S> {
    /// Writes the sources in order.
    pub fn new(file: F, sources: S) -> Self {
        let vectors = Vectors::new(sources.count());
        WriteVectored {
            file,
            sources,
            vectors,
        }
    }
}

impl<F: fmt::Debug, S: fmt::Debug> fmt::Debug for WriteVectored<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteVectored")
            .field("file", &self.file)
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}

// SAFETY: the array is part of the operation or on its heap, and the bytes are in the sources.
unsafe impl<F: AsFd + 'static, S: Sources> Operation for WriteVectored<F, S> {
    /// Bytes written (fewer than all only on an error in between), and the sources.
    type Output = (io::Result<usize>, S);

    fn call(&mut self) -> Call {
        let (address, count) = self.vectors.fill(&self.sources);
        let args = [word(&self.file), address as usize, count];
        Call::new(libc::SYS_writev, args)
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        (result.map_err(io::Error::from), self.sources)
    }
}

/// Sends all of several buffers on a connected socket (`sendmsg`). It raises no `SIGPIPE`.
pub struct SendVectored<F, S> {
    socket: F,
    sources: S,
    vectors: Vectors,
    header: libc::msghdr,
    flags: i32,
}

impl<F, S: Sources> SendVectored<F, S> {
    /// Sends the sources in order.
    pub fn new(socket: F, sources: S) -> Self {
        let vectors = Vectors::new(sources.count());
        SendVectored {
            socket,
            sources,
            vectors,
            // SAFETY: plain data, for which all zeros is a valid value.
            header: unsafe { std::mem::zeroed() },
            flags: libc::MSG_NOSIGNAL,
        }
    }

    /// More `MSG_*` flags, such as `MSG_MORE`: more is to follow at once.
    pub fn flags(mut self, flags: i32) -> Self {
        self.flags |= flags;
        self
    }
}

impl<F: fmt::Debug, S: fmt::Debug> fmt::Debug for SendVectored<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendVectored")
            .field("socket", &self.socket)
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}

// SAFETY: header and array are part of the operation or on its heap, and the bytes are in the sources.
unsafe impl<F: AsFd + 'static, S: Sources> Operation for SendVectored<F, S> {
    /// Bytes sent (fewer than all only on an error in between), and the sources.
    type Output = (io::Result<usize>, S);

    fn call(&mut self) -> Call {
        let (address, count) = self.vectors.fill(&self.sources);
        self.header.msg_iov = address;
        self.header.msg_iovlen = count as _;
        let header = (&raw mut self.header) as usize;
        Call::new(
            libc::SYS_sendmsg,
            [word(&self.socket), header, self.flags as usize],
        )
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        (result.map_err(io::Error::from), self.sources)
    }
}
