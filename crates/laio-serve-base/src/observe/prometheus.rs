//! The statistics in the text format of Prometheus.

use super::{Counts, Seen, SeenCertificate, UpstreamCounts, UsedQuota};
use std::fmt::Write;
use std::time::Duration;

/// Upper bounds of the buckets, in nanoseconds: 1, 2.5 and 5 of each power of ten.
#[rustfmt::skip]
const BOUNDS: [u64; 24] = [
    1_000, 2_500, 5_000,
    10_000, 25_000, 50_000,
    100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000,
    10_000_000, 25_000_000, 50_000_000,
    100_000_000, 250_000_000, 500_000_000,
    1_000_000_000, 2_500_000_000, 5_000_000_000,
    10_000_000_000, 25_000_000_000, 50_000_000_000,
];

/// The values of a metric, each with its labels in braces.
type Values = Vec<(String, f64)>;

pub(super) fn text(seen: &Seen, age: Duration) -> String {
    let mut out = String::new();
    let text = &mut out;
    family(
        text,
        "laio_uptime_seconds",
        "Seconds since the start.",
        one(age.as_secs_f64()),
    );
    requests(text, seen);
    engine(text, seen);
    memory(text, seen);
    upstreams(text, seen);
    certificates(text, seen);
    quotas(text, &seen.used_quotas);
    stages(text, seen);
    out
}

/// Writes a metric. The name of one that only grows ends with `_total`.
fn family(out: &mut String, name: &str, help: &str, values: Values) {
    let kind = if name.ends_with("_total") {
        "counter"
    } else {
        "gauge"
    };
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in values {
        let _ = writeln!(out, "{name}{labels} {value}");
    }
}

/// A value without labels.
fn one(value: f64) -> Values {
    vec![(String::new(), value)]
}

fn count(value: u64) -> Values {
    one(value as f64)
}

/// A count for each value of a label.
fn by<const N: usize>(label: &str, counts: [(&str, u64); N]) -> Values {
    counts
        .map(|(value, count)| (format!("{{{label}=\"{value}\"}}"), count as f64))
        .into()
}

#[rustfmt::skip]
fn requests(out: &mut String, seen: &Seen) {
    family(out, "laio_workers", "Workers that are running.", count(seen.workers as u64));
    family(out, "laio_connections_total", "Connections accepted.", count(seen.connections));
    let help = "Idle connections closed so that others could be accepted.";
    family(out, "laio_connections_closed_for_room_total", help, count(seen.closed_for_room));
    let refused = by("why", [("network", seen.refused_by_network), ("rate", seen.refused_by_rate)]);
    let help = "Requests refused by --allow and --deny (network) or by --rate (rate).";
    family(out, "laio_refused_requests_total", help, refused);
    let asked = &seen.auth_requests;
    let asked = [("let_in", asked.let_in), ("refused", asked.refused), ("failed", asked.failed)];
    let help = "Questions to auth servers (--auth-request): requests let in, refused, and answered with 503 \
                because there was no usable answer.";
    family(out, "laio_auth_requests_total", help, by("result", asked));
    let help = "Connections closed because they did not begin with a valid header of a trusted proxy \
                (--listen proxy:).";
    family(out, "laio_refused_proxy_headers_total", help, count(seen.refused_proxy_headers));
    for (name, help, value) in seen.quic.rows() {
        family(out, name, help, count(value));
    }
    let help = "Lines of the access log that were dropped.";
    family(out, "laio_log_lines_lost_total", help, count(seen.log_lines_lost));
    let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"];
    let responses = std::array::from_fn(|class| (classes[class], seen.responses[class]));
    let help = "Requests answered, by class of status.";
    family(out, "laio_responses_total", help, by::<5>("status", responses));
    family(out, "laio_content_bytes_total", "Bytes of content sent.", count(seen.bytes));
    family(out, "laio_files_stored_total", "Files uploaded.", count(seen.files_stored));
    family(out, "laio_stored_bytes_total", "Bytes of uploaded files.", count(seen.bytes_stored));
}

#[rustfmt::skip]
fn engine(out: &mut String, seen: &Seen) {
    let ways = |(name, counts): (&&str, &Counts)| {
        let row = |way: &str, count: u64| (format!("{{call=\"{name}\",way=\"{way}\"}}"), count as f64);
        let Counts { inline, background, fallback, .. } = *counts;
        [row("inline", inline), row("background", background), row("fallback", fallback)]
    };
    let help = "System calls: done inline, in the background because they would have blocked, or in the \
                background without an attempt.";
    family(out, "laio_calls_total", help, seen.calls.iter().flat_map(ways).collect());
    family(out, "laio_operations_total", "Operations in the background.", count(seen.operations));
    let help = "Calls refused or delayed because of a limit of the engine.";
    family(out, "laio_limited_total", help, count(seen.limited));
    let sends = &seen.zero_copy;
    let shared = sends.sends.saturating_sub(sends.copied);
    let sends = [("shared", shared), ("copied", sends.copied), ("ordinary", sends.ordinary)];
    let help = "Zero-copy sends: without a copy, copied by the kernel nevertheless, or made as ordinary \
                sends.";
    family(out, "laio_zerocopy_sends_total", help, by("how", sends));
}

