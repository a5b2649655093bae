//! What a site has for a request path: a file, a directory, a script, or an upstream.

use super::open::{open, open_and_load};
use super::response::RequestContext;
use crate::files::contents::FileKind;
use crate::files::resolve::{Refusal, Resolved, enter, resolve};
use crate::files::uncached::is_regular_file;
use crate::services::Services;
use crate::site::application::{Application, expand, expand_query};
use laio_http::{Rejection, RequestPath, Status};
use laio_serve_base::options::Candidate;
use laio_serve_base::trace;
use laio_serve_net::resource_exhaustion;
use laio_serve_upstream::route::Route;
use std::io;

/// What was found.
pub enum Found {
    File(FileKind),
    /// The path is that of a directory, without the slash at its end.
    WithoutSlash,
    Script(Script),
    /// The upstream of the path.
    Upstream,
    Status(Status),
}

/// A script that answers a request.
pub struct Script {
    /// The name of its file below the root.
    pub name: Vec<u8>,
    /// `PATH_INFO`.
    pub info: Vec<u8>,
    /// The query, if it is not that of the request.
    pub query: Option<String>,
}

/// What the site itself has for a request.
pub struct LookedUp {
    found: io::Result<Found>,
    /// The name of the file.
    name: Vec<u8>,
}

/// Who answers a request of a site with an application.
pub enum Answerer {
    /// The site itself. Nothing was looked up for a path that names no file or is redirected.
    Site(Option<LookedUp>),
    Script(Script),
    Upstream,
}

impl Answerer {
    /// Returns the upstream that answers a request, with the script that it executes. Returns `None` if the
    /// site itself answers.
    pub fn upstream<'a>(
        &'a self,
        ctx: RequestContext<'a>,
    ) -> Option<((&'a Route, &'a RequestPath<'a>), Option<&'a Script>)> {
        match self {
            Answerer::Site(_) => None,
            Answerer::Upstream => Some((ctx.upstream()?, None)),
            Answerer::Script(script) => {
                let path = ctx.request.path.as_ref().ok()?;
                Some(((ctx.site.php.as_ref()?, path), Some(script)))
            }
        }
    }
}

/// Decides who answers a request.
pub async fn answerer(
    services: &Services,
    ctx: RequestContext<'_>,
    application: &Application,
) -> Answerer {
    let Ok(path) = &ctx.request.path else {
        return Answerer::Site(None);
    };
    if path.is_whole_server() {
        return Answerer::Site(None);
    }
    let mut name = Vec::new();
    let (asked, directory) = match resolve(ctx.site, path, &mut name) {
        Ok(Resolved { directory }) => (Some(name.clone()), directory),
        // No file answers, but a program may.
        Err(Refusal::NotFound | Refusal::Rejected(Rejection::PathEncodedSlash)) => (None, false),
        Err(Refusal::Rejected(_)) => return Answerer::Site(None),
    };
    if let Some(asked) = &asked
        && ctx.moved(asked, directory).is_some()
    {
        return Answerer::Site(None);
    }
    let path_may_name_a_file = asked.is_some();
    let asked = (asked.as_deref(), directory);
    match first_candidate(services, ctx, application, path, asked, &mut name).await {
        Ok(Found::Script(script)) => Answerer::Script(script),
        Ok(Found::Upstream) => Answerer::Upstream,
        found => Answerer::Site(path_may_name_a_file.then_some(LookedUp { found, name })),
    }
}

