//! The hash of a request, by which an upstream is chosen.

use super::proxy_request::ProxyRequest;
use laio_serve_base::options::HashKey;
use laio_serve_upstream::balancer::hash;

/// Returns the hash of what the key names, if the request has it.
pub(super) fn of(proxy_request: &ProxyRequest<'_>, key: &HashKey) -> Option<u64> {
    let request = proxy_request.ctx.request;
    match key {
        // Clients of Unix sockets have no address.
        HashKey::Client => {
            let client = proxy_request.ctx.client;
            client.address.map(|_| hash(client.name.as_bytes()))
        }
        HashKey::Uri => {
            let query = request.query.unwrap_or_default();
            Some(hash(
                format!("{}?{query}", proxy_request.path.as_str()).as_bytes(),
            ))
        }
        HashKey::Header(name) => request.headers.get(name).map(hash),
        HashKey::Cookie(name) => {
            let mut pairs = request
                .headers
                .all("Cookie")
                .flat_map(|value| value.split(|&byte| byte == b';'));
            pairs.find_map(|pair| cookie(pair, name)).map(hash)
        }
    }
}

/// Returns the value of a cookie, if the pair is of this name.
fn cookie<'a>(pair: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let rest = pair.trim_ascii().strip_prefix(name.as_bytes())?;
    rest.strip_prefix(b"=").filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies() {
        assert_eq!(cookie(b" a=b=c ", "a"), Some(&b"b=c"[..]));
        for other in ["ab=c", "a", "a=", "", "b=a"] {
            assert_eq!(cookie(other.as_bytes(), "a"), None, "{other}");
        }
    }
}
