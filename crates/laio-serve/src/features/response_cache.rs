//! Storing responses of upstreams.

use super::feature::Feature;

pub(super) const FEATURE: Feature = Feature {
    name: "response-cache",
    is_compiled: cfg!(feature = "response-cache"),
    option: "--proxy-cache",
    is_used: |options| options.limits.upstream.cache_bytes > 0,
    ..Feature::WITHOUT_PARTS
};
