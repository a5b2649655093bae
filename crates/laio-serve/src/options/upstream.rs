//! Upstream servers and programs.

use super::balance::{Balance, ForPrefix, HealthPath, ProxyProtocol};
use super::declare::options;
#[cfg(feature = "clap")]
use super::declare::seconds;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// An upstream: a server or program that answers for the paths below a prefix.
///
/// ```
/// use laio_serve::{Protocol, Upstream, UpstreamAddress};
///
/// let api = Upstream::http("/api=http://127.0.0.1:9000/v1")?;
/// assert_eq!(api.prefix, "/api");
/// assert_eq!(api.protocol, Protocol::Http { path: Some("/v1".to_owned()) });
/// let app = Upstream::fastcgi("/app=unix:/run/app.sock")?;
/// assert_eq!(app.address, UpstreamAddress::Unix("/run/app.sock".into()));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The host name whose requests the upstream answers; `None` is every host of its site.
    pub host: Option<String>,
    /// The path prefix, in whole segments; the longest matching prefix wins.
    pub prefix: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The address.
    pub address: UpstreamAddress,
    /// The trusted certificate authorities; `None` is no TLS.
    pub tls: Option<Trust>,
    /// How many requests it gets, relative to the other upstreams of the prefix.
    pub weight: u32,
}

/// The certificate authorities trusted for an upstream. Its certificate must be for the host of the
/// address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The authorities that the system trusts.
    #[default]
    System,
    /// Only the authorities in a PEM file.
    File(PathBuf),
}

/// The protocol of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http {
        /// The path that replaces the prefix; `None` leaves the path as it is.
        path: Option<String>,
    },
    /// HTTP/2.
    Http2 {
        /// The path that replaces the prefix; `None` leaves the path as it is.
        path: Option<String>,
    },
    /// FastCGI, in the role of a responder.
    FastCgi,
}

/// The address of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamAddress {
    /// A host, by name or number, and a port.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

impl Upstream {
    /// Parses `PREFIX=http://HOST:PORT[/PATH]`, the same with `https`, or with `h2c` or `h2` for HTTP/2
    /// without and with TLS, or `PREFIX=http+unix:SOCKET[:/PATH]`, the same with `h2c+unix`. A host name may
    /// precede the prefix: `example.org/api=…`, and `,weight=N` follow the address.
    ///
    /// # Errors
    /// Says what is malformed.
    pub fn http(text: &str) -> Result<Upstream, String> {
        let (host, prefix, to) = split(text)?;
        let (to, weight) = weight(to)?;
        let wrong = || {
            "write http://HOST:PORT, https://HOST:PORT, http+unix:SOCKET, or the same with h2c or h2 for HTTP/2"
                .to_owned()
        };
        let (scheme, _) = to.split_once(':').ok_or_else(wrong)?;
        let tls = matches!(scheme, "https" | "h2");
        let (address, path) = if let "http+unix" | "h2c+unix" = scheme {
            let rest = &to[scheme.len() + 1..];
            let (socket, path) = match rest.split_once(':') {
                Some((socket, path)) => (socket, Some(path)),
                None => (rest, None),
            };
            (unix(socket)?, path)
        } else if let "http" | "https" | "h2c" | "h2" = scheme {
            let rest = to[scheme.len()..].strip_prefix("://").ok_or_else(wrong)?;
            let slash = rest.find('/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at(slash);
            let port = if tls { 443 } else { 80 };
            (tcp(authority, Some(port))?, Some(path))
        } else {
            return Err(wrong());
        };
        let path = path.filter(|path| !path.is_empty()).map(str::to_owned);
        if let Some(path) = &path {
            check_path(path)?;
        }
        Ok(Upstream {
            host,
            prefix,
            protocol: if scheme.starts_with("h2") {
                Protocol::Http2 { path }
            } else {
                Protocol::Http { path }
            },
            address,
            tls: tls.then(Trust::default),
            weight,
        })
    }

    /// Parses `PREFIX=HOST:PORT` or `PREFIX=unix:SOCKET`. A host name may precede the prefix, and
    /// `,weight=N` follow the address.
    ///
    /// # Errors
    /// Says what is malformed.
    pub fn fastcgi(text: &str) -> Result<Upstream, String> {
        let (host, prefix, to) = split(text)?;
        let (to, weight) = weight(to)?;
        Ok(Upstream {
            host,
            prefix,
            protocol: Protocol::FastCgi,
            address: to.parse()?,
            tls: None,
            weight,
        })
    }
}

/// Parses `HOST:PORT` or `unix:SOCKET`.
impl FromStr for UpstreamAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<UpstreamAddress, String> {
        match text.strip_prefix("unix:") {
            Some(socket) => unix(socket),
            None => tcp(text, None),
        }
    }
}

