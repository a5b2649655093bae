//! The arguments for listening, and how addresses are printed.

use crate::Failure;
use laio_serve::{Certificate, Http2, Listen, ListenAddress, Options};
use std::path::PathBuf;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct ListenArguments {
    /// Address to listen on, may be repeated: ADDRESS:PORT, where the kernel chooses port 0;
    /// unix:PATH[,mode=660]; or systemd[:NAME] for inherited sockets. The prefix tls: encrypts
    /// connections [default: systemd if there are such sockets, else 127.0.0.1:8080; with a
    /// certificate tls:127.0.0.1:8443]
    #[arg(long, value_name = "WHERE")]
    listen: Vec<Listen>,
    /// Certificate for TLS, in a PEM file with its intermediate certificates; repeat for several
    /// names. It is read again when the file changes
    #[arg(long, value_name = "FILE", help_heading = "Encryption")]
    tls_cert: Vec<PathBuf>,
    /// Private key of each --tls-cert, in the same order
    #[arg(long, value_name = "FILE", help_heading = "Encryption")]
    tls_key: Vec<PathBuf>,
    /// Use HTTP/1.1 only
    #[arg(long, help_heading = "Encryption")]
    no_http2: bool,
    /// Requests answered at the same time on an HTTP/2 connection
    #[arg(long, value_name = "N", default_value_t = Http2::default().streams, help_heading = "Limits")]
    max_http2_streams: u32,
    /// Requests that the client of an HTTP/2 connection may reset before the connection ends
    #[arg(long, value_name = "N", default_value_t = Http2::default().resets, help_heading = "Limits")]
    max_http2_resets: u32,
}

impl ListenArguments {
    /// Sets the options.
    pub(super) fn apply(self, options: &mut Options) -> Result<(), Failure> {
        if self.tls_cert.len() != self.tls_key.len() {
            return Err("each --tls-cert needs a --tls-key, and vice versa".into());
        }
        let pairs = self.tls_cert.into_iter().zip(self.tls_key);
        options.certificates = pairs
            .map(|(chain, key)| Certificate { chain, key })
            .collect();
        options.http2 = (!self.no_http2).then(|| Http2 {
            streams: self.max_http2_streams,
            resets: self.max_http2_resets,
            ..Http2::default()
        });
        if !self.listen.is_empty() {
            options.listen = self.listen;
        } else if !options.certificates.is_empty() {
            options.listen = Listen::usual_tls();
        }
        Ok(())
    }
}

/// Returns the URL of an address, or the address itself if browsers cannot use it.
pub(super) fn shown(listen: &Listen) -> String {
    let scheme = if listen.tls { "https" } else { "http" };
    match &listen.address {
        ListenAddress::Inet(address) => format!("{scheme}://{address}/"),
        _ => listen.to_string(),
    }
}
