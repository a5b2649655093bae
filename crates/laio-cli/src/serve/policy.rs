//! The arguments for back ends and transfers: presets, and changes to them.

use laio_serve::{Options, PRESETS, Policies, Preset, Transfer};
use std::num::{NonZeroU32, NonZeroUsize};

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "System calls and transfer of bodies")]
pub(super) struct PolicyArguments {
    /// Use the system calls and the transfer of a published server; other flags override it.
    ///
    /// `--list-presets` shows their names. Presets turn the file cache off.
    #[arg(long, value_name = "NAME")]
    preset: Option<Preset>,
    /// List the presets
    #[arg(long)]
    pub(super) list_presets: bool,
    /// Back end of an operation (accept, read, open, stat, file-read, write, sendfile) if it
    /// differs from --backend
    #[arg(long, value_name = "OPERATION=BACKEND,...")]
    policy: Vec<Policies>,
    /// How file data is sent to the client: page-cache, buffer, sendfile, shm-sendfile, splice, or
    /// zerocopy, which needs io_uring (Linux 6.0).
    ///
    /// `page-cache`, the default, reads into the page cache and sends from there with sendfile(2);
    /// `buffer` reads into memory and sends from there; `shm-sendfile` reads into shared memory and sends
    /// from there with sendfile(2); `splice` sends through a pipe; `zerocopy` sends from memory with
    /// `IORING_OP_SEND_ZC`.
    #[arg(long, value_name = "NAME")]
    transfer: Option<Transfer>,
    /// Bytes of a file read, or sent, at a time.
    ///
    /// From 4096 to 16777216; without this flag 131072, or the number of the preset. Each connection with
    /// a body has as many bytes in memory.
    #[arg(long, value_name = "BYTES")]
    chunk: Option<NonZeroUsize>,
    /// Hold packets back until they are full (TCP_CORK), instead of sending the head with the first
    /// bytes of the body
    #[arg(long, value_name = "YES|NO", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
        value_parser = yes_or_no)]
    cork: Option<bool>,
    /// Files that a worker opens at a time, with one helper each.
    ///
    /// Without this flag there is no limit; further files wait.
    #[arg(long, value_name = "N")]
    stat_threads: Option<NonZeroU32>,
    /// Files that a worker reads at a time.
    ///
    /// Without this flag there is no limit; further files wait.
    #[arg(long, value_name = "N")]
    read_threads: Option<NonZeroU32>,
    /// Clients that a worker sends to at a time.
    ///
    /// Without this flag there is no limit; further clients wait.
    #[arg(long, value_name = "N")]
    write_threads: Option<NonZeroU32>,
}

impl PolicyArguments {
    pub(super) fn set(&self, options: &mut Options) {
        if let Some(preset) = self.preset {
            preset.apply(options);
        }
        let io = &mut options.io;
        for &policies in &self.policy {
            io.policies = io.policies.or_those_of(policies);
        }
        let get = |number: Option<NonZeroU32>| number.map(NonZeroU32::get);
        io.transfer = self.transfer.unwrap_or(io.transfer);
        io.chunk = self.chunk.map(NonZeroUsize::get).or(io.chunk);
        io.cork = self.cork.unwrap_or(io.cork);
        let limits = &mut io.class_limits;
        limits.stat = get(self.stat_threads).or(limits.stat);
        limits.read = get(self.read_threads).or(limits.read);
        limits.write = get(self.write_threads).or(limits.write);
    }
}

/// Returns the presets, one per line.
pub(super) fn presets() -> String {
    let widest = PRESETS.iter().map(|preset| preset.name.len()).max();
    let width = widest.unwrap_or(0);
    PRESETS
        .iter()
        .map(|preset| format!("{:width$}  {}\n", preset.name, preset.about))
        .collect()
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("the value must be yes or no".to_owned()),
    }
}
