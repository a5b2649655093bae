//! The arguments that describe upstreams.

use laio_serve::{Site, Trust, Upstream, UpstreamLimits};
use std::path::PathBuf;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Upstreams")]
pub(super) struct UpstreamArguments {
    /// Forward requests below a prefix to an HTTP server: http://HOST:PORT, https://HOST:PORT, or
    /// http+unix:SOCKET; a path after it (:/PATH after a socket) replaces the prefix.
    #[arg(long, value_name = "PREFIX=URL", value_parser = Upstream::http)]
    proxy: Vec<Upstream>,
    /// Forward requests below a prefix to a FastCGI program: HOST:PORT or unix:SOCKET.
    #[arg(long, value_name = "PREFIX=ADDRESS", value_parser = Upstream::fastcgi)]
    fastcgi: Vec<Upstream>,
    /// Trust https upstreams with certificates signed by those in FILE, instead of those that the
    /// system trusts.
    ///
    /// FILE is a PEM file.
    #[arg(long, value_name = "FILE")]
    upstream_ca: Option<PathBuf>,
    /// Send files below DIR that an upstream names (X-Sendfile, X-LIGHTTPD-send-temp-file).
    #[arg(long, value_name = "DIR")]
    sendfile_root: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) limits: UpstreamLimits,
}

impl UpstreamArguments {
    /// Adds the upstreams to a site. All hosts have the same ones.
    pub(super) fn add_to(&self, site: &mut Site) {
        site.upstreams = [self.proxy.as_slice(), &self.fastcgi].concat();
        for upstream in &mut site.upstreams {
            if let (Some(trust), Some(file)) = (&mut upstream.tls, &self.upstream_ca) {
                *trust = Trust::File(file.clone());
            }
        }
        site.sendfile_roots.clone_from(&self.sendfile_root);
    }
}
