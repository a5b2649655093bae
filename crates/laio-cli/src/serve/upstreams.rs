//! The arguments that describe upstreams.

use super::limits::Seconds;
use laio_serve::{Site, Trust, Upstream, UpstreamLimits};
use std::path::PathBuf;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Upstreams")]
pub(super) struct UpstreamArguments {
    /// Forward requests below a prefix to an HTTP server: http://HOST:PORT, https://HOST:PORT, or
    /// http+unix:SOCKET; a path after it (:/PATH after a socket) replaces the prefix
    #[arg(long, value_name = "PREFIX=URL", value_parser = Upstream::http)]
    proxy: Vec<Upstream>,
    /// Forward requests below a prefix to a FastCGI program: HOST:PORT or unix:SOCKET
    #[arg(long, value_name = "PREFIX=ADDRESS", value_parser = Upstream::fastcgi)]
    fastcgi: Vec<Upstream>,
    /// Trust https upstreams with certificates signed by those in FILE, instead of those that the
    /// system trusts
    #[arg(long, value_name = "FILE")]
    upstream_ca: Option<PathBuf>,
    /// Send files below DIR that an upstream names (X-Sendfile, X-LIGHTTPD-send-temp-file)
    #[arg(long, value_name = "DIR")]
    sendfile_root: Vec<PathBuf>,
    /// Store request bodies without a length, for a FastCGI program, in unnamed files in DIR
    /// instead of memory; up to 64 KiB are kept in memory in any case
    #[arg(long, value_name = "DIR")]
    upstream_spool: Option<PathBuf>,
    /// Trust X-Forwarded-* and Forwarded of clients: only if no one but other proxies can reach
    /// this server
    #[arg(long)]
    trust_forwarded: bool,
    /// Connections of a worker to an upstream; further requests wait
    #[arg(long, value_name = "N", default_value_t = UpstreamLimits::default().connections)]
    max_upstream_connections: usize,
    /// Idle connections that a worker keeps to an upstream
    #[arg(long, value_name = "N", default_value_t = UpstreamLimits::default().idle)]
    max_upstream_idle: usize,
    /// Requests of a worker that wait for a connection to an upstream; more are 503
    #[arg(long, value_name = "N", default_value_t = UpstreamLimits::default().queue)]
    max_upstream_queue: usize,
    /// WebSockets of a worker through an upstream; more are 503
    #[arg(long, value_name = "N", default_value_t = UpstreamLimits::default().tunnels)]
    max_upstream_tunnels: usize,
    /// Bytes of a request body for an upstream; more is 413
    #[arg(long, value_name = "BYTES", default_value_t = UpstreamLimits::default().body_bytes)]
    max_upstream_body_bytes: u64,
    /// Time that a request waits for a connection to an upstream; then 503
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(UpstreamLimits::default().queue_time))]
    upstream_queue_timeout: Seconds,
    /// Time to connect to an upstream; then 504
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(UpstreamLimits::default().connect_time))]
    upstream_connect_timeout: Seconds,
    /// Time for an upstream to begin its answer; then 504
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(UpstreamLimits::default().first_byte_time))]
    upstream_first_byte_timeout: Seconds,
    /// Time between two pieces of an upstream's answer; then the connection ends
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(UpstreamLimits::default().between_time))]
    upstream_timeout: Seconds,
    /// Time for a whole exchange with an upstream [default: no limit]
    #[arg(long, value_name = "SECONDS")]
    upstream_whole_timeout: Option<Seconds>,
    /// Time that an idle connection to an upstream is kept
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(UpstreamLimits::default().idle_time))]
    upstream_idle_timeout: Seconds,
    /// Idle timeout of a WebSocket
    #[arg(long, value_name = "SECONDS", default_value_t = Seconds(UpstreamLimits::default().tunnel_time))]
    tunnel_timeout: Seconds,
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

    pub(super) fn limits(&self) -> UpstreamLimits {
        UpstreamLimits {
            connections: self.max_upstream_connections,
            idle: self.max_upstream_idle,
            queue: self.max_upstream_queue,
            tunnels: self.max_upstream_tunnels,
            body_bytes: self.max_upstream_body_bytes,
            queue_time: self.upstream_queue_timeout.0,
            connect_time: self.upstream_connect_timeout.0,
            first_byte_time: self.upstream_first_byte_timeout.0,
            between_time: self.upstream_timeout.0,
            whole_time: self.upstream_whole_timeout.map(|time| time.0),
            idle_time: self.upstream_idle_timeout.0,
            tunnel_time: self.tunnel_timeout.0,
            trust_forwarded: self.trust_forwarded,
            spool: self.upstream_spool.clone(),
        }
    }
}
