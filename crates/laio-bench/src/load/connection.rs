//! A plain or encrypted connection to the server.

use super::Settings;
use super::tls::Session;
use laio_rt::net::TcpStream;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

pub(super) enum Connection {
    Plain(TcpStream),
    Encrypted(Box<Session>),
}

/// The durations of connecting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    /// Until TCP was connected.
    pub(super) connect: Duration,
    /// The duration of the handshake after that, and whether it was abbreviated.
    pub(super) handshake: Option<(Duration, bool)>,
}

impl Connection {
    pub(super) async fn make(settings: &Settings) -> io::Result<(Connection, Made)> {
        let began = Instant::now();
        let stream = TcpStream::connect(settings.server).await?;
        // A request is one write, so it must not wait for more data.
        let _ = stream.set_nodelay(true);
        let connect = began.elapsed();
        let Some(tls) = &settings.tls else {
            let handshake = None;
            return Ok((Connection::Plain(stream), Made { connect, handshake }));
        };
        let session = Session::begin(tls, stream).await;
        let session = session.map_err(|error| {
            let description = format!("TLS handshake failed: {error}");
            io::Error::new(error.kind(), description)
        })?;
        let handshake = Some((began.elapsed() - connect, session.is_resumed()));
        let made = Made { connect, handshake };
        Ok((Connection::Encrypted(Box::new(session)), made))
    }

    pub(super) async fn send(&mut self, bytes: &Rc<[u8]>) -> io::Result<()> {
        match self {
            Connection::Plain(stream) => stream.write_all(bytes.clone()).await.0,
            Connection::Encrypted(session) => session.send(bytes).await,
        }
    }

    /// Appends more bytes to the buffer.
    pub(super) async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Connection::Plain(stream) => {
                let (result, back) = stream.read(std::mem::take(buffer)).await;
                *buffer = back;
                result
            }
            Connection::Encrypted(session) => session.read(buffer).await,
        }
    }
}
