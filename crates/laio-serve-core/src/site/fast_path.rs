//! Which rules of a site keep requests from the fast path, on which the cache of files alone decides a response, and
//! which stages of a request the site needs.

use super::Rules;
use super::network_access::NetworkAccess;

/// What decides about a site's responses besides its cached files.
#[derive(Clone, Copy, Debug)]
pub struct FastPath {
    /// Once a request is admitted, its cached file alone decides the response.
    pub(crate) by_cached_file: bool,
    /// Every request is admitted as it arrived: no rule looks at its client or rewrites it.
    pub admits_all: bool,
    /// A rule may keep a client from a path: a network, a password or an auth server.
    pub has_guards: bool,
    /// The site sends interim responses, in protocols that have them.
    pub has_interim_responses: bool,
}

impl FastPath {
    /// The pattern names every field, so that a new rule does not compile before it is stated here whether it
    /// excludes the fast path.
    pub(super) fn from_rules(rules: &Rules) -> FastPath {
        let Rules {
            users,
            auth_requests,
            network_access,
            rate_limits,
            speeds,
            rewrites,
            precompressed,
            compress,
            early_hints,
            // The search for the cached file, or the head of its response, follows these.
            names: _,
            serves_dotfiles: _,
            resolve: _,
            index: _,
            listing: _,
            error_pages: _,
            redirects: _,
            fields: _,
            response_rules: _,
            cors: _,
            hsts: _,
            fallback: _,
            directory: _,
            identity: _,
            aliases: _,
            // Only some paths, queries or methods depend on these, which each request is compared with.
            application: _,
            groups: _,
            php: _,
            uploads: _,
            description: _,
            // Only requests to upstreams and their responses follow these.
            request_rules: _,
            compresses_upstreams: _,
            sendfile: _,
        } = rules;
        let by_place = network_access
            .as_ref()
            .is_some_and(NetworkAccess::has_places);
        FastPath {
            by_cached_file: users.is_none()
                && auth_requests.is_none()
                && !by_place
                && precompressed.is_empty()
                && compress.is_empty(),
            admits_all: network_access.is_none()
                && rate_limits.is_none()
                && speeds.is_empty()
                && rewrites.is_none(),
            has_guards: network_access.is_some() || users.is_some() || auth_requests.is_some(),
            has_interim_responses: early_hints.is_some(),
        }
    }
}