/// Splits `[HOST]PREFIX=ADDRESS`.
fn split(text: &str) -> Result<(Option<String>, String, &str), String> {
    let wrong = || "write PREFIX=ADDRESS, such as /api=127.0.0.1:9000".to_owned();
    let (prefix, to) = text.split_once('=').ok_or_else(wrong)?;
    let (host, prefix) = prefix.split_at(prefix.find('/').unwrap_or(0));
    check_path(prefix)?;
    let host = (!host.is_empty()).then(|| host.to_owned());
    Ok((host, prefix.to_owned(), to))
}

/// Splits `ADDRESS[,weight=N]`.
fn weight(text: &str) -> Result<(&str, u32), String> {
    let Some((to, number)) = text.rsplit_once(",weight=") else {
        return Ok((text, 1));
    };
    let most = UpstreamLimits::WEIGHT;
    match number.parse() {
        Ok(weight) if (1..=most).contains(&weight) => Ok((to, weight)),
        _ => Err(format!(
            "{number:?} is no weight: write a number from 1 to {most}"
        )),
    }
}

fn check_path(path: &str) -> Result<(), String> {
    let strange = |byte: u8| !byte.is_ascii_graphic() || matches!(byte, b'?' | b'#');
    if path.starts_with('/') && !path.bytes().any(strange) {
        Ok(())
    } else {
        Err(format!(
            "{path:?} is not a path: it must begin with a slash, have no query, and be percent-encoded"
        ))
    }
}

fn unix(socket: &str) -> Result<UpstreamAddress, String> {
    if socket.starts_with('/') {
        Ok(UpstreamAddress::Unix(socket.into()))
    } else {
        Err(format!("{socket:?} is not an absolute path of a socket"))
    }
}

fn tcp(authority: &str, port: Option<u16>) -> Result<UpstreamAddress, String> {
    let wrong = || format!("{authority:?} is not a host and port");
    let colon = authority
        .rfind(':')
        .filter(|&colon| !authority[colon..].contains(']'));
    let (host, port) = match colon {
        Some(colon) => {
            let port = authority[colon + 1..].parse().map_err(|_| wrong())?;
            (&authority[..colon], port)
        }
        None => (authority, port.ok_or_else(wrong)?),
    };
    let host = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(host) => host,
        None if host.contains(':') => return Err(format!("{} (brackets?)", wrong())),
        None => host,
    };
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    if host.is_empty() || port == 0 || !host.bytes().all(good) {
        return Err(wrong());
    }
    Ok(UpstreamAddress::Tcp(host.to_owned(), port))
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamAddress::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            UpstreamAddress::Tcp(host, port) => write!(f, "{host}:{port}"),
            UpstreamAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

