//! Statistics of the certificates that the server gets by itself.

use super::Observer;
use std::time::SystemTime;

/// What is known of a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenCertificate {
    /// When the certificate in use expires; `None` if the site has no certificate yet.
    pub expires: Option<SystemTime>,
    /// Certificates that an authority has issued.
    pub orders: u64,
    /// Attempts to get one that have failed.
    pub failures: u64,
}

impl SeenCertificate {
    /// Returns the seconds until the certificate expires, less than zero if it has expired.
    pub(super) fn seconds_left(&self) -> Option<f64> {
        Some(match self.expires?.duration_since(SystemTime::now()) {
            Ok(left) => left.as_secs_f64(),
            Err(past) => -past.duration().as_secs_f64(),
        })
    }
}

impl Observer {
    /// Records when the certificate of a name expires.
    #[doc(hidden)]
    pub fn certificate_expires(&self, name: &str, until: SystemTime) {
        self.change_certificate(name, |seen| seen.expires = Some(until));
    }

    /// Counts a certificate that an authority has issued.
    #[doc(hidden)]
    pub fn certificate_ordered(&self, name: &str) {
        self.change_certificate(name, |seen| seen.orders += 1);
    }

    /// Counts an attempt that has failed.
    #[doc(hidden)]
    pub fn certificate_failed(&self, name: &str) {
        self.change_certificate(name, |seen| seen.failures += 1);
    }

    fn change_certificate(&self, name: &str, change: impl FnOnce(&mut SeenCertificate)) {
        if let Some(state) = &self.0 {
            let mut certificates = state.certificates.lock().unwrap();
            change(certificates.entry(name.to_owned()).or_default());
        }
    }
}
