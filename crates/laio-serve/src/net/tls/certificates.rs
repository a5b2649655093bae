//! The certificates: read from files, chosen by the client's server name, replaced while serving.

use crate::options::Certificate;
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::fmt::Display;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, RwLock};

/// The certificates of a server. The first is used for unknown names.
#[derive(Debug)]
pub(crate) struct Certificates {
    sources: Vec<Certificate>,
    present: RwLock<Vec<Arc<CertifiedKey>>>,
}

/// Inode, size and modification time of each file, compared to detect changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stamp(Vec<Option<(u64, u64, i64, i64)>>);

impl Certificates {
    /// Reads the certificates.
    ///
    /// # Errors
    /// Names the malformed file, and the reason.
    pub(crate) fn read(sources: &[Certificate]) -> io::Result<Certificates> {
        Ok(Certificates {
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

    pub(crate) fn stamp(&self) -> Stamp {
        let files = self.sources.iter();
        let files = files.flat_map(|source| [&source.chain, &source.key]);
        let look = |path: &std::path::PathBuf| {
            let metadata = std::fs::metadata(path).ok()?;
            let (inode, size) = (metadata.ino(), metadata.size());
            Some((inode, size, metadata.mtime(), metadata.mtime_nsec()))
        };
        Stamp(files.map(look).collect())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let present = self.present.read().unwrap();
        let name = hello.server_name().map(str::to_owned);
        let name = name.and_then(|name| ServerName::try_from(name).ok());
        let fits = |key: &&Arc<CertifiedKey>| name.as_ref().is_some_and(|name| fits(key, name));
        present.iter().find(fits).or(present.first()).cloned()
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
    CertifiedKey::from_der(certificates, private, &ring::default_provider()).map_err(|error| {
        let what = format!("use the private key for {}", chain.display());
        explain(&what, key, &error)
    })
}

fn explain(what: &str, path: &Path, error: &dyn Display) -> io::Error {
    let text = format!("cannot {what} in {}: {error}", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
