//! The statistics in the text format of Prometheus.

use super::{Seen, SeenCertificate, UpstreamCounts, UsedQuota};
use std::fmt::Write;
use std::time::Duration;

/// Upper bounds of the buckets, in nanoseconds: 1, 2.5 and 5 of each power of ten.
const BOUNDS: [u64; 24] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    25_000_000_000,
    50_000_000_000,
];

pub(super) fn text(seen: &Seen, age: Duration) -> String {
    let mut out = String::new();
    let mut family = |name: &str, kind: &str, help: &str, lines: &[(String, f64)]| {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in lines {
            let _ = writeln!(out, "{name}{labels} {value}");
        }
    };
    let plain = |value: f64| vec![(String::new(), value)];
    let count = |value: u64| plain(value as f64);
    family(
        "laio_uptime_seconds",
        "gauge",
        "Seconds since the start.",
        &plain(age.as_secs_f64()),
    );
    family(
        "laio_workers",
        "gauge",
        "Workers that are running.",
        &plain(seen.workers as f64),
    );
    family(
        "laio_connections_total",
        "counter",
        "Connections accepted.",
        &count(seen.connections),
    );
    family(
        "laio_connections_closed_for_room_total",
        "counter",
        "Idle connections closed so that others could be accepted.",
        &count(seen.closed_for_room),
    );
    let refused = [
        ("network", seen.refused_by_network),
        ("rate", seen.refused_by_rate),
    ];
    let refused = refused.map(|(why, count)| (format!("{{why=\"{why}\"}}"), count as f64));
    family(
        "laio_refused_requests_total",
        "counter",
        "Requests refused by --allow and --deny (network) or by --rate (rate).",
        &refused,
    );
    let asked = &seen.auth_requests;
    let asked = [
        ("let_in", asked.let_in),
        ("refused", asked.refused),
        ("failed", asked.failed),
    ];
    let asked = asked.map(|(result, count)| (format!("{{result=\"{result}\"}}"), count as f64));
    family(
        "laio_auth_requests_total",
        "counter",
        "Questions to auth servers (--auth-request): requests let in, refused, and answered with 503 because there was no usable answer.",
        &asked,
    );
    family(
        "laio_refused_proxy_headers_total",
        "counter",
        "Connections closed because they did not begin with a valid header of a trusted proxy (--listen proxy:).",
        &count(seen.refused_proxy_headers),
    );
    for (name, help, value) in seen.quic.rows() {
        family(name, "counter", help, &count(value));
    }
    family(
        "laio_log_lines_lost_total",
        "counter",
        "Lines of the access log that were dropped.",
        &count(seen.log_lines_lost),
    );
    let responses = seen.responses.iter().enumerate();
    let responses: Vec<_> = responses
        .map(|(class, &count)| (format!("{{status=\"{}xx\"}}", class + 1), count as f64))
        .collect();
    family(
        "laio_responses_total",
        "counter",
        "Requests answered, by class of status.",
        &responses,
    );
    family(
        "laio_content_bytes_total",
        "counter",
        "Bytes of content sent.",
        &count(seen.bytes),
    );
    family(
        "laio_files_stored_total",
        "counter",
        "Files uploaded.",
        &count(seen.files_stored),
    );
    family(
        "laio_stored_bytes_total",
        "counter",
        "Bytes of uploaded files.",
        &count(seen.bytes_stored),
    );
    let mut calls = Vec::new();
    for (name, counts) in &seen.calls {
        for (way, count) in [
            ("inline", counts.inline),
            ("background", counts.background),
            ("fallback", counts.fallback),
        ] {
            calls.push((format!("{{call=\"{name}\",way=\"{way}\"}}"), count as f64));
        }
    }
    let help = "System calls: done inline, in the background because they would have blocked, or in the background \
                without an attempt.";
    family("laio_calls_total", "counter", help, &calls);
    family(
        "laio_operations_total",
        "counter",
        "Operations in the background.",
        &count(seen.operations),
    );
    family(
        "laio_limited_total",
        "counter",
        "Calls refused or delayed because of a limit of the engine.",
        &count(seen.limited),
    );
    let zero_copy = [
        (
            "shared",
            seen.zero_copy.sends.saturating_sub(seen.zero_copy.copied),
        ),
        ("copied", seen.zero_copy.copied),
        ("ordinary", seen.zero_copy.ordinary),
    ];
    let zero_copy = zero_copy.map(|(how, count)| (format!("{{how=\"{how}\"}}"), count as f64));
    family(
        "laio_zerocopy_sends_total",
        "counter",
        "Zero-copy sends: without a copy, copied by the kernel nevertheless, or made as ordinary sends.",
        &zero_copy,
    );
    memory(&mut family, seen);
    upstreams(&mut family, seen);
    certificates(&mut out, seen);
    quotas(&mut out, &seen.used_quotas);
    stages(&mut out, seen);
    out
}

