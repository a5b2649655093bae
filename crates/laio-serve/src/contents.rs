//! Where the bytes of a file come from.

use crate::worker::Worker;
use laio::ops::{Limit, ReadAt};
use laio_rt::Descriptor;
use std::io;
use std::rc::Rc;

/// The bytes of a file that was opened.
#[derive(Clone, Debug)]
pub(crate) enum Contents {
    File(Descriptor),
    /// Whole: they were read before.
    Memory(Rc<[u8]>),
}

impl Worker {
    /// Appends at most `most` bytes of a file to the buffer.
    ///
    /// # Errors
    /// Those of reading; `TimedOut` when it takes too long, `UnexpectedEof` when there is nothing.
    pub(crate) async fn read(
        &self,
        contents: &Contents,
        mut out: Vec<u8>,
        most: usize,
        offset: u64,
    ) -> io::Result<Vec<u8>> {
        let file = match contents {
            Contents::File(file) => file,
            Contents::Memory(bytes) => {
                let start = bytes.len().min(offset as usize);
                let end = bytes.len().min(start.saturating_add(most));
                if start == end {
                    return Err(shorter());
                }
                out.extend_from_slice(&bytes[start..end]);
                return Ok(out);
            }
        };
        let read = ReadAt::new(file.clone(), Limit::new(out, most), offset);
        let read = laio_rt::time::timeout(self.limits().read_time, laio_rt::submit(read)).await;
        let (result, limited) = read.map_err(|_| io::ErrorKind::TimedOut)?;
        if result? == 0 {
            return Err(shorter());
        }
        Ok(limited.into_inner())
    }
}

fn shorter() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the file became shorter while it was sent",
    )
}
