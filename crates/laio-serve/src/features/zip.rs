//! Directories as zip files.

use super::feature::{Feature, any_site};
use laio_serve_base::options::Options;

pub(super) const FEATURE: Feature = Feature {
    name: "zip",
    is_compiled: cfg!(feature = "zip"),
    option: "--zip",
    is_used,
    #[cfg(feature = "zip")]
    directories: |options| {
        use laio_serve_core::request::archive::Archives;
        is_used(options).then(|| Box::new(Archives::new(&options.limits)) as _)
    },
    ..Feature::WITHOUT_PARTS
};

fn is_used(options: &Options) -> bool {
    any_site(options, |site| site.archives.zip.is_some())
}
