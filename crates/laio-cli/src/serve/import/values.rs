//! Values of nginx: times, sizes, listening addresses, targets of redirects, candidates of `try_files`.

use super::parser::Directive;
use super::variables::of_host;

/// Parses a time such as `30`, `1h30m` or `500ms`, in seconds.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let (mut total, mut rest) = (0.0, text);
    if text.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .len();
        let unit = match &rest[..letters] {
            "" | "s" => 1.0,
            "ms" => 0.001,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            "w" => 7.0 * 86400.0,
            "M" => 30.0 * 86400.0,
            "y" => 365.0 * 86400.0,
            _ => return None,
        };
        rest = rest[letters..].trim_start();
        total += number as f64 * unit;
    }
    (total < 1e10).then_some(total)
}

/// Parses a size such as `8k` or `64m`, in bytes.
pub(super) fn bytes(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<i64>().ok()?.checked_mul(unit)
}

/// A `listen` directive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listening {
    /// The address as laio writes it, without `tls:`.
    pub(super) address: String,
    pub(super) tls: bool,
    /// Connections begin with the header of a proxy.
    pub(super) proxied: bool,
    pub(super) is_default: bool,
    /// Parameters that are not translated.
    pub(super) lost: Vec<String>,
}

/// Parses a `listen` directive, or returns none for an address of another kind.
pub(super) fn listening(directive: &Directive) -> Option<Listening> {
    let text = directive.word();
    let port = |text: &str| text.parse::<u16>().ok();
    let address = if let Some(number) = port(text) {
        format!("0.0.0.0:{number}")
    } else if let Some(path) = text.strip_prefix("unix:") {
        format!("unix:{path}")
    } else {
        let (host, number) = match text.rsplit_once(':') {
            Some((host, number)) if !number.ends_with(']') => (host, port(number)?),
            _ => (text, 80),
        };
        let host = match host {
            "*" => "0.0.0.0",
            "localhost" => "127.0.0.1",
            host => host,
        };
        let address: std::net::SocketAddr = format!("{host}:{number}").parse().ok()?;
        address.to_string()
    };
    let mut listening = Listening {
        address,
        ..Listening::default()
    };
    for word in directive.words.iter().skip(1) {
        let name = word.split('=').next().unwrap_or(word);
        match name {
            "ssl" => listening.tls = true,
            "proxy_protocol" => listening.proxied = true,
            "default_server" | "default" => listening.is_default = true,
            // Both are so by themselves, or of no consequence.
            "http2" | "reuseport" | "deferred" | "backlog" | "fastopen" | "ipv6only"
            | "so_keepalive" | "bind" | "rcvbuf" | "sndbuf" => {}
            _ => listening.lost.push(word.clone()),
        }
    }
    Some(listening)
}

