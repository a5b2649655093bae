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

/// The counts as metrics: the name, its help, and the field.
const METRICS: [(&str, &str, Field); 8] = [
    (
        "laio_quic_connections_total",
        "Connections accepted over QUIC (HTTP/3), which laio_connections_total counts too.",
        |it| &mut it.connections,
    ),
    (
        "laio_quic_refused_total",
        "QUIC connections refused or ignored because of a limit.",
        |it| &mut it.refused,
    ),
    (
        "laio_quic_retries_total",
        "QUIC clients that had to show that they receive at their address.",
        |it| &mut it.retries,
    ),
    (
        "laio_quic_passed_datagrams_total",
        "QUIC packets that arrived at another worker than their connection's.",
        |it| &mut it.passed,
    ),
    (
        "laio_quic_early_accepted_total",
        "QUIC connections whose early data (0-RTT) was accepted.",
        |it| &mut it.early_accepted,
    ),
    (
        "laio_quic_early_rejected_total",
        "QUIC connections whose early data was rejected; their clients send it again after the handshake.",
        |it| &mut it.early_rejected,
    ),
    (
        "laio_quic_early_requests_total",
        "Requests answered in early data, before the handshake was complete.",
        |it| &mut it.early_requests,
    ),
    (
        "laio_quic_early_waits_total",
        "Requests in early data that waited until the handshake was complete.",
        |it| &mut it.early_waits,
    ),
];

impl QuicCounts {
    /// Returns the name, the help and the value of each metric.
    pub(super) fn rows(mut self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let rows = METRICS.iter();
        rows.map(move |(name, help, field)| (*name, *help, *field(&mut self)))
    }

    pub(super) fn add(&mut self, mut other: QuicCounts) {
        for (_, _, field) in METRICS {
            *field(self) += *field(&mut other);
        }
    }
}
