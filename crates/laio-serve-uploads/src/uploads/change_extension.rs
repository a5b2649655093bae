//! What a feature may add to the changes of files: methods of its own, and conditions on the other methods.

use super::disk::Disk;
use super::problem::Problem;
use super::target::Target;
use super::{Change, Done};
use laio_http::Output;
use laio_serve_core::request::body::ClientBody;
use laio_serve_core::request::response::{RequestContext, Response};
use laio_serve_core::site::Site;
use laio_serve_core::site::upload_rules::UploadRules;
use std::pin::Pin;
use std::sync::Arc;

/// A feature that takes part in the changes of files. All workers share it.
#[derive(Clone)]
pub struct ChangeExtension(pub(super) Arc<dyn ExtendsChanges>);

/// The steps of a change in which such a feature takes part.
pub(super) trait ExtendsChanges: Send + Sync {
    /// Whether a site has the feature.
    fn is_of(&self, site: &Site) -> bool;

    /// Returns the change that a method of the feature asks for. `uploads`: whether the site allows changes.
    fn change(&self, method: &str, uploads: bool) -> Option<Change>;

    /// Makes a change if only the feature knows it, or else checks whether it may be made.
    fn make<'a>(
        &'a self,
        disk: Disk<'a>,
        ctx: RequestContext<'a>,
        change: Change,
        name: &'a [u8],
        body: &'a mut ClientBody<'_>,
    ) -> Changing<'a, Made>;

    /// Checks again whether a change may be made, once the body has arrived. Also for sites without
    /// the feature, which may have the same files as a site with it.
    fn check<'a>(
        &'a self,
        disk: Disk<'a>,
        ctx: RequestContext<'a>,
        change: Change,
        name: &'a [u8],
        submitted: &'a Submitted,
    ) -> Changing<'a, ()>;

    /// Removes a directory with all that is in it. Returns the response if not all of it could be removed.
    fn remove_tree<'a>(
        &'a self,
        disk: Disk<'a>,
        target: &'a Target,
        rules: &'a UploadRules,
    ) -> Changing<'a, Option<Done>>;

    /// Forgets what it knows of a name that is deleted. `root`: the device and the inode of the site's root.
    fn forget(&self, root: (u64, u64), name: &[u8]);

    /// Answers a change that was refused with what programs understand.
    fn refuse(
        &self,
        ctx: RequestContext<'_>,
        out: &mut Output,
        name: &[u8],
        problem: &Problem,
        precondition: &str,
    ) -> Response;
}

/// A step of a change.
pub(super) type Changing<'a, T> = Pin<Box<dyn Future<Output = Result<T, Problem>> + 'a>>;

/// What the feature has done with a change.
pub(super) enum Made {
    /// All of it.
    Done(Done),
    /// Nothing forbids the change, which is not one of the feature only.
    Admitted(Submitted),
}

/// The tokens that a request submits, and its user.
#[derive(Clone, Debug, Default)]
pub(super) struct Submitted {
    pub(super) tokens: Vec<String>,
    pub(super) user: Option<Vec<u8>>,
}
