//! Step 2: the head of a request.

use crate::worker::Worker;
use laio::ops::Recv;
use laio_rt::Descriptor;
use std::io;
use std::time::Duration;

/// Room that a connection's input buffer has for one receive.
const RECEIVE_ROOM: usize = 4096;

impl Worker {
    /// Appends what the client has sent to `input`, waiting for it at most `time`. Nothing appended: the
    /// client has closed.
    pub(crate) async fn receive(
        &self,
        socket: &Descriptor,
        mut input: Vec<u8>,
        time: Duration,
    ) -> io::Result<Vec<u8>> {
        if input.capacity() - input.len() < RECEIVE_ROOM / 2 {
            input.reserve(RECEIVE_ROOM);
        }
        let received = laio_rt::submit(Recv::new(socket.clone(), input));
        match laio_rt::time::timeout(time, received).await {
            Ok((Ok(_), input)) => Ok(input),
            Ok((Err(error), _)) => Err(error),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
