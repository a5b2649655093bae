//! TLS: certificates, and what a server does for clients without it.

use super::declare::options;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A TLS certificate and its key. The server reads both files again when they change; if the new
/// pair is malformed or does not match, it keeps the old one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// A PEM file with the certificate, followed by its intermediate certificates.
    pub chain: PathBuf,
    /// A PEM file with the private key.
    pub key: PathBuf,
}

options! {
    /// Options of TLS that hold for all addresses.
    pub struct Tls {
        /// Redirect requests without TLS to https, at the port of the first TLS address or at this one; off
        /// redirects nothing [default with --https: auto]
        ///
        /// With 308, at every address without TLS that is not a Unix socket. A request is answered as usual if a proxy
        /// says that its client used https (`X-Forwarded-Proto`, `Forwarded`), because a redirect would lead the
        /// client back to that proxy.
        #[arg(long = "redirect-http", value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "auto", help_heading = "Encryption")]
        pub redirect_http: Option<RedirectPort> = None,
        /// Versions of TLS that clients may use: 1.2, 1.3 [default: both]
        #[arg(long = "tls-versions", value_name = "VERSIONS", value_delimiter = ',', help_heading = "Encryption")]
        pub versions: Vec<TlsVersion> = Vec::new(),
        /// Cipher suites that clients may use, by their names in the registry of IANA, in order of preference
        /// [default: all of rustls]
        ///
        /// An unknown name is an error that lists the known ones.
        #[arg(long = "tls-ciphers", value_name = "NAMES", value_delimiter = ',', help_heading = "Encryption")]
        pub ciphers: Vec<String> = Vec::new(),
        /// Accept only clients with a certificate that an authority in this PEM file has signed.
        ///
        /// Such clients do not resume sessions, because that would skip the check.
        #[arg(long = "client-ca", value_name = "FILE", help_heading = "Encryption")]
        pub client_ca: Option<PathBuf> = None,
        /// Whether clients must have a certificate of --client-ca: required, or optional.
        ///
        /// With `optional` a client may have no certificate. One that cannot be verified is refused all the
        /// same.
        #[arg(long = "client-auth", value_name = "WHETHER", default_value = "required", help_heading = "Encryption")]
        pub client_auth: ClientAuth = ClientAuth::Required,
        /// Refuse the certificates that a list in this PEM file revokes, may be repeated.
        ///
        /// Each authority of a client's certificate needs a list that has not expired. The file is read again when
        /// it changes.
        #[arg(long = "client-crl", value_name = "FILE", help_heading = "Encryption")]
        pub client_crl: Vec<PathBuf> = Vec::new(),
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

impl FromStr for TlsVersion {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<TlsVersion, Self::Err> {
        match text {
            "1.2" => Ok(TlsVersion::Tls12),
            "1.3" => Ok(TlsVersion::Tls13),
            _ => Err("the versions are 1.2 and 1.3"),
        }
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TlsVersion::Tls12 => "1.2",
            TlsVersion::Tls13 => "1.3",
        })
    }
}

/// Whether clients must have a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// A client without one is refused.
    #[default]
    Required,
    /// A client may have none.
    Optional,
}

impl FromStr for ClientAuth {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ClientAuth, Self::Err> {
        match text {
            "required" => Ok(ClientAuth::Required),
            "optional" => Ok(ClientAuth::Optional),
            _ => Err("it is required or optional"),
        }
    }
}

/// The port in the URL of a redirect to https.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectPort {
    /// The port of the first address with TLS: one with the same IP address, if there is one.
    OfListener,
    /// This port, where another machine forwards it to the server.
    Number(u16),
    /// No redirect.
    Off,
}

impl FromStr for RedirectPort {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<RedirectPort, Self::Err> {
        match (text, text.parse()) {
            ("auto", _) => Ok(RedirectPort::OfListener),
            ("off", _) => Ok(RedirectPort::Off),
            (_, Ok(port)) if port > 0 => Ok(RedirectPort::Number(port)),
            _ => Err("it is a port, auto for the port of the first TLS address, or off"),
        }
    }
}

impl fmt::Display for RedirectPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedirectPort::OfListener => f.write_str("auto"),
            RedirectPort::Number(port) => port.fmt(f),
            RedirectPort::Off => f.write_str("off"),
        }
    }
}
