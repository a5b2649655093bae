//! Asking auth servers whether a request is let in.

use super::auth_servers::AuthAnswer;
use super::auth_state::AuthState;
use super::pages;
use super::response::{RequestContext, Response};
use crate::services::Services;
use crate::site::auth::Resource;
use crate::site::auth_request::AuthRule;
use laio_http::{Method, Output, Status, ascii_query, prefers};
use laio_serve_base::messages::print;
use laio_serve_base::observe::{self, AuthResult};
use laio_serve_base::trace;

/// Returns the response if an auth server does not let a request for a resource in, else none. A server that has let
/// the request in is not asked again.
pub(crate) async fn ask_auth_servers(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    resource: Resource<'_>,
) -> Option<Response> {
    let rules = ctx.site.auth_requests.as_ref()?;
    let Some(state) = ctx.auth else {
        // Not reached: each request of such a site has a state.
        return Some(pages::error(services, ctx, out, FAILED, UNAVAILABLE).await);
    };
    if let Some(glob) = rules.opens(resource) {
        trace::note("access", || {
            let path = resource.shown();
            format!("{path}: --auth-request {glob}=off lets everyone in")
        });
    }
    for (number, rule) in rules.of(resource) {
        if state.is_let_in_by(number) {
            continue;
        }
        if trace::is_on() {
            trace::note("access", || {
                let (path, rule) = (resource.shown(), rule.described());
                format!("{path}: {rule}; explained as if it let the request in")
            });
            state.let_in(number, std::iter::empty());
            continue;
        }
        match decision(services, ctx, state, number, rule).await {
            Decision::LetIn => {}
            Decision::Refused(answer) => return Some(refuse(ctx, out, state, &*answer)),
            Decision::Failed => {
                return Some(pages::error(services, ctx, out, FAILED, UNAVAILABLE).await);
            }
        }
    }
    None
}

/// Asks the auth servers of all rules about a request, for what may concern every file. The state has the rules that
/// let it in.
pub async fn ask_about_all(services: &Services, ctx: RequestContext<'_>) {
    let (Some(rules), Some(state)) = (&ctx.site.auth_requests, ctx.auth) else {
        return;
    };
    for (number, rule) in rules.of(Resource::Every) {
        if !state.is_let_in_by(number) && !trace::is_on() {
            decision(services, ctx, state, number, rule).await;
        }
    }
}

/// What an auth server has decided.
enum Decision {
    LetIn,
    /// The client gets the answer.
    Refused(Box<dyn AuthAnswer>),
    /// There is no usable answer.
    Failed,
}

/// The status of the response if an auth server fails.
const FAILED: Status = Status::SERVICE_UNAVAILABLE;
const UNAVAILABLE: &str = "The server cannot check at the moment who may read this; try again.";

async fn decision(
    services: &Services,
    ctx: RequestContext<'_>,
    state: &AuthState<'_>,
    number: usize,
    rule: &AuthRule,
) -> Decision {
    let route = &ctx.site.auth_routes[number];
    let why = match state.servers.ask(services, ctx, state, route, rule).await {
        Ok(answer) => match answer.status().code() {
            200..300 => {
                observe::asked_auth_server(AuthResult::LetIn);
                state.let_in(number, fields_of(&*answer));
                return Decision::LetIn;
            }
            // The request has no conditions, so 304 answers another question.
            code @ 300..500 if code != Status::NOT_MODIFIED.code() => {
                observe::asked_auth_server(AuthResult::Refused);
                return Decision::Refused(answer);
            }
            code => format!("the answer is {code}"),
        },
        Err(error) if error.client_gone => return Decision::Failed,
        Err(error) => error.why,
    };
    observe::asked_auth_server(AuthResult::Failed);
    let path = ctx.as_sent().path.as_ref().map_or("", |path| path.as_str());
    print(format_args!(
        "{}, about {}: {why}; the request is not let in",
        rule.described(),
        path.escape_debug(),
    ));
    Decision::Failed
}

/// Answers a request that was not let in: with the answer of the auth server, or with a redirect to the page where
/// users log in.
fn refuse(
    ctx: RequestContext<'_>,
    out: &mut Output,
    state: &AuthState<'_>,
    answer: &dyn AuthAnswer,
) -> Response {
    let request = ctx.as_sent();
    let reads = matches!(request.method, Method::Get | Method::Head);
    if answer.status() == Status::UNAUTHORIZED
        && reads
        && prefers(&request.headers, "text/html", "*/*")
        && let Some(path) = request.path.as_ref().ok()
    {
        let query = request
            .query
            .map(|query| format!("?{}", ascii_query(query)));
        let uri = format!("{}{}", path.as_str(), query.unwrap_or_default());
        let scheme = if ctx.secure { "https" } else { "http" };
        let origin = format!("{scheme}://{}", request.host.unwrap_or_default());
        if let Some(login) = state.rules.login(&origin, &uri) {
            let cookies = fields_of(answer)
                .filter(|(name, _)| name.eq_ignore_ascii_case(b"Set-Cookie"))
                .map(|(_, value)| value);
            return pages::login(ctx, out, login.as_bytes(), cookies);
        }
    }
    answer.write(ctx, out)
}

fn fields_of(answer: &dyn AuthAnswer) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    let fields = answer.fields().iter();
    fields.map(|(name, value)| (&**name, &**value))
}