options! {
    /// The upstreams of a site.
    pub struct Upstreams {
        /// Forward requests below a prefix to an HTTP server: http://HOST:PORT, https://HOST:PORT, or
        /// http+unix:SOCKET; a path after it (:/PATH after a socket) replaces the prefix.
        ///
        /// In HTTP/2, as for gRPC: h2c://HOST:PORT, h2://HOST:PORT with TLS, or h2c+unix:SOCKET.
        ///
        /// With a host name before the prefix, as in `example.org/api`, only requests for that host.
        /// Several upstreams for a prefix share its requests; with `,weight=N` after the URL, an upstream
        /// gets N times as many as one without.
        #[arg(long = "proxy", value_name = "PREFIX=URL", value_parser = Upstream::http, help_heading = "Upstreams")]
        pub http: Vec<Upstream> = Vec::new(),
        /// Forward requests below a prefix to a FastCGI program: HOST:PORT or unix:SOCKET.
        ///
        /// A host name may precede the prefix, and `,weight=N` follow the address. Several programs for a
        /// prefix share its requests.
        #[arg(long = "fastcgi", value_name = "PREFIX=ADDRESS", value_parser = Upstream::fastcgi, help_heading = "Upstreams")]
        pub fastcgi: Vec<Upstream> = Vec::new(),
        /// Divide the requests among several upstreams of a prefix by least-connections (the default),
        /// round-robin, or a hash: hash=client, hash=uri, hash=cookie:NAME, hash=header:NAME.
        ///
        /// With a prefix before it, as in `/api=hash=client`, only among the upstreams of that prefix. A hash
        /// sends requests with the same key to the same upstream; a request without the cookie or field goes
        /// to the one with the fewest requests in flight.
        #[arg(long = "balance", value_name = "[PREFIX=]HOW", help_heading = "Upstreams")]
        pub balance: Vec<ForPrefix<Balance>> = Vec::new(),
        /// Check HTTP upstreams with a GET of this path: those that do not answer with 2xx or 3xx get no
        /// requests.
        ///
        /// With a prefix before it, as in `/api=/health`, only the upstreams of that prefix. Two checks with
        /// the same result decide. With the back end sync nothing is checked.
        #[arg(long = "health-path", value_name = "[PREFIX=]PATH", help_heading = "Upstreams")]
        pub health_paths: Vec<ForPrefix<HealthPath>> = Vec::new(),
        /// Begin each connection to an HTTP upstream with a header that names the addresses of the client's
        /// connection: v1 or v2 of the PROXY protocol.
        ///
        /// With a prefix before it, as in `/api=v2`, only for that prefix. Only further requests of the same
        /// connection of a client use such a connection again. The upstream must expect the header.
        #[arg(long = "proxy-protocol", value_name = "[PREFIX=]VERSION", help_heading = "Upstreams")]
        pub proxy_protocol: Vec<ForPrefix<ProxyProtocol>> = Vec::new(),
        /// Let a FastCGI program such as php-fpm, at HOST:PORT or unix:SOCKET, execute the scripts of
        /// DIR, beside its other files.
        ///
        /// Scripts are the files whose names end in a `--php-extension`. `index.php` becomes the first
        /// `--index`, unless that names a script.
        #[arg(long = "php", value_name = "ADDRESS", help_heading = "Upstreams")]
        pub php: Option<UpstreamAddress> = None,
        /// Extension of the scripts that --php executes.
        ///
        /// Several extensions are separated by commas.
        #[arg(long = "php-extension", value_name = "EXTENSION", default_value = "php", value_delimiter = ',', help_heading = "Upstreams")]
        pub php_extensions: Vec<String> = vec!["php".to_owned()],
        /// Trust https upstreams with certificates signed by those in FILE, instead of those that the
        /// system trusts.
        ///
        /// FILE is a PEM file.
        #[arg(long = "upstream-ca", value_name = "FILE", help_heading = "Upstreams")]
        pub ca: Option<PathBuf> = None,
        /// Send files below DIR that an upstream names (X-Sendfile, X-LIGHTTPD-send-temp-file).
        #[arg(long = "sendfile-root", value_name = "DIR", help_heading = "Upstreams")]
        pub sendfile_roots: Vec<PathBuf> = Vec::new(),
    }
}

impl Upstreams {
    /// Returns all upstreams with a prefix.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Upstream> {
        self.http.iter().chain(&self.fastcgi)
    }
}

impl From<Vec<Upstream>> for Upstreams {
    fn from(upstreams: Vec<Upstream>) -> Upstreams {
        let is_http = |upstream: &Upstream| upstream.protocol != Protocol::FastCgi;
        let (http, fastcgi) = upstreams.into_iter().partition(is_http);
        Upstreams {
            http,
            fastcgi,
            ..Upstreams::default()
        }
    }
}

