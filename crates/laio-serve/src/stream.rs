//! A client's connection as bytes in both directions, whatever carries them.

mod wire;

pub(crate) use wire::Wire;

use crate::http2::Exchange;
use crate::lanes;
use crate::options::Step;
use crate::tls::Session;
use laio::ops::{Recv, Send};
use laio_rt::Descriptor;
use rustix::net::{SendFlags, Shutdown};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::ready;

/// What a connection reads from and writes to. On a plain socket each method is the call itself.
pub(crate) enum Stream {
    Plain(Descriptor),
    Tls(Box<RefCell<Session>>),
    /// One request of many on a connection of HTTP/2, and its answer: the bytes are those of the bodies.
    Http2(Rc<Exchange>),
}

impl Stream {
    pub(crate) fn encrypted(session: Session) -> Stream {
        Stream::Tls(Box::new(RefCell::new(session)))
    }

    /// The socket, if what is written to it goes to the client as it is: only then may the kernel send a file
    /// by itself.
    pub(crate) fn plain(&self) -> Option<&Descriptor> {
        match self {
            Stream::Plain(socket) => Some(socket),
            Stream::Tls(_) | Stream::Http2(_) => None,
        }
    }

    /// Whether nobody on the way can read it.
    pub(crate) fn is_secure(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(_) => true,
            Stream::Http2(exchange) => exchange.is_secure(),
        }
    }

    /// Something that tells whether the client has gone, or has ended its side. Of a request that was taken back
    /// in HTTP/2 the answer ends by itself.
    pub(crate) fn watch(&self) -> Box<dyn Fn() -> bool> {
        match self.socket() {
            Some(socket) => Box::new(move || crate::upstream::has_ended(&socket)),
            None => Box::new(|| false),
        }
    }

    /// The socket, of whatever goes over it.
    pub(crate) fn socket(&self) -> Option<Descriptor> {
        match self {
            Stream::Plain(socket) => Some(socket.clone()),
            Stream::Tls(session) => Some(session.borrow().socket().clone()),
            Stream::Http2(_) => None,
        }
    }

    /// The addresses of this end and of the client's, where they are of the internet.
    pub(crate) fn ends(&self) -> [Option<SocketAddr>; 2] {
        let socket = match self {
            Stream::Http2(exchange) => Some(exchange.socket().clone()),
            _ => self.socket(),
        };
        let Some(socket) = socket else {
            return [None; 2];
        };
        let own = rustix::net::getsockname(&socket).ok();
        let client = rustix::net::getpeername(&socket).ok().flatten();
        [own, client].map(|end| SocketAddr::try_from(end?).ok())
    }

    /// Whether the stream carries one answer, and itself says where it ends, so that chunks must not.
    pub(crate) fn delimits(&self) -> bool {
        matches!(self, Stream::Http2(_))
    }

    /// The version of HTTP, if it is not the one that the request line tells.
    pub(crate) fn version(&self) -> Option<&'static str> {
        matches!(self, Stream::Http2(_)).then_some("HTTP/2.0")
    }

    /// Agrees with the client on how to encrypt, if that is to be done; tells whether it is to be HTTP/2.
    pub(crate) async fn begin(&self) -> io::Result<bool> {
        let Stream::Tls(session) = self else {
            return Ok(false);
        };
        poll_fn(|context| session.borrow_mut().poll_handshake(context)).await?;
        Ok(session.borrow().speaks_http2())
    }

    /// Appends what has come to `input`, waiting for it if there is nothing; 0 at the end.
    pub(crate) async fn receive(&self, mut input: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let result = match self {
            Stream::Plain(socket) => return received(Recv::new(socket.clone(), input)).await,
            Stream::Tls(session) => {
                let receive = |context: &mut std::task::Context<'_>| {
                    session.borrow_mut().poll_receive(context, &mut input)
                };
                poll_fn(receive).await
            }
            Stream::Http2(exchange) => exchange.receive(&mut input).await,
        };
        // It may have come to another task, in whatever turn.
        crate::cache::note_received(laio_rt::turn());
        (result, input)
    }

    /// The same, where there is probably nothing yet.
    pub(crate) async fn receive_patiently(&self, input: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        match self {
            Stream::Plain(socket) => {
                received(Recv::new(socket.clone(), input).expect_block()).await
            }
            _ => self.receive(input).await,
        }
    }

    /// Sends all of `out`. Fewer bytes than that: something stopped it on its way.
    pub(crate) async fn send(&self, out: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        match self {
            Stream::Plain(socket) => {
                lanes::submit(Step::Write, Send::new(socket.clone(), out)).await
            }
            Stream::Tls(session) => (encrypt(session, &out).await, out),
            Stream::Http2(exchange) => exchange.send(out).await,
        }
    }

    /// As [`Stream::send`], when something follows at once.
    pub(crate) async fn send_more(&self, out: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        match self {
            Stream::Plain(socket) => {
                let more = SendFlags::MORE.bits() as i32;
                lanes::submit(Step::Write, Send::new(socket.clone(), out).flags(more)).await
            }
            _ => self.send(out).await,
        }
    }

    /// Tells the client that nothing more will come.
    pub(crate) async fn finish(&self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => Ok(rustix::net::shutdown(socket, Shutdown::Write)?),
            Stream::Tls(session) => {
                poll_fn(|context| session.borrow_mut().poll_finish(context)).await
            }
            Stream::Http2(_) => Ok(()),
        }
    }
}

pub(crate) async fn encrypt(session: &RefCell<Session>, out: &[u8]) -> io::Result<usize> {
    let mut done = 0;
    poll_fn(|context| {
        let mut session = session.borrow_mut();
        while done < out.len() {
            done += ready!(session.poll_write(context, &out[done..]))?;
        }
        session.poll_send(context)
    })
    .await?;
    Ok(done)
}

async fn received(receive: Recv<Descriptor, Vec<u8>>) -> (io::Result<usize>, Vec<u8>) {
    let turn = laio_rt::turn();
    let received = lanes::submit(Step::Read, receive).await;
    crate::cache::note_received(turn);
    received
}
