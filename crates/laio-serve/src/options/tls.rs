//! Certificates.

use std::path::PathBuf;

/// A certificate for TLS, and its key. Both files are looked at while the server runs, and read again when they
/// change; a pair that is broken or does not fit together leaves the one before in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// A PEM file with the certificate, and behind it those that lead to one that clients trust.
    pub chain: PathBuf,
    /// A PEM file with the private key.
    pub key: PathBuf,
}