/// Writes the memory that is held for clients.
#[rustfmt::skip]
fn memory(out: &mut String, seen: &Seen) {
    let memory = &seen.memory;
    let help = "Bytes held for clients beyond the reserves of their connections.";
    family(out, "laio_memory_held_bytes", help, count(memory.held));
    let help = "The most bytes that may be held beyond the reserves.";
    family(out, "laio_memory_most_bytes", help, count(memory.most));
    let help = "Pieces of responses that were smaller than usual, because a budget was used up.";
    family(out, "laio_memory_small_pieces_total", help, count(memory.small_pieces));
    let help = "Requests refused because a budget was used up.";
    family(out, "laio_memory_refused_total", help, count(memory.refused));
}

/// Writes the counts of each upstream.
#[rustfmt::skip]
fn upstreams(out: &mut String, seen: &Seen) {
    let of_each = |value: fn(&UpstreamCounts) -> f64| -> Values {
        // The file name of a Unix socket may contain what labels escape.
        let escape = |name: &str| name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let label = |name: &str| format!("{{upstream=\"{}\"}}", escape(name));
        seen.upstreams.iter().map(|(name, counts)| (label(name), value(counts))).collect()
    };
    let help = "Requests given to an upstream, including repeated ones.";
    family(out, "laio_upstream_requests_total", help, of_each(|counts| counts.requests as f64));
    let help = "Requests that an upstream has failed to answer.";
    family(out, "laio_upstream_failures_total", help, of_each(|counts| counts.failures as f64));
    let help = "Requests in flight to an upstream.";
    family(out, "laio_upstream_in_flight", help, of_each(|counts| counts.in_flight as f64));
    let cache = &seen.proxy_cache;
    let revalidated = ("revalidated", cache.revalidated);
    let results = [("hit", cache.hits), ("stale", cache.stale), revalidated, ("miss", cache.misses)];
    let help = "Requests that the cache of responses from upstreams could answer, by what it did.";
    family(out, "laio_proxy_cache_requests_total", help, by("result", results));
    let help = "Whether an upstream is healthy: 0 while it is left out, or fails its checks.";
    family(out, "laio_upstream_healthy", help, of_each(|counts| f64::from(u8::from(!counts.left_out))));
}

fn certificates(out: &mut String, seen: &Seen) {
    if seen.certificates.is_empty() {
        return;
    }
    let of_each = |value: fn(&SeenCertificate) -> Option<f64>| -> Values {
        let all = seen.certificates.iter();
        all.filter_map(|(host, seen)| Some((format!("{{name=\"{host}\"}}"), value(seen)?)))
            .collect()
    };
    let left = of_each(SeenCertificate::seconds_left);
    let help = "Seconds until the certificate of a name of --https expires.";
    family(out, "laio_certificate_expires_in_seconds", help, left);
    let orders = of_each(|seen| Some(seen.orders as f64));
    let help = "Certificates that an authority has issued.";
    family(out, "laio_certificates_issued_total", help, orders);
    let failures = of_each(|seen| Some(seen.failures as f64));
    let help = "Failed attempts to get a certificate.";
    family(out, "laio_certificate_failures_total", help, failures);
}

/// Writes what is used of the directories of `--upload-quota` and `--upload-files`.
fn quotas(out: &mut String, used: &[UsedQuota]) {
    if used.is_empty() {
        return;
    }
    let of_each = |value: fn(&UsedQuota) -> u64| -> Values {
        let path = |quota: &UsedQuota| quota.directory.display().to_string();
        let label = |quota| format!("{{directory={:?}}}", path(quota));
        used.iter()
            .map(|quota| (label(quota), value(quota) as f64))
            .collect()
    };
    let help = "Bytes of the files below a directory with a quota.";
    family(
        out,
        "laio_upload_used_bytes",
        help,
        of_each(|used| used.bytes),
    );
    let help = "Files and directories below a directory with a quota.";
    family(
        out,
        "laio_upload_used_files",
        help,
        of_each(|used| used.files),
    );
}

fn stages(out: &mut String, seen: &Seen) {
    let name = "laio_stage_seconds";
    let _ = writeln!(
        out,
        "# HELP {name} Durations of the stages of requests.\n# TYPE {name} histogram"
    );
    for (stage, histogram) in seen.stages.iter() {
        let stage = stage.name();
        for bound in BOUNDS {
            let count = histogram.count_between(0, bound);
            let bound = bound as f64 / 1e9;
            let _ = writeln!(
                out,
                "{name}_bucket{{stage=\"{stage}\",le=\"{bound}\"}} {count}"
            );
        }
        let count = histogram.len();
        let sum = histogram.mean() * count as f64 / 1e9;
        let _ = writeln!(
            out,
            "{name}_bucket{{stage=\"{stage}\",le=\"+Inf\"}} {count}"
        );
        let _ = writeln!(out, "{name}_sum{{stage=\"{stage}\"}} {sum}");
        let _ = writeln!(out, "{name}_count{{stage=\"{stage}\"}} {count}");
    }
}
