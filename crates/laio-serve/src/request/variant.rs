//! Chooses the form of a file for a client: plain, a precompressed file, or compressed while it is
//! sent.

use crate::files::contents::Opened;
use crate::options::Limits;
use crate::request::open::open_file;
use crate::request::response::RequestContext;
use crate::services::Services;
use crate::trace;
use laio_http::{Coding, ContentType, Method, Version};
use laio_rt::sync::Permit;

/// The chosen form of a file.
pub(crate) enum Variant {
    Plain(Opened),
    /// A precompressed file.
    Precompressed(Opened, Coding),
    /// Compressed while it is sent; the permit limits how many are.
    Compressing(Opened, Coding, Permit),
}

pub(crate) async fn choose_variant(
    services: &Services,
    ctx: RequestContext<'_>,
    name: &[u8],
    plain: Opened,
) -> Variant {
    if !ctx.site.precompressed.is_empty()
        && let Some((opened, coding)) = sidecar(services, ctx, name, &plain).await
    {
        return Variant::Precompressed(opened, coding);
    }
    let permitted = permit_to_compress(services, ctx, name, &plain);
    trace::note("form", || match &permitted {
        Some((coding, _)) => format!("compressed with {} while it is sent", coding.name()),
        None => why_plain(services, ctx, name, &plain),
    });
    match permitted {
        Some((coding, permit)) => Variant::Compressing(plain, coding, permit),
        None => Variant::Plain(plain),
    }
}

/// Opens the precompressed file that the client prefers. One older than the plain file is
/// ignored, because its contents may be outdated.
async fn sidecar(
    services: &Services,
    ctx: RequestContext<'_>,
    name: &[u8],
    plain: &Opened,
) -> Option<(Opened, Coding)> {
    let mut left = ctx.site.precompressed.clone();
    let mut sidecar_name = Vec::new();
    loop {
        let coding = Coding::negotiate(&ctx.request.headers, &left);
        if coding == Coding::Identity {
            return None;
        }
        left.retain(|&other| other != coding);
        sidecar_name.clear();
        sidecar_name.extend_from_slice(name);
        sidecar_name.extend_from_slice(coding.suffix().as_bytes());
        if let Some(opened) = open_file(services, ctx.site, &sidecar_name).await
            && is_current(&opened, plain, &sidecar_name)
        {
            return Some((opened, coding));
        }
    }
}

/// Whether a precompressed file is not older than the plain one.
fn is_current(opened: &Opened, plain: &Opened, name: &[u8]) -> bool {
    let current = age(opened) >= age(plain);
    trace::note("form", || {
        if current {
            format!(
                "{} is sent instead: the client accepts it",
                trace::shown(name)
            )
        } else {
            format!(
                "{} is older than the file itself, and ignored",
                trace::shown(name)
            )
        }
    });
    current
}

fn permit_to_compress(
    services: &Services,
    ctx: RequestContext<'_>,
    name: &[u8],
    plain: &Opened,
) -> Option<(Coding, Permit)> {
    let (request, size) = (ctx.request, plain.status.size());
    // Ranges refer to the plain file, and HTTP/1.0 needs a known length.
    let fits = !ctx.site.compress.is_empty()
        && request.version == Version::Http11
        && matches!(request.method, Method::Get | Method::Head)
        && request.headers.get("Range").is_none()
        && (Limits::COMPRESS_FROM..=services.limits.compress_bytes).contains(&size)
        && is_compressible(ContentType::of_path(name).essence);
    if !fits {
        return None;
    }
    let coding = Coding::negotiate(&request.headers, &ctx.site.compress);
    if coding == Coding::Identity {
        return None;
    }
    Some((coding, services.compressions.try_acquire()?))
}

/// Returns why a file is sent as it is.
fn why_plain(services: &Services, ctx: RequestContext<'_>, name: &[u8], plain: &Opened) -> String {
    let (request, size) = (ctx.request, plain.status.size());
    let why = if ctx.site.compress.is_empty() && ctx.site.precompressed.is_empty() {
        "neither --precompressed nor --compress is set"
    } else if request.headers.get("Accept-Encoding").is_none() {
        "the request has no Accept-Encoding"
    } else if ctx.site.compress.is_empty() {
        "there is no precompressed file that the client accepts, and --compress is not set"
    } else if request.headers.get("Range").is_some() {
        "ranges refer to the plain file"
    } else if size < Limits::COMPRESS_FROM {
        "the file is too short to be compressed"
    } else if size > services.limits.compress_bytes {
        "the file is longer than --max-compress-bytes"
    } else if !is_compressible(ContentType::of_path(name).essence) {
        "files of this type do not become shorter"
    } else {
        "the client accepts no coding of --compress"
    };
    format!("sent as it is: {why}")
}

fn age(opened: &Opened) -> (i64, u32) {
    let modified = opened.status.modified();
    (modified.seconds, modified.nanoseconds)
}

/// Whether a content type without parameters is text or compresses like text.
pub(crate) fn is_compressible(essence: &str) -> bool {
    essence.starts_with("text/")
        || essence.ends_with("+xml")
        || essence.ends_with("+json")
        || matches!(
            essence,
            "application/json"
                | "application/javascript"
                | "application/xml"
                | "application/wasm"
                | "application/x-sh"
                | "application/rtf"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_worth_compressing() {
        let worth = |name: &str| is_compressible(ContentType::of_path(name.as_bytes()).essence);
        for name in [
            "a.html", "a.css", "a.js", "a.svg", "a.json", "a.xml", "a.wasm", "a.txt",
        ] {
            assert!(worth(name), "{name}");
        }
        for name in ["a.png", "a.gz", "a.mp4", "a.woff2", "a", "a.zip"] {
            assert!(!worth(name), "{name}");
        }
    }
}
