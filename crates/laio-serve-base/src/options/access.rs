//! Which clients may use a site, and how much of it.

use super::declare::options;
use super::network::Network;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

options! {
    /// Rules by the address of the client, and limits of requests and bytes.
    pub struct Access {
        /// Let only clients of this network in (192.0.2.0/24, ::1, unix); with a glob only to paths that it
        /// matches.
        ///
        /// Of several networks of `--allow` and `--deny` that contain the client, the one with the longest
        /// prefix decides, and `--deny` if there are two. Clients in no network are refused if there is an
        /// `--allow`. Rules without a glob, and the rules of each glob, are separate: all must let the client
        /// in. The others get 403.
        #[arg(long = "allow", value_name = "[GLOB=]NETWORK", help_heading = "Access")]
        pub allow: Vec<NetworkRule> = Vec::new(),
        /// Refuse clients of this network, or all; with a glob only for paths that it matches.
        ///
        /// `all` is every client, also of a Unix socket: `--deny '**/.git/**=all'`.
        #[arg(long = "deny", value_name = "[GLOB=]NETWORK", help_heading = "Access")]
        pub deny: Vec<NetworkRule> = Vec::new(),
        /// Answer 429 to more requests of a client than these: 10/s, 100/m or 1000/h, and behind it `,burst=N`
        /// or `,by=client`, `path`, `header:NAME`, `site`.
        ///
        /// Each client has a bucket of `burst` tokens (by default as many as the rate says), which is filled
        /// at the rate; a request takes one. `by` says what has a bucket of its own, joined by `+`:
        /// `by=client+path`. Clients are addresses, or networks /64 of IPv6. A request without the header
        /// counts for its client. Where several limits fit, each of them must have a token.
        #[arg(long = "rate", value_name = "[GLOB=]RATE", help_heading = "Access")]
        pub rates: Vec<RateRule> = Vec::new(),
        /// Buckets that a rate remembers, of 16 bytes each; then the fullest ones are forgotten.
        #[arg(long = "max-rate-buckets", value_name = "N", help_heading = "Access")]
        pub buckets: usize = 65_536,
        /// Send the content of a response at this rate at most; with `,after=BYTES` only what follows them.
        ///
        /// It is the rate of one response; limit the connections of a client too. The first matching rule
        /// counts.
        #[arg(long = "limit-rate", value_name = "[GLOB=]BYTES/S", help_heading = "Access")]
        pub speeds: Vec<SpeedRule> = Vec::new(),
    }
}

/// A network, and the paths for which the rule holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRule {
    /// None matches every path.
    pub glob: Option<String>,
    /// The network.
    pub network: Network,
}

impl FromStr for NetworkRule {
    type Err = String;

    fn from_str(text: &str) -> Result<NetworkRule, String> {
        let (glob, network) = match text.rsplit_once('=') {
            Some((glob, network)) => (Some(glob.to_owned()), network),
            None => (None, text),
        };
        let network = match network {
            // Not for proxies to trust.
            "all" => Network::All,
            network => network.parse()?,
        };
        Ok(NetworkRule { glob, network })
    }
}

/// A limit on the rate of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateRule {
    /// None matches every path.
    pub glob: Option<String>,
    /// Requests in each `period`, at least 1.
    pub requests: u32,
    /// A second, a minute or an hour.
    pub period: Duration,
    /// Requests that may come at once, at least 1.
    pub burst: u32,
    /// What has a bucket of its own; nothing is the whole site.
    pub by: Vec<RateKey>,
}

/// What has a bucket of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateKey {
    /// Each client address.
    Client,
    /// Each path.
    Path,
    /// Each value of a header field.
    Header(String),
}

impl FromStr for RateRule {
    type Err = String;

    fn from_str(text: &str) -> Result<RateRule, String> {
        let (glob, rule) = split(text, |start| rate(start).is_some());
        let mut parts = rule.split(',');
        let first = parts.next().unwrap_or_default();
        let (requests, period) = rate(first).ok_or_else(|| {
            format!("{first:?} is not a rate: write 10/s, 100/m or 1000/h, with at least 1 request")
        })?;
        let mut rate = RateRule {
            glob,
            requests,
            period,
            burst: requests,
            by: vec![RateKey::Client],
        };
        for part in parts {
            match part.split_once('=') {
                Some(("burst", count)) => {
                    let count = count.parse().ok().filter(|count| *count > 0);
                    rate.burst = count.ok_or("the burst must be a number of at least 1")?;
                }
                Some(("by", keys)) => rate.by = keys_of(keys)?,
                _ => return Err(format!("{part:?} is neither burst=N nor by=WHAT")),
            }
        }
        Ok(rate)
    }
}

