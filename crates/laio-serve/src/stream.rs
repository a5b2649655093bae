//! A client's connection as bytes in both directions, whatever carries them.

use laio::ops::{Recv, Send};
use laio_rt::Descriptor;
use rustix::net::Shutdown;
use std::io;

/// What a connection reads from and writes to. On a plain socket each method is the call itself.
pub(crate) enum Stream {
    Plain(Descriptor),
}

impl Stream {
    /// The socket, if what is written to it goes to the client as it is: only then may the kernel send a file
    /// by itself.
    #[expect(dead_code, reason = "for ways of sending that are the kernel's own")]
    pub(crate) fn plain(&self) -> Option<&Descriptor> {
        match self {
            Stream::Plain(socket) => Some(socket),
        }
    }

    /// Whether nobody on the way can read it.
    pub(crate) fn is_secure(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
        }
    }

    /// Something that tells whether the client has gone, or has ended its side.
    pub(crate) fn watch(&self) -> Box<dyn Fn() -> bool> {
        match self {
            Stream::Plain(socket) => {
                let socket = socket.clone();
                Box::new(move || crate::upstream::has_ended(&socket))
            }
        }
    }

    /// Appends what has come to `input`, waiting for it if there is nothing; 0 at the end.
    pub(crate) async fn receive(&self, input: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let turn = laio_rt::turn();
        let received = match self {
            Stream::Plain(socket) => laio_rt::submit(Recv::new(socket.clone(), input)).await,
        };
        crate::cache::note_received(turn);
        received
    }

    /// Sends all of `out`. Fewer bytes than that: something stopped it on its way.
    pub(crate) async fn send(&self, out: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        match self {
            Stream::Plain(socket) => laio_rt::submit(Send::new(socket.clone(), out)).await,
        }
    }

    /// Tells the client that nothing more will come.
    pub(crate) async fn finish(&self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => Ok(rustix::net::shutdown(socket, Shutdown::Write)?),
        }
    }
}
