//! How auth servers are asked: `proxy` does it, which stands above this module.

use super::auth_state::AuthState;
use super::response::{RequestContext, Response};
use crate::services::Services;
use crate::site::auth_request::AuthRule;
use laio_http::log::AddedField;
use laio_http::{Output, Status};
use laio_serve_upstream::error::UpstreamError;
use laio_serve_upstream::route::Route;
use std::pin::Pin;

/// Asks auth servers.
pub trait AuthServers {
    /// Asks one of the auth servers of a rule about a request, and receives the answer.
    ///
    /// # Errors
    /// When there is no complete answer within the limits of time and bytes, or the client leaves.
    fn ask<'a>(
        &'a self,
        services: &'a Services,
        ctx: RequestContext<'a>,
        state: &'a AuthState<'a>,
        route: &'a Route,
        rule: &'a AuthRule,
    ) -> Asking<'a>;
}

/// A question to an auth server.
pub type Asking<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn AuthAnswer>, UpstreamError>> + 'a>>;

/// A complete answer of an auth server.
pub trait AuthAnswer {
    /// Returns the status.
    fn status(&self) -> Status;

    /// Returns the fields, without those of the connection.
    fn fields(&self) -> &[AddedField];

    /// Writes the answer as the response to the client's request. A cache may keep it only if it says so.
    fn write(&self, ctx: RequestContext<'_>, out: &mut Output) -> Response;
}
