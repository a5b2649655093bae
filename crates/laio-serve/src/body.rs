//! Step 6: the bytes.

use crate::options::Limits;
use crate::worker::Worker;
use laio::ops::{Limit, ReadAt, Send};
use laio_http::ByteRange;
use laio_rt::Descriptor;
use std::io;

impl Worker {
    /// Sends what is in `out` and the bytes of a file behind it, and gives the emptied buffer back. The
    /// head travels with the first bytes of the file.
    ///
    /// # Errors
    /// Those of reading and sending; `UnexpectedEof` if the file has become shorter than the head has
    /// promised: the connection must end, so that the client does not take the rest for whole.
    pub(crate) async fn send(
        &self,
        socket: &Descriptor,
        mut out: Vec<u8>,
        file: Option<(&Descriptor, ByteRange)>,
    ) -> io::Result<Vec<u8>> {
        let (mut offset, mut left) = file.map_or((0, 0), |(_, range)| (range.start, range.len()));
        loop {
            if let Some((file, _)) = file
                && left > 0
            {
                let piece = left.min(Limits::PIECE as u64) as usize;
                out.reserve(piece);
                let read = ReadAt::new(file.clone(), Limit::new(out, piece), offset);
                let (result, limited) = laio_rt::submit(read).await;
                out = limited.into_inner();
                let count = result?;
                if count == 0 {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the file became shorter while it was sent",
                    ));
                }
                offset += count as u64;
                left -= count as u64;
            }
            out = self.send_all(socket, out).await?;
            out.clear();
            if left == 0 {
                return Ok(out);
            }
        }
    }

    /// Sends a whole buffer, as long as the client takes it within the limit.
    async fn send_all(&self, socket: &Descriptor, out: Vec<u8>) -> io::Result<Vec<u8>> {
        let sent = laio_rt::submit(Send::new(socket.clone(), out));
        match laio_rt::time::timeout(self.limits().write_time, sent).await {
            Ok((Ok(_), out)) => Ok(out),
            Ok((Err(error), _)) => Err(error),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
