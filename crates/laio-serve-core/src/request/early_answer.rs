//! Answers that are decided before the site or an upstream looks at the path.

use super::pages;
use super::redirect_to_https::{RedirectToHttps, ToHttps};
use super::response::{RequestContext, Response};
use crate::services::Services;
use laio_http::Output;
use laio_serve_base::observe;
use laio_serve_base::trace;
use std::time::{Duration, Instant};

/// An answer that needs no file and no upstream.
pub enum EarlyAnswer {
    /// For an authority that checks a name.
    Challenge(String),
    /// The site does not let the client in.
    Forbidden,
    /// The client has used up a limit, and may retry after this time.
    TooManyRequests(Duration),
    ToHttps(ToHttps),
}

impl EarlyAnswer {
    /// Returns the early answer to a request, if it gets one. Takes a token of each limit that fits.
    pub fn to(
        ctx: RequestContext<'_>,
        to_https: Option<&RedirectToHttps>,
        now: Instant,
    ) -> Option<EarlyAnswer> {
        // ACME validation comes from addresses that are not announced, and has no limit of its rate.
        if let Some(answer) = to_https.and_then(|it| it.challenge(ctx.as_sent())) {
            return Some(EarlyAnswer::Challenge(answer));
        }
        let site = ctx.site;
        if let Some(access) = &site.network_access {
            let admitted = access.admits(ctx.client);
            trace::note("access", || {
                let verb = if admitted { "let" } else { "do not let" };
                format!("--allow and --deny {verb} {} in", ctx.client.name)
            });
            if !admitted {
                observe::refused_by_network();
                return Some(EarlyAnswer::Forbidden);
            }
        }
        if let Some(limits) = &site.rate_limits
            && let Err(left) = limits.take(ctx.request, ctx.before_rewrite, ctx.client, now)
        {
            observe::refused_by_rate();
            return Some(EarlyAnswer::TooManyRequests(left));
        }
        let to_https = to_https.filter(|_| !ctx.secure);
        Some(EarlyAnswer::ToHttps(to_https?.answer(ctx)?))
    }

    /// Writes the response.
    pub async fn write(
        self,
        services: &Services,
        ctx: RequestContext<'_>,
        out: &mut Output,
    ) -> Response {
        match self {
            EarlyAnswer::Challenge(answer) => pages::challenge(ctx, out, &answer),
            EarlyAnswer::Forbidden => pages::forbidden(services, ctx, out).await,
            EarlyAnswer::TooManyRequests(left) => {
                pages::too_many_requests(services, ctx, out, left).await
            }
            EarlyAnswer::ToHttps(to_https) => to_https.write(ctx, out),
        }
    }
}
