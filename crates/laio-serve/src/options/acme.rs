//! Certificates that the server gets by itself.

use super::declare::options;
#[cfg(feature = "clap")]
use super::declare::seconds;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

options! {
    /// Certificates that the server gets by ACME (RFC 8555), or signs itself for names of this machine.
    pub struct Acme {
        /// Serve these names by https: get their certificates from Let's Encrypt, renew them, and redirect http
        /// to https. For localhost and other names of a local network, make a certificate without an authority.
        ///
        /// Without `--listen` the server listens on ports 443 and 80 of all interfaces, or if all names are local on
        /// ports 8443 and 8080 of the loopback interface; or on the inherited sockets with the names `https` and
        /// `http`. With this flag you agree to the terms of service of the authority.
        #[arg(long = "https", value_name = "NAMES", value_delimiter = ',', help_heading = "Encryption")]
        pub names: Vec<HttpsName> = Vec::new(),
        /// Directory URL of the authority [default: Let's Encrypt's]
        #[arg(long = "acme-directory", value_name = "URL", requires = "Acme.names", help_heading = "Encryption")]
        pub directory: Option<DirectoryUrl> = None,
        /// Trust the certificates in this PEM file for --acme-directory, and not the system's.
        #[arg(long = "acme-ca", value_name = "FILE", requires = "Acme.names", help_heading = "Encryption")]
        pub ca: Option<PathBuf> = None,
        /// Mail address that the authority may write to, may be repeated; used when the account is created.
        #[arg(long = "acme-contact", value_name = "ADDRESS", requires = "Acme.names", help_heading = "Encryption")]
        pub contacts: Vec<String> = Vec::new(),
        /// Directory for the account, keys and certificates [default: acme in $STATE_DIRECTORY; else for root
        /// /var/lib/laio/acme, for others laio/acme in $XDG_DATA_HOME or ~/.local/share]
        ///
        /// The server creates it with mode 0700. Servers with the same directory get each certificate only once.
        #[arg(long = "acme-state", value_name = "DIR", requires = "Acme.names", help_heading = "Encryption")]
        pub state: Option<PathBuf> = None,
        /// How the authority checks that a name is this server's: http-01 at port 80, or tls-alpn-01 at port 443.
        #[arg(long = "acme-challenge", value_name = "KIND", default_value = "http-01", help_heading = "Encryption")]
        pub challenge: AcmeChallenge = AcmeChallenge::Http01,
        /// File with the key identifier and the key (base64url) of an account that exists at the authority, which
        /// some authorities need to create an ACME account (external account binding)
        #[arg(long = "acme-eab", value_name = "FILE", requires = "Acme.names", help_heading = "Encryption")]
        pub external_account: Option<PathBuf> = None,
        /// Time before another try when a certificate could not be had; it triples with each failure, up to 12 hours.
        #[arg(long = "acme-retry", value_name = "SECONDS", value_parser = seconds, help_heading = "Encryption")]
        pub retry: Duration = Duration::from_secs(60),
    }
}

impl Acme {
    /// Whether the server gets certificates by itself.
    pub fn is_on(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether the server signs the certificate of a name itself, because no authority would.
    pub fn is_local(&self, name: &HttpsName) -> bool {
        name.is_of_this_machine() || self.directory.is_none() && name.is_of_local_network()
    }

    /// Whether there are only names whose certificates the server signs itself.
    pub fn is_local_only(&self) -> bool {
        self.names.iter().all(|name| self.is_local(name))
    }
}

/// A name for which the server gets a certificate, in lower case: a host name, or an address of this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpsName(String);

impl HttpsName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether no authority may sign a certificate for it (RFC 6761), or it is an address.
    fn is_of_this_machine(&self) -> bool {
        self.has_suffix("localhost") || self.0.parse::<IpAddr>().is_ok()
    }

    /// Whether no public authority signs a certificate for it.
    fn is_of_local_network(&self) -> bool {
        const SUFFIXES: [&str; 8] = [
            "local",
            "internal",
            "home.arpa",
            "lan",
            "test",
            "example",
            "invalid",
            "onion",
        ];
        !self.0.contains('.') || SUFFIXES.iter().any(|suffix| self.has_suffix(suffix))
    }