/// Opens what a name means, or returns what was looked up before; `name` is then that of the file. If
/// the request path ends in a slash, this is the first existing index file, or else the directory
/// itself if it may be listed.
pub async fn lookup(
    services: &Services,
    ctx: RequestContext<'_>,
    name: &mut Vec<u8>,
    resolved: Resolved,
    looked_up: Option<LookedUp>,
) -> io::Result<Found> {
    if let Some(looked_up) = looked_up {
        *name = looked_up.name;
        return looked_up.found;
    }
    if ctx.site.application.is_some() {
        // Only the candidates know which files are scripts, and `answerer` has gone through them.
        return Err(not_found());
    }
    if !resolved.directory {
        let kind = open_and_load(services, ctx.site, name, ctx.sent_at_once(services)).await?;
        return Ok(match kind {
            FileKind::Directory(_) => Found::WithoutSlash,
            kind => Found::File(kind),
        });
    }
    match index(services, ctx, None, name).await? {
        Some(found) => Ok(found),
        None => Err(not_found()),
    }
}

/// The candidate for a directory whose slash is missing.
const WITH_SLASH: &str = "{path}/";

/// Finds the first candidate that exists. `asked` is the name of the request path, if it may name a
/// file, and whether the path ends in a slash.
async fn first_candidate(
    services: &Services,
    ctx: RequestContext<'_>,
    application: &Application,
    path: &RequestPath<'_>,
    (asked, directory): (Option<&[u8]>, bool),
    name: &mut Vec<u8>,
) -> io::Result<Found> {
    for candidate in &application.candidates {
        trace::note("try", || match candidate {
            Candidate::File {
                path,
                query: Some(query),
            } => format!("the candidate {path}?{query}"),
            Candidate::File { path, query: None } => format!("the candidate {path}"),
            Candidate::Upstream => "the candidate @upstream".to_owned(),
            Candidate::Status(status) => format!("the candidate ={}", status.code()),
        });
        let (template, query) = match candidate {
            Candidate::Status(status) => return Ok(Found::Status(*status)),
            Candidate::Upstream => match ctx.upstream() {
                Some(_) => return Ok(Found::Upstream),
                None => continue,
            },
            Candidate::File { path, query } => (path, query),
        };
        let found = match expand(template, asked, directory, name) {
            Some(true) => index(services, ctx, Some(application), name).await?,
            Some(false) => file(services, ctx, application, name).await?,
            None => None,
        };
        let found = match (found, asked) {
            // Relative links of the page need the slash.
            (Some(_), Some(asked)) if !directory && template == WITH_SLASH => {
                name.clear();
                name.extend_from_slice(asked);
                Some(Found::WithoutSlash)
            }
            (None, _) if candidate.is_request_path() => {
                script_within(services, ctx, application, path, name).await?
            }
            (found, _) => found,
        };
        match found {
            Some(Found::Script(script)) => {
                let query = query.as_deref();
                let query =
                    query.map(|query| expand_query(query, path.as_str(), ctx.request.query));
                return Ok(Found::Script(Script { query, ..script }));
            }
            Some(found) => return Ok(found),
            None => {}
        }
    }
    Err(not_found())
}

/// Opens the first existing index file of a directory; `name` is then its name. Without one, opens the
/// directory itself if it may be listed.
async fn index(
    services: &Services,
    ctx: RequestContext<'_>,
    application: Option<&Application>,
    name: &mut Vec<u8>,
) -> io::Result<Option<Found>> {
    let length = name.len();
    for index in &ctx.site.index {
        enter(name, index.as_bytes());
        let found = match application {
            Some(application) => file(services, ctx, application, name).await?,
            None => {
                let load = ctx.sent_at_once(services);
                existing(open_and_load(services, ctx.site, name, load).await)?
            }
        };
        if found.is_some() {
            return Ok(found);
        }
        name.truncate(length);
    }
    if ctx.site.listing
        && let kind @ FileKind::Directory(_) = match open(services, ctx.site, name).await {
            Err(error) if application.is_some() && explain(&error).0 == Status::NOT_FOUND => {
                return Ok(None);
            }
            kind => kind?,
        }
    {
        return Ok(Some(Found::File(kind)));
    }
    trace::note("file", || {
        let names = ctx.site.index.join(", ");
        if ctx.site.listing {
            format!(
                "{} has no index file ({names}), and is no directory",
                trace::shown(name)
            )
        } else {
            format!(
                "{} has no index file ({names}), and --listing is off",
                trace::shown(name)
            )
        }
    });
    // A directory without index file that may not be listed, or a file with a slash after it:
    // not found, as in the kernel (ENOTDIR).
    Ok(None)
}

