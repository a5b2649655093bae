//! What stands in for HTTP/3 in a server without the feature `http3`: no connection has it.

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
