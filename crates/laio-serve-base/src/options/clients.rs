//! Which proxies may say who the client is.

use super::declare::options;
use super::network::Network;

options! {
    /// The proxies in front of the server, and what they say of their clients.
    pub struct Clients {
        /// Believe proxies of this network (192.0.2.0/24, ::1, unix) what they say of their clients: the
        /// address, and whether https was used.
        ///
        /// `unix` is every client of a Unix socket. Several networks are separated by commas. The client of
        /// a request is then the last address of `--client-field` that no such proxy has. It is the one in
        /// the access log, for `--allow` and `--rate`, and for upstreams, which also get the fields
        /// `Forwarded` and `X-Forwarded-*` of the proxy. Without this flag these fields are ignored, and
        /// upstreams do not get them.
        #[arg(long = "trust-proxy", value_name = "NETWORK", value_delimiter = ',', help_heading = "Access")]
        pub proxies: Vec<Network> = Vec::new(),
        /// Header field in which a trusted proxy names its client: a list of addresses, or Forwarded.
        ///
        /// Only this field counts, because a proxy may pass on others as it gets them.
        #[arg(long = "client-field", value_name = "NAME", help_heading = "Access")]
        pub field: String = "X-Forwarded-For".to_owned(),
    }
}
