//! TLS certificates.

use std::path::PathBuf;

/// A TLS certificate and its key. The server reads both files again when they change; if the new
/// pair is malformed or does not match, it keeps the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// A PEM file with the certificate, followed by its intermediate certificates.
    pub chain: PathBuf,
    /// A PEM file with the private key.
    pub key: PathBuf,
}
