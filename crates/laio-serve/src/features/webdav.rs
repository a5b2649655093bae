//! WebDAV: mounting the files of a site.

use super::feature::{Feature, any_site};

pub(super) const FEATURE: Feature = Feature {
    name: "webdav",
    is_compiled: cfg!(feature = "webdav"),
    option: "--webdav",
    is_used: |options| any_site(options, |site| site.uploads.webdav),
    #[cfg(feature = "webdav")]
    changes: || Some(laio_serve_uploads::webdav::extension()),
    ..Feature::WITHOUT_PARTS
};
