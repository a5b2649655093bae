//! What the thread that gets certificates publishes to the workers: certificates, and answers to challenges.

use super::certificate;
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, RwLock};

/// The path of HTTP-01 challenges, before the token (RFC 8555, section 8.3).
const WELL_KNOWN: &str = "/.well-known/acme-challenge/";

/// The protocol of TLS-ALPN-01 challenges (RFC 8737).
pub(crate) const ACME_TLS: &[u8] = b"acme-tls/1";

/// The certificates and answers to challenges that are in force.
#[derive(Debug, Default)]
pub(crate) struct Published {
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

#[derive(Debug, Default)]
struct Challenges {
    /// From the token to the key authorization.
    http: HashMap<String, String>,
    /// From the host name to its certificate.
    tls: HashMap<String, Arc<CertifiedKey>>,
}

/// The answer to a challenge.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// HTTP-01: a token and the text to answer it with.
    Http { token: String, text: String },
    /// TLS-ALPN-01: a host name and the digest that its certificate contains.
    Tls { name: String, digest: Vec<u8> },
}

impl Published {
    /// Returns the certificate of a name.
    pub(crate) fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
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
    pub(crate) fn other_certificate(&self) -> Option<Arc<CertifiedKey>> {
        self.certificates.read().unwrap().other.clone()
    }

    /// Returns the answer to the HTTP-01 challenge at a path.
    pub(crate) fn http_answer(&self, path: &str) -> Option<String> {
        let token = path.strip_prefix(WELL_KNOWN)?;
        self.challenges.read().unwrap().http.get(token).cloned()
    }

    /// Returns the certificate that answers a TLS-ALPN-01 challenge for a name.
    pub(crate) fn tls_answer(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        self.challenges.read().unwrap().tls.get(&name).cloned()
    }

    /// Uses a certificate for the handshakes that begin from now on.
    pub(super) fn set_certificate(&self, name: &str, key: Arc<CertifiedKey>) {
        let mut certificates = self.certificates.write().unwrap();
        if name.parse::<IpAddr>().is_ok() {
            certificates.address = Some(key.clone());
        }
        certificates.by_name.insert(name.to_owned(), key);
    }

    /// Uses a certificate for names without one.
    pub(super) fn set_other_certificate(&self, key: Arc<CertifiedKey>) {
        self.certificates.write().unwrap().other = Some(key);
    }

    /// Answers these challenges, and no others.
    ///
    /// # Errors
    /// When the certificate for a challenge cannot be made.
    pub(super) fn set_answers(&self, answers: &[Answer]) -> Result<(), String> {
        let mut challenges = Challenges::default();
        for answer in answers {
            match answer {
                Answer::Http { token, text } => {
                    challenges.http.insert(token.clone(), text.clone());
                }
                Answer::Tls { name, digest } => {
                    let key = Arc::new(certificate::for_challenge(name, digest)?);
                    challenges.tls.insert(name.clone(), key);
                }
            }
        }
        *self.challenges.write().unwrap() = challenges;
        Ok(())
    }
}

impl Answer {
    /// Returns the name and the contents of the file that shows the answer to other servers.
    pub(super) fn to_file(&self) -> (String, Vec<u8>) {
        match self {
            Answer::Http { token, text } => (format!("http-01 {token}"), text.clone().into_bytes()),
            Answer::Tls { name, digest } => (format!("tls-alpn-01 {name}"), digest.clone()),
        }
    }

    /// Returns the answer in a file of another server.
    pub(super) fn from_file(name: &str, contents: Vec<u8>) -> Option<Answer> {
        let (kind, key) = name.split_once(' ')?;
        let key = key.to_owned();
        match kind {
            "http-01" => Some(Answer::Http {
                token: key,
                text: String::from_utf8(contents).ok()?,
            }),
            "tls-alpn-01" => Some(Answer::Tls {
                name: key,
                digest: contents,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_replace_each_other() {
        let published = Published::default();
        let path = "/.well-known/acme-challenge/token";
        let http = Answer::Http {
            token: "token".to_owned(),
            text: "token.key".to_owned(),
        };
        published.set_answers(&[http]).unwrap();
        assert_eq!(published.http_answer(path).unwrap(), "token.key");
        for other in [
            "/token",
            "/.well-known/acme-challenge/",
            "/.well-known/acme-challenge/token/",
        ] {
            assert!(published.http_answer(other).is_none());
        }
        let tls = Answer::Tls {
            name: "example.org".to_owned(),
            digest: vec![7; 32],
        };
        published.set_answers(&[tls]).unwrap();
        assert!(published.http_answer(path).is_none());
        assert!(published.tls_answer("Example.ORG").is_some());
        assert!(published.tls_answer("www.example.org").is_none());
    }

    #[test]
    fn answers_come_back_from_files() {
        for answer in [
            Answer::Http {
                token: "a-_0".to_owned(),
                text: "a-_0.key".to_owned(),
            },
            Answer::Tls {
                name: "example.org".to_owned(),
                digest: vec![0xff; 32],
            },
        ] {
            let (name, contents) = answer.to_file();
            let back = Answer::from_file(&name, contents).unwrap();
            assert_eq!(format!("{back:?}"), format!("{answer:?}"));
        }
        assert!(Answer::from_file("dns-01 x", Vec::new()).is_none());
        assert!(Answer::from_file("x", Vec::new()).is_none());
    }
}
