//! The field `Alt-Svc` (RFC 7838), by which responses over TCP announce HTTP/3.

use laio_serve_base::options::Http3;

/// The name of the field.
pub const FIELD: &str = "Alt-Svc";

/// Returns the value of the field, for an address whose UDP port is `port`.
pub fn value(options: &Http3, port: u16) -> String {
    let port = options.alt_svc_port.unwrap_or(port);
    format!("h3=\":{port}\"; ma={}", Http3::ALT_SVC_AGE)
}
