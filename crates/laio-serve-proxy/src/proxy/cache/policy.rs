//! What may be stored, and for how long it may be used (RFC 9111, RFC 5861).

use crate::proxy::upstream_head::Field;
use laio_http::date;

/// The directives of `Cache-Control` that matter to a shared cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Directives {
    pub(super) no_store: bool,
    pub(super) no_cache: bool,
    pub(super) only_if_cached: bool,
    pub(super) max_age: Option<u64>,
    private: bool,
    public: bool,
    /// `must-revalidate` or `proxy-revalidate`.
    must_revalidate: bool,
    s_maxage: Option<u64>,
    while_revalidate: Option<u64>,
    if_error: Option<u64>,
}

/// How a stored response may be used. Times are in seconds of age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Freshness {
    pub(super) lifetime: u64,
    /// The time after its lifetime in which it may be used while it is fetched again.
    pub(super) while_revalidate: u64,
    /// The time after its lifetime in which it may be used if the upstream fails.
    pub(super) if_error: u64,
    /// Whether it may answer only after the upstream has confirmed it.
    pub(super) always_validate: bool,
    /// Whether it may answer requests with `Authorization`.
    pub(super) for_authorized: bool,
}

/// The statuses whose responses are stored, all of them only with an explicit lifetime.
const STATUSES: [u16; 11] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];

/// The longest time, as the RFC suggests for numbers that are too large.
const LONGEST: u64 = 1 << 31;

impl Directives {
    /// Parses all values of `Cache-Control`. A directive with an argument that is not a number of
    /// seconds counts as zero seconds; `private` and `no-cache` with field names count as those without.
    pub(super) fn of<'v>(values: impl Iterator<Item = &'v [u8]>) -> Directives {
        let mut found = Directives::default();
        for item in values.flat_map(elements) {
            let (name, argument) = match item.iter().position(|&byte| byte == b'=') {
                Some(equals) => (&item[..equals], Some(&item[equals + 1..])),
                None => (item, None),
            };
            let seconds = || Some(argument.and_then(seconds).unwrap_or(0));
            match &*name.trim_ascii().to_ascii_lowercase() {
                b"no-store" => found.no_store = true,
                b"no-cache" => found.no_cache = true,
                b"only-if-cached" => found.only_if_cached = true,
                b"private" => found.private = true,
                b"public" => found.public = true,
                b"must-revalidate" | b"proxy-revalidate" => found.must_revalidate = true,
                // Of several the first counts (section 4.2.1).
                b"max-age" => found.max_age = found.max_age.or_else(seconds),
                b"s-maxage" => found.s_maxage = found.s_maxage.or_else(seconds),
                b"stale-while-revalidate" => found.while_revalidate = seconds(),
                b"stale-if-error" => found.if_error = seconds(),
                _ => {}
            }
        }
        found
    }
}

/// Returns how a response may be stored and used, or none if it may not. `now` is the time in seconds
/// since 1970.
pub(super) fn freshness(status: u16, fields: &[Field], now: i64) -> Option<Freshness> {
    let directives = Directives::of(values(fields, "Cache-Control"));
    let has = |name: &str| values(fields, name).next().is_some();
    let varies_by_more = values(fields, "Vary")
        .flat_map(elements)
        .any(|name| name == b"*");
    if directives.no_store
        || directives.private
        || has("Set-Cookie")
        || varies_by_more
        || !STATUSES.contains(&status)
    {
        return None;
    }
    let expires = || {
        let value = values(fields, "Expires").next()?;
        let from = values(fields, "Date").next().and_then(date::parse);
        let until = date::parse(value).unwrap_or(0);
        Some(u64::try_from(until.saturating_sub(from.unwrap_or(now))).unwrap_or(0))
    };
    let lifetime = directives
        .s_maxage
        .or(directives.max_age)
        .or_else(expires)?
        .min(LONGEST);
    let has_validator = has("ETag") || has("Last-Modified");
    if (lifetime == 0 || directives.no_cache) && !has_validator {
        return None;
    }
    // Section 5.2.2.10 forbids stale responses with s-maxage, but those who write both mean both.
    let stale = |time: Option<u64>| {
        if directives.must_revalidate || directives.no_cache {
            0
        } else {
            time.unwrap_or(0)
        }
    };
    Some(Freshness {
        lifetime,
        while_revalidate: stale(directives.while_revalidate),
        if_error: stale(directives.if_error),
        always_validate: directives.no_cache,
        for_authorized: directives.public
            || directives.must_revalidate
            || directives.s_maxage.is_some(),
    })
}

/// Returns the age of a response when it arrives (section 4.2.3).
pub(super) fn age_on_arrival(fields: &[Field], now: i64) -> u64 {
    // Of several the first counts (RFC 9111, section 5.1).
    let first = values(fields, "Age").next();
    let first = first.and_then(|list| list.split(|&byte| byte == b',').next());
    let stated = first.map(<[u8]>::trim_ascii).and_then(seconds).unwrap_or(0);
    let date = values(fields, "Date").next().and_then(date::parse);
    let apparent = date.map_or(0, |date| {
        u64::try_from(now.saturating_sub(date)).unwrap_or(0)
    });
    stated.max(apparent)
}

/// Whether the client has a response with these validators already.
pub(super) fn is_known_to_client(
    if_none_match: Option<Vec<u8>>,
    if_modified_since: Option<&[u8]>,
    fields: &[Field],
) -> bool {
    if let Some(tags) = if_none_match {
        let own = values(fields, "ETag").next().map(opaque);
        return elements(&tags).any(|tag| tag == b"*" || Some(opaque(tag)) == own);
    }
    let modified = values(fields, "Last-Modified").next().and_then(date::parse);
    let since = if_modified_since.and_then(date::parse);
    matches!((modified, since), (Some(modified), Some(since)) if modified <= since)
}

