//! The reasons why a change is refused or fails.

use crate::request::body::BodyError;
use crate::resource_exhaustion::is_resource_exhaustion;
use crate::site::quota::QuotaError;
use laio_http::{Rejection, Status};
use rustix::io::Errno;
use std::borrow::Cow;
use std::io;

/// The status and the text of a refusal.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) status: Status,
    pub(super) detail: Cow<'static, str>,
    /// The element that tells programs what was not fulfilled (RFC 4918, section 16).
    pub(super) precondition: Option<&'static str>,
}

impl Problem {
    pub(super) const NO_MEMORY: Problem = Problem::new(
        Status::SERVICE_UNAVAILABLE,
        "The server has no memory left for this response; try again.",
    );
    pub(super) const NO_FILE: Problem = Problem::new(
        Status::FORBIDDEN,
        "The root of the site cannot be replaced, moved or deleted.",
    );
    pub(super) const HIDDEN: Problem = Problem::new(
        Status::FORBIDDEN,
        "The server does not serve names that begin with a dot.",
    );
    pub(super) const IS_DIRECTORY: Problem = Problem::new(
        Status::METHOD_NOT_ALLOWED,
        "This is the name of a directory; a file needs another name.",
    );
    pub(super) const NOT_A_FILE: Problem = Problem::new(
        Status::FORBIDDEN,
        "This is a symbolic link or a device, which the server does not replace.",
    );
    pub(super) const NO_PARENT: Problem = Problem::new(
        Status::CONFLICT,
        "The directory of this name does not exist; make it first (MKCOL).",
    );
    pub(super) const NOT_FOUND: Problem =
        Problem::new(Status::NOT_FOUND, "There is nothing under this name.");
    pub(super) const EXISTS: Problem = Problem::new(
        Status::METHOD_NOT_ALLOWED,
        "There is something under this name already.",
    );
    pub(super) const NOT_EMPTY: Problem = Problem::new(
        Status::CONFLICT,
        "The directory is not empty; delete what is in it first.",
    );
    pub(super) const CONDITIONS: Problem = Problem::new(
        Status::PRECONDITION_FAILED,
        "The file does not match the conditions of the request.",
    );
    pub(super) const RANGE: Problem = Problem::new(
        Status::BAD_REQUEST,
        "The server stores whole files only, not a Content-Range.",
    );
    pub(super) const CODING: Problem = Problem::new(
        Status::UNSUPPORTED_MEDIA_TYPE,
        "The server stores the bytes of a file as they are; send it without Content-Encoding.",
    );
    pub(super) const BODY_WITHOUT_MEANING: Problem = Problem::new(
        Status::UNSUPPORTED_MEDIA_TYPE,
        "A request with this method has no body.",
    );
    pub(super) const TOO_LARGE: Problem = Problem::new(
        Status::CONTENT_TOO_LARGE,
        "The file is larger than the server stores.",
    );
    pub(super) const NO_SPACE: Problem = Problem::new(
        Status::INSUFFICIENT_STORAGE,
        "There is not enough free space for this file.",
    );
    pub(super) const TOO_MANY_CHANGES: Problem = Problem::new(
        Status::SERVICE_UNAVAILABLE,
        "The server is storing too many files at the moment; try again.",
    );

    pub(super) const LOCKED: Problem = Problem {
        status: Status::LOCKED,
        detail: Cow::Borrowed("Another client has locked this, or what is in it."),
        precondition: Some("lock-token-submitted"),
    };
    pub(super) const INFINITE_DEPTH: Problem = Problem {
        status: Status::FORBIDDEN,
        detail: Cow::Borrowed("The server lists one directory at a time: ask with Depth 0 or 1."),
        precondition: Some("propfind-finite-depth"),
    };
    pub(super) const DEPTH: Problem = Problem::new(
        Status::BAD_REQUEST,
        "The method does not have this value of Depth.",
    );
    pub(super) const OTHER_SERVER: Problem =
        Problem::new(Status::BAD_GATEWAY, "The destination is on another server.");
    pub(super) const NO_DESTINATION: Problem = Problem::new(
        Status::BAD_REQUEST,
        "The Destination field is missing or malformed.",
    );

