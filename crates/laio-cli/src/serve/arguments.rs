//! The arguments of `laio serve`.

use super::cache::CacheArguments;
use super::limits::LimitArguments;
use super::listen::ListenArguments;
use super::observe::ObserveArguments;
use super::operation::OperationArguments;
use super::policy::PolicyArguments;
use super::site::SiteArguments;
use super::upstreams::UpstreamArguments;
use crate::Failure;
use laio::BackendKind;
use laio_serve::{LogFormat, LogTarget, Options};
use std::num::NonZeroUsize;
use std::path::Path;

/// Serve the files of a directory over HTTP.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    site: SiteArguments,
    #[command(flatten)]
    listen: ListenArguments,
    /// Worker threads [default: one for each processor; with --backend sync 64, each for one connection]
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    /// How calls that would block go to the background: sync, threads, hybrid, posix-aio,
    /// linux-aio, uring or lazy [default: LAIO_BACKEND, else lazy]
    #[arg(long, value_name = "NAME")]
    backend: Option<BackendKind>,
    /// Where the access log goes: a file, - for standard output, or off
    #[arg(long, value_name = "FILE", default_value = "-")]
    log: String,
    /// Format of the access log: common, combined or json
    #[arg(long, value_name = "FORMAT", default_value = "combined", value_parser = log_format)]
    log_format: LogFormat,
    #[command(flatten)]
    policy: PolicyArguments,
    #[command(flatten)]
    cache: CacheArguments,
    #[command(flatten)]
    observe: ObserveArguments,
    #[command(flatten)]
    upstreams: UpstreamArguments,
    #[command(flatten)]
    limits: LimitArguments,
    #[command(flatten)]
    operation: OperationArguments,
}

impl Arguments {
    /// Whether to list the presets instead of serving.
    pub(super) fn lists_presets(&self) -> bool {
        self.policy.list_presets
    }

    /// Returns the configuration file.
    pub(super) fn config(&self) -> Option<&Path> {
        self.operation.config.as_deref()
    }

    /// Whether to check the options instead of serving.
    pub(super) fn checks(&self) -> bool {
        self.operation.check
    }

    /// Whether to print the configuration instead of serving.
    pub(super) fn prints_config(&self) -> bool {
        self.operation.print_config
    }

    /// Returns the number of supervised processes, if it is set.
    pub(super) fn processes(&self) -> Option<usize> {
        self.operation.processes.map(NonZeroUsize::get)
    }

    /// Adds the options that all sites share.
    pub(super) fn add_to(&self, site: &mut laio_serve::Site) {
        self.upstreams.add_to(site);
    }

    /// Returns the arguments for statistics.
    pub(super) fn observe(&self) -> ObserveArguments {
        self.observe.clone()
    }

    pub(super) fn options(self) -> Result<Options, Failure> {
        let log = match self.log.as_str() {
            "-" => LogTarget::Stdout,
            "off" => LogTarget::Off,
            file => LogTarget::File(file.into()),
        };
        let (mut site, mut hosts) = self.site.sites()?;
        for host in &mut hosts {
            self.upstreams.add_to(&mut host.site);
        }
        self.upstreams.add_to(&mut site);
        let mut options = Options {
            site,
            hosts,
            workers: self.workers.map(NonZeroUsize::get),
            log,
            log_format: self.log_format,
            cache: self.cache.cache(),
            observer: self.observe.observer(),
            limits: laio_serve::Limits {
                upstream: self.upstreams.limits(),
                ..self.limits.limits()
            },
            safety: self.operation.safety(),
            ..Options::default()
        };
        self.listen.apply(&mut options)?;
        self.policy.set(&mut options);
        options.backend = self.backend.or(options.backend);
        Ok(options)
    }
}

fn log_format(name: &str) -> Result<LogFormat, String> {
    match name {
        "common" => Ok(LogFormat::Common),
        "combined" => Ok(LogFormat::Combined),
        "json" => Ok(LogFormat::Json),
        _ => Err("the formats are common, combined and json".to_owned()),
    }
}
