//! Header fields of messages that are passed on, and those that concern one connection.

use laio_http::Headers;
use laio_serve_base::field_names::is_one_of;

/// The name of this server in `Via`.
pub(super) const VIA: &str = "laio";

/// Hop-by-hop fields, in addition to those that `Connection` names (RFC 9110, section 7.6.1).
pub(super) const HOP_BY_HOP: [&str; 9] = [
    "Connection",
    "Keep-Alive",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "Proxy-Connection",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
];

/// The hop-by-hop fields that a message names in `Connection`.
pub(super) struct Hops<'b>(Vec<&'b [u8]>);

impl<'b> Hops<'b> {
    pub(super) fn from_headers(headers: &Headers<'b>) -> Hops<'b> {
        let values = headers.all("Connection");
        let options = values.flat_map(|value| value.split(|&byte| byte == b','));
        Hops(options.map(<[u8]>::trim_ascii).collect())
    }

    pub(super) fn has(&self, name: &[u8]) -> bool {
        is_one_of(name, &HOP_BY_HOP) || self.names(name)
    }

    pub(super) fn names(&self, name: &[u8]) -> bool {
        self.0.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// Appends a field whose value was checked by the parser.
pub(super) fn push_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Whether a list has a word, in any letter case.
pub(super) fn has_word(list: &[u8], word: &[u8]) -> bool {
    let mut words = list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    words.any(|own| own.eq_ignore_ascii_case(word))
}
