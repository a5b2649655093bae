//! Active checks: requests that show whether upstreams are healthy.

use super::health::now;
use super::http2;
use super::link::send;
use super::target::Target;
use laio_http::upstream::parse_response;
use laio_rt::JoinHandle;
use laio_rt::future::{Either, race};
use laio_serve_base::options::{Protocol, UpstreamLimits};
use laio_serve_base::server_name::SERVER_NAME;
use std::io;
use std::sync::Arc;

/// The checks of a worker, which end when this is dropped.
pub struct HealthChecks(Vec<JoinHandle<()>>);

impl HealthChecks {
    /// Starts the checks of these upstreams. The workers of a process share them: each check is made by
    /// the worker whose timer ends first.
    pub fn start<'t>(
        targets: impl Iterator<Item = &'t Arc<Target>>,
        limits: &UpstreamLimits,
    ) -> HealthChecks {
        let mut checked: Vec<&Arc<Target>> = Vec::new();
        for target in targets.filter(|target| target.check.is_some()) {
            // Several sites may have the same upstream.
            if !checked
                .iter()
                .any(|other| Arc::ptr_eq(&other.health, &target.health))
            {
                checked.push(target);
            }
        }
        let task =
            |target: &Arc<Target>| laio_rt::spawn(check_forever(target.clone(), limits.clone()));
        HealthChecks(checked.into_iter().map(task).collect())
    }
}

impl Drop for HealthChecks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

async fn check_forever(target: Arc<Target>, limits: UpstreamLimits) {
    let interval = limits
        .health_interval
        .max(UpstreamLimits::HEALTH_INTERVAL_MIN);
    loop {
        if target.health.claim_check(now(), &limits) {
            let result = check(&target, &limits).await;
            target.health.checked(now(), result);
        }
        laio_rt::time::sleep(interval).await;
    }
}

/// Asks an upstream once.
async fn check(target: &Target, limits: &UpstreamLimits) -> Result<(), String> {
    let Some((path, host)) = &target.check else {
        return Ok(());
    };
    let time = limits.health_time;
    let asked = async {
        match target.protocol {
            Protocol::Http2 { .. } => ask_http2(target, path, host, limits).await,
            Protocol::Http { .. } | Protocol::FastCgi => ask(target, path, host, limits).await,
        }
    };
    let status = laio_rt::time::timeout(time, asked)
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {time:?}")))
        .map_err(|error| format!("GET {path}: {error}"))?;
    match status {
        200..=399 => Ok(()),
        code => Err(format!("GET {path} is answered with {code}")),
    }
}

/// Returns the status of an answer in HTTP/1.1.
async fn ask(
    target: &Target,
    path: &str,
    host: &str,
    limits: &UpstreamLimits,
) -> Result<u16, String> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {SERVER_NAME}\r\nConnection: close\r\n\r\n"
    );
    let time = limits.health_time;
    let connected = target.connect(target.own_proxy_header(), time, limits);
    let mut link = connected.await.map_err(|error| error.why)?;
    let failed = |error: io::Error| error.to_string();
    let sent = send(&link.transport(), request.into_bytes(), time).await;
    sent.map_err(failed)?;
    loop {
        let parsed = parse_response(&link.input, &UpstreamLimits::HEAD, false);
        if let Some((response, length)) = parsed.map_err(|error| error.to_string())? {
            match response.status.code() {
                100..=199 => {
                    link.input.drain(..length);
                    continue;
                }
                code => return Ok(code),
            }
        }
        if link.receive(time).await.map_err(failed)? == 0 {
            return Err("the connection ended before the answer".to_owned());
        }
    }
}

/// Returns the status of an answer in HTTP/2.
async fn ask_http2(
    target: &Target,
    path: &str,
    host: &str,
    limits: &UpstreamLimits,
) -> Result<u16, String> {
    let connected = http2::connect(
        target,
        target.own_proxy_header(),
        limits.health_time,
        limits,
    );
    let (requests, driver) = connected.await.map_err(|error| error.why)?;
    let scheme = if target.is_encrypted() {
        "https"
    } else {
        "http"
    };
    let request = http::Request::get(format!("{scheme}://{host}{path}"))
        .header(http::header::USER_AGENT, SERVER_NAME)
        .body(())
        .map_err(|error| error.to_string())?;
    let failed = |error: h2::Error| error.to_string();
    let asked = async {
        let mut requests = requests.ready().await.map_err(failed)?;
        let (response, _) = requests.send_request(request, true).map_err(failed)?;
        let response = response.await.map_err(failed)?;
        Ok(response.status().as_u16())
    };
    match race(asked, driver).await {
        Either::Left(status) => status,
        Either::Right(ended) => Err(ended.err().map_or_else(
            || "the connection ended before the answer".to_owned(),
            |error| error.to_string(),
        )),
    }
}
