//! Privileges and the sandbox.

use super::declare::options;
use std::str::FromStr;

options! {
    /// Restrictions that limit the damage of a mistake in the server. `laio serve` uses the sandbox
    /// where the kernel can; other programs turn it on.
    pub struct Safety {
        /// Switch to this user, by name or number, once the sockets are bound.
        #[arg(long = "user", value_name = "NAME")]
        pub user: Option<String> = None,
        /// Switch to this group [default: the user's]
        #[arg(long = "group", value_name = "NAME")]
        pub group: Option<String> = None,
        /// Restrict workers to the served files: auto (where the kernel can), on or off.
        ///
        /// With `on` (Landlock) the server does not start where the kernel cannot.
        #[arg(long = "landlock", value_name = "WHETHER", default_value = "auto")]
        pub landlock: Sandbox = Sandbox::Off,
        /// Restrict workers to the system calls that serving needs: auto (where the kernel can), on or
        /// off.
        ///
        /// With `on` (seccomp) the server does not start where the kernel cannot.
        #[arg(long = "seccomp", value_name = "WHETHER", default_value = "auto")]
        pub seccomp: Sandbox = Sandbox::Off,
    }
}

/// Whether a part of the sandbox is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// Not used.
    #[default]
    Off,
    /// Used where the kernel supports it.
    Auto,
    /// Required: the server does not start without it.
    On,
}

impl FromStr for Sandbox {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Sandbox, Self::Err> {
        match text {
            "auto" => Ok(Sandbox::Auto),
            "on" => Ok(Sandbox::On),
            "off" => Ok(Sandbox::Off),
            _ => Err("it is auto, on or off"),
        }
    }
}
