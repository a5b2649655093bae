//! The field `Strict-Transport-Security` of a site.

use laio_serve_base::options::{Hsts, HstsAge, Site};
use std::io;

/// The name of the field.
pub const FIELD: &str = "Strict-Transport-Security";

/// The least number of seconds that lists of preloaded hosts accept.
const PRELOAD_AGE: u32 = 31_536_000;

/// Returns the value of the field, or none if it is not sent.
///
/// # Errors
/// When options contradict each other.
pub(super) fn value(site: &Site) -> io::Result<Option<String>> {
    let Hsts {
        age,
        subdomains,
        preload,
    } = site.hsts;
    let set = site
        .fields
        .iter()
        .any(|rule| rule.name.eq_ignore_ascii_case(FIELD));
    let seconds = match age {
        Some(HstsAge::Seconds(seconds)) => seconds,
        _ if subdomains || preload => {
            return refuse("--hsts-subdomains and --hsts-preload need --hsts");
        }
        _ => return Ok(None),
    };
    if set {
        return refuse("--hsts and a --header rule both set Strict-Transport-Security");
    }
    if preload && !(subdomains && seconds >= PRELOAD_AGE) {
        return refuse("--hsts-preload needs --hsts-subdomains, and --hsts of at least 31536000");
    }
    let mut value = format!("max-age={seconds}");
    for (is_set, directive) in [(subdomains, "; includeSubDomains"), (preload, "; preload")] {
        if is_set {
            value += directive;
        }
    }
    Ok(Some(value))
}

fn refuse<T>(text: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(age: Option<HstsAge>, subdomains: bool, preload: bool) -> Option<Option<String>> {
        let hsts = Hsts {
            age,
            subdomains,
            preload,
        };
        let site = Site {
            hsts,
            ..Site::default()
        };
        value(&site).ok()
    }

    #[test]
    fn values() {
        let seconds = |seconds| Some(HstsAge::Seconds(seconds));
        assert_eq!(of(None, false, false), Some(None));
        assert_eq!(of(Some(HstsAge::Off), false, false), Some(None));
        assert_eq!(of(seconds(0), false, false).unwrap().unwrap(), "max-age=0");
        assert_eq!(
            of(seconds(PRELOAD_AGE), true, true).unwrap().unwrap(),
            "max-age=31536000; includeSubDomains; preload"
        );
        // Browsers would not accept these.
        assert_eq!(of(seconds(60), true, true), None);
        assert_eq!(of(seconds(PRELOAD_AGE), false, true), None);
        assert_eq!(of(None, true, false), None);
    }

    #[test]
    fn two_sources_of_the_field_are_refused() {
        let mut site = Site::default();
        site.hsts.age = Some(HstsAge::Seconds(1));
        site.fields = vec!["**=strict-transport-security: max-age=1".parse().unwrap()];
        assert!(value(&site).is_err());
        site.hsts.age = None;
        assert_eq!(value(&site).unwrap(), None);
    }
}
