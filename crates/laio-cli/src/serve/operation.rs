//! How the server is run: the arguments.

use laio_serve::{Safety, Sandbox};
use std::num::NonZeroUsize;
use std::path::PathBuf;

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Operation")]
pub(super) struct OperationArguments {
    /// Read a file in which every flag is a key (TOML); flags take the place of its keys
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Say whether all of this would work, and serve nothing: 0 if so, 1 if something cannot be opened, 2 if
    /// something makes no sense
    #[arg(long)]
    pub(super) check: bool,
    /// Write all that is in force, defaults too, as a file for --config, and serve nothing
    #[arg(long, conflicts_with = "check")]
    pub(super) print_config: bool,
    /// Serve in this many processes, which are started again if they die [default: in this one]
    #[arg(long, value_name = "N")]
    pub(super) processes: Option<NonZeroUsize>,
    /// Become this user, by name or number, once the sockets are bound
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Become this group [default: that of the user]
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Let workers reach no files but those that are served: auto (where the kernel can), on or off
    #[arg(long, value_name = "WHETHER", default_value = "auto")]
    landlock: Sandbox,
    /// Let workers make no system calls but those of serving: auto (where the kernel can), on or off
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
