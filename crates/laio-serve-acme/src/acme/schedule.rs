//! When a certificate is renewed, and when a failed order is tried again.

use super::certificate::Validity;
use laio_serve_base::options::Limits;
use rustls::crypto::ring;
use std::time::{Duration, SystemTime};

/// Returns when to renew a certificate. `window`: the times that its authority suggests (RFC 9773), of which the part
/// before [`Limits::ACME_RESERVE`] counts. Otherwise after two thirds of its lifetime, or earlier by up to
/// [`Limits::ACME_JITTER`]. `fraction` (from 0 to 1) is chosen for each certificate, so that those made together are not
/// renewed together.
pub(super) fn renewal(
    validity: Validity,
    window: Option<(SystemTime, SystemTime)>,
    fraction: f64,
) -> SystemTime {
    let between = |from: SystemTime, until: SystemTime, part: f64| {
        from + until.duration_since(from).unwrap_or_default().mul_f64(part)
    };
    match window {
        // A window may end after the certificate: a time from all of it would often be too late.
        Some((start, end)) => {
            let latest = between(validity.from, validity.until, 1.0 - Limits::ACME_RESERVE);
            between(start, end.min(latest), fraction).min(latest)
        }
        None => {
            let part = 2.0 / 3.0 - fraction * Limits::ACME_JITTER;
            between(validity.from, validity.until, part)
        }
    }
}

/// Returns the pause after this many failures in a row. `asked`: the `Retry-After` of the authority.
pub(super) fn pause(failures: u32, first: Duration, asked: Option<Duration>) -> Duration {
    let growth = 3u32.saturating_pow(failures.saturating_sub(1));
    let pause = first.saturating_mul(growth).min(Limits::ACME_PAUSE_MAX);
    let asked = asked.unwrap_or_default().min(Limits::ACME_RETRY_AFTER_MAX);
    pause.max(asked)
}

/// Returns a random number from 0 to 1.
pub(super) fn random_fraction() -> f64 {
    let mut bytes = [0; 4];
    // Without random numbers the server could not encrypt either; the middle is as good as any.
    match ring::default_provider().secure_random.fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 0.5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn after_two_thirds_or_as_the_authority_says() {
        let validity = Validity {
            from: at(0),
            until: at(9000),
        };
        let seconds = |window, fraction| {
            let due = renewal(validity, window, fraction);
            due.duration_since(SystemTime::UNIX_EPOCH)
                .unwrap()
                .as_secs()
        };
        assert_eq!(seconds(None, 0.0), 6000);
        let earliest = 6000 - (9000.0 * Limits::ACME_JITTER) as u64;
        assert!(seconds(None, 1.0).abs_diff(earliest) <= 1);
        assert_eq!(seconds(Some((at(100), at(200))), 0.5), 150);
        assert_eq!(seconds(Some((at(200), at(100))), 0.5), 200);
        let latest = 9000 - (9000.0 * Limits::ACME_RESERVE) as u64;
        assert_eq!(seconds(Some((at(1 << 30), at(1 << 31))), 0.5), latest);
        assert_eq!(seconds(Some((at(6000), at(6000 + 86_400))), 0.0), 6000);
        let half = seconds(Some((at(6000), at(6000 + 86_400))), 0.5);
        assert_eq!(half, (6000 + latest) / 2);
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let first = Duration::from_secs(60);
        let pauses: Vec<_> = (1..5).map(|it| pause(it, first, None).as_secs()).collect();
        assert_eq!(pauses, [60, 180, 540, 1620]);
        assert_eq!(pause(1000, first, None), Limits::ACME_PAUSE_MAX);
        let asked = Some(Duration::from_secs(100));
        assert_eq!(pause(1, first, asked).as_secs(), 100);
        assert_eq!(pause(2, first, asked).as_secs(), 180);
        let endless = Some(Duration::MAX);
        assert_eq!(pause(1, first, endless), Limits::ACME_RETRY_AFTER_MAX);
    }
}