fn keys_of(text: &str) -> Result<Vec<RateKey>, String> {
    if text == "site" {
        return Ok(Vec::new());
    }
    let key = |text: &str| match text {
        "client" => Ok(RateKey::Client),
        "path" => Ok(RateKey::Path),
        text => match text.strip_prefix("header:") {
            Some(name) if !name.is_empty() => Ok(RateKey::Header(name.to_owned())),
            _ => Err(format!("{text:?} is not client, path, header:NAME or site")),
        },
    };
    text.split('+').map(key).collect()
}

fn rate(text: &str) -> Option<(u32, Duration)> {
    let (count, unit) = text.split_once('/')?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    let count = count.parse().ok().filter(|count| *count > 0)?;
    Some((count, Duration::from_secs(seconds)))
}

/// A limit on the rate of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeedRule {
    /// None matches every path.
    pub glob: Option<String>,
    /// Bytes in each second, at least [`SpeedRule::LEAST`].
    pub rate: u64,
    /// Bytes that are sent as fast as possible first.
    pub after: u64,
}

impl SpeedRule {
    /// The lowest rate, in bytes per second.
    pub const LEAST: u64 = 1024;
}

impl FromStr for SpeedRule {
    type Err = String;

    fn from_str(text: &str) -> Result<SpeedRule, String> {
        let (glob, rule) = split(text, |start| start.parse::<u64>().is_ok());
        let (rate, after) = match rule.split_once(',') {
            None => (rule, 0),
            Some((rate, after)) => {
                let after = after.strip_prefix("after=");
                let after = after.and_then(|after| after.parse().ok());
                (rate, after.ok_or("write RATE or RATE,after=BYTES")?)
            }
        };
        let rate = rate.parse().ok().filter(|rate| *rate >= SpeedRule::LEAST);
        let rate = rate.ok_or_else(|| {
            format!(
                "{rule:?} is not a rate of at least {} bytes per second",
                SpeedRule::LEAST
            )
        })?;
        Ok(SpeedRule { glob, rate, after })
    }
}

/// Splits `GLOB=RULE`; there is no glob if the text begins like a rule.
fn split(text: &str, begins_rule: impl Fn(&str) -> bool) -> (Option<String>, &str) {
    let start = text.split(',').next().unwrap_or_default();
    match text.split_once('=') {
        Some((glob, rule)) if !begins_rule(start) => (Some(glob.to_owned()), rule),
        _ => (None, text),
    }
}

macro_rules! as_text {
    ($rule:ident, $self:ident, $f:ident, $write:expr) => {
        /// As it is parsed.
        impl fmt::Display for $rule {
            fn fmt(&$self, $f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if let Some(glob) = &$self.glob {
                    write!($f, "{glob}=")?;
                }
                $write
            }
        }
    };
}

as_text!(NetworkRule, self, f, self.network.fmt(f));
as_text!(
    SpeedRule,
    self,
    f,
    write!(f, "{},after={}", self.rate, self.after)
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_networks() {
        let rule = |text: &str| text.parse::<NetworkRule>().map(|rule| rule.to_string());
        assert_eq!(rule("::1"), Ok("::1/128".to_owned()));
        assert_eq!(rule("/a=b/**=unix"), Ok("/a=b/**=unix".to_owned()));
        assert!(rule("/a").is_err() && rule("=x").is_err());
    }

    #[test]
    fn rates() {
        let rule: RateRule = "10/s".parse().unwrap();
        assert_eq!((rule.requests, rule.burst, rule.glob), (10, 10, None));
        let rule: RateRule = "/login=5/m,burst=2,by=header:X-Key+path".parse().unwrap();
        assert_eq!(rule.glob.as_deref(), Some("/login"));
        assert_eq!((rule.requests, rule.burst), (5, 2));
        assert_eq!(rule.period, Duration::from_secs(60));
        let keys = vec![RateKey::Header("X-Key".to_owned()), RateKey::Path];
        assert_eq!(rule.by, keys);
        let rule: RateRule = "1/h,by=site".parse().unwrap();
        assert!(rule.by.is_empty() && rule.glob.is_none());
        for bad in [
            "",
            "10",
            "0/s",
            "10/d",
            "/a=",
            "1/s,burst=0",
            "1/s,x",
            "1/s,by=y",
            "1/s,by=header:",
        ] {
            assert!(bad.parse::<RateRule>().is_err(), "{bad}");
        }
    }

    #[test]
    fn speeds() {
        let text = |text: &str| text.parse::<SpeedRule>().map(|rule| rule.to_string());
        assert_eq!(text("4096"), Ok("4096,after=0".to_owned()));
        assert_eq!(
            text("*.iso=4096,after=9"),
            Ok("*.iso=4096,after=9".to_owned())
        );
        for bad in ["", "1", "4096,9", "/a=x", "4096,after="] {
            assert!(bad.parse::<SpeedRule>().is_err(), "{bad}");
        }
    }
}