/// Writes the memory that is held for clients.
fn memory(family: &mut impl FnMut(&str, &str, &str, &[(String, f64)]), seen: &Seen) {
    let memory = &seen.memory;
    let mut one = |name: &str, kind: &str, help: &str, value: u64| {
        family(name, kind, help, &[(String::new(), value as f64)]);
    };
    one(
        "laio_memory_held_bytes",
        "gauge",
        "Bytes held for clients beyond the reserves of their connections.",
        memory.held,
    );
    one(
        "laio_memory_most_bytes",
        "gauge",
        "The most bytes that may be held beyond the reserves.",
        memory.most,
    );
    one(
        "laio_memory_small_pieces_total",
        "counter",
        "Pieces of responses that were smaller than usual, because a budget was used up.",
        memory.small_pieces,
    );
    one(
        "laio_memory_refused_total",
        "counter",
        "Requests refused because a budget was used up.",
        memory.refused,
    );
}

/// Writes the counts of each upstream.
fn upstreams(family: &mut impl FnMut(&str, &str, &str, &[(String, f64)]), seen: &Seen) {
    let lines = |value: fn(&UpstreamCounts) -> f64| -> Vec<_> {
        let upstreams = seen.upstreams.iter();
        // The file name of a Unix socket may contain what labels escape.
        let escape = |name: &str| {
            name.replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n")
        };
        let label = |name: &str| format!("{{upstream=\"{}\"}}", escape(name));
        upstreams
            .map(|(name, counts)| (label(name), value(counts)))
            .collect()
    };
    family(
        "laio_upstream_requests_total",
        "counter",
        "Requests given to an upstream, including repeated ones.",
        &lines(|counts| counts.requests as f64),
    );
    family(
        "laio_upstream_failures_total",
        "counter",
        "Requests that an upstream has failed to answer.",
        &lines(|counts| counts.failures as f64),
    );
    family(
        "laio_upstream_in_flight",
        "gauge",
        "Requests in flight to an upstream.",
        &lines(|counts| counts.in_flight as f64),
    );
    let cache = &seen.proxy_cache;
    let results = [
        ("hit", cache.hits),
        ("stale", cache.stale),
        ("revalidated", cache.revalidated),
        ("miss", cache.misses),
    ];
    let results = results.map(|(name, count)| (format!("{{result=\"{name}\"}}"), count as f64));
    family(
        "laio_proxy_cache_requests_total",
        "counter",
        "Requests that the cache of responses from upstreams could answer, by what it did.",
        &results,
    );
    family(
        "laio_upstream_healthy",
        "gauge",
        "Whether an upstream is healthy: 0 while it is left out, or fails its checks.",
        &lines(|counts| f64::from(u8::from(!counts.left_out))),
    );
}

fn certificates(out: &mut String, seen: &Seen) {
    if seen.certificates.is_empty() {
        return;
    }
    let mut family =
        |name: &str, kind: &str, help: &str, value: &dyn Fn(&SeenCertificate) -> Option<f64>| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (host, certificate) in &seen.certificates {
                if let Some(value) = value(certificate) {
                    let _ = writeln!(out, "{name}{{name=\"{host}\"}} {value}");
                }
            }
        };
    family(
        "laio_certificate_expires_in_seconds",
        "gauge",
        "Seconds until the certificate of a name of --https expires.",
        &SeenCertificate::seconds_left,
    );
    family(
        "laio_certificates_issued_total",
        "counter",
        "Certificates that an authority has issued.",
        &|seen| Some(seen.orders as f64),
    );
    family(
        "laio_certificate_failures_total",
        "counter",
        "Failed attempts to get a certificate.",
        &|seen| Some(seen.failures as f64),
    );
}

/// Writes what is used of the directories of `--upload-quota` and `--upload-files`.
fn quotas(out: &mut String, used: &[UsedQuota]) {
    if used.is_empty() {
        return;
    }
    for (name, help, value) in [
        (
            "laio_upload_used_bytes",
            "Bytes of the files below a directory with a quota.",
            (|used| used.bytes) as fn(&UsedQuota) -> u64,
        ),
        (
            "laio_upload_used_files",
            "Files and directories below a directory with a quota.",
            |used| used.files,
        ),
    ] {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
        for directory in used {
            let path = format!("{:?}", directory.directory.display().to_string());
            let _ = writeln!(out, "{name}{{directory={path}}} {}", value(directory));
        }
    }
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
