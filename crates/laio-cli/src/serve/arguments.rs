//! The arguments of `laio serve`: the flags that the options of the server declare, and those that
//! only the command has.

use super::explain::ExplainArguments;
use super::observe::ObserveArguments;
use super::policy::PolicyArguments;
use crate::Failure;
use laio::BackendKind;
use laio_serve::{
    Acme, Cache, Certificate, Clients, Host, Http2, Http3, Limits, Listen, LogFormat, LogOptions,
    LogTarget, Options, Safety, Site, Tls, UpstreamLimits,
};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Serve the files of a directory over HTTP.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Serve another directory under a host name, or under every name below *.NAME; all other
    /// options are the same as for DIR.
    #[arg(long, value_name = "NAME=DIR", value_parser = host, help_heading = "Files")]
    host: Vec<(String, String)>,
    #[command(flatten)]
    site: Site,
    /// Address to listen on, may be repeated: ADDRESS:PORT, where the kernel chooses port 0;
    /// unix:PATH[,mode=660]; or systemd[:NAME] for inherited sockets. The prefix tls: encrypts
    /// connections; proxy: before it expects the header of a proxy [default: systemd if there are such sockets, else 127.0.0.1:8080; with a
    /// certificate tls:127.0.0.1:8443; with --https see there]
    ///
    /// The banner on standard error shows the port that the kernel has chosen; all `--processes` serve
    /// it, and a server that takes over after SIGUSR2 too. The mode is the octal
    /// permissions of the Unix socket. Inherited sockets come by sd_listen_fds(3).
    /// With proxy: each connection begins with a header of the PROXY protocol, version 1 or 2, which names the
    /// client; connections of others than `--trust-proxy` are closed.
    #[arg(long, value_name = "WHERE")]
    listen: Vec<Listen>,
    /// Certificate for TLS, in a PEM file with its intermediate certificates; repeat for several
    /// names. It is read again when the file changes.
    #[arg(long, value_name = "FILE", help_heading = "Encryption")]
    tls_cert: Vec<PathBuf>,
    /// Private key of each --tls-cert, in the same order.
    #[arg(long, value_name = "FILE", help_heading = "Encryption")]
    tls_key: Vec<PathBuf>,
    #[command(flatten)]
    acme: Acme,
    #[command(flatten)]
    tls: Tls,
    /// Use HTTP/1.1 only.
    #[arg(long, help_heading = "Encryption")]
    no_http2: bool,
    /// Serve HTTP/3 too, on the UDP port of each address with TLS.
    ///
    /// Responses over TCP announce it (`Alt-Svc`), and browsers use it from then on.
    #[arg(long, help_heading = "Encryption")]
    http3: bool,
    /// Worker threads [default: one for each processor; with --backend sync 64, each for one connection]
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    /// How calls that would block go to the background: sync, threads, hybrid, posix-aio,
    /// linux-aio, uring or lazy [default: LAIO_BACKEND, else lazy]
    #[arg(long, value_name = "NAME")]
    backend: Option<BackendKind>,
    /// Where the access log goes: a file, - for standard output, syslog, journald, or off.
    ///
    /// `syslog` is the socket /dev/log; `syslog:/PATH`, `syslog:udp://HOST[:PORT]` and `syslog:tcp://HOST[:PORT]` are
    /// others, in the format of RFC 5424. `journald:/PATH` is another socket of the journal.
    #[arg(long, value_name = "WHERE", default_value = "-")]
    log: LogTarget,
    /// Format of the access log: common, combined, json or logfmt.
    #[arg(long, value_name = "FORMAT", default_value = "combined")]
    log_format: LogFormat,
    #[command(flatten)]
    log_options: LogOptions,
    #[command(flatten)]
    http2: Http2,
    #[command(flatten)]
    http3_limits: Http3,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    policy: PolicyArguments,
    /// Open and read the file for each request.
    ///
    /// Otherwise files that are requested often are cached, until inotify reports a change.
    #[arg(long, help_heading = "Cache")]
    no_cache: bool,
    #[command(flatten)]
    cache: Cache,
    #[command(flatten)]
    pub(super) observe: ObserveArguments,
    #[command(flatten)]
    clients: Clients,
    #[command(flatten)]
    upstream_limits: UpstreamLimits,
    #[command(flatten)]
    pub(super) operation: OperationArguments,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Operation")]
pub(super) struct OperationArguments {
    /// Read a file in which every flag is a key (TOML); flags override its keys.
    ///
    /// The key of DIR is `root`.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Check the options without serving: exit status 0 if all is well, 1 if something cannot be
    /// opened, 2 if options are wrong.
    #[arg(long)]
    pub(super) check: bool,
    /// Print all settings in force, including defaults, as a file for --config, and do not serve.
    #[arg(long, conflicts_with = "check")]
    pub(super) print_config: bool,
    #[command(flatten)]
    pub(super) explain: ExplainArguments,
    /// Serve in this many processes, which are restarted if they fail [default: in this one]
    #[arg(long, value_name = "N")]
    pub(super) processes: Option<NonZeroUsize>,
    #[command(flatten)]
    safety: Safety,
}

impl Arguments {
    /// Whether to list the presets instead of serving.
    pub(super) fn lists_presets(&self) -> bool {
        self.policy.list_presets
    }

    /// Returns the options of the server, with these hosts in addition to those of `--host`.
    ///
    /// # Errors
    /// When options cannot be combined.
    pub(super) fn options(&self, hosts: &[Host]) -> Result<Options, Failure> {
        if self.tls_cert.len() != self.tls_key.len() {
            return Err("each --tls-cert needs a --tls-key, and vice versa".into());
        }
        if self.http3_limits.early_data.is_some() && !self.http3 {
            return Err("--early-data is for HTTP/3: add --http3".into());
        }
        let pairs = self.tls_cert.iter().cloned().zip(self.tls_key.clone());
        let certificates: Vec<_> = pairs
            .map(|(chain, key)| Certificate { chain, key })
            .collect();
        let listen = match (&*self.listen, &*certificates) {
            ([], _) if self.acme.is_on() => Listen::usual_https(self.acme.is_local_only()),
            ([], []) => Listen::usual(),
            ([], _) => Listen::usual_tls(),
            (listen, _) => listen.to_vec(),
        };
        let named = |(name, root): &(String, String)| Host {
            names: vec![name.clone()],
            site: Site {
                root: Some(root.into()),
                ..self.site.clone()
            },
        };
        let mut options = Options {
            site: self.site.clone(),
            hosts: self.host.iter().map(named).chain(hosts.to_vec()).collect(),
            listen,
            certificates,
            acme: self.acme.clone(),
            tls: self.tls.clone(),
            http2: (!self.no_http2).then(|| self.http2.clone()),
            http3: self.http3.then(|| self.http3_limits.clone()),
            workers: self.workers.map(NonZeroUsize::get),
            log: self.log.clone(),
            log_format: self.log_format,
            log_options: self.log_options.clone(),
            observer: self.observe.observer(),
            limits: Limits {
                upstream: self.upstream_limits.clone(),
                ..self.limits.clone()
            },
            clients: self.clients.clone(),
            safety: self.operation.safety.clone(),
            ..Options::default()
        };
        options.cache = if self.no_cache {
            Cache::OFF
        } else {
            self.cache.clone()
        };
        self.policy.set(&mut options);
        options.backend = self.backend.or(options.backend);
        Ok(options)
    }
}

fn host(text: &str) -> Result<(String, String), &'static str> {
    let (name, root) = text.split_once('=').ok_or("a = is missing")?;
    Ok((name.to_owned(), root.to_owned()))
}
