//! The field `Alt-Svc` (RFC 7838), by which responses over TCP announce HTTP/3.

/// The name of the field.
pub const FIELD: &str = "Alt-Svc";
