//! A certificate with its key: from PEM, and made without an authority.

use instant_acme::CertificateIdentifier;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair};
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use x509_parser::prelude::{FromDer, X509Certificate};

/// How long a certificate without an authority is valid. Some clients refuse more than 397 days.
const SELF_SIGNED_TIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// A certificate for one name, with its chain and its private key.
#[derive(Clone, Debug)]
pub(crate) struct IssuedCertificate {
    pub(crate) key: Arc<CertifiedKey>,
    pub(crate) validity: Validity,
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validity {
    pub from: SystemTime,
    pub until: SystemTime,
}

impl IssuedCertificate {
    /// Reads a private key and a chain, and checks that they fit each other and the names.
    ///
    /// # Errors
    /// Says what is wrong.
    pub(crate) fn from_pem(pem: &[u8], names: &[String]) -> Result<IssuedCertificate, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let chain = chain.map_err(|error| format!("the chain is malformed: {error}"))?;
        let key = PrivateKeyDer::from_pem_slice(pem)
            .map_err(|error| format!("the private key is malformed: {error}"))?;
        let first = chain.first().ok_or("it contains no certificate")?;
        let validity = validity(first)?;
        for name in names {
            let server_name =
                ServerName::try_from(name.as_str()).map_err(|error| error.to_string())?;
            ParsedCertificate::try_from(first)
                .and_then(|parsed| verify_server_name(&parsed, &server_name))
                .map_err(|error| format!("the certificate is not for {name}: {error}"))?;
        }
        let key = CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(|error| format!("the key does not fit the certificate: {error}"))?;
        Ok(IssuedCertificate {
            key: Arc::new(key),
            validity,
        })
    }

    /// Returns the identifier by which an authority knows the certificate (RFC 9773), if it has one.
    pub(crate) fn identifier(&self) -> Option<CertificateIdentifier<'static>> {
        let identifier = CertificateIdentifier::try_from(self.key.cert.first()?).ok()?;
        Some(identifier.into_owned())
    }

    /// Returns the SHA-256 fingerprint, as browsers and openssl show it.
    pub(crate) fn fingerprint(&self) -> String {
        let first = self.key.cert.first().map_or(&[][..], |first| first);
        let bytes = Sha256::digest(first);
        let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        digits.join(":")
    }
}

fn validity(certificate: &CertificateDer<'_>) -> Result<Validity, String> {
    let (_, parsed) = X509Certificate::from_der(certificate)
        .map_err(|error| format!("the certificate is malformed: {error}"))?;
    let time = |seconds: i64| {
        let seconds = u64::try_from(seconds).unwrap_or(0);
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    };
    let validity = parsed.validity();
    let from = time(validity.not_before.timestamp());
    let until = time(validity.not_after.timestamp());
    from.zip(until)
        .filter(|(from, until)| from < until)
        .map(|(from, until)| Validity { from, until })
        .ok_or_else(|| "the certificate is never valid".to_owned())
}

/// Makes a certificate that is signed with its own key. Returns the key and the certificate in PEM.
///
/// # Errors
/// When a name cannot be in a certificate, or the system has no random numbers.
pub(crate) fn self_signed(names: &[String], now: SystemTime) -> Result<String, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    let common_name = names.first().map_or("laio", String::as_str);
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    // The clock of a client may be slow.
    params.not_before = (now - Duration::from_secs(3600)).into();
    params.not_after = (now + SELF_SIGNED_TIME).into();
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(with_key(&key.serialize_pem(), &certificate.pem()))
}

/// Makes the certificate that answers a TLS-ALPN-01 challenge (RFC 8737).
///
/// # Errors
/// Like [`self_signed`].
pub(crate) fn for_challenge(name: &str, digest: &[u8]) -> Result<CertifiedKey, String> {
    let make = || -> Result<_, rcgen::Error> {
        let mut params = CertificateParams::new([name.to_owned()])?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let key = KeyPair::generate()?;
        Ok((params.self_signed(&key)?, key))
    };
    let (certificate, key) = make().map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(str::to_owned)?;
    let key = ring::default_provider().key_provider.load_private_key(key);
    let key = key.map_err(|error| error.to_string())?;
    // Not `from_der`, which refuses critical extensions that it does not know, as that of the challenge.
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}

/// Returns the contents of a file with a key and its chain.
pub(crate) fn with_key(key: &str, chain: &str) -> String {
    format!("{}\n{}\n", key.trim_end(), chain.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_comes_back_from_its_file() {
        let now = SystemTime::now();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let pem = self_signed(&names, now).unwrap();
        let made = IssuedCertificate::from_pem(pem.as_bytes(), &names).unwrap();
        assert!(made.validity.from < now && made.validity.until > now);
        assert_eq!(made.fingerprint().len(), 95);
        assert!(made.identifier().is_none(), "there is no authority");
    }

    #[test]
    fn what_does_not_fit_is_explained() {
        let pem = self_signed(&["a.org".to_owned()], SystemTime::now()).unwrap();
        let other = self_signed(&["a.org".to_owned()], SystemTime::now()).unwrap();
        let begin = "-----BEGIN CERTIFICATE-----";
        let (key, chain) = (pem.split(begin).next(), other.split_once(begin));
        let mixed = format!("{}{begin}{}", key.unwrap(), chain.unwrap().1);
        for (text, name, word) in [
            (&*pem, "b.org", "not for b.org"),
            (&*mixed, "a.org", "does not fit"),
            ("", "a.org", "private key"),
            (key.unwrap(), "a.org", "no certificate"),
            (&pem[..pem.len() - 40], "a.org", "malformed"),
        ] {
            let error =
                IssuedCertificate::from_pem(text.as_bytes(), &[name.to_owned()]).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