options! {
    /// The named limits of upstreams. Counts hold for each worker and upstream.
    #[command(next_help_heading = "Upstreams")]
    pub struct UpstreamLimits {
        /// Store request bodies without a length, for a FastCGI program, in unnamed files in DIR
        /// instead of memory; up to 64 KiB are kept in memory in any case.
        ///
        /// Without this flag such bodies have 64 MiB of memory for each worker and upstream: a longer body is
        /// 413, one beyond the free memory 503.
        #[arg(long = "upstream-spool", value_name = "DIR")]
        pub spool: Option<PathBuf> = None,
        /// Connections of a worker to an upstream; further requests wait.
        #[arg(long = "max-upstream-connections", value_name = "N")]
        pub connections: usize = 128,
        /// Requests at the same time on an HTTP/2 connection to an upstream.
        ///
        /// Fewer, if the upstream allows fewer.
        #[arg(long = "max-upstream-streams", value_name = "N")]
        pub streams: usize = 100,
        /// Idle connections that a worker keeps to an upstream.
        #[arg(long = "max-upstream-idle", value_name = "N")]
        pub idle: usize = 32,
        /// Requests of a worker that wait for a connection to an upstream; more are 503.
        #[arg(long = "max-upstream-queue", value_name = "N")]
        pub queue: usize = 512,
        /// WebSockets of a worker through an upstream; more are 503.
        #[arg(long = "max-upstream-tunnels", value_name = "N")]
        pub tunnels: usize = 1024,
        /// Bytes of a request body for an upstream; more is 413.
        ///
        /// Including its framing.
        #[arg(long = "max-upstream-body-bytes", value_name = "BYTES")]
        pub body_bytes: u64 = 1 << 30,
        /// Time that a request waits for a connection to an upstream; then 503.
        #[arg(long = "upstream-queue-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub queue_time: Duration = Duration::from_secs(10),
        /// Time to connect to an upstream; then 504.
        #[arg(long = "upstream-connect-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub connect_time: Duration = Duration::from_secs(5),
        /// Time for an upstream to begin its response; then 504.
        ///
        /// It starts with the end of the request.
        #[arg(long = "upstream-first-byte-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub first_byte_time: Duration = Duration::from_secs(60),
        /// Time between two pieces of an upstream's response; then the connection ends.
        ///
        /// Also the time between two pieces of a request.
        #[arg(long = "upstream-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub between_time: Duration = Duration::from_secs(60),
        /// Time for a whole exchange with an upstream [default: no limit]
        ///
        /// Then the response is aborted.
        #[arg(long = "upstream-whole-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub whole_time: Option<Duration> = None,
        /// Time that an idle connection to an upstream is kept.
        #[arg(long = "upstream-idle-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub idle_time: Duration = Duration::from_secs(30),
        /// Bytes of responses from upstreams that a worker stores, and answers with; 0 stores nothing.
        ///
        /// Only responses whose Cache-Control or Expires allow a shared cache to do so are stored (RFC 9111).
        #[arg(long = "proxy-cache", value_name = "BYTES")]
        pub cache_bytes: usize = 0,
        /// Upstreams of a prefix that a request is given to, if it fails before it can have had an effect.
        ///
        /// A request that could not be sent goes to another one in any case, one that got no answer only if
        /// its method is GET, HEAD, OPTIONS, PUT or DELETE and its body is not partly sent.
        #[arg(long = "upstream-tries", value_name = "N")]
        pub tries: usize = 3,
        /// Time after which a failed request is given to no other upstream.
        #[arg(long = "upstream-retry-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub retry_time: Duration = Duration::from_secs(10),
        /// Failed requests after which one of several upstreams of a prefix is left out.
        #[arg(long = "upstream-failures", value_name = "N")]
        pub failures: u32 = 3,
        /// Time within which those requests must have failed.
        #[arg(long = "upstream-failure-window", value_name = "SECONDS", value_parser = seconds)]
        pub failure_window: Duration = Duration::from_secs(10),
        /// Time for which an upstream is left out; then one request tries it.
        ///
        /// Each time that this request fails too, the time doubles, up to 60 seconds.
        #[arg(long = "upstream-out-time", value_name = "SECONDS", value_parser = seconds)]
        pub out_time: Duration = Duration::from_secs(5),
        /// Time in which an upstream that has come back gets less than its share of requests.
        ///
        /// It begins with a tenth. A hash knows no such time.
        #[arg(long = "upstream-slow-start", value_name = "SECONDS", value_parser = seconds)]
        pub slow_start: Duration = Duration::from_secs(10),
        /// Time between two checks with --health-path.
        #[arg(long = "health-interval", value_name = "SECONDS", value_parser = seconds)]
        pub health_interval: Duration = Duration::from_secs(5),
        /// Time for the answer to a check with --health-path.
        #[arg(long = "health-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub health_time: Duration = Duration::from_secs(2),
        /// Idle timeout of a WebSocket.
        #[arg(long = "tunnel-timeout", value_name = "SECONDS", value_parser = seconds)]
        pub tunnel_time: Duration = Duration::from_secs(300),
    }
}

