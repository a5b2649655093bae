//! Files that an upstream names, for the server to send (`X-Sendfile`).

use super::upstream_head::{NamedFile, UpstreamHead};
use laio::ops::{Name, Unlink};
use laio_http::{Output, Status};
use laio_rt::Descriptor;
use laio_serve_base::messages::print;
use laio_serve_core::files::contents::FileKind;
use laio_serve_core::files::uncached::open_below;
use laio_serve_core::request::file_response;
use laio_serve_core::request::open::open;
use laio_serve_core::request::pages;
use laio_serve_core::request::response::{Body, RequestContext, Response};
use laio_serve_core::request::variant::Variant;
use laio_serve_core::services::Services;
use laio_serve_core::site::{SendfileRoot, Site};
use laio_serve_net::io_contexts::IoContexts;
use rustix::fs::OFlags;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const UNAVAILABLE: &str = "The upstream server named a file that cannot be sent.";

/// Returns the root that contains a path, and the name below it.
fn below<'a, 'p>(roots: &'a [SendfileRoot], path: &'p [u8]) -> Option<(&'a Site, &'p [u8])> {
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let named = roots.iter().flat_map(|root| {
        let rest = root
            .paths
            .iter()
            .filter_map(|own| path.strip_prefix(own).ok());
        rest.map(move |rest| (&root.site, rest.as_os_str().as_bytes()))
    });
    // Of nested roots, the inner one.
    named
        .filter(|(_, name)| !name.is_empty())
        .min_by_key(|(_, name)| name.len())
}

/// Sends the file that an upstream has named, with ranges and conditions as for any other file.
pub(super) async fn send_named(
    services: &Services,
    ctx: RequestContext<'_>,
    out: &mut Output,
    upstream: &str,
    upstream_head: &UpstreamHead,
    file: &NamedFile,
) -> Response {
    let path = String::from_utf8_lossy(&file.path);
    let Some((site, name)) = below(&ctx.site.sendfile, &file.path) else {
        print(format_args!(
            "{upstream} named {path:?}, which is not below a --sendfile-root"
        ));
        return pages::error(services, ctx, out, Status::BAD_GATEWAY, UNAVAILABLE).await;
    };
    let opened = match open(services, site, name).await {
        Ok(FileKind::File(opened)) => opened,
        found => {
            let why = match found {
                Ok(_) => "not a regular file".to_owned(),
                Err(error) => error.to_string(),
            };
            print(format_args!(
                "cannot send {path:?}, named by {upstream}: {why}"
            ));
            return pages::error(services, ctx, out, Status::NOT_FOUND, UNAVAILABLE).await;
        }
    };
    if file.temporary
        && let Err(error) = remove(&services.contexts, site, name).await
    {
        print(format_args!(
            "cannot remove {path:?}, named by {upstream}: {error}"
        ));
    }
    let ctx = RequestContext { site, ..ctx };
    let response =
        file_response::answer_with_file(services, ctx, out, name, Variant::Plain(opened)).await;
    if !response.status.is_error() {
        upstream_head.amend(out, !matches!(response.body, Body::Parts(..)));
    }
    response
}

/// Removes an opened file before it is sent, so that it is removed even if sending fails.
async fn remove(contexts: &IoContexts, site: &Site, name: &[u8]) -> io::Result<()> {
    let (directory, file) = match name.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&name[..slash], &name[slash + 1..]),
        None => (&b"."[..], name),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // unlinkat cannot enforce that the name stays below the root, so open the directory first.
    let directory = open_below(contexts, site, directory, flags, site.resolve).await?;
    let name = Name::at(Descriptor::from(directory), CString::new(file)?);
    laio_rt::submit(Unlink::new(name)).await
}
