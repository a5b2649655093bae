//! Where to listen: the arguments, and how it is told.

use crate::Failure;
use laio_serve::{Certificate, Http2, Listen, ListenAddress, Options};
use std::path::PathBuf;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct ListenArguments {
    /// Where to listen, several times if need be: ADDRESS:PORT, where port 0 takes a free one;
    /// unix:PATH[,mode=660]; or systemd[:NAME] for sockets that were passed on With tls: before it, connections are
    /// encrypted [default: systemd if there are such sockets, else 127.0.0.1:8080; with a certificate
    /// tls:127.0.0.1:8443]
    #[arg(long, value_name = "WHERE")]
    listen: Vec<Listen>,
    /// Certificate for TLS, in a PEM file with those that lead to one that clients trust; several times for
    /// several names. It is read again when the file changes
    #[arg(long, value_name = "FILE", help_heading = "Encryption")]
    tls_cert: Vec<PathBuf>,
    /// The private key of each --tls-cert, in their order
    #[arg(long, value_name = "FILE", help_heading = "Encryption")]
    tls_key: Vec<PathBuf>,
    /// Speak HTTP/1.1 only
    #[arg(long, help_heading = "Encryption")]
    no_http2: bool,
    /// Requests answered at the same time on a connection of HTTP/2
    #[arg(long, value_name = "N", default_value_t = Http2::default().streams, help_heading = "Limits")]
    max_http2_streams: u32,
    /// Requests that a connection of HTTP/2 may take back before it is ended
    #[arg(long, value_name = "N", default_value_t = Http2::default().resets, help_heading = "Limits")]
    max_http2_resets: u32,
}

impl ListenArguments {
    /// Puts them into the options.
    pub(super) fn apply(self, options: &mut Options) -> Result<(), Failure> {
        if self.tls_cert.len() != self.tls_key.len() {
            return Err("each --tls-cert needs its --tls-key, and the other way round".into());
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

/// What to give to a browser; of what no browser takes, what it is.
pub(super) fn shown(listen: &Listen) -> String {
    let scheme = if listen.tls { "https" } else { "http" };
    match &listen.address {
        ListenAddress::Inet(address) => format!("{scheme}://{address}/"),
        _ => listen.to_string(),
    }
}
