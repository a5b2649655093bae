//! A write of memory of a file's own, until all of it is written or an error is known.

use crate::proactor;
use laio::ops::{OpenFile, Part, Write};
use laio::{Proactor, Submission};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

pub(super) struct Writing {
    write: Submission<Write<OpenFile, Part<Vec<u8>>>>,
    open: OpenFile,
    done: usize,
}

impl Writing {
    /// The first poll starts it.
    pub(super) fn new(proactor: &Proactor, open: &OpenFile, bytes: Vec<u8>) -> Writing {
        Writing {
            write: proactor.submit(Write::new(open.clone(), Part::new(bytes, ..))),
            open: open.clone(),
            done: 0,
        }
    }

    /// Waits until all bytes are written, or an error is known. Returns the memory, empty.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<(io::Result<()>, Vec<u8>)> {
        loop {
            let (result, part) = ready!(Pin::new(&mut self.write).poll(context));
            let mut bytes = part.into_inner();
            let written = match result {
                Ok(0) if self.done < bytes.len() => Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.done += count;
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if written.is_ok() && self.done < bytes.len() {
                // An error came after these bytes: a write of the rest returns it.
                match proactor() {
                    Ok(proactor) => {
                        let rest = Part::new(bytes, self.done..);
                        self.write = proactor.submit(Write::new(self.open.clone(), rest));
                        continue;
                    }
                    Err(error) => return Poll::Ready((Err(error), Vec::new())),
                }
            }
            bytes.clear();
            return Poll::Ready((written, bytes));
        }
    }

    /// The number of bytes written so far.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Lets the write that is in flight finish.
    pub(super) fn detach(self) {
        self.write.detach();
    }
}
