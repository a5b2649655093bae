//! The status page, as HTML and as JSON.

use super::Seen;
use hdrhistogram::Histogram;
use laio_http::push_html_escaped;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::time::Duration;

/// The reported quantiles.
const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

const STYLE: &str = "
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1.5rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: 1rem }
dt { opacity: .7; font-size: .85rem } dd { margin: 0; font-size: 1.4rem; font-variant-numeric: tabular-nums }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { white-space: nowrap; text-align: right; padding: .2rem .6rem; border-bottom: 1px solid #8884 }
th:first-child, td:first-child { text-align: left } th { font-weight: 600; opacity: .7 }
@media (max-width: 45rem) { table { display: block; overflow-x: auto } th, td { padding: .2rem .35rem; font-size: .85rem } }
";

pub(super) fn html(seen: &Seen, age: Duration) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<meta http-equiv=\"refresh\" content=\"5\">\n\
         <title>laio: status</title>\n<style>{STYLE}</style>\n<h1>{}</h1>\n<dl>",
        crate::server_name::SERVER_NAME
    );
    let responses: u64 = seen.responses.iter().sum();
    for (name, value) in [
        ("up", lasting(age)),
        ("workers", grouped(seen.workers as u64)),
        ("connections", grouped(seen.connections)),
        ("idle, closed", grouped(seen.closed_for_room)),
        ("responses", grouped(responses)),
        ("client errors (4xx)", grouped(seen.responses[3])),
        ("server errors (5xx)", grouped(seen.responses[4])),
        ("content", size(seen.bytes)),
        ("log lines, dropped", grouped(seen.log_lines_lost)),
        ("background operations", grouped(seen.operations)),
    ] {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    out.push_str("</dl>\n");
    if !seen.certificates.is_empty() {
        out.push_str(
            "<h2>Certificates</h2>\n<table><tr><th>name<th>expires in<th>issued<th>failures\n",
        );
        for (name, seen) in &seen.certificates {
            let left = seen.seconds_left().map_or_else(
                || "no certificate yet".to_owned(),
                |left| lasting(Duration::from_secs_f64(left.max(0.0))),
            );
            let (issued, failures) = (grouped(seen.orders), grouped(seen.failures));
            let _ = writeln!(out, "<tr><td>{name}<td>{left}<td>{issued}<td>{failures}");
        }
        out.push_str("</table>\n");
    }
    if seen.stages.iter().next().is_some() {
        out.push_str("<h2>Stages of a request</h2>\n<table><tr><th>stage<th>times");
        for (name, _) in QUANTILES {
            let _ = write!(out, "<th>{name}");
        }
        out.push_str("<th>longest\n");
        for (stage, times) in seen.stages.iter() {
            let _ = write!(out, "<tr><td>{}<td>{}", stage.name(), grouped(times.len()));
            for (_, quantile) in QUANTILES {
                let _ = write!(out, "<td>{}", shown(times.value_at_quantile(quantile)));
            }
            let _ = writeln!(out, "<td>{}", shown(times.max()));
        }
        out.push_str("</table>\n");
    }
    if !seen.upstreams.is_empty() {
        out.push_str("<h2>Upstreams</h2>\n<table><tr><th>upstream<th>requests<th>failures<th>in flight<th>healthy\n");
    }
    for (name, counts) in &seen.upstreams {
        let mut escaped = Vec::new();
        push_html_escaped(&mut escaped, name.as_bytes());
        let _ = write!(out, "<tr><td>{}", String::from_utf8_lossy(&escaped));
        for count in [counts.requests, counts.failures, counts.in_flight] {
            let _ = write!(out, "<td>{}", grouped(count));
        }
        let _ = writeln!(out, "<td>{}", if counts.left_out { "no" } else { "yes" });
    }
    if !seen.upstreams.is_empty() {
        out.push_str("</table>\n");
    }
    out.push_str(
        "<h2>System calls</h2>\n<table><tr><th>call<th>inline<th>background<th>fallback\n",
    );
    for (name, counts) in &seen.calls {
        let _ = write!(out, "<tr><td>{name}");
        for count in [counts.inline, counts.background, counts.fallback] {
            let _ = write!(out, "<td>{}", grouped(count));
        }
        out.push('\n');
    }
    out.push_str("</table>\n<p><a href=\"/metrics\">metrics</a> · <a href=\"/status.json\">JSON</a></p>\n</html>\n");
    out
}

