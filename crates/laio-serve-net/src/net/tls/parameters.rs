//! Protocol versions and cipher suites.

use laio_serve_base::options::{Tls, TlsVersion};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{ALL_VERSIONS, ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion};
use std::io;

/// What the server negotiates with its clients.
pub(super) struct Parameters {
    pub(super) provider: CryptoProvider,
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
}

impl Parameters {
    /// Selects the configured versions and cipher suites.
    ///
    /// # Errors
    /// When a cipher suite is unknown, or a version has none.
    pub(super) fn new(options: &Tls) -> io::Result<Parameters> {
        let mut provider = ring::default_provider();
        if !options.ciphers.is_empty() {
            provider.cipher_suites = options
                .ciphers
                .iter()
                .map(|name| suite(&provider.cipher_suites, name))
                .collect::<io::Result<_>>()?;
        }
        let has_suite = |version: &SupportedProtocolVersion| {
            let suites = provider.cipher_suites.iter();
            suites
                .clone()
                .any(|suite| suite.version().version == version.version)
        };
        let mut versions = Vec::new();
        for &version in ALL_VERSIONS {
            let own = match version.version {
                ProtocolVersion::TLSv1_2 => TlsVersion::Tls12,
                _ => TlsVersion::Tls13,
            };
            let asked = options.versions.contains(&own);
            if asked && !has_suite(version) {
                return Err(refuse(format!(
                    "--tls-ciphers has no cipher suite for TLS {own}, which --tls-versions allows; \
                     the cipher suites are {}",
                    names(&ring::default_provider().cipher_suites)
                )));
            }
            if asked || options.versions.is_empty() && has_suite(version) {
                versions.push(version);
            }
        }
        Ok(Parameters { provider, versions })
    }
}

fn suite(known: &[SupportedCipherSuite], name: &str) -> io::Result<SupportedCipherSuite> {
    let found = known.iter().find(|suite| iana_name(suite) == name);
    found.copied().ok_or_else(|| {
        refuse(format!(
            "there is no cipher suite {name}; the cipher suites are {}",
            names(known)
        ))
    })
}

fn names(suites: &[SupportedCipherSuite]) -> String {
    suites.iter().map(iana_name).collect::<Vec<_>>().join(", ")
}

/// Returns the name in the registry of IANA; rustls marks those of TLS 1.3.
fn iana_name(suite: &SupportedCipherSuite) -> String {
    let name = suite.suite().as_str().unwrap_or_default();
    name.replacen("TLS13_", "TLS_", 1)
}

fn refuse(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(versions: &[TlsVersion], ciphers: &[&str]) -> io::Result<Parameters> {
        Parameters::new(&Tls {
            versions: versions.to_vec(),
            ciphers: ciphers.iter().map(|&name| name.to_owned()).collect(),
            ..Tls::default()
        })
    }

    #[test]
    fn versions_follow_from_the_suites() {
        let all = parameters(&[], &[]).unwrap();
        assert_eq!(all.versions.len(), 2);
        let one = parameters(&[], &["TLS_AES_128_GCM_SHA256"]).unwrap();
        assert_eq!(one.versions.len(), 1);
        assert_eq!(one.versions[0].version, ProtocolVersion::TLSv1_3);
        let old = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
        let both = parameters(&[], &[old, "TLS_AES_256_GCM_SHA384"]).unwrap();
        assert_eq!(both.provider.cipher_suites.len(), 2);
        assert_eq!(iana_name(&both.provider.cipher_suites[0]), old);
    }

    #[test]
    fn errors_list_what_there_is() {
        for (versions, ciphers) in [
            (&[][..], &["TLS_RSA_WITH_RC4_128_SHA"][..]),
            (&[TlsVersion::Tls12], &["TLS_AES_128_GCM_SHA256"]),
        ] {
            let error = parameters(versions, ciphers).err().unwrap().to_string();
            assert!(error.contains("TLS_CHACHA20_POLY1305_SHA256"), "{error}");
        }
    }
}
