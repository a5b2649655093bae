//! A client.

use super::Fixture;
use crate::common::certs::{Made, trusting};
use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3_quinn::OpenStreams;
use http::{HeaderMap, Request, StatusCode};
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

    pub(super) async fn begin(&self, request: Request<()>) -> Stream {
        self.try_begin(request).await.unwrap()
    }

    pub(super) async fn try_begin(
        &self,
        request: Request<()>,
    ) -> Result<Stream, h3::error::StreamError> {
        self.requests.clone().send_request(request).await
    }

    pub(super) async fn ask(&self, request: Request<()>) -> (StatusCode, HeaderMap, Vec<u8>) {
        self.try_ask(request).await.unwrap()
    }

    pub(super) async fn try_ask(
        &self,
        request: Request<()>,
    ) -> Result<(StatusCode, HeaderMap, Vec<u8>), h3::error::StreamError> {
        let mut stream = self.try_begin(request).await?;
        stream.finish().await?;
        read(&mut stream).await
    }

    pub(super) async fn get(&self, path: &str) -> Vec<u8> {
        let (status, _, body) = self.ask(request("GET", path, &[])).await;
        assert_eq!(status, 200, "{path}");
        body
    }
}

pub(super) async fn read(
    stream: &mut Stream,
) -> Result<(StatusCode, HeaderMap, Vec<u8>), h3::error::StreamError> {
    let (head, ()) = stream.recv_response().await?.into_parts();
    let mut body = Vec::new();
    while let Some(mut bytes) = stream.recv_data().await? {
        body.extend_from_slice(&bytes.copy_to_bytes(bytes.remaining()));
    }
    Ok((head.status, head.headers, body))
}

pub(super) fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> Request<()> {
    let uri = format!("https://test{path}");
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// Waits for all of several futures at the same time.
pub(super) async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut all: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in all.iter_mut().filter(|(_, output)| output.is_none()) {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
                *output = Some(value);
            }
        }
        if all.iter().all(|(_, output)| output.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    all.into_iter().filter_map(|(_, output)| output).collect()
}
