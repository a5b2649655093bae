//! A client.

use super::Fixture;
use crate::common::Response;
use crate::common::certs::{Made, trusting};
use crate::common::multiplexed::{Multiplexed, request, response};
use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3_quinn::OpenStreams;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint, TransportConfig};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

pub(super) type Stream = h3::client::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

pub(super) struct Client {
    pub(super) endpoint: Endpoint,
    pub(super) connection: Connection,
    pub(super) requests: SendRequest<OpenStreams, Bytes>,
    pub(super) driver: JoinHandle<h3::error::ConnectionError>,
}

/// Returns the configuration of a client that trusts a certificate.
pub(super) fn config(made: &Made) -> ClientConfig {
    let tls = QuicClientConfig::try_from(trusting(&[made], &["h3"])).unwrap();
    let mut config = ClientConfig::new(Arc::new(tls));
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(Duration::from_secs(60).try_into().unwrap()));
    config.transport_config(Arc::new(transport));
    config
}

thread_local! {
    /// The endpoints of the test.
    static ENDPOINTS: RefCell<Vec<Endpoint>> = RefCell::default();
}

/// Returns an endpoint that is closed after the test.
pub(super) fn endpoint() -> Endpoint {
    let endpoint = Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    ENDPOINTS.with_borrow_mut(|all| all.push(endpoint.clone()));
    endpoint
}

/// Closes all endpoints of the test, and lets them say so.
pub(super) async fn close_all() {
    for endpoint in ENDPOINTS.take() {
        endpoint.close(0x100u32.into(), b"");
        endpoint.wait_idle().await;
    }
}

/// Connects without HTTP/3.
pub(super) async fn dial(
    fixture: &Fixture,
    address: SocketAddr,
) -> Result<(Endpoint, Connection), quinn::ConnectionError> {
    let endpoint = endpoint();
    let config = config(&fixture.made);
    let connecting = endpoint.connect_with(config, address, "localhost").unwrap();
    let connection = connecting.await?;
    Ok((endpoint, connection))
}

impl Client {
    pub(super) async fn connect(fixture: &Fixture) -> Client {
        Client::to(fixture, fixture.address()).await
    }

    pub(super) async fn to(fixture: &Fixture, address: SocketAddr) -> Client {
        let (endpoint, connection) = dial(fixture, address).await.unwrap();
        Client::on(endpoint, connection).await
    }

    pub(super) async fn on(endpoint: Endpoint, connection: Connection) -> Client {
        let quic = h3_quinn::Connection::new(connection.clone());
        let (mut driver, requests) = h3::client::new(quic).await.unwrap();
        let driver = tokio::spawn(async move {
            std::future::poll_fn(|context| driver.poll_close(context)).await
        });
        Client {
            endpoint,
            connection,
            requests,
            driver,
        }
    }

    /// Connects with a configuration of the transport.
    pub(super) async fn configured(fixture: &Fixture, transport: TransportConfig) -> Client {
        let endpoint = endpoint();
        let mut config = config(&fixture.made);
        config.transport_config(Arc::new(transport));
        let connecting = endpoint.connect_with(config, fixture.address(), "localhost");
        let connection = connecting.unwrap().await.unwrap();
        Client::on(endpoint, connection).await
    }

    /// Sends the head of a request as in a table.
    pub(super) async fn begin(&self, text: &str) -> Stream {
        self.try_begin(text).await.unwrap()
    }

    pub(super) async fn try_begin(&self, text: &str) -> Result<Stream, h3::error::StreamError> {
        let request = request(Client::SCHEME, text);
        self.requests.clone().send_request(request).await
    }

    pub(super) async fn try_ask(&self, text: &str) -> Result<Response, h3::error::StreamError> {
        let mut stream = self.try_begin(text).await?;
        stream.finish().await?;
        read(&mut stream).await
    }
}

impl Multiplexed for Client {
    const SCHEME: &'static str = "https";

    async fn ask(&self, request: &str) -> Response {
        self.try_ask(request).await.unwrap()
    }
}

pub(super) async fn read(stream: &mut Stream) -> Result<Response, h3::error::StreamError> {
    let (head, ()) = stream.recv_response().await?.into_parts();
    let mut body = Vec::new();
    while let Some(mut bytes) = stream.recv_data().await? {
        body.extend_from_slice(&bytes.copy_to_bytes(bytes.remaining()));
    }
    Ok(response(head.status, &head.headers, body))
}
