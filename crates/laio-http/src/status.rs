//! Status codes and their reason phrases (RFC 9110, section 15).

use std::fmt;

/// A status code.
///
/// ```
/// use laio_http::Status;
///
/// assert_eq!(Status::NOT_FOUND.code(), 404);
/// assert_eq!(Status::NOT_FOUND.reason(), "Not Found");
/// assert_eq!(Status::NOT_FOUND.to_string(), "404 Not Found");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

impl Status {
    /// Returns the three digits.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }

    /// Returns any status of another server, also one that is not listed here, or none if its class
    /// does not exist.
    #[must_use]
    pub const fn of_another(code: u16) -> Option<Status> {
        match code {
            100..=599 => Some(Status(code)),
            _ => None,
        }
    }

    /// Whether this is a client or server error (4xx or 5xx).
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 >= 400
    }

    /// Whether a response with this status never has content: 1xx, 204 and 304
    /// (RFC 9112, section 6.3, rule 1).
    #[must_use]
    pub const fn is_bodiless(self) -> bool {
        self.0 < 200 || self.0 == 204 || self.0 == 304
    }
}

/// One row per status with its constant and its reason, the only list of them.
macro_rules! statuses {
    ($($code:literal $name:ident $reason:literal;)*) => {
        impl Status {
            $(
                #[doc = concat!($code, " ", $reason)]
                pub const $name: Status = Status($code);
            )*

            /// Returns the status with these three digits, if it is listed above.
            #[must_use]
            pub const fn from_code(code: u16) -> Option<Status> {
                match code {
                    $($code => Some(Status($code)),)*
                    _ => None,
                }
            }

            /// Returns the reason phrase of the code.
            #[must_use]
            pub const fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }
        }

        #[cfg(test)]
        const ALL: &[Status] = &[$(Status::$name),*];
    };
}

statuses! {
    100 CONTINUE "Continue";
    101 SWITCHING_PROTOCOLS "Switching Protocols";
    103 EARLY_HINTS "Early Hints";
    200 OK "OK";
    201 CREATED "Created";
    204 NO_CONTENT "No Content";
    206 PARTIAL_CONTENT "Partial Content";
    207 MULTI_STATUS "Multi-Status";
    301 MOVED_PERMANENTLY "Moved Permanently";
    302 FOUND "Found";
    304 NOT_MODIFIED "Not Modified";
    307 TEMPORARY_REDIRECT "Temporary Redirect";
    308 PERMANENT_REDIRECT "Permanent Redirect";
    400 BAD_REQUEST "Bad Request";
    401 UNAUTHORIZED "Unauthorized";
    403 FORBIDDEN "Forbidden";
    404 NOT_FOUND "Not Found";
    405 METHOD_NOT_ALLOWED "Method Not Allowed";
    406 NOT_ACCEPTABLE "Not Acceptable";
    408 REQUEST_TIMEOUT "Request Timeout";
    409 CONFLICT "Conflict";
    410 GONE "Gone";
    412 PRECONDITION_FAILED "Precondition Failed";
    413 CONTENT_TOO_LARGE "Content Too Large";
    414 URI_TOO_LONG "URI Too Long";
    415 UNSUPPORTED_MEDIA_TYPE "Unsupported Media Type";
    416 RANGE_NOT_SATISFIABLE "Range Not Satisfiable";
    417 EXPECTATION_FAILED "Expectation Failed";
    421 MISDIRECTED_REQUEST "Misdirected Request";
    422 UNPROCESSABLE_CONTENT "Unprocessable Content";
    423 LOCKED "Locked";
    424 FAILED_DEPENDENCY "Failed Dependency";
    429 TOO_MANY_REQUESTS "Too Many Requests";
    431 REQUEST_HEADER_FIELDS_TOO_LARGE "Request Header Fields Too Large";
    500 INTERNAL_SERVER_ERROR "Internal Server Error";
    501 NOT_IMPLEMENTED "Not Implemented";
    502 BAD_GATEWAY "Bad Gateway";
    503 SERVICE_UNAVAILABLE "Service Unavailable";
    504 GATEWAY_TIMEOUT "Gateway Timeout";
    505 HTTP_VERSION_NOT_SUPPORTED "HTTP Version Not Supported";
    507 INSUFFICIENT_STORAGE "Insufficient Storage";
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.reason())
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_three_digits_and_a_reason() {
        for status in ALL {
            assert!((100..600).contains(&status.code()), "{status}");
            assert!(!status.reason().is_empty(), "{status}");
        }
    }

    #[test]
    fn the_list_is_sorted_and_free_of_duplicates() {
        assert!(ALL.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn statuses_without_content() {
        let bodiless: Vec<u16> = ALL
            .iter()
            .filter(|s| s.is_bodiless())
            .map(|s| s.code())
            .collect();
        assert_eq!(bodiless, [100, 101, 103, 204, 304]);
        assert!(Status::BAD_REQUEST.is_error() && !Status::NOT_MODIFIED.is_error());
    }
}
