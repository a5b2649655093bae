//! What stands in for WebDAV in a server without the feature `webdav`, whose sites cannot have it.

use super::disk::Disk;
use super::problem::Problem;
use super::target::Target;
use super::{Change, Done};
use laio_serve_core::request::body::ClientBody;
use laio_serve_core::request::response::{RequestContext, Response};
use laio_serve_core::site::upload_rules::UploadRules;

/// What a client knows of locks, of which there are none.
pub(super) struct Submitted;

pub(super) enum Made {
    #[allow(dead_code)]
    Done(Done),
    Admitted(Submitted),
}

pub(super) fn change(_: &str, _: bool) -> Option<Change> {
    None
}

pub(super) async fn make(
    _: Disk<'_>,
    _: RequestContext<'_>,
    _: Change,
    _: &[u8],
    _: &mut ClientBody<'_>,
) -> Result<Made, Problem> {
    Ok(Made::Admitted(Submitted))
}

pub(super) async fn check_locks(
    _: Disk<'_>,
    _: RequestContext<'_>,
    _: Change,
    _: &[u8],
    _: &Submitted,
) -> Result<(), Problem> {
    Ok(())
}

pub(super) async fn remove_tree(
    _: Disk<'_>,
    _: &Target,
    _: &UploadRules,
) -> Result<Option<Done>, Problem> {
    unreachable!("only a site with WebDAV removes trees")
}

pub(super) fn refuse(
    _: RequestContext<'_>,
    _: &mut laio_http::Output,
    _: &[u8],
    _: &Problem,
    _: &str,
) -> Response {
    unreachable!("only a site with WebDAV refuses with a document")
}

pub(super) mod locks {
    #[derive(Default)]
    pub(crate) struct Locks;

    impl Locks {
        pub(in crate::uploads) fn forget(&self, _: (u64, u64), _: &[u8]) {}
    }
}