    fn has_suffix(&self, suffix: &str) -> bool {
        let rest = self.0.strip_suffix(suffix);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

impl FromStr for HttpsName {
    type Err = String;

    fn from_str(text: &str) -> Result<HttpsName, String> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let address = text.trim_matches(['[', ']']);
        if let Ok(address) = address.parse::<IpAddr>() {
            let private = match address {
                IpAddr::V4(address) => address.is_private() || address.is_link_local(),
                IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
            };
            return if private || address.is_loopback() {
                Ok(HttpsName(address.to_string()))
            } else {
                Err(
                    "the server gets no certificates for public addresses: write a host name"
                        .to_owned(),
                )
            };
        }
        let name = text.to_ascii_lowercase();
        if name.starts_with("*.") {
            return Err("a certificate for all names below one needs a change of the DNS, which the server cannot make: \
                        list the names, or get the certificate with another program and use --tls-cert"
                .to_owned());
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(fits)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if name.is_empty() || name.len() > 253 || !name.split('.').all(label) {
            let hint = if name.contains("://") || name.contains('/') {
                "; write the host name alone"
            } else if name.contains(':') {
                "; write the port with --listen"
            } else if !name.is_ascii() {
                "; write its ASCII form, which begins with xn--"
            } else {
                ""
            };
            return Err(format!("it is not a host name{hint}"));
        }
        Ok(HttpsName(name))
    }
}

impl fmt::Display for HttpsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The URL at which an authority describes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryUrl(String);

impl DirectoryUrl {
    /// Returns the URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for DirectoryUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<DirectoryUrl, Self::Err> {
        let uri: http::Uri = text.parse().map_err(|_| "it is not a URL")?;
        match (uri.scheme_str(), uri.host()) {
            (Some("https"), Some(host)) if !host.is_empty() => Ok(DirectoryUrl(text.to_owned())),
            _ => Err("it is a URL that begins with https://"),
        }
    }
}

impl fmt::Display for DirectoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How an authority checks that a name is this server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// It requests a file by http, at port 80 (RFC 8555, section 8.3).
    #[default]
    Http01,
    /// It looks at a certificate, at port 443 (RFC 8737).
    TlsAlpn01,
}

impl FromStr for AcmeChallenge {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<AcmeChallenge, Self::Err> {
        match text {
            "http-01" => Ok(AcmeChallenge::Http01),
            "tls-alpn-01" => Ok(AcmeChallenge::TlsAlpn01),
            _ => Err("the kinds are http-01 and tls-alpn-01"),
        }
    }
}

impl fmt::Display for AcmeChallenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AcmeChallenge::Http01 => "http-01",
            AcmeChallenge::TlsAlpn01 => "tls-alpn-01",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let name = |text: &str| text.parse::<HttpsName>();
        assert_eq!(
            name("WWW.Example.org.").unwrap().as_str(),
            "www.example.org"
        );
        assert_eq!(name("[::1]").unwrap().as_str(), "::1");
        for (bad, word) in [
            ("", "host name"),
            ("a..b", "host name"),
            ("*.example.org", "DNS"),
            ("https://example.org", "alone"),
            ("example.org:443", "--listen"),
            ("bücher.example", "xn--"),
            ("../../etc", "alone"),
            ("a b", "host name"),
            ("-a.b", "host name"),
            ("8.8.8.8", "public"),
            ("8.8.8.8.", "public"),
            (&"a.".repeat(200), "host name"),
        ] {
            let error = name(bad).unwrap_err();
            assert!(error.contains(word), "{bad}: {error}");
        }
    }

    #[test]
    fn which_names_the_server_signs_itself() {
        let local = |directory: Option<&str>, name: &str| {
            let acme = Acme {
                directory: directory.map(|url| url.parse().unwrap()),
                ..Acme::default()
            };
            acme.is_local(&name.parse().unwrap())
        };
        for name in ["localhost", "a.localhost", "127.0.0.1", "::1", "10.0.0.1"] {
            assert!(
                local(None, name) && local(Some("https://ca/"), name),
                "{name}"
            );
        }
        for name in ["nas", "nas.local", "a.b.internal", "x.test"] {
            assert!(
                local(None, name) && !local(Some("https://ca/"), name),
                "{name}"
            );
        }
        for name in [
            "example.org",
            "notlocalhost.org",
            "latest.org",
            "xlocal.net",
        ] {
            assert!(!local(None, name), "{name}");
        }
    }

    #[test]
    fn directories_are_urls_of_https() {
        assert!(
            "https://localhost:14000/dir"
                .parse::<DirectoryUrl>()
                .is_ok()
        );
        for bad in ["", "localhost", "http://a/dir", "https://", "ftp://a"] {
            assert!(bad.parse::<DirectoryUrl>().is_err(), "{bad}");
        }
    }
}
