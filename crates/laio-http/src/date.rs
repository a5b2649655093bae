//! Dates in messages (RFC 9110, section 5.6.7).

use std::fmt;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A date as text of fixed length: `Sun, 06 Nov 1994 08:49:37 GMT`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HttpDate([u8; HttpDate::LEN]);

impl HttpDate {
    /// Length of the text.
    pub const LEN: usize = 29;
    /// 1970-01-01 00:00:00.
    pub const EPOCH: HttpDate = HttpDate(*b"Thu, 01 Jan 1970 00:00:00 GMT");
    /// The first second whose year has five digits, which the format cannot represent.
    const END: u64 = 253_402_300_800;

    /// Formats a time in seconds since 1970. Returns `None` before 1970 and after the year 9999.
    ///
    /// ```
    /// use laio_http::HttpDate;
    ///
    /// let date = HttpDate::from_unix(784_111_777).unwrap();
    /// assert_eq!(date.as_str(), "Sun, 06 Nov 1994 08:49:37 GMT");
    /// assert!(HttpDate::from_unix(-1).is_none());
    /// ```
    #[must_use]
    pub fn from_unix(seconds: i64) -> Option<Self> {
        let seconds = u64::try_from(seconds)
            .ok()
            .filter(|&seconds| seconds < Self::END)?;
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        let mut text = [0; Self::LEN];
        write!(&mut text[..], "{}", httpdate::HttpDate::from(time)).ok()?;
        Some(HttpDate(text))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default() // always ASCII
    }

    /// Returns the text as bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl fmt::Display for HttpDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for HttpDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Parses a date in any of the three formats that a recipient must understand. Returns seconds
/// since 1970.
///
/// ```
/// use laio_http::date;
///
/// for text in [
///     "Sun, 06 Nov 1994 08:49:37 GMT",
///     "Sunday, 06-Nov-94 08:49:37 GMT",
///     "Sun Nov  6 08:49:37 1994",
/// ] {
///     assert_eq!(date::parse(text.as_bytes()), Some(784_111_777));
/// }
/// assert_eq!(date::parse(b"yesterday"), None);
/// ```
#[must_use]
pub fn parse(text: &[u8]) -> Option<i64> {
    let time = httpdate::parse_http_date(str::from_utf8(text).ok()?).ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

/// Returns the time to send as `Last-Modified`: the modification time, but never later than now
/// (RFC 9110, section 8.8.2.1).
#[must_use]
pub fn last_modified(mtime: i64, now: i64) -> i64 {
    mtime.min(now)
}

/// The date of the current second, formatted once per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateCache {
    second: i64,
    date: HttpDate,
}

impl DateCache {
    /// Returns a cache that holds 1970 until it is asked for another second.
    #[must_use]
    pub const fn new() -> Self {
        DateCache {
            second: 0,
            date: HttpDate::EPOCH,
        }
    }

    /// Returns the date of a second. A second without a date leaves the previous one in place.
    pub fn at(&mut self, second: i64) -> &HttpDate {
        if second != self.second {
            self.second = second;
            self.date = HttpDate::from_unix(second).unwrap_or(self.date);
        }
        &self.date
    }

    /// Returns the current date, by the system's clock.
    pub fn now(&mut self) -> &HttpDate {
        let elapsed = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        self.at(elapsed.as_secs().cast_signed())
    }

    /// Returns the second of the cached date.
    #[must_use]
    pub const fn second(&self) -> i64 {
        self.second
    }
}

impl Default for DateCache {
    fn default() -> Self {
        DateCache::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_go_both_ways() {
        for seconds in [
            0,
            1,
            951_782_400,
            1_709_164_799,
            4_102_444_800,
            HttpDate::END as i64 - 1,
        ] {
            let date = HttpDate::from_unix(seconds).unwrap();
            assert_eq!(parse(date.as_bytes()), Some(seconds), "{date}");
        }
        assert_eq!(HttpDate::from_unix(0), Some(HttpDate::EPOCH));
    }

    #[test]
    fn years_that_the_format_cannot_represent() {
        for seconds in [i64::MIN, -1, HttpDate::END as i64, i64::MAX] {
            assert_eq!(HttpDate::from_unix(seconds), None);
        }
    }

    #[test]
    fn malformed_dates() {
        for text in [
            "",
            "0",
            "Sun, 06 Nov 1994",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1960 08:49:37 GMT",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"\xff"), None);
    }

    #[test]
    fn last_modified_is_not_in_the_future() {
        assert_eq!(last_modified(5, 10), 5);
        assert_eq!(last_modified(15, 10), 10);
    }

    #[test]
    fn the_cache_follows_the_clock() {
        let mut cache = DateCache::default();
        assert_eq!(*cache.at(0), HttpDate::EPOCH);
        assert_eq!(
            cache.at(784_111_777).as_str(),
            "Sun, 06 Nov 1994 08:49:37 GMT"
        );
        assert_eq!(cache.second(), 784_111_777);
        assert_eq!(
            cache.at(784_111_778).as_str(),
            "Sun, 06 Nov 1994 08:49:38 GMT"
        );
        assert_eq!(cache.at(-1).as_str(), "Sun, 06 Nov 1994 08:49:38 GMT");
        assert!(cache.now().as_str().ends_with("GMT"));
        assert!(cache.second() > 784_111_778);
    }
}
