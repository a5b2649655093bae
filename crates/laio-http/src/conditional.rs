//! Conditional requests (RFC 9110, section 13).

use crate::etag::{Comparison, ETag, is_strongly, list_matches};
use crate::{Headers, Method, Request, date};

/// Evaluates the preconditions of a request for an existing resource, in the order of section
/// 13.2.2.
///
/// Only for requests that would succeed without them: a missing file is 404 whatever the conditions
/// are (section 13.2.1).
#[must_use]
pub fn evaluate(request: &Request<'_>, current: &Validators<'_>) -> ConditionalResult {
    let headers = &request.headers;
    let reads = matches!(request.method, Method::Get | Method::Head);

    // Steps 1 and 2.
    let unchanged = match if_match(headers, current) {
        Some(matches) => matches,
        None => not_modified_after(headers, "If-Unmodified-Since", current).unwrap_or(true),
    };
    if !unchanged {
        return ConditionalResult::PreconditionFailed;
    }

    // Steps 3 and 4.
    let client_has_it = match if_none_match(headers, current) {
        Some(matches) => matches,
        None if reads => not_modified_after(headers, "If-Modified-Since", current).unwrap_or(false),
        None => false,
    };
    match client_has_it {
        true if reads => return ConditionalResult::NotModified,
        true => return ConditionalResult::PreconditionFailed,
        false => {}
    }

    // Step 5; range requests are defined for GET alone (section 14.2).
    let range_applies = request.method == Method::Get
        && headers.get("Range").is_some()
        && if_range(headers, current);
    ConditionalResult::Proceed { range_applies }
}

/// The current state of the requested resource.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// The entity tag.
    pub etag: Option<&'a ETag>,
    /// When it was last modified, in seconds since 1970, as sent in `Last-Modified`.
    pub modified: Option<i64>,
    /// The current time in seconds since 1970, as sent in `Date`.
    pub now: i64,
}

/// The result of evaluating the preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionalResult {
    /// Answer normally.
    Proceed {
        /// Whether there is a `Range` field and it applies.
        range_applies: bool,
    },
    /// Answer 304.
    NotModified,
    /// Answer 412.
    PreconditionFailed,
}

/// Section 13.1.1: strong comparison; the lists of repeated fields count as one.
fn if_match(headers: &Headers<'_>, current: &Validators<'_>) -> Option<bool> {
    any_list_matches(headers, "If-Match", current, Comparison::Strong)
}

/// Section 13.1.2: weak comparison. `true` means that a tag matched.
fn if_none_match(headers: &Headers<'_>, current: &Validators<'_>) -> Option<bool> {
    any_list_matches(headers, "If-None-Match", current, Comparison::Weak)
}

fn any_list_matches(
    headers: &Headers<'_>,
    name: &str,
    current: &Validators<'_>,
    comparison: Comparison,
) -> Option<bool> {
    let mut values = headers.all(name).peekable();
    values.peek()?;
    Some(values.any(|value| list_matches(value, current.etag, comparison)))
}

/// Sections 13.1.3 and 13.1.4: whether the last modification is not later than the date of the
/// field. `None` if the field is invalid or repeated, or the modification time is unknown.
fn not_modified_after(headers: &Headers<'_>, name: &str, current: &Validators<'_>) -> Option<bool> {
    let date = date::parse(headers.only(name)?)?;
    Some(current.modified? <= date)
}

