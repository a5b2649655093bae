//! The configuration of QUIC connections.

use super::congestion::Controllers;
use super::early_sessions::{EarlySessions, NoTickets, Promise, WithPromise};
use laio_serve_base::options::{Http3, Limits};
use quinn_proto::crypto::HandshakeTokenKey;
use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicServerConfig};
use quinn_proto::{TransportConfig, VarInt};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{ServerConnection, Version};
use std::sync::Arc;
use std::{fmt, io};

/// The name of HTTP/3 in TLS (ALPN).
const PROTOCOL: &[u8] = b"h3";

pub use quinn_proto::ServerConfig;

/// What outlasts a generation of workers.
#[derive(Clone, Debug)]
pub struct Secrets {
    retry_key: RetryKey,
    /// Sessions with early data.
    early: Arc<EarlySessions>,
}

impl Secrets {
    /// Makes the secrets.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new() -> io::Result<Secrets> {
        Ok(Secrets {
            retry_key: RetryKey::new()?,
            early: EarlySessions::new(Http3::EARLY_SESSIONS, Http3::EARLY_SESSION_TIME),
        })
    }
}

/// The key of the tokens in Retry packets. All generations of workers have the same one, because a client may
/// get the packet from an old worker, and answer a new one.
#[derive(Clone)]
struct RetryKey(Arc<dyn HandshakeTokenKey>);

impl RetryKey {
    /// Makes a key.
    ///
    /// # Errors
    /// When the system has no random numbers.
    fn new() -> io::Result<RetryKey> {
        let mut secret = [0; 32];
        let filled = SystemRandom::new().fill(&mut secret);
        filled.map_err(|_| io::Error::other("the system has no random numbers"))?;
        let key = Salt::new(HKDF_SHA256, &[]).extract(&secret);
        Ok(RetryKey(Arc::new(key)))
    }
}

impl fmt::Debug for RetryKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RetryKey")
    }
}

/// Returns the configuration for connections that use this TLS configuration.
///
/// # Errors
/// When TLS 1.3 is turned off, which QUIC needs.
pub fn server(
    tls: &rustls::ServerConfig,
    http3: &Http3,
    limits: &Limits,
    secrets: &Secrets,
) -> io::Result<Arc<ServerConfig>> {
    let refuse = |text: &str| io::Error::new(io::ErrorKind::InvalidInput, text);
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    tls.max_early_data_size = 0;
    if http3.early_data.is_some() {
        // QUIC limits early data itself, and allows no other value (RFC 9001, section 4.6.1).
        tls.max_early_data_size = u32::MAX;
        tls.ticketer = Arc::new(NoTickets);
        tls.session_storage = Arc::new(WithPromise {
            sessions: secrets.early.clone(),
            promise: Promise {
                streams: http3.streams.into(),
                head_bytes: limits.head_bytes as u64,
            },
        });
    }
    let tls = Arc::new(tls);
    // The protocol would fail for each connection.
    if ServerConnection::new(tls.clone(), Version::V1, Vec::new()).is_err() {
        return Err(refuse(
            "--http3 needs TLS 1.3: add 1.3 to --tls-versions, and one of its cipher suites to --tls-ciphers",
        ));
    }
    // The first packets of all connections use this suite, even if --tls-ciphers excludes it for the
    // others.
    let initial = TLS13_AES_128_GCM_SHA256.tls13();
    let initial = initial.and_then(|suite| suite.quic_suite());
    let initial = initial.ok_or_else(|| refuse("the library rustls has no cipher for QUIC"))?;
    let tls = QuicServerConfig::with_initial(tls, initial);
    let tls = tls.map_err(|error: NoInitialCipherSuite| refuse(&error.to_string()))?;
    let mut config = ServerConfig::new(Arc::new(tls), secrets.retry_key.0.clone());
    config.transport_config(Arc::new(transport(http3, limits)));
    config.retry_token_lifetime(Http3::RETRY_TIME);
    config.max_incoming(http3.handshakes.max(1));
    config.incoming_buffer_size(Http3::INCOMING_BYTES);
    config.incoming_buffer_size_total(Http3::ALL_INCOMING_BYTES);
    Ok(Arc::new(config))
}

fn transport(http3: &Http3, limits: &Limits) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(http3.streams.into())
        .max_concurrent_uni_streams(Http3::UNIDIRECTIONAL_STREAMS.into())
        .stream_receive_window(Http3::WINDOW.into())
        .receive_window(Http3::CONNECTION_WINDOW.into())
        .send_window(Http3::SEND_BUFFER)
        // The connection itself ends when it is idle; this ends one whose client is gone.
        .max_idle_timeout(Some(idle_time(limits).into()))
        .congestion_controller_factory(Arc::new(Controllers::default()))
        // HTTP/3 has no datagrams here.
        .datagram_receive_buffer_size(None);
    transport
}

/// Returns the milliseconds after which a connection without any packet ends.
fn idle_time(limits: &Limits) -> VarInt {
    let most = limits.idle_time.max(limits.write_time).as_millis();
    VarInt::from_u32(most.clamp(1, u32::MAX.into()) as u32)
}
