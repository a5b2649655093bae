//! What may answer a request for a directory besides its index file and its listing.

use super::response::{RequestContext, Response};
use crate::services::Services;
use crate::site::Site;
use laio_http::Output;
use std::pin::Pin;

/// A feature that answers some requests for directories.
pub trait DirectoryAnswer {
    /// Whether a request asks for this, if its name names a directory.
    fn is_asked(&self, ctx: RequestContext<'_>) -> bool;

    /// Answers a request that asks for this. Returns `None` if the name names no directory.
    fn answer<'a>(
        &'a self,
        services: &'a Services,
        ctx: RequestContext<'a>,
        out: &'a mut Output,
        name: &'a [u8],
    ) -> DirectoryAnswered<'a>;

    /// Returns the HTML of the link that leads here from the listings of a site.
    fn link(&self, site: &Site) -> Option<&'static str>;
}

/// What [`DirectoryAnswer::answer`] returns.
pub type DirectoryAnswered<'a> = Pin<Box<dyn Future<Output = Option<Response>> + 'a>>;

/// Returns the feature that a request asks for.
pub(crate) fn asked(ctx: RequestContext<'_>) -> Option<&dyn DirectoryAnswer> {
    let mut all = ctx.directory_answers.iter();
    all.find(|one| one.is_asked(ctx)).map(|one| &**one)
}