/// Returns an entity tag without the mark of weak ones.
fn opaque(tag: &[u8]) -> &[u8] {
    let tag = tag.trim_ascii();
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Returns the values of all fields with this name.
pub(super) fn values<'f>(fields: &'f [Field], name: &str) -> impl Iterator<Item = &'f [u8]> {
    let fields = fields.iter();
    fields
        .filter(move |(own, _)| own.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, value)| &**value)
}

/// Splits a list at its commas, except those in quoted strings.
pub(super) fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    let mut escaped = false;
    let parts = list.split(move |&byte| {
        match byte {
            _ if std::mem::take(&mut escaped) => {}
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => {}
        }
        byte == b',' && !quoted
    });
    parts
        .map(<[u8]>::trim_ascii)
        .filter(|part| !part.is_empty())
}

/// Parses a number of seconds, which may be quoted.
fn seconds(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let inner = text
        .strip_prefix(b"\"")
        .and_then(|text| text.strip_suffix(b"\""));
    let digits = inner.unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Only too large a number fails.
    let number = std::str::from_utf8(digits).ok()?.parse::<u64>();
    Some(number.unwrap_or(LONGEST).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 784_111_777;

    fn fields(text: &str) -> Vec<Field> {
        let lines = text.split('|').filter_map(|line| line.split_once(": "));
        lines
            .map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into()))
            .collect()
    }

    fn lifetime(text: &str) -> Option<u64> {
        freshness(200, &fields(text), NOW).map(|it| it.lifetime)
    }

    #[test]
    fn what_is_stored() {
        #[rustfmt::skip]
        let cases = [
            ("", None),
            ("Cache-Control: max-age=5", Some(5)),
            ("cache-control: Max-Age=\"5\", x=\"max-age=9, s-maxage=9\"", Some(5)),
            ("Cache-Control: max-age=5|Cache-Control: max-age=9, s-maxage=7", Some(7)),
            ("Cache-Control: max-age=99999999999999999999", Some(LONGEST)),
            ("Cache-Control: max-age=5, no-store", None),
            ("Cache-Control: max-age=5, private", None),
            ("Cache-Control: max-age=5, private=\"a, b\"", None),
            ("Cache-Control: max-age=5|Set-Cookie: a=b", None),
            ("Cache-Control: max-age=5|Vary: A, *", None),
            ("Cache-Control: max-age=x", None),
            ("Cache-Control: max-age=0|ETag: \"a\"", Some(0)),
            ("Cache-Control: no-cache, max-age=5", None),
            ("Cache-Control: no-cache, max-age=5|Last-Modified: x", Some(5)),
            ("Expires: Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Expires: Sun, 06 Nov 1994 08:49:47 GMT|Date: Sun, 06 Nov 1994 08:49:27 GMT", Some(20)),
            ("Expires: 0|ETag: \"a\"", Some(0)),
            ("Expires: 0", None),
        ];
        for (text, expected) in cases {
            assert_eq!(lifetime(text), expected, "{text}");
        }
        assert!(freshness(206, &fields("Cache-Control: max-age=5"), NOW).is_none());
        assert!(freshness(404, &fields("Cache-Control: max-age=5"), NOW).is_some());
    }

    #[test]
    fn how_it_is_used() {
        let of = |text: &str| freshness(200, &fields(text), NOW).unwrap();
        let plain = of("Cache-Control: max-age=5, stale-while-revalidate=6, stale-if-error=7");
        assert_eq!((plain.while_revalidate, plain.if_error), (6, 7));
        assert!(!plain.for_authorized && !plain.always_validate);
        let strict = of("Cache-Control: max-age=5, stale-while-revalidate=6, must-revalidate");
        assert_eq!(strict.while_revalidate, 0);
        assert!(strict.for_authorized && of("Cache-Control: public, max-age=1").for_authorized);
        assert!(of("Cache-Control: no-cache, max-age=5|ETag: a").always_validate);
    }

    #[test]
    fn ages() {
        let age = |text: &str| age_on_arrival(&fields(text), NOW);
        assert_eq!(age(""), 0);
        assert_eq!(age("Age: 7"), 7);
        assert_eq!(age("Age: 7200, 0"), 7200);
        assert_eq!(age("Age: 7 ,9|Age: 8"), 7);
        assert_eq!(age("Age: x, 9"), 0);
        assert_eq!(age("Age: 7|Date: Sun, 06 Nov 1994 08:49:27 GMT"), 10);
        assert_eq!(age("Date: Sun, 06 Nov 1994 09:49:27 GMT"), 0);
    }

    #[test]
    fn conditions_of_clients() {
        let own = fields("ETag: W/\"a,b\"|Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT");
        let by_tag = |tags: &str| is_known_to_client(Some(tags.into()), None, &own);
        assert!(by_tag("\"x\", \"a,b\"") && by_tag("W/\"a,b\"") && by_tag("*"));
        assert!(!by_tag("\"a\"") && !by_tag("") && !by_tag("\"a,\", \"b\""));
        let by_date = |date: &str| is_known_to_client(None, Some(date.as_bytes()), &own);
        assert!(by_date("Sun, 06 Nov 1994 08:49:37 GMT"));
        assert!(!by_date("Sun, 06 Nov 1994 08:49:36 GMT") && !by_date("x"));
        assert!(!is_known_to_client(None, None, &own));
    }
}