/// Formats a number with narrow spaces between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Formats a number of bytes in a suitable unit.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 10_000 {
        return format!("{} B", grouped(bytes));
    }
    let (mut number, mut unit) = (bytes as f64 / 1e3, 0);
    while number >= 1e3 && unit + 1 < UNITS.len() {
        (number, unit) = (number / 1e3, unit + 1);
    }
    format!("{number:.1} {}", UNITS[unit])
}

/// Formats a duration in its two largest units.
fn lasting(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

/// Formats a duration in a suitable unit.
fn shown(nanos: u64) -> String {
    match nanos {
        0..10_000 => format!("{:.1} µs", nanos as f64 / 1e3),
        10_000..10_000_000 => format!("{:.0} µs", nanos as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.0} ms", nanos as f64 / 1e6),
        _ => format!("{:.1} s", nanos as f64 / 1e9),
    }
}

pub(super) fn json(seen: &Seen, age: Duration) -> String {
    let calls = seen.calls.iter().map(|(name, counts)| {
        let (inline, background, fallback) = (counts.inline, counts.background, counts.fallback);
        let ways = json!({ "inline": inline, "background": background, "fallback": fallback });
        ((*name).to_owned(), ways)
    });
    let upstreams = seen.upstreams.iter().map(|(name, counts)| {
        let of = json!({ "requests": counts.requests, "failures": counts.failures,
            "in_flight": counts.in_flight, "healthy": !counts.left_out });
        (name.clone(), of)
    });
    let stages = seen.stages.iter();
    let stages = stages.map(|(stage, times)| (stage.name().to_owned(), of_times(times)));
    let certificates = seen.certificates.iter().map(|(name, seen)| {
        let (left, issued, failures) = (seen.seconds_left(), seen.orders, seen.failures);
        let values = json!({ "expires_in_seconds": left, "issued": issued, "failures": failures });
        (name.clone(), values)
    });
    let status = json!({
        "server": crate::server_name::SERVER_NAME,
        "uptime_seconds": age.as_secs_f64(),
        "workers": seen.workers,
        "connections": seen.connections,
        "closed_for_room": seen.closed_for_room,
        "refused_by_network": seen.refused_by_network,
        "refused_by_rate": seen.refused_by_rate,
        "auth_requests": {
            "let_in": seen.auth_requests.let_in,
            "refused": seen.auth_requests.refused,
            "failed": seen.auth_requests.failed,
        },
        "refused_proxy_headers": seen.refused_proxy_headers,
        "log_lines_lost": seen.log_lines_lost,
        "responses": { "1xx": seen.responses[0], "2xx": seen.responses[1], "3xx": seen.responses[2],
            "4xx": seen.responses[3], "5xx": seen.responses[4] },
        "content_bytes": seen.bytes,
        "operations": seen.operations,
        "limited": seen.limited,
        "zero_copy": {
            "sends": seen.zero_copy.sends,
            "copied": seen.zero_copy.copied,
            "ordinary": seen.zero_copy.ordinary,
        },
        "certificates": certificates.collect::<Map<_, _>>(),
        "calls": calls.collect::<Map<_, _>>(),
        "upstreams": upstreams.collect::<Map<_, _>>(),
        "proxy_cache": {
            "hits": seen.proxy_cache.hits,
            "stale": seen.proxy_cache.stale,
            "revalidated": seen.proxy_cache.revalidated,
            "misses": seen.proxy_cache.misses,
        },
        "stages": stages.collect::<Map<_, _>>(),
    });
    format!("{status:#}\n")
}

fn of_times(times: &Histogram<u64>) -> Value {
    let quantile = |(name, share): &(&str, f64)| {
        let nanos = times.value_at_quantile(*share);
        ((*name).to_owned(), json!(nanos))
    };
    let mut values: Map<_, _> = QUANTILES.iter().map(quantile).collect();
    values.insert("count".to_owned(), json!(times.len()));
    values.insert("max".to_owned(), json!(times.max()));
    json!({ "nanoseconds": values })
}
