//! The response to the most common request: a whole cached file, without conditions or
//! authentication. The result is that of [`answer`](crate::request::answer::answer), without a step
//! that could block.

use super::directory_answer::asked;
use super::response::{RequestContext, Response};
use crate::files::resolve::{enter, resolve};
use crate::services::Services;
use laio_http::{Method, Output};
use laio_serve_base::observe::{self, Stage};

/// Writes the head, and the body if it is short, to `out`. Returns none, with `out` unchanged, if the
/// request needs [`answer`](crate::request::answer::answer); `name` may have changed.
pub fn answer_from_cache(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    name: &mut Vec<u8>,
) -> Option<Response> {
    let (request, site) = (ctx.request, ctx.site);
    let cache = services.cache.as_ref()?;
    let simple = matches!(request.method, Method::Get | Method::Head)
        && site.fast_path.by_cached_file
        && asked(ctx).is_none()
        && !ctx.has_conditions();
    if !simple {
        return None;
    }
    let begun = observe::begin();
    let resolved = resolve(site, request.path.as_ref().ok()?, name).ok()?;
    let moved = ctx.moved(name, resolved.directory);
    if moved.is_some() {
        return None;
    }
    if resolved.directory {
        enter(name, site.index.first()?.as_bytes());
    }
    if let Some(application) = &site.application
        && !application.allows_cached(name)
    {
        return None;
    }
    let opened = cache.get(site.number, name)?;
    let response = ctx.with_cached_file(out, &opened)?;
    cache.count_hit();
    observe::end(Stage::Resolve, begun);
    Some(response)
}
