//! The name and version of this server.

/// The value of the `Server` field.
pub const SERVER_NAME: &str = concat!("laio/", env!("CARGO_PKG_VERSION"));
