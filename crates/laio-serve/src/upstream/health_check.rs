//! Active checks: requests that show whether upstreams are healthy.

use super::health::now;
use super::link::send;
use super::target::Target;
use crate::options::UpstreamLimits;
use crate::server_name::SERVER_NAME;
use laio_http::upstream::parse_response;
use laio_rt::JoinHandle;
use std::io;
use std::sync::Arc;

/// The checks of a worker, which end when this is dropped.
pub(crate) struct HealthChecks(Vec<JoinHandle<()>>);

impl HealthChecks {
    /// Starts the checks of these upstreams. The workers of a process share them: each check is made by
    /// the worker whose timer ends first.
    pub(crate) fn start<'t>(
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
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {SERVER_NAME}\r\nConnection: close\r\n\r\n"
    );
    let asked = async {
        let connected = target.connect_for_check(limits.health_time, limits).await;
        let mut link = connected.map_err(|error| error.why)?;
        let transport = link.transport();
        let failed = |error: io::Error| format!("GET {path}: {error}");
        send(&transport, request.into_bytes(), limits.health_time)
            .await
            .map_err(failed)?;
        loop {
            let parsed = parse_response(&link.input, &UpstreamLimits::HEAD, false);
            let parsed = parsed.map_err(|error| format!("GET {path}: {error}"))?;
            if let Some((response, length)) = parsed {
                match response.status.code() {
                    100..=199 => {
                        link.input.drain(..length);
                        continue;
                    }
                    200..=399 => return Ok(()),
                    code => return Err(format!("GET {path} is answered with {code}")),
                }
            }
            if link.receive(limits.health_time).await.map_err(failed)? == 0 {
                return Err(format!(
                    "GET {path}: the connection ended before the answer"
                ));
            }
        }
    };
    laio_rt::time::timeout(limits.health_time, asked)
        .await
        .unwrap_or_else(|_| {
            Err(format!(
                "GET {path}: no answer within {:?}",
                limits.health_time
            ))
        })
}
