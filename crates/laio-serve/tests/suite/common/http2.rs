//! A client of HTTP/2 that another library makes.

use super::multiplexed::{Multiplexed, request, response};
use super::{Response, Running};
use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, StatusCode};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

pub(crate) struct Client {
    pub(crate) requests: SendRequest<Bytes>,
    pub(crate) connection: JoinHandle<Result<(), h2::Error>>,
}

impl Client {
    pub(crate) async fn connect(server: &Running) -> Client {
        Client::try_connect(server, &usual()).await.unwrap()
    }

    pub(crate) async fn try_connect(
        server: &Running,
        builder: &Builder,
    ) -> Result<Client, h2::Error> {
        let address = server.places()[0].inet().unwrap();
        Client::on(builder, TcpStream::connect(address).await.unwrap()).await
    }

    /// Connects with TLS.
    pub(crate) async fn encrypted(server: &Running, config: rustls::ClientConfig) -> Client {
        let address = server.places()[0].inet().unwrap();
        let socket = TcpStream::connect(address).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector.connect(name, socket).await.unwrap();
        Client::on(&usual(), stream).await.unwrap()
    }

    async fn on(
        builder: &Builder,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Client, h2::Error> {
        let (requests, connection) = builder.handshake(stream).await?;
        Ok(Client {
            requests,
            connection: tokio::spawn(connection),
        })
    }

    /// Sends the head of a request as in a table.
    pub(crate) async fn open(
        &self,
        text: &str,
        ends: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), h2::Error> {
        let mut requests = self.requests.clone().ready().await?;
        requests.send_request(request(Client::SCHEME, text), ends)
    }

    /// Sends a request, and returns the head of its response.
    pub(crate) async fn begin(&self, text: &str) -> Result<http::Response<RecvStream>, h2::Error> {
        self.open(text, true).await?.0.await
    }

    /// Sends a request, and returns the heads of its interim responses and its final status.
    pub(crate) async fn interim(&self, text: &str) -> (Vec<HeaderMap>, StatusCode) {
        let (mut response, _) = self.open(text, true).await.unwrap();
        let mut interim = Vec::new();
        let ended = std::future::poll_fn(|context| {
            while let Poll::Ready(Some(head)) = response.poll_informational(context) {
                let head = head.unwrap();
                assert_eq!(head.status(), 103);
                interim.push(head.headers().clone());
            }
            Pin::new(&mut response).poll(context)
        })
        .await;
        (interim, ended.unwrap().status())
    }
}

fn usual() -> Builder {
    let mut builder = Builder::new();
    // Window for other streams in addition to one that is not read.
    builder.initial_connection_window_size(1 << 20);
    builder
}

impl Multiplexed for Client {
    const SCHEME: &'static str = "http";

    async fn ask(&self, request: &str) -> Response {
        let found = self.begin(request).await.unwrap();
        let (head, mut body) = found.into_parts();
        response(head.status, &head.headers, read(&mut body).await.unwrap())
    }
}

/// Sends bytes of a body within its windows. `ends` means that they are the last.
pub(crate) async fn send(
    stream: &mut SendStream<Bytes>,
    mut bytes: Bytes,
    ends: bool,
) -> Result<(), h2::Error> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let granted = std::future::poll_fn(|context| stream.poll_capacity(context)).await;
        let granted = granted.ok_or(h2::Error::from(h2::Reason::CANCEL))??;
        let piece = bytes.split_to(granted.min(bytes.len()));
        stream.send_data(piece, ends && bytes.is_empty())?;
    }
    Ok(())
}

/// Reads all of a body.
pub(crate) async fn read(body: &mut RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut all = Vec::new();
    while let Some(bytes) = body.data().await {
        let bytes = bytes?;
        body.flow_control().release_capacity(bytes.len())?;
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}