/// Translates the variables of a URL to which a location redirects. `rest` is what stands for the rest of the path
/// (`$request_uri`, `$1`), and may only end the URL.
///
/// # Errors
/// Names the variable that has no equivalent.
pub(super) fn target(
    text: &str,
    name: Option<&str>,
    https: bool,
    capture: bool,
) -> Result<(String, bool), String> {
    let mut url = of_host(text, name, https)?;
    // The query stays as it is without being asked for.
    for query in [
        "$is_args$args",
        "?$args",
        "?$query_string",
        "$is_args$query_string",
    ] {
        if let Some(start) = url.strip_suffix(query) {
            url = start.to_owned();
        }
    }
    let mut has_rest = false;
    for rest in ["$request_uri", "$uri", "/$1", "$1"] {
        if rest.ends_with('1') && !capture {
            continue;
        }
        if let Some(start) = url.strip_suffix('?').unwrap_or(&url).strip_suffix(rest) {
            let slash = if rest == "$1" { "" } else { "/" };
            url = format!("{start}{slash}*");
            has_rest = true;
            break;
        }
    }
    if let Some(at) = url.find('$') {
        let end = url[at + 1..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let end = end.map_or(url.len(), |end| at + 1 + end);
        return Err(format!("{} cannot be part of a target", &url[at..end]));
    }
    if url.is_empty()
        || url.bytes().any(|byte| !byte.is_ascii_graphic())
        || (url.matches('*').count() > usize::from(has_rest))
    {
        return Err("the target is no address".to_owned());
    }
    Ok((url, has_rest))
}

/// Translates a word of `try_files` to a candidate.
pub(super) fn candidate(word: &str) -> Result<String, String> {
    if let Some(status) = word.strip_prefix('=') {
        return Ok(format!("={status}"));
    }
    let text = word
        .replace("$document_uri", "{path}")
        .replace("$uri", "{path}")
        .replace("$query_string", "{query}")
        .replace("$is_args{query}", "?{query}")
        .replace("$is_args$args", "?{query}")
        .replace("$args", "{query}");
    let text = text.replace("$is_args", "?");
    let parsed = text.parse::<laio_serve::Candidate>();
    match parsed {
        Ok(_) if !text.contains(['$', ',']) => Ok(text),
        _ => Err(format!("{word} is no candidate of --try")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parser::parse;
    use super::*;

    #[test]
    fn times_and_sizes() {
        for (text, expected) in [
            ("30", Some(30.0)),
            ("1h30m", Some(5400.0)),
            ("1d 2s", Some(86402.0)),
            ("500ms", Some(0.5)),
            ("", None),
            ("x", None),
            ("1q", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
        assert_eq!(bytes("64m"), Some(64 << 20));
        assert_eq!(
            (bytes("8k"), bytes("0"), bytes("9999999999g"), bytes("m")),
            (Some(8192), Some(0), None, None)
        );
    }

    #[test]
    fn addresses() {
        for (text, address, tls, is_default) in [
            ("80", "0.0.0.0:80", false, false),
            ("[::]:80 default_server ipv6only=on", "[::]:80", false, true),
            ("*:443 ssl http2", "0.0.0.0:443", true, false),
            ("127.0.0.1", "127.0.0.1:80", false, false),
            ("[::1]", "[::1]:80", false, false),
            ("unix:/run/x.sock", "unix:/run/x.sock", false, false),
        ] {
            let directive = &parse(&format!("listen {text};")).unwrap()[0];
            let listening = listening(directive).unwrap();
            assert_eq!(
                (&*listening.address, listening.tls, listening.is_default),
                (address, tls, is_default),
                "{text}"
            );
        }
        for bad in ["example.org:80", "1.2.3.4:x", "", "99999"] {
            let directive = &parse(&format!("listen '{bad}';")).unwrap()[0];
            assert_eq!(listening(directive), None, "{bad}");
        }
        let odd = &parse("listen 80 proxy_protocol quic;").unwrap()[0];
        let odd = listening(odd).unwrap();
        assert!(odd.proxied && odd.lost == ["quic"]);
    }

    #[test]
    fn targets() {
        let of = |text: &str| target(text, Some("a.b"), true, true).map(|(url, _)| url);
        for (text, expected) in [
            ("/new", "/new"),
            ("https://x$request_uri", "https://x/*"),
            ("$scheme://$host$request_uri", "https://a.b/*"),
            ("/new/$1", "/new/*"),
            ("/new$is_args$args", "/new"),
            ("/x?y=z", "/x?y=z"),
        ] {
            assert_eq!(of(text).as_deref(), Ok(expected), "{text}");
        }
        assert!(of("/a/$2").unwrap_err().contains("$2"));
        assert!(of("").is_err() && of("/a b").is_err() && of("/*").is_err());
        assert!(target("https://$host/", None, true, false).is_err());
    }

    #[test]
    fn candidates() {
        for (word, expected) in [
            ("$uri", "{path}"),
            ("$uri/", "{path}/"),
            ("$uri.html", "{path}.html"),
            ("/index.php?$args", "/index.php?{query}"),
            ("/index.php$is_args$args", "/index.php?{query}"),
            ("/index.php?q=$uri&$args", "/index.php?q={path}&{query}"),
            ("=404", "=404"),
        ] {
            assert_eq!(candidate(word).as_deref(), Ok(expected), "{word}");
        }
        assert!(candidate("/cache/$host").is_err() && candidate("index.php").is_err());
    }
}
