//! Noticing that a client leaves while the server waits for an upstream, and receives nothing from the client.

use super::socket::has_left;
use super::stream::Stream;
use laio_rt::Descriptor;
use laio_serve_base::options::UpstreamLimits;

/// Looks whether the client of a connection of HTTP/1.1 has left.
///
/// A client has left if it has closed its connection, reset it, or closed its sending side and sent nothing after its
/// request: a closed connection and a closed sending side look the same until the server sends. Requests of HTTP/2 and
/// HTTP/3 end by themselves when the client resets their streams or leaves.
pub struct ClientWatch(Option<(Descriptor, Unread)>);

/// What bytes mean that have arrived from the client and that the server has not received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// The rest of a request, or another one: the client may still want its response.
    Request,
    /// Nothing: over TLS a client that closes sends a notification first.
    Nothing,
}

impl ClientWatch {
    /// `has_body`: whether the client may still be sending its request.
    pub fn new(stream: &Stream, has_body: bool) -> ClientWatch {
        let unread = match stream {
            Stream::Tls(_) if !has_body => Unread::Nothing,
            _ => Unread::Request,
        };
        ClientWatch(stream.socket().map(|socket| (socket, unread)))
    }

    /// Waits until the client has left; looks every [`UpstreamLimits::CLIENT_CHECK_INTERVAL`].
    pub async fn left(&self) {
        let Some((socket, unread)) = &self.0 else {
            return std::future::pending().await;
        };
        loop {
            laio_rt::time::sleep(UpstreamLimits::CLIENT_CHECK_INTERVAL).await;
            if has_left(socket, *unread) {
                return;
            }
        }
    }
}
