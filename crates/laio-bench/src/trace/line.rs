//! Parses a line of an access log: common, combined or JSON.

use serde_json::Value;

/// The facts in a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Logged {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) status: u16,
    /// The size of the response in bytes; 0 if the log has none.
    pub(super) bytes: u64,
    /// Seconds since 1970, if the line has a valid time.
    pub(super) time: Option<f64>,
}

/// Why a line has no usable request.
pub(super) type Reason = &'static str;

pub(super) fn parse(line: &str) -> Result<Logged, Reason> {
    let line = line.trim();
    match line.as_bytes().first() {
        None => Err("the line is empty"),
        Some(b'{') => json(line),
        Some(_) => common(line),
    }
}

/// Parses `host ident user [time] "request" status bytes`, and ignores the rest.
fn common(line: &str) -> Result<Logged, Reason> {
    const FORM: Reason = "neither common, combined nor JSON";
    let (_, rest) = line.split_once('[').ok_or(FORM)?;
    let (time, rest) = rest.split_once(']').ok_or(FORM)?;
    let (request, rest) = quoted(rest.trim_start()).ok_or(FORM)?;
    let mut words = rest.split_ascii_whitespace();
    let status = words.next().and_then(|word| word.parse().ok());
    let bytes = match words.next() {
        Some("-") => Some(0),
        word => word.and_then(|word| word.parse().ok()),
    };
    let (method, target) = method_and_target(&request)?;
    Ok(Logged {
        method,
        target,
        status: status.ok_or("the status is not a number")?,
        bytes: bytes.ok_or("the bytes are not a number")?,
        time: clf_time(time),
    })
}

/// Returns the text between quotes, in which a backslash escapes the next character, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('"')?;
    let mut within = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((within, &text[at + 1..])),
            '\\' => within.push(characters.next()?.1),
            other => within.push(other),
        }
    }
    None
}

fn method_and_target(request: &str) -> Result<(String, String), Reason> {
    let mut words = request.split(' ').filter(|word| !word.is_empty());
    match (words.next(), words.next()) {
        (Some(method), Some(target)) => Ok((method.to_owned(), target.to_owned())),
        _ => Err("the request cannot be read"),
    }
}

/// Names of the relevant keys in the logs of servers: ours, nginx's usual ones, Caddy's, Apache's and
/// others'.
const TARGETS: [&str; 6] = ["target", "uri", "request_uri", "path", "url", "cs-uri-stem"];
const METHODS: [&str; 3] = ["method", "request_method", "verb"];
const STATUSES: [&str; 4] = ["status", "response", "status_code", "code"];
const BYTES: [&str; 5] = [
    "bytes",
    "body_bytes_sent",
    "bytes_sent",
    "size",
    "response_size",
];
const TIMES: [&str; 6] = [
    "time",
    "ts",
    "timestamp",
    "@timestamp",
    "time_iso8601",
    "msec",
];

fn json(line: &str) -> Result<Logged, Reason> {
    let value: Value = serde_json::from_str(line).map_err(|_| "the JSON cannot be read")?;
    // Some servers put the request into a nested object.
    let inner = value.get("request").filter(|inner| inner.is_object());
    let find = |names: &[&str]| {
        let places = [Some(&value), inner];
        let mut places = places.into_iter().flatten();
        places.find_map(|place| names.iter().find_map(|name| place.get(name)))
    };
    let words = |names: &[&str]| find(names).and_then(Value::as_str).map(str::to_owned);
    let whole = value.get("request").and_then(Value::as_str);
    let (method, target) = match (words(&METHODS), words(&TARGETS), whole) {
        (Some(method), Some(target), _) => (method, target),
        (_, _, Some(whole)) => method_and_target(whole)?,
        _ => return Err("the request cannot be read"),
    };
    let status = find(&STATUSES)
        .and_then(number)
        .ok_or("the status is not a number")?;
    let bytes = match find(&BYTES) {
        None | Some(Value::Null) => 0.0,
        Some(value) if value.as_str() == Some("-") => 0.0,
        Some(value) => number(value).ok_or("the bytes are not a number")?,
    };
    Ok(Logged {
        method,
        target,
        status: whole_number(status, 999.0).ok_or("the status is not a number")? as u16,
        bytes: whole_number(bytes, 1e18).ok_or("the bytes are not a number")?,
        time: find(&TIMES).and_then(json_time),
    })
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn whole_number(number: f64, most: f64) -> Option<u64> {
    (0.0..=most).contains(&number).then_some(number as u64)
}

fn json_time(value: &Value) -> Option<f64> {
    let seconds = number(value).filter(|seconds| seconds.is_finite());
    seconds.or_else(|| rfc3339(value.as_str()?))
}

/// `17/May/2015:10:05:03 +0000`
fn clf_time(text: &str) -> Option<f64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (date, zone) = text.split_once(' ')?;
    let (date, clock) = date.split_once(':')?;
    let mut parts = date.split('/');
    let day = parts.next()?.parse().ok()?;
    let month = parts.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let year = parts.next()?.parse().ok()?;
    seconds(year, month, day, clock, zone)
}

