//! The certificates: read from files, chosen by the client's server name, replaced while serving.

use super::published::{CHALLENGE_PROTOCOL, Published};
use laio_serve_base::options::{Certificate, Limits};
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt::Display;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

/// The certificates of a server. The first is used for unknown names.
#[derive(Debug)]
pub(crate) struct Certificates {
    sources: Vec<Certificate>,
    present: RwLock<Vec<Arc<CertifiedKey>>>,
    /// For names without a certificate in a file.
    published: Option<Arc<Published>>,
}

/// Inode, size and modification time of each file, compared to detect changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stamp(Vec<Option<(u64, u64, i64, i64)>>);

impl Certificates {
    /// Reads the certificates.
    ///
    /// # Errors
    /// Names the malformed file, and the reason.
    pub(crate) fn read(
        sources: &[Certificate],
        published: Option<Arc<Published>>,
    ) -> io::Result<Certificates> {
        Ok(Certificates {
            published,
            sources: sources.to_vec(),
            present: RwLock::new(read_all(sources)?),
        })
    }

    /// Reads the files again. Existing connections are not affected.
    ///
    /// # Errors
    /// Like [`Certificates::read`]; the old certificates then stay in use.
    pub(crate) fn reload(&self) -> io::Result<()> {
        let new = read_all(&self.sources)?;
        *self.present.write().unwrap() = new;
        Ok(())
    }

    /// Returns the files that it reads.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let files = self.sources.iter();
        files.flat_map(|source| {
            let staple = staple(&source.chain);
            [source.chain.clone(), source.key.clone(), staple]
        })
    }
}

impl Stamp {
    pub(crate) fn from_files(files: impl Iterator<Item = PathBuf>) -> Stamp {
        let look = |path: PathBuf| {
            let metadata = std::fs::metadata(path).ok()?;
            let (inode, size) = (metadata.ino(), metadata.size());
            Some((inode, size, metadata.mtime(), metadata.mtime_nsec()))
        };
        Stamp(files.map(look).collect())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let own_name = hello.server_name();
        let published = self.published.as_ref();
        if let Some(published) = published
            && hello
                .alpn()
                .is_some_and(|offered| offered.eq([CHALLENGE_PROTOCOL]))
        {
            return published.tls_answer(own_name?);
        }
        let present = self.present.read().unwrap();
        let name = own_name.map(str::to_owned);
        let name = name.and_then(|name| ServerName::try_from(name).ok());
        let fits = |key: &&Arc<CertifiedKey>| name.as_ref().is_some_and(|name| fits(key, name));
        let found = present.iter().find(fits).cloned();
        let found = found.or_else(|| match own_name {
            Some(name) => published?.certificate(name),
            None => published?.address_certificate(),
        });
        let found = found.or_else(|| present.first().cloned());
        found.or_else(|| published?.other_certificate())
    }
}

fn fits(key: &CertifiedKey, name: &ServerName<'_>) -> bool {
    let parsed = key.end_entity_cert().and_then(ParsedCertificate::try_from);
    parsed.is_ok_and(|parsed| verify_server_name(&parsed, name).is_ok())
}

fn read_all(sources: &[Certificate]) -> io::Result<Vec<Arc<CertifiedKey>>> {
    sources
        .iter()
        .map(|source| read(source).map(Arc::new))
        .collect()
}

fn read(source: &Certificate) -> io::Result<CertifiedKey> {
    let Certificate { chain, key } = source;
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| explain("read the certificate", chain, &error))?;
    let first = certificates.first();
    let first = first.ok_or_else(|| {
        explain(
            "use the certificate",
            chain,
            &"the file has no -----BEGIN CERTIFICATE-----",
        )
    })?;
    ParsedCertificate::try_from(first)
        .map_err(|error| explain("use the certificate", chain, &error))?;
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| explain("read the private key", key, &error))?;
    let provider = ring::default_provider();
    let mut certified = CertifiedKey::from_der(certificates, private, &provider)
        .map_err(|error| unusable_key(source, &error))?;
    certified.ocsp = read_staple(&staple(chain))?;
    Ok(certified)
}

/// Explains why a private key cannot be used.
fn unusable_key(source: &Certificate, error: &rustls::Error) -> io::Error {
    let Certificate { chain, key } = source;
    let what = format!("use the private key for {}", chain.display());
    match error {
        rustls::Error::InconsistentKeys(_) => explain(
            &what,
            key,
            &"it is the key of another certificate; name the key that the certificate was requested with, and in the \
              file of the certificate put that of this server first",
        ),
        error => explain(&what, key, error),
    }
}

/// Returns the name of the file with the OCSP response for a certificate.
fn staple(chain: &Path) -> PathBuf {
    chain.with_extension("ocsp")
}

/// Reads an OCSP response (RFC 6960) to send with the certificate, if there is one.
fn read_staple(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let what = "read the OCSP response";
    let mut response = Vec::new();
    match std::fs::File::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened
            .and_then(|opened| opened.take(Limits::TLS_OCSP + 1).read_to_end(&mut response))
            .map_err(|error| explain(what, file, &error))?,
    };
    if response.len() as u64 > Limits::TLS_OCSP {
        let why = format!("it is longer than {} bytes", Limits::TLS_OCSP);
        return Err(explain(what, file, &why));
    }
    match response_status(&response) {
        Some(0) => Ok(Some(response)),
        Some(status) => {
            let why = format!("the authority has answered with the error {status}");
            Err(explain(what, file, &why))
        }
        None => {
            let why = "it is not an OCSP response in DER, as openssl ocsp -respout writes";
            Err(explain(what, file, &why))
        }
    }
}

/// Returns the status at the beginning of an OCSP response: a sequence whose first element is an
/// enumerated value.
fn response_status(der: &[u8]) -> Option<u8> {
    let rest = der.strip_prefix(&[0x30])?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            let add = |sum: usize, &digit: &u8| sum << 8 | usize::from(digit);
            (digits.iter().fold(0, add), rest)
        }
        _ => return None,
    };
    match rest {
        [0x0a, 1, status, ..] if rest.len() == length => Some(*status),
        _ => None,
    }
}

fn explain(what: &str, path: &Path, error: &dyn Display) -> io::Error {
    let text = format!("cannot {what} in {}: {error}", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ocsp_responses_are_recognised() {
        assert_eq!(response_status(&[0x30, 3, 0x0a, 1, 0]), Some(0));
        assert_eq!(response_status(&[0x30, 3, 0x0a, 1, 6]), Some(6));
        assert_eq!(response_status(&[0x30, 0x81, 3, 0x0a, 1, 0]), Some(0));
        for broken in [
            &b""[..],
            b"-----BEGIN",
            &[0x30, 4, 0x0a, 1, 0],
            &[0x30, 2, 0x0a, 1, 0],
            &[0x30, 0x85, 0, 0, 0, 0, 3, 0x0a, 1, 0],
            &[0x30, 0x84, 1],
        ] {
            assert_eq!(response_status(broken), None, "{broken:?}");
        }
    }
}
