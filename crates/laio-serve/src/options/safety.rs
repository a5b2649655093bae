//! What a server gives up before it serves.

use std::str::FromStr;

/// What a server gives up before it serves, so that a mistake in it does less harm. Nothing, unless asked to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Safety {
    /// Who it becomes once its sockets are bound: a name or number of a user.
    pub user: Option<String>,
    /// Its group, if that is not the one of the user.
    pub group: Option<String>,
    /// Workers reach no files but those below the roots, which they can only read (Landlock).
    pub landlock: Sandbox,
    /// Workers make no system calls but those of serving (seccomp).
    pub seccomp: Sandbox,
}

/// Whether a fence of the kernel is put up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// It is not.
    #[default]
    Off,
    /// It is where that is possible.
    Auto,
    /// It is, or nothing is served.
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