/// `2015-05-17T10:05:03.123Z`
fn rfc3339(text: &str) -> Option<f64> {
    let (date, rest) = text.split_once(['T', ' '])?;
    let at = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(at);
    let mut parts = date.split('-').map(|part| part.parse().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let zone = zone.replace(':', "");
    seconds(
        year,
        month,
        day,
        clock,
        if zone.len() == 1 { "+0000" } else { &zone },
    )
}

fn seconds(year: i64, month: i64, day: i64, clock: &str, zone: &str) -> Option<f64> {
    let sane =
        (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let mut clock = clock.split(':');
    let hours: f64 = clock.next()?.parse().ok()?;
    let minutes: f64 = clock.next()?.parse().ok()?;
    let seconds: f64 = clock.next()?.parse().ok()?;
    let (sign, zone) = match zone.split_at_checked(1)? {
        ("+", zone) => (1.0, zone),
        ("-", zone) => (-1.0, zone),
        _ => return None,
    };
    let (zone_hours, zone_minutes) = zone.split_at_checked(2)?;
    let zone_hours: f64 = zone_hours.parse().ok()?;
    let zone = sign * (zone_hours * 3600.0 + zone_minutes.parse::<f64>().ok()? * 60.0);
    let found =
        days(year, month, day) as f64 * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds - zone;
    (sane && found.is_finite()).then_some(found)
}

/// Returns the days since 1970 in the Gregorian calendar, with years that begin in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year
        - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_tells_the_same() {
        let lines = [
            r#"::1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5"#,
            r#"::1 - - [17/May/2015:12:05:03 +0200] "GET /a HTTP/1.1" 200 5 "-" "agent \" [x]""#,
            r#"{"time":"2015-05-17T10:05:03Z","method":"GET","target":"/a","status":200,"bytes":5}"#,
            r#"{"ts":1431857103.0,"request":{"method":"GET","uri":"/a"},"status":200,"size":5}"#,
            r#"{"time_iso8601":"2015-05-17T12:05:03+02:00","request":"GET /a HTTP/2.0","status":"200","body_bytes_sent":"5"}"#,
        ];
        for line in lines {
            let found = parse(line).unwrap_or_else(|reason| panic!("{reason}: {line}"));
            let expected = Logged {
                method: "GET".to_owned(),
                target: "/a".to_owned(),
                status: 200,
                bytes: 5,
                time: Some(1_431_857_103.0),
            };
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn bad_lines_have_reasons() {
        for line in [
            "",
            "nonsense",
            "{",
            "{}",
            "[]",
            r#"::1 - - [x] "GET" 200 5"#,
            r#"::1 - - [x] "GET /a HTTP/1.1" many 5"#,
            r#"::1 - - [x] "GET /a HTTP/1.1" 200"#,
            r#"::1 - - [x] "GET /a HTTP/1.1 200 5\"#,
            r#"{"method":"GET","target":"/a","status":-1}"#,
            r#"{"method":"GET","target":"/a","status":200,"bytes":1e300}"#,
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut random = crate::content::Random::new(1);
        let good = r#"::1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 5 "-" "é""#;
        let json = r#"{"time":"2015-05-17T10:05:03Z","method":"GET","target":"/a","status":200}"#;
        for round in 0..20_000 {
            let mut bytes = if round % 2 == 0 { good } else { json }.as_bytes().to_vec();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(3) {
                    0 => bytes[at] = random.word() as u8,
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, b"\"[]\\:/+- \xc3"[random.below(10) as usize]),
                }
            }
            let _ = parse(&String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn days_are_counted() {
        assert_eq!(days(1970, 1, 1), 0);
        assert_eq!(days(2000, 3, 1), 11_017);
        assert_eq!(days(2024, 12, 31), 20_088);
        assert_eq!(clf_time("99/Xyz/2015:10:05:03 +0000"), None);
        assert_eq!(rfc3339("2015-05-17T10:05:03"), None);
    }
}