/// Opens a file, or finds a script.
async fn file(
    services: &Services,
    ctx: RequestContext<'_>,
    application: &Application,
    name: &[u8],
) -> io::Result<Option<Found>> {
    if application.is_script(name) {
        let script = Script {
            name: name.to_vec(),
            info: Vec::new(),
            query: None,
        };
        let exists = is_script(services, ctx, name).await?;
        trace::note("file", || {
            let exists = if exists { "exists" } else { "does not exist" };
            format!("the script {} {exists}", trace::shown(name))
        });
        return Ok(exists.then_some(Found::Script(script)));
    }
    if application.hides(name) {
        trace::note("file", || {
            format!(
                "{} may be the text of a script, which is never sent",
                trace::shown(name)
            )
        });
        return Ok(None);
    }
    let load = ctx.sent_at_once(services);
    existing(open_and_load(services, ctx.site, name, load).await)
}

/// Finds the script that a path contains, with the rest of the path as its `PATH_INFO`.
async fn script_within(
    services: &Services,
    ctx: RequestContext<'_>,
    application: &Application,
    path: &RequestPath<'_>,
    name: &mut Vec<u8>,
) -> io::Result<Option<Found>> {
    let Some(scripts) = &application.scripts else {
        return Ok(None);
    };
    for split in scripts.splits(path) {
        if split.file_name(name) && is_script(services, ctx, name).await? {
            return Ok(Some(Found::Script(Script {
                name: name.clone(),
                info: split.path_info(),
                query: None,
            })));
        }
    }
    Ok(None)
}

/// Whether a name is that of a regular file below the root. The server need not be allowed to read it.
async fn is_script(services: &Services, ctx: RequestContext<'_>, name: &[u8]) -> io::Result<bool> {
    let found = is_regular_file(&services.contexts, ctx.site, name);
    match laio_rt::time::timeout(services.limits.open_time, found).await {
        Ok(Err(error)) if explain(&error).0 == Status::NOT_FOUND => Ok(false),
        Ok(found) => found,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Returns a file that exists; neither a directory nor a device counts.
fn existing(opened: io::Result<FileKind>) -> io::Result<Option<Found>> {
    match opened {
        Ok(FileKind::Directory(_) | FileKind::Special) => Ok(None),
        Err(error) if explain(&error).0 == Status::NOT_FOUND => Ok(None),
        kind => kind.map(|kind| Some(Found::File(kind))),
    }
}

fn not_found() -> io::Error {
    rustix::io::Errno::NOENT.into()
}

/// Returns status and text for a file that cannot be opened. A path through a symbolic link that
/// the site does not follow, or out of the root, looks like a missing file. A file without read
/// permission gives 403.
pub fn explain(error: &io::Error) -> (Status, &'static str) {
    use rustix::io::Errno;
    if error.kind() == io::ErrorKind::TimedOut {
        return (
            Status::SERVICE_UNAVAILABLE,
            "The file takes too long to open; try again.",
        );
    }
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::XDEV
            | Errno::NXIO
            | Errno::NAMETOOLONG,
        ) => (Status::NOT_FOUND, "There is nothing under this name."),
        Some(Errno::ACCESS | Errno::PERM) => {
            (Status::FORBIDDEN, "The server may not read this file.")
        }
        _ if resource_exhaustion::is_resource_exhaustion(error) => (
            Status::SERVICE_UNAVAILABLE,
            "The server has reached a limit; try again.",
        ),
        _ => (Status::INTERNAL_SERVER_ERROR, "The file could not be read."),
    }
}
