//! The arguments for operating the server.

use laio_serve::{Safety, Sandbox};
use std::num::NonZeroUsize;
use std::path::PathBuf;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Operation")]
pub(super) struct OperationArguments {
    /// Read a file in which every flag is a key (TOML); flags override its keys
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Check the options without serving: exit status 0 if all is well, 1 if something cannot be
    /// opened, 2 if options are wrong
    #[arg(long)]
    pub(super) check: bool,
    /// Print all settings in force, including defaults, as a file for --config, and do not serve
    #[arg(long, conflicts_with = "check")]
    pub(super) print_config: bool,
    /// Serve in this many processes, which are restarted if they fail [default: in this one]
    #[arg(long, value_name = "N")]
    pub(super) processes: Option<NonZeroUsize>,
    /// Switch to this user, by name or number, once the sockets are bound
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Switch to this group [default: that of the user]
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Restrict workers to the served files: auto (where the kernel can), on or off
    #[arg(long, value_name = "WHETHER", default_value = "auto")]
    landlock: Sandbox,
    /// Restrict workers to the system calls that serving needs: auto (where the kernel can), on or
    /// off
    #[arg(long, value_name = "WHETHER", default_value = "auto")]
    seccomp: Sandbox,
}

impl OperationArguments {
    pub(super) fn safety(self) -> Safety {
        Safety {
            user: self.user,
            group: self.group,
            landlock: self.landlock,
            seccomp: self.seccomp,
        }
    }
}
