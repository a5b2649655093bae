//! Requests to an authority. They block, because the thread that makes them exists for that.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use laio_serve_base::options::{Acme, Limits};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::future::{Future, poll_fn};
use std::io;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// A client for one authority. Clones share their connections.
#[derive(Clone, Debug)]
pub(super) struct DirectoryClient {
    agent: Agent,
    /// The server stops: no further requests.
    ended: Arc<AtomicBool>,
    /// The `Retry-After` of the last response.
    retry_after: Arc<Mutex<Option<Duration>>>,
}

impl DirectoryClient {
    /// Creates a client that trusts the configured certificates.
    ///
    /// # Errors
    /// When the certificates cannot be read, or there are none.
    pub(super) fn new(options: &Acme, ended: Arc<AtomicBool>) -> io::Result<DirectoryClient> {
        let roots = RootCerts::Specific(Arc::new(roots(options.ca.as_deref())?));
        let tls = TlsConfig::builder()
            .root_certs(roots)
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()));
        let agent = Agent::config_builder()
            .tls_config(tls.build())
            .https_only(true)
            .http_status_as_error(false)
            .timeout_connect(Some(Limits::ACME_CONNECT_TIME))
            .timeout_global(Some(Limits::ACME_REQUEST_TIME))
            .max_idle_connections(2)
            .build();
        Ok(DirectoryClient {
            agent: agent.new_agent(),
            ended,
            retry_after: Arc::default(),
        })
    }

    /// Returns the `Retry-After` of the last response, if it had one.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        *self.retry_after.lock().unwrap()
    }

    /// Whether the server stops.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    fn exchange(&self, request: Request<Vec<u8>>) -> Result<Response<Bytes>, Error> {
        if self.has_ended() {
            return Err(other("the server stops".to_owned()));
        }
        *self.retry_after.lock().unwrap() = None;
        let uri = request.uri().to_string();
        let failed = |error: ureq::Error| other(format!("{uri}: {error}"));
        let sent = match *request.method() {
            Method::POST => self.agent.run(request),
            _ => self.agent.run(request.map(|_| ())),
        };
        let (mut parts, mut body) = sent.map_err(failed)?.into_parts();
        let header = parts.headers.get(RETRY_AFTER);
        let asked = header.and_then(|value| pause(value.as_bytes()));
        let asked = asked.map(|asked| asked.min(Limits::ACME_RETRY_AFTER_MAX));
        *self.retry_after.lock().unwrap() = asked;
        // instant-acme would add a time of any length to the present one.
        match asked {
            Some(asked) => parts.headers.insert(RETRY_AFTER, asked.as_secs().into()),
            None => parts.headers.remove(RETRY_AFTER),
        };
        let limited = body.with_config().limit(Limits::ACME_RESPONSE);
        let body = limited.read_to_vec().map_err(failed)?;
        let kind = parts
            .headers
            .get(CONTENT_TYPE)
            .map(|value| value.as_bytes());
        let is_problem = kind.is_some_and(|kind| kind.starts_with(b"application/problem+json"));
        if is_error(parts.status) && !is_problem {
            return Err(other(format!("{uri}: it answered {}", parts.status)));
        }
        Ok(Response::from_parts(parts, Bytes::from(body)))
    }
}

impl HttpClient for DirectoryClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let (parts, mut body) = request.into_parts();
            let mut bytes = Vec::new();
            while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                bytes.extend(frame.into_data().unwrap_or_default());
            }
            let request = Request::from_parts(parts, bytes);
            let (parts, body) = client.exchange(request)?.into_parts();
            Ok(BytesResponse {
                parts,
                body: Box::new(body),
            })
        })
    }
}

/// Returns the output of a future that never waits, because the requests in it block.
pub(super) fn complete<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("requests block, so nothing can be waited for"),
    }
}

fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

fn other(text: String) -> Error {
    Error::Other(text.into())
}

/// Returns the time that a `Retry-After` asks for: seconds, or a date.
fn pause(value: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = laio_http::date::parse(text.as_bytes())?;
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(date).ok()?);
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

fn roots(file: Option<&Path>) -> io::Result<Vec<Certificate<'static>>> {
    let (certificates, source) = match file {
        None => (
            rustls_native_certs::load_native_certs().certs,
            "this system".to_owned(),
        ),
        Some(path) => {
            let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
            let certificates: Vec<_> = read.map_err(|error| {
                let text = format!(
                    "cannot read certificates from {} (--acme-ca): {error}",
                    path.display()
                );
                io::Error::new(io::ErrorKind::InvalidInput, text)
            })?;
            (certificates, path.display().to_string())
        }
    };
    if certificates.is_empty() {
        let text = format!(
            "{source} contains no certificates to verify the authority with: name a file of certificates with --acme-ca"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let owned = |der: &CertificateDer<'_>| Certificate::from_der(der).to_owned();
    Ok(certificates.iter().map(owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_seconds_or_dates() {
        assert_eq!(pause(b"120"), Some(Duration::from_secs(120)));
        assert_eq!(
            pause(b"Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(Duration::ZERO)
        );
        let later = pause(b"Fri, 31 Dec 2100 23:59:59 GMT").unwrap();
        assert!(later > Duration::from_secs(3600));
        for bad in [&b""[..], b"-1", b"soon", b"\xff"] {
            assert_eq!(pause(bad), None);
        }
    }

    #[test]
    fn a_client_needs_certificates_to_trust() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = roots(Some(file.path())).unwrap_err().to_string();
        assert!(error.contains("--acme-ca"), "{error}");
        let error = roots(Some(Path::new("/nonexistent")))
            .unwrap_err()
            .to_string();
        assert!(error.contains("/nonexistent"), "{error}");
    }
}
