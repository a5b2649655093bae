//! Certificates of clients: which authorities sign them, and which certificates these have revoked.

use laio_serve_base::options::{ClientAuth, Tls};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

/// Verifies the certificates of clients by files that may change while the server runs.
#[derive(Debug)]
pub(super) struct ClientCertificates {
    authorities: PathBuf,
    revoked: Vec<PathBuf>,
    required: bool,
    provider: Arc<CryptoProvider>,
    /// The names of the authorities that clients are shown, read at start.
    names: Vec<DistinguishedName>,
    present: RwLock<Arc<dyn ClientCertVerifier>>,
}

impl ClientCertificates {
    /// Reads the files, or returns none if clients need no certificates.
    ///
    /// # Errors
    /// Names the file that cannot be used, and the reason.
    pub(super) fn read(
        options: &Tls,
        provider: &Arc<CryptoProvider>,
    ) -> io::Result<Option<Arc<ClientCertificates>>> {
        let Some(authorities) = &options.client_ca else {
            if options.client_crl.is_empty() && options.client_auth == ClientAuth::Required {
                return Ok(None);
            }
            let text = "--client-auth and --client-crl need --client-ca";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        let required = options.client_auth == ClientAuth::Required;
        let verifier = verifier(authorities, &options.client_crl, required, provider)?;
        Ok(Some(Arc::new(ClientCertificates {
            authorities: authorities.clone(),
            revoked: options.client_crl.clone(),
            required,
            provider: provider.clone(),
            names: verifier.root_hint_subjects().to_vec(),
            present: RwLock::new(verifier),
        })))
    }

    /// Reads the files again. Existing connections are not affected.
    ///
    /// # Errors
    /// Like [`ClientCertificates::read`]; the old files then stay in force.
    pub(super) fn reload(&self) -> io::Result<()> {
        let new = verifier(
            &self.authorities,
            &self.revoked,
            self.required,
            &self.provider,
        )?;
        *self.present.write().unwrap() = new;
        Ok(())
    }

    /// Returns the files that it reads.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.authorities].into_iter().chain(&self.revoked)
    }

    fn present(&self) -> Arc<dyn ClientCertVerifier> {
        self.present.read().unwrap().clone()
    }
}

fn verifier(
    authorities: &Path,
    revoked: &[PathBuf],
    required: bool,
    provider: &Arc<CryptoProvider>,
) -> io::Result<Arc<dyn ClientCertVerifier>> {
    let certificates = CertificateDer::pem_file_iter(authorities)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| explain("read the authorities of clients", authorities, &error))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let added = roots.add(certificate);
        added.map_err(|error| explain("use an authority of clients", authorities, &error))?;
    }
    if roots.is_empty() {
        let what = "read the authorities of clients";
        let why = "the file has no -----BEGIN CERTIFICATE-----";
        return Err(explain(what, authorities, &why));
    }
    let mut lists = Vec::new();
    for file in revoked {
        let before = lists.len();
        for list in CertificateRevocationListDer::pem_file_iter(file)
            .map_err(|error| explain("read the revocation list", file, &error))?
        {
            lists.push(list.map_err(|error| explain("read the revocation list", file, &error))?);
        }
        if lists.len() == before {
            let why = "the file has no -----BEGIN X509 CRL-----";
            return Err(explain("read the revocation list", file, &why));
        }
    }
    let mut builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .with_crls(lists)
            .enforce_revocation_expiration();
    if !required {
        builder = builder.allow_unauthenticated();
    }
    let file = revoked.first().map_or(authorities, PathBuf::as_path);
    builder
        .build()
        .map_err(|error| explain("use the revocation lists", file, &error))
}

impl ClientCertVerifier for ClientCertificates {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.names
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.present()
            .verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.present()
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.present()
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.present().supported_verify_schemes()
    }
}

fn explain(what: &str, path: &Path, error: &dyn Display) -> io::Error {
    let text = format!("cannot {what} in {}: {error}", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
