//! Certificates, and answers to challenges of an authority (ACME), once they are published.

use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, RwLock};

/// The path of HTTP-01 challenges, before the token (RFC 8555, section 8.3).
const WELL_KNOWN: &str = "/.well-known/acme-challenge/";

/// The protocol of TLS-ALPN-01 challenges (RFC 8737).
pub(crate) const CHALLENGE_PROTOCOL: &[u8] = b"acme-tls/1";

/// The certificates and answers to challenges that are in force.
#[derive(Debug, Default)]
pub struct Published {
    /// Whether an authority checks names by TLS-ALPN-01.
    pub(super) checks_in_handshake: bool,
    certificates: RwLock<Certificates>,
    challenges: RwLock<Challenges>,
}

#[derive(Debug, Default)]
struct Certificates {
    by_name: HashMap<String, Arc<CertifiedKey>>,
    /// The certificate for clients that connect to an address, which send no name.
    address: Option<Arc<CertifiedKey>>,
    /// The certificate for all other clients.
    other: Option<Arc<CertifiedKey>>,
}

/// The challenges that are answered.
#[derive(Debug, Default)]
pub struct Challenges {
    /// From the token to the key authorization.
    pub http: HashMap<String, String>,
    /// From the host name, in lower case, to its certificate.
    pub tls: HashMap<String, Arc<CertifiedKey>>,
}

impl Published {
    /// Returns a table with nothing in it. `checks_in_handshake`: whether an authority checks names by
    /// TLS-ALPN-01.
    pub fn new(checks_in_handshake: bool) -> Published {
        Published {
            checks_in_handshake,
            ..Published::default()
        }
    }

    /// Returns the certificate of a name.
    pub fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let certificates = self.certificates.read().unwrap();
        // Names of clients are in lower case, as a rule.
        let found = certificates.by_name.get(name);
        let found = found.or_else(|| certificates.by_name.get(&name.to_ascii_lowercase()));
        found.cloned()
    }

    /// Returns the certificate for a client that has sent no name, if it contains addresses.
    pub(crate) fn address_certificate(&self) -> Option<Arc<CertifiedKey>> {
        self.certificates.read().unwrap().address.clone()
    }

    /// Returns the certificate for all other clients.
    pub fn other_certificate(&self) -> Option<Arc<CertifiedKey>> {
        self.certificates.read().unwrap().other.clone()
    }

    /// Returns the answer to the HTTP-01 challenge at a path.
    pub fn http_answer(&self, path: &str) -> Option<String> {
        let token = path.strip_prefix(WELL_KNOWN)?;
        self.challenges.read().unwrap().http.get(token).cloned()
    }

    /// Returns the certificate that answers a TLS-ALPN-01 challenge for a name.
    pub fn tls_answer(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        self.challenges.read().unwrap().tls.get(&name).cloned()
    }

    /// Uses a certificate for the handshakes that begin from now on.
    pub fn set_certificate(&self, name: &str, key: Arc<CertifiedKey>) {
        let mut certificates = self.certificates.write().unwrap();
        if name.parse::<IpAddr>().is_ok() {
            certificates.address = Some(key.clone());
        }
        certificates.by_name.insert(name.to_owned(), key);
    }

    /// Uses a certificate for names without one.
    pub fn set_other_certificate(&self, key: Arc<CertifiedKey>) {
        self.certificates.write().unwrap().other = Some(key);
    }

    /// Answers these challenges, and no others.
    pub fn set_challenges(&self, challenges: Challenges) {
        *self.challenges.write().unwrap() = challenges;
    }
}
