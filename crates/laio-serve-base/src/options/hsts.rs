//! HTTP Strict Transport Security (RFC 6797).

use super::declare::options;
use std::fmt;
use std::str::FromStr;

options! {
    /// The field `Strict-Transport-Security`, which makes browsers use only https for a host.
    pub struct Hsts {
        /// Let browsers use only https for this many seconds (HSTS), a year without a value, or off.
        ///
        /// Every response over TLS has the field: errors, redirects and responses of upstreams too, except
        /// responses of an upstream that sends its own. No response without TLS has it. With 0 browsers forget an
        /// earlier value.
        #[arg(long = "hsts", value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "31536000", help_heading = "Encryption")]
        pub age: Option<HstsAge> = None,
        /// Let --hsts hold for the names below the host too.
        #[arg(long = "hsts-subdomains", help_heading = "Encryption")]
        pub subdomains: bool = false,
        /// Allow the lists of hosts in browsers to contain the host (preload).
        ///
        /// It needs `--hsts-subdomains` and at least a year. Leaving such a list takes months.
        #[arg(long = "hsts-preload", help_heading = "Encryption")]
        pub preload: bool = false,
    }
}

/// How long browsers use only https.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HstsAge {
    /// The field is not sent.
    Off,
    /// This many seconds.
    Seconds(u32),
}

impl FromStr for HstsAge {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<HstsAge, Self::Err> {
        match text {
            "off" => Ok(HstsAge::Off),
            number => match number.parse() {
                Ok(seconds) => Ok(HstsAge::Seconds(seconds)),
                Err(_) => Err("it is a number of seconds, or off"),
            },
        }
    }
}

impl fmt::Display for HstsAge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HstsAge::Off => f.write_str("off"),
            HstsAge::Seconds(seconds) => seconds.fmt(f),
        }
    }
}