    pub(super) const fn new(status: Status, detail: &'static str) -> Problem {
        Problem {
            status,
            detail: Cow::Borrowed(detail),
            precondition: None,
        }
    }

    /// Returns the problem of a path.
    pub(super) fn from_rejection(rejection: Rejection) -> Problem {
        Problem::new(rejection.status(), rejection.detail())
    }
}

impl From<QuotaError> for Problem {
    fn from(error: QuotaError) -> Problem {
        match error {
            QuotaError::Exceeded => Problem {
                status: Status::INSUFFICIENT_STORAGE,
                detail: Cow::Borrowed(
                    "The directory has reached the limit on its bytes or on its number of files; delete files first.",
                ),
                precondition: Some("quota-not-exceeded"),
            },
            QuotaError::Counting => Problem::new(
                Status::SERVICE_UNAVAILABLE,
                "The server is still counting the files of the directory, which has a limit; try again.",
            ),
        }
    }
}

impl From<BodyError> for Problem {
    fn from(error: BodyError) -> Problem {
        match error {
            BodyError::ClientGone => Problem::new(
                Status::BAD_REQUEST,
                "The connection ended before the request.",
            ),
            BodyError::SlowClient => Problem::new(
                Status::REQUEST_TIMEOUT,
                "The request body arrived too slowly.",
            ),
            BodyError::Bad(Rejection::BodyTooLarge) => Problem::TOO_LARGE,
            BodyError::Bad(rejection) => Problem::from_rejection(rejection),
        }
    }
}

/// What a failed operation on a file means.
impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        if error.kind() == io::ErrorKind::TimedOut {
            return Problem::new(
                Status::SERVICE_UNAVAILABLE,
                "The disk takes too long, and the change may still happen; look, and try again.",
            );
        }
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOSPC | Errno::DQUOT) => Problem::NO_SPACE,
            Some(Errno::FBIG) => Problem::TOO_LARGE,
            Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => Problem::NOT_FOUND,
            Some(Errno::ISDIR) => Problem::IS_DIRECTORY,
            Some(Errno::EXIST) => Problem::EXISTS,
            Some(Errno::NOTEMPTY) => Problem::NOT_EMPTY,
            Some(Errno::NAMETOOLONG) => Problem::new(
                Status::URI_TOO_LONG,
                "The name is longer than the file system allows.",
            ),
            Some(Errno::INVAL | Errno::ILSEQ) => Problem::new(
                Status::BAD_REQUEST,
                "The file system does not allow this name.",
            ),
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::BUSY | Errno::TXTBSY) => {
                Problem::new(
                    Status::FORBIDDEN,
                    "The server may not change this in the file system.",
                )
            }
            _ if is_resource_exhaustion(&error) => Problem::new(
                Status::SERVICE_UNAVAILABLE,
                "The server has reached a limit; try again.",
            ),
            _ => Problem {
                status: Status::INTERNAL_SERVER_ERROR,
                detail: format!("The change failed: {error}.").into(),
                precondition: None,
            },
        }
    }
}

/// Returns what an error means at a step on something of the server's own, such as a file that has no name yet:
/// nothing about the name of the request. Errors about space, rights and limits keep their meaning.
pub(super) fn of_own(error: io::Error) -> io::Error {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::LOOP
            | Errno::XDEV
            | Errno::EXIST
            | Errno::NOTEMPTY
            | Errno::NAMETOOLONG
            | Errno::INVAL
            | Errno::ILSEQ,
        ) => io::Error::other(error),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_disk() {
        let status = |errno: Errno| Problem::from(io::Error::from(errno)).status.code();
        for (errno, expected) in [
            (Errno::NOSPC, 507),
            (Errno::DQUOT, 507),
            (Errno::FBIG, 413),
            (Errno::ROFS, 403),
            (Errno::NAMETOOLONG, 414),
            (Errno::MFILE, 503),
            (Errno::IO, 500),
        ] {
            assert_eq!(status(errno), expected, "{errno}");
            let own = of_own(errno.into());
            let kept = [500, 503, 507, 403, 413].contains(&expected);
            let expected = if kept { expected } else { 500 };
            assert_eq!(Problem::from(own).status.code(), expected, "{errno}");
        }
    }
}