/// Section 13.1.5: whether the client's copy is identical to the current file. A date is sufficient
/// only if it equals the modification time and that second is over, because the file could change
/// twice within a second (section 8.8.2.2).
fn if_range(headers: &Headers<'_>, current: &Validators<'_>) -> bool {
    if headers.get("If-Range").is_none() {
        return true;
    }
    let Some(value) = headers.only("If-Range") else {
        return false;
    };
    if value.starts_with(b"\"") || value.starts_with(b"W/") {
        return current
            .etag
            .is_some_and(|current| is_strongly(value, current));
    }
    let modified = current.modified.filter(|&modified| modified < current.now);
    modified.is_some() && date::parse(value) == modified
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Parsed, parse};

    const PROCEED: ConditionalResult = ConditionalResult::Proceed {
        range_applies: false,
    };
    const RANGE: ConditionalResult = ConditionalResult::Proceed {
        range_applies: true,
    };
    const SAME: &str = "\"1-2-3.4\"";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const EXACTLY: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
    const MODIFIED: i64 = 784_111_777;

    fn with(method: &str, fields: &[(&str, &str)], current: &Validators<'_>) -> ConditionalResult {
        let fields: String = fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let head = format!("{method} / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        match parse(head.as_bytes(), &Limits::DEFAULT) {
            Ok(Parsed::Complete { request, .. }) => evaluate(&request, current),
            other => panic!("{other:?}"),
        }
    }

    fn method(method: &str, fields: &[(&str, &str)]) -> ConditionalResult {
        let etag = ETag::of_file(1, 2, 3, 4);
        let current = Validators {
            etag: Some(&etag),
            modified: Some(MODIFIED),
            now: MODIFIED + 100,
        };
        with(method, fields, &current)
    }

    fn get(fields: &[(&str, &str)]) -> ConditionalResult {
        method("GET", fields)
    }

    #[test]
    fn without_conditions() {
        assert_eq!(get(&[]), PROCEED);
        assert_eq!(get(&[("Range", "bytes=0-")]), RANGE);
        assert_eq!(method("HEAD", &[("Range", "bytes=0-")]), PROCEED);
    }

    #[test]
    fn if_match() {
        assert_eq!(get(&[("If-Match", SAME)]), PROCEED);
        assert_eq!(get(&[("If-Match", "*")]), PROCEED);
        assert_eq!(
            get(&[("If-Match", "\"x\"")]),
            ConditionalResult::PreconditionFailed
        );
        assert_eq!(
            get(&[("If-Match", "W/\"1-2-3.4\"")]),
            ConditionalResult::PreconditionFailed
        );
        assert_eq!(get(&[("If-Match", "\"x\""), ("If-Match", SAME)]), PROCEED);
    }

    #[test]
    fn if_unmodified_since() {
        assert_eq!(
            get(&[("If-Unmodified-Since", BEFORE)]),
            ConditionalResult::PreconditionFailed
        );
        assert_eq!(get(&[("If-Unmodified-Since", EXACTLY)]), PROCEED);
        assert_eq!(get(&[("If-Unmodified-Since", "nonsense")]), PROCEED);
        // If-Match is present, so the date is ignored.
        assert_eq!(
            get(&[("If-Match", SAME), ("If-Unmodified-Since", BEFORE)]),
            PROCEED
        );
    }

    #[test]
    fn if_none_match() {
        assert_eq!(
            get(&[("If-None-Match", SAME)]),
            ConditionalResult::NotModified
        );
        assert_eq!(
            get(&[("If-None-Match", "W/\"1-2-3.4\"")]),
            ConditionalResult::NotModified
        );
        assert_eq!(
            get(&[("If-None-Match", "*")]),
            ConditionalResult::NotModified
        );
        assert_eq!(get(&[("If-None-Match", "\"x\"")]), PROCEED);
        assert_eq!(
            method("HEAD", &[("If-None-Match", SAME)]),
            ConditionalResult::NotModified
        );
        assert_eq!(
            method("PUT", &[("If-None-Match", "*")]),
            ConditionalResult::PreconditionFailed
        );
    }

    #[test]
    fn if_modified_since() {
        assert_eq!(get(&[("If-Modified-Since", BEFORE)]), PROCEED);
        assert_eq!(
            get(&[("If-Modified-Since", EXACTLY)]),
            ConditionalResult::NotModified
        );
        assert_eq!(
            get(&[("If-Modified-Since", AFTER)]),
            ConditionalResult::NotModified
        );
        assert_eq!(get(&[("If-Modified-Since", "0")]), PROCEED);
        assert_eq!(
            get(&[("If-Modified-Since", AFTER), ("If-Modified-Since", AFTER)]),
            PROCEED
        );
        assert_eq!(method("PUT", &[("If-Modified-Since", AFTER)]), PROCEED);
        // If-None-Match is present, so the date is ignored.
        assert_eq!(
            get(&[("If-None-Match", "\"x\""), ("If-Modified-Since", AFTER)]),
            PROCEED
        );
    }

    #[test]
    fn failed_preconditions_come_before_not_modified() {
        let both = [("If-Match", "\"x\""), ("If-None-Match", SAME)];
        assert_eq!(get(&both), ConditionalResult::PreconditionFailed);
        let both = [
            ("If-Unmodified-Since", BEFORE),
            ("If-Modified-Since", AFTER),
        ];
        assert_eq!(get(&both), ConditionalResult::PreconditionFailed);
    }

    #[test]
    fn if_range() {
        let range = |condition| get(&[("Range", "bytes=0-"), ("If-Range", condition)]);
        assert_eq!(range(SAME), RANGE);
        assert_eq!(range(EXACTLY), RANGE);
        for other in ["\"x\"", "W/\"1-2-3.4\"", BEFORE, AFTER, "*", "nonsense", ""] {
            assert_eq!(range(other), PROCEED, "{other}");
        }
        assert_eq!(get(&[("If-Range", SAME)]), PROCEED);
        let twice = [
            ("Range", "bytes=0-"),
            ("If-Range", SAME),
            ("If-Range", SAME),
        ];
        assert_eq!(get(&twice), PROCEED);
    }

    #[test]
    fn a_date_of_the_running_second_is_weak() {
        let current = Validators {
            etag: None,
            modified: Some(MODIFIED),
            now: MODIFIED,
        };
        let fields = [("Range", "bytes=0-"), ("If-Range", EXACTLY)];
        assert_eq!(with("GET", &fields, &current), PROCEED);
    }

    #[test]
    fn without_validators_dates_are_ignored() {
        let current = Validators {
            etag: None,
            modified: None,
            now: MODIFIED,
        };
        let get = |name, value| with("GET", &[("Range", "bytes=0-"), (name, value)], &current);
        assert_eq!(get("If-Modified-Since", AFTER), RANGE);
        assert_eq!(get("If-Unmodified-Since", BEFORE), RANGE);
        assert_eq!(get("If-None-Match", SAME), RANGE);
        assert_eq!(get("If-None-Match", "*"), ConditionalResult::NotModified);
        assert_eq!(get("If-Match", SAME), ConditionalResult::PreconditionFailed);
        assert_eq!(get("If-Range", EXACTLY), PROCEED);
        assert_eq!(get("If-Range", "nonsense"), PROCEED);
    }
}
