//! Certificates that the server gets by itself: by ACME (RFC 8555), or signed with their own keys.

mod answer;
mod certificate;
mod directory_client;
mod order;
mod renewal;
mod schedule;
mod state_directory;

use certificate::IssuedCertificate;
use directory_client::DirectoryClient;
use laio_serve_base::messages::print;
use laio_serve_base::options::{
    Acme as AcmeOptions, AcmeChallenge, ClientAuth, HttpsName, Limits, Options,
};
use laio_serve_net::tls::published::Published;
use order::Authority;
use renewal::{HeldCertificate, Renewal};
use state_directory::StateDirectory;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::SystemTime;

/// The thread that gets certificates and renews them, which ends when this is dropped.
#[derive(Debug)]
pub struct Acme {
    wake: Sender<()>,
    ended: Arc<AtomicBool>,
}

impl Acme {
    /// Reads the certificates on disk, and starts the thread, which does nothing before [`Acme::wake`]. It publishes
    /// where [`published`] says.
    ///
    /// # Errors
    /// When options cannot be combined, or the directory for keys cannot be used.
    pub fn start(options: &Options, published: Arc<Published>) -> io::Result<Acme> {
        let ended = Arc::<AtomicBool>::default();
        let authority = check(options, &ended)?;
        let state = StateDirectory::open(&state_directory::path(options)?)?;
        let mut renewal = Renewal {
            held: held(&options.acme),
            challenges: state.challenges_stamp(),
            state,
            authority,
            published,
            observer: options.observer.clone(),
        };
        renewal.prepare();
        announce(&renewal);
        publish_placeholder(&renewal)?;
        let (wake, woken) = channel();
        laio::thread::start(
            "laio-acme",
            "the thread that gets certificates",
            move || {
                if woken.recv().is_err() {
                    return;
                }
                while catch_unwind(AssertUnwindSafe(|| renewal.run(&woken))).is_err() {
                    print(
                        "getting certificates has failed by a mistake in the server; beginning again in a minute",
                    );
                    if woken.recv_timeout(Limits::ACME_PANIC_PAUSE)
                        == Err(RecvTimeoutError::Disconnected)
                    {
                        return;
                    }
                }
            },
        )?;
        Ok(Acme { wake, ended })
    }

    /// Lets the thread begin, or try again what has failed.
    pub fn wake(&self) {
        let _ = self.wake.send(());
    }

