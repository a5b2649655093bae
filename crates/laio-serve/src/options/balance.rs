//! Settings of the upstreams of a prefix: how requests are divided among them, how they are checked, and
//! how they learn the address of a client.

use std::fmt;
use std::str::FromStr;

/// How requests are divided among the upstreams of a prefix.
///
/// ```
/// use laio_serve::{Balance, HashKey};
///
/// assert_eq!("round-robin".parse(), Ok(Balance::RoundRobin));
/// let cookie = HashKey::Cookie("session".to_owned());
/// assert_eq!("hash=cookie:session".parse(), Ok(Balance::Hash(cookie)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// To the one with the fewest requests in flight for its weight, in turn among equals.
    #[default]
    LeastConnections,
    /// In turn, each as often as its weight says.
    RoundRobin,
    /// By a hash, so that requests with the same key go to the same upstream.
    Hash(HashKey),
}

/// What a hash of a request is computed from. A request without it goes to the upstream with the
/// fewest requests in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashKey {
    /// The client's address, without the port.
    Client,
    /// The path and the query.
    Uri,
    /// The value of a cookie.
    Cookie(String),
    /// The value of a header field.
    Header(String),
}

impl FromStr for Balance {
    type Err = String;

    fn from_str(text: &str) -> Result<Balance, String> {
        let wrong = || {
            format!(
                "{text:?} is no way to balance: write least-connections, round-robin, hash=client, hash=uri, \
                 hash=cookie:NAME or hash=header:NAME"
            )
        };
        let key = match text {
            "least-connections" => return Ok(Balance::LeastConnections),
            "round-robin" => return Ok(Balance::RoundRobin),
            _ => text.strip_prefix("hash=").ok_or_else(wrong)?,
        };
        let key = match key.split_once(':') {
            None if key == "client" => HashKey::Client,
            None if key == "uri" => HashKey::Uri,
            Some(("cookie", name)) if is_token(name) => HashKey::Cookie(name.to_owned()),
            Some(("header", name)) if is_token(name) => HashKey::Header(name.to_owned()),
            _ => return Err(wrong()),
        };
        Ok(Balance::Hash(key))
    }
}

fn is_token(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(good)
}

/// A version of the PROXY protocol, which tells an upstream the client's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

impl FromStr for ProxyProtocol {
    type Err = String;

    fn from_str(text: &str) -> Result<ProxyProtocol, String> {
        match text {
            "v1" => Ok(ProxyProtocol::V1),
            "v2" => Ok(ProxyProtocol::V2),
            _ => Err(format!(
                "{text:?} is no version of the PROXY protocol: write v1 or v2"
            )),
        }
    }
}

/// The path of a request that checks whether an upstream is healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthPath(pub String);

impl FromStr for HealthPath {
    type Err = String;

    fn from_str(text: &str) -> Result<HealthPath, String> {
        if text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(HealthPath(text.to_owned()))
        } else {
            Err(format!(
                "{text:?} is not a path: it must begin with a slash and be percent-encoded"
            ))
        }
    }
}

/// A setting for the upstreams of one prefix, or for those of all prefixes.
///
/// ```
/// use laio_serve::{Balance, ForPrefix};
///
/// let all: ForPrefix<Balance> = "hash=client".parse()?;
/// assert_eq!(all.prefix, None);
/// let one: ForPrefix<Balance> = "shop.example/api=round-robin".parse()?;
/// assert_eq!((one.host.as_deref(), one.prefix.as_deref()), (Some("shop.example"), Some("/api")));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForPrefix<T> {
    /// The host of the upstreams; `None` is every host.
    pub host: Option<String>,
    /// The prefix of the upstreams; `None` is every prefix.
    pub prefix: Option<String>,
    /// The setting.
    pub value: T,
}

/// Parses `VALUE`, `PREFIX=VALUE` or `HOST/PREFIX=VALUE`.
impl<T: FromStr<Err = String>> FromStr for ForPrefix<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<ForPrefix<T>, String> {
        let named = text
            .split_once('=')
            .filter(|(prefix, _)| prefix.contains('/') && !prefix.contains('?'));
        let Some((prefix, value)) = named else {
            return Ok(ForPrefix {
                host: None,
                prefix: None,
                value: text.parse()?,
            });
        };
        let (host, prefix) = prefix.split_at(prefix.find('/').unwrap_or(0));
        Ok(ForPrefix {
            host: (!host.is_empty()).then(|| host.to_owned()),
            prefix: Some(prefix.to_owned()),
            value: value.parse()?,
        })
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Balance::LeastConnections => f.write_str("least-connections"),
            Balance::RoundRobin => f.write_str("round-robin"),
            Balance::Hash(HashKey::Client) => f.write_str("hash=client"),
            Balance::Hash(HashKey::Uri) => f.write_str("hash=uri"),
            Balance::Hash(HashKey::Cookie(name)) => write!(f, "hash=cookie:{name}"),
            Balance::Hash(HashKey::Header(name)) => write!(f, "hash=header:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balances() {
        for text in [
            "least-connections",
            "round-robin",
            "hash=client",
            "hash=uri",
            "hash=cookie:a",
            "hash=header:X-A",
        ] {
            assert_eq!(text.parse::<Balance>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "hash",
            "hash=",
            "hash=cookie",
            "hash=cookie:",
            "hash=header:a b",
            "random",
        ] {
            assert!(bad.parse::<Balance>().is_err(), "{bad}");
        }
    }

    #[test]
    fn prefixes_of_settings() {
        let path = |text: &str| text.parse::<ForPrefix<HealthPath>>();
        let parts = |text: &str| {
            let it = path(text).unwrap();
            (it.host, it.prefix, it.value.0)
        };
        let owned = |text: &str| Some(text.to_owned());
        assert_eq!(parts("/up"), (None, None, "/up".to_owned()));
        assert_eq!(parts("/up?a=b"), (None, None, "/up?a=b".to_owned()));
        assert_eq!(parts("/x=/up"), (None, owned("/x"), "/up".to_owned()));
        assert_eq!(
            parts("a.b/x=/up?c=d"),
            (owned("a.b"), owned("/x"), "/up?c=d".to_owned())
        );
        for bad in ["", "up", "/x=up", "/x=/a b"] {
            assert!(path(bad).is_err(), "{bad}");
        }
    }
}
