//! The reasons why a request of WebDAV is refused, beside the reasons of all changes.

use crate::uploads::problem::Problem;
use laio_http::Status;
use std::borrow::Cow;

impl Problem {
    pub(in crate::uploads) const NO_MEMORY: Problem = Problem::new(
        Status::SERVICE_UNAVAILABLE,
        "The server has no memory left for this response; try again.",
    );
    pub(in crate::uploads) const LOCKED: Problem = Problem {
        status: Status::LOCKED,
        detail: Cow::Borrowed("Another client has locked this, or what is in it."),
        precondition: Some("lock-token-submitted"),
    };
    pub(in crate::uploads) const INFINITE_DEPTH: Problem = Problem {
        status: Status::FORBIDDEN,
        detail: Cow::Borrowed("The server lists one directory at a time: ask with Depth 0 or 1."),
        precondition: Some("propfind-finite-depth"),
    };
    pub(in crate::uploads) const DEPTH: Problem = Problem::new(
        Status::BAD_REQUEST,
        "The method does not have this value of Depth.",
    );
    pub(in crate::uploads) const OTHER_SERVER: Problem =
        Problem::new(Status::BAD_GATEWAY, "The destination is on another server.");
    pub(in crate::uploads) const NO_DESTINATION: Problem = Problem::new(
        Status::BAD_REQUEST,
        "The Destination field is missing or malformed.",
    );
}