    /// Lets the thread end after its request in progress. The certificates stay in use.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Drop for Acme {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns where certificates will be published. Returns none if no name is configured.
pub fn published(options: &Options) -> Option<Arc<Published>> {
    options.acme.is_on().then(|| {
        let checks_in_handshake = options.acme.challenge == AcmeChallenge::TlsAlpn01;
        Arc::new(Published::new(checks_in_handshake))
    })
}

/// Checks options, and reads the files that they name. Returns the authority, if one is needed.
fn check(options: &Options, ended: &Arc<AtomicBool>) -> io::Result<Option<Authority>> {
    let acme = &options.acme;
    let refuse = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    if acme.names.len() > Limits::ACME_NAMES {
        return refuse(&format!(
            "--https has more than {} names",
            Limits::ACME_NAMES
        ));
    }
    state_directory::path(options)?;
    if let Some(file) = &acme.external_account {
        order::read_external_account(file)?;
    }
    if acme.is_local_only() {
        return Ok(None);
    }
    match acme.challenge {
        AcmeChallenge::Http01 if options.listen.iter().all(|listen| listen.tls) => {
            return refuse(
                "--https needs an address without TLS, at which the authority checks the names: add --listen [::]:80, \
                 or use --acme-challenge tls-alpn-01",
            );
        }
        AcmeChallenge::TlsAlpn01
            if options.tls.client_ca.is_some()
                && options.tls.client_auth == ClientAuth::Required =>
        {
            return refuse(
                "--acme-challenge tls-alpn-01 cannot be combined with --client-ca, because the authority has no \
                 certificate of a client: use http-01, or --client-auth optional",
            );
        }
        _ => {}
    }
    Ok(Some(Authority {
        client: DirectoryClient::new(acme, ended.clone())?,
        options: acme.clone(),
    }))
}

/// Checks the options without using them.
///
/// # Errors
/// Like [`Acme::start`].
pub fn check_options(options: &Options) -> io::Result<()> {
    if options.acme.is_on() {
        check(options, &Arc::default()).map(drop)
    } else {
        Ok(())
    }
}

/// Creates the directory for keys, while the process may still do so, for the user that it switches to.
///
/// # Errors
/// Names the directory, and says why it cannot be created.
pub fn create_state(options: &Options, owner: Option<(u32, u32)>) -> io::Result<()> {
    if options.acme.is_on() {
        state_directory::create_for(&state_directory::path(options)?, owner)
    } else {
        Ok(())
    }
}

/// Returns the certificates to have: one for each name, so that a name that does not lead here keeps no other from
/// having its own; and one for all local names, because clients that connect to an address send no name.
fn held(options: &AcmeOptions) -> Vec<HeldCertificate> {
    let mut names: Vec<&HttpsName> = Vec::new();
    for name in &options.names {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let (local, ordered): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| options.is_local(name));
    let local: Vec<_> = local.iter().map(|name| name.as_str().to_owned()).collect();
    let local = (!local.is_empty()).then(|| HeldCertificate::new(local, true));
    let ordered = ordered
        .iter()
        .map(|name| HeldCertificate::new(vec![name.as_str().to_owned()], false));
    local.into_iter().chain(ordered).collect()
}

/// Says which certificates there are, and which of them no client trusts.
fn announce(renewal: &Renewal) {
    let ordered = || renewal.held.iter().filter(|held| !held.local);
    let present = ordered().filter_map(|held| Some((held.name(), held.certificate()?)));
    let present: Vec<_> = present.collect();
    let until = present
        .iter()
        .map(|(_, certificate)| certificate.validity.until);
    if let Some(until) = until.min() {
        let names: Vec<_> = present.iter().map(|(name, _)| &**name).collect();
        let (plural, first) = match names.len() {
            1 => ("", "valid"),
            _ => ("s", "the first of them valid"),
        };
        print(format_args!(
            "using the certificate{plural} on disk for {}, {first} until {}",
            names.join(", "),
            renewal::date(until)
        ));
    }
    for held in renewal.held.iter().filter(|held| held.local) {
        if let Some(certificate) = held.certificate() {
            print(format_args!(
                "no authority has signed the certificate of {}, so clients warn; its SHA-256 fingerprint is {}",
                held.name(),
                certificate.fingerprint()
            ));
        }
    }
}

/// Uses a certificate that no client trusts for names without another one. Connections are encrypted then, and a
/// client can decide; without a certificate the TLS handshake would fail.
fn publish_placeholder(renewal: &Renewal) -> io::Result<()> {
    let missing = renewal
        .held
        .iter()
        .filter(|held| held.certificate().is_none());
    let missing: Vec<_> = missing.flat_map(|held| held.names.clone()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let certificate = certificate::self_signed(&missing, SystemTime::now())
        .map_err(|error| error.to_string())
        .and_then(|pem| IssuedCertificate::from_pem(pem.as_bytes(), &missing))
        .map_err(io::Error::other)?;
    for name in &missing {
        renewal
            .published
            .set_certificate(name, certificate.key.clone());
    }
    if renewal.published.other_certificate().is_none() {
        renewal
            .published
            .set_other_certificate(certificate.key.clone());
    }
    print(format_args!(
        "until there is a certificate for {}, clients get one that no authority has signed; its SHA-256 fingerprint is {}",
        missing.join(", "),
        certificate.fingerprint()
    ));
    Ok(())
}
