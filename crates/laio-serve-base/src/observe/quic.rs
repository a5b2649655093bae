//! The statistics of QUIC, which HTTP/3 uses.

/// The counts of QUIC, which HTTP/3 uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicCounts {
    /// Connections accepted, which [`super::Seen::connections`] counts too.
    pub connections: u64,
    /// Connections refused or ignored because of a limit.
    pub refused: u64,
    /// Clients that had to show that they receive at their address (Retry).
    pub retries: u64,
    /// Packets that arrived at another worker than that of their connection, which passed them on.
    pub passed: u64,
    /// Connections whose early data was accepted.
    pub early_accepted: u64,
    /// Connections whose early data was rejected, so that the client sends it again after the handshake.
    pub early_rejected: u64,
    /// Requests answered in early data, before the handshake was complete.
    pub early_requests: u64,
    /// Requests in early data that had to wait until the handshake was complete.
    pub early_waits: u64,
}

/// Counts something of QUIC.
pub fn count(add: impl Fn(&mut QuicCounts)) {
    super::count(|seen| add(&mut seen.quic));
}

/// Returns one of the counts.
type Field = fn(&mut QuicCounts) -> &mut u64;

/// The counts as metrics: the name, the field, and the help.
#[rustfmt::skip]
const METRICS: [(&str, Field, &str); 8] = [
    ("laio_quic_connections_total", |it| &mut it.connections,
        "Connections accepted over QUIC (HTTP/3), which laio_connections_total counts too."),
    ("laio_quic_refused_total", |it| &mut it.refused,
        "QUIC connections refused or ignored because of a limit."),
    ("laio_quic_retries_total", |it| &mut it.retries,
        "QUIC clients that had to show that they receive at their address."),
    ("laio_quic_passed_datagrams_total", |it| &mut it.passed,
        "QUIC packets that arrived at another worker than their connection's."),
    ("laio_quic_early_accepted_total", |it| &mut it.early_accepted,
        "QUIC connections whose early data (0-RTT) was accepted."),
    ("laio_quic_early_rejected_total", |it| &mut it.early_rejected,
        "QUIC connections whose early data was rejected; their clients send it again after the handshake."),
    ("laio_quic_early_requests_total", |it| &mut it.early_requests,
        "Requests answered in early data, before the handshake was complete."),
    ("laio_quic_early_waits_total", |it| &mut it.early_waits,
        "Requests in early data that waited until the handshake was complete."),
];

impl QuicCounts {
    /// Returns the name, the help and the value of each metric.
    pub(super) fn rows(mut self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let rows = METRICS.iter();
        rows.map(move |(name, field, help)| (*name, *help, *field(&mut self)))
    }

    pub(super) fn add(&mut self, mut other: QuicCounts) {
        for (_, field, _) in METRICS {
            *field(self) += *field(&mut other);
        }
    }
}
