//! Privileges and the sandbox.

use std::str::FromStr;

/// Restrictions that limit the damage of a mistake in the server. Off by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Safety {
    /// The user to switch to once the sockets are bound, by name or number.
    pub user: Option<String>,
    /// The group, if it is not the user's.
    pub group: Option<String>,
    /// Workers can only read files below the roots, and no others (Landlock).
    pub landlock: Sandbox,
    /// Workers can make no other system calls than serving needs (seccomp).
    pub seccomp: Sandbox,
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