impl UpstreamLimits {
    /// Limits of the head of a response; more is 502.
    pub const HEAD: laio_http::Limits = laio_http::Limits {
        head_bytes: 32 * 1024,
        target_bytes: 0,
        headers: laio_http::Limits::HEADERS_MAX,
    };
    /// Bytes of a body held in memory at a time, in either direction.
    pub const CHUNK: usize = 64 * 1024;
    /// The flow-control window of HTTP/2 for each response; that of a connection is as large as those of
    /// all its responses.
    pub const HTTP2_WINDOW: u32 = 64 * 1024;
    /// Bytes of the largest body that is stored, and at most a quarter of `cache_bytes`.
    pub const CACHED_BODY: usize = 8 << 20;
    /// Stored responses for a path and query, which differ in the fields that `Vary` names.
    pub const CACHED_VARIANTS: usize = 16;
    /// How long a request waits for another one that fetches the same response.
    pub const COLLAPSE_TIME: Duration = Duration::from_secs(5);
    /// How long requests do not wait for each other after a response that may not be stored.
    pub const UNCACHEABLE_TIME: Duration = Duration::from_secs(10);
    /// Paths that are known to have such responses; beyond this number all are forgotten.
    pub const UNCACHEABLE_KEYS: usize = 4096;
    /// Bytes of spooled bodies in memory, for each worker and upstream, when there is no spool
    /// directory. A longer body is 413, one beyond the free memory 503.
    pub const SPOOLED: u64 = 64 << 20;
    /// Upstreams of a prefix.
    pub const MEMBERS: usize = 64;
    /// The largest weight of an upstream.
    pub const WEIGHT: u32 = 1000;
    /// The longest time for which an upstream is left out, unless `out_time` is longer.
    pub const OUT_TIME_MAX: Duration = Duration::from_secs(60);
    /// Checks in a row that must fail, or pass, before an upstream is left out, or comes back.
    pub const CHECKS: u32 = 2;
    /// The shortest time between two checks.
    pub const HEALTH_INTERVAL_MIN: Duration = Duration::from_millis(10);
    /// Interim responses (1xx) skipped before a response.
    pub const INTERIM: usize = 8;
    /// Bytes of a program's error output logged for one request.
    pub const STDERR: usize = 4 * 1024;
    /// How often the server checks whether a waiting client has closed its connection, which ends
    /// the exchange.
    pub const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(1);
    /// How often names of upstreams are looked up.
    pub const LOOKUP_INTERVAL: Duration = Duration::from_secs(30);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let http = |text: &str| Upstream::http(text).map(|to| (to.address, to.protocol));
        let path = |path: Option<&str>| Protocol::Http {
            path: path.map(str::to_owned),
        };
        let http2 = |path: Option<&str>| Protocol::Http2 {
            path: path.map(str::to_owned),
        };
        let tcp = |host: &str, port| UpstreamAddress::Tcp(host.to_owned(), port);
        let unix = |socket: &str| UpstreamAddress::Unix(socket.into());
        for (text, expected) in [
            ("/=http://a.b:9", (tcp("a.b", 9), path(None))),
            ("/x=http://a", (tcp("a", 80), path(None))),
            ("/x=https://a/b", (tcp("a", 443), path(Some("/b")))),
            ("/x=http://[::1]:9/", (tcp("::1", 9), path(Some("/")))),
            ("/x=http+unix:/a/b", (unix("/a/b"), path(None))),
            ("/x=http+unix:/a:/p/q", (unix("/a"), path(Some("/p/q")))),
            ("b.c/x=http://a", (tcp("a", 80), path(None))),
            ("/x=h2c://a", (tcp("a", 80), http2(None))),
            ("/x=h2://a/b", (tcp("a", 443), http2(Some("/b")))),
            ("/x=h2c+unix:/a:/p", (unix("/a"), http2(Some("/p")))),
        ] {
            assert_eq!(http(text), Ok(expected), "{text}");
        }
        for bad in [
            "http://a",
            "x=http://a",
            "/x=https:a",
            "/x=h2+unix:/a",
            "/x=h2c:a",
            "/x=h3://a",
            "/x=https://",
            "/x=a:9",
            "/x=http://",
            "/x=http://::1:9",
            "/x=http://a:0",
            "/x=http://a:b",
            "/x=http://a/?q",
            "/x y=http://a",
            "/x=http+unix:a",
            "/x=http://a,weight=0",
            "/x=http://a,weight=1001",
            "/x=http://a,weight=",
        ] {
            assert!(http(bad).is_err(), "{bad}");
        }
        let fastcgi = |text: &str| Upstream::fastcgi(text).map(|to| to.address.to_string());
        assert_eq!(fastcgi("/a=[::1]:9"), Ok("[::1]:9".to_owned()));
        assert_eq!(fastcgi("/a=unix:/s"), Ok("unix:/s".to_owned()));
        let weighted = Upstream::http("/x=http://a:9/b,c,weight=7").unwrap();
        assert_eq!(
            (weighted.weight, weighted.protocol),
            (7, path(Some("/b,c")))
        );
        assert_eq!(
            Upstream::fastcgi("/x=a:9,weight=2").map(|it| it.weight),
            Ok(2)
        );
        let host = |text: &str| Upstream::http(text).map(|to| (to.host, to.prefix));
        let named = (Some("b.c".to_owned()), "/x/".to_owned());
        assert_eq!(host("b.c/x/=http://a"), Ok(named));
        assert!(fastcgi("/a=host").is_err() && fastcgi("/a=unix:s").is_err());
    }
}
