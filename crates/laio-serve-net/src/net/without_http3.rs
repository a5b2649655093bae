//! What stands in for HTTP/3 in a server without the feature `http3`: no connection has it.

/// Requests of HTTP/3, of which there are none.
pub mod http3_exchange {
    use crate::memory::connection::{Held, RequestMemory};
    use http::HeaderMap;
    use laio_http::Output;
    use std::io;
    use std::net::SocketAddr;

    pub use NoHttp3Exchange as Http3Exchange;

    /// No request has one.
    pub enum NoHttp3Exchange {}

    #[allow(missing_docs, clippy::missing_errors_doc)] // There is no value to call them with.
    impl NoHttp3Exchange {
        pub fn memory(&self) -> &RequestMemory {
            match *self {}
        }

        pub fn endpoints(&self) -> [SocketAddr; 2] {
            match *self {}
        }

        pub fn is_early(&self) -> bool {
            match *self {}
        }

        pub async fn confirmed(&self) -> io::Result<()> {
            match *self {}
        }

        pub async fn receive(&self, _: &mut Vec<u8>) -> io::Result<usize> {
            match *self {}
        }

        pub async fn send_output(&self, _: Output) -> (io::Result<usize>, Vec<u8>) {
            match *self {}
        }

        pub async fn send(&self, _: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
            match *self {}
        }

        pub async fn window(&self, _: usize) -> io::Result<usize> {
            match *self {}
        }

        pub async fn room(&self, _: usize) -> io::Result<Held> {
            match *self {}
        }

        pub fn send_piece(&self, _: Vec<u8>, _: Held) -> io::Result<usize> {
            match *self {}
        }

        pub async fn flush(&self) -> io::Result<()> {
            match *self {}
        }

        pub async fn send_trailers(&self, _: &HeaderMap) -> io::Result<()> {
            match *self {}
        }
    }
}

/// QUIC, which no socket has.
pub mod quic {
    /// The configuration of connections.
    pub mod config {
        use laio_serve_base::options::{Http3, Limits};
        use std::io;
        use std::sync::Arc;

        pub use NoSecrets as Secrets;

        /// No connection has one.
        #[derive(Debug)]
        pub enum ServerConfig {}

        /// There are none.
        #[derive(Clone, Debug)]
        pub struct NoSecrets;

        impl NoSecrets {
            pub(crate) fn new() -> io::Result<NoSecrets> {
                Ok(NoSecrets)
            }
        }

        pub(crate) fn server(
            _: &rustls::ServerConfig,
            _: &Http3,
            _: &Limits,
            _: &NoSecrets,
        ) -> io::Result<Arc<ServerConfig>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// Which endpoint has a connection.
    pub mod routes {
        pub use NoRoutes as Routes;

        /// There are no endpoints.
        #[derive(Debug, Default)]
        pub struct NoRoutes;

        impl NoRoutes {
            /// Does nothing.
            pub fn leave(&self) {}
        }
    }
}
