//! Opening the file of a name: from the cache, or below the root of a site.

use crate::files::cache::CacheLookup;
use crate::files::contents::{FileKind, Opened};
use crate::files::fill::fill;
use crate::files::uncached::open_uncached;
use crate::services::Services;
use crate::site::Site;
use laio_http::HttpDate;
use laio_serve_base::options::{IoStep, Limits};
use laio_serve_base::trace;
use laio_serve_net::resource_exhaustion;
use std::io;

/// Opens a name relative to the root of a site; an empty name is the root. Neither `..` nor,
/// unless the site follows links, a symbolic link can lead out of the root.
///
/// # Errors
/// Returns the errors of opening. `TimedOut` when it takes too long; the open then finishes in
/// the background, and its result is dropped.
pub async fn open(services: &Services, site: &Site, name: &[u8]) -> io::Result<FileKind> {
    open_and_load(services, site, name, 0).await
}

/// Like [`open`]. If opening waits, at most `load` bytes at the beginning of the file are brought into memory
/// with the same wait: they will be sent.
pub(crate) async fn open_and_load(
    services: &Services,
    site: &Site,
    name: &[u8],
    load: usize,
) -> io::Result<FileKind> {
    for _ in 0..Limits::EVICTION_TRIES {
        match try_open(services, site, name, load).await {
            Err(error) if services.slots.evict_for_descriptor(&error).await => {}
            found => return found,
        }
    }
    try_open(services, site, name, load).await
}

async fn try_open(
    services: &Services,
    site: &Site,
    name: &[u8],
    load: usize,
) -> io::Result<FileKind> {
    let Services {
        contexts, limits, ..
    } = services;
    let cache = services.cache.as_ref().filter(|_| site.is_cached());
    // A cached file is open: it needs no permit.
    if let Some(cache) = cache
        && let Some(opened) = cache.get(site.number, name)
    {
        cache.count_hit();
        return Ok(FileKind::File(opened));
    }
    let opening = async {
        let _permit = contexts.permit(IoStep::Open).await;
        // While this request waited, another one may have cached the file.
        match cache.map(|cache| cache.get_or_admit(site.number, name)) {
            Some(CacheLookup::Hit(opened)) => return Ok(FileKind::File(opened)),
            Some(CacheLookup::Admit(refill)) => {
                if let Some(found) = fill(refill, contexts, limits, site).await? {
                    return Ok(found);
                }
            }
            Some(CacheLookup::Miss) | None => {}
        }
        open_uncached(contexts, site, name, load).await
    };
    let found = match laio_rt::time::timeout(limits.open_time, opening).await {
        Ok(found) => found.inspect_err(|error| {
            if resource_exhaustion::is_resource_exhaustion(error) {
                services
                    .exhaustion_warning
                    .warn("files cannot be opened", error);
            }
        }),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    };
    trace::note("file", || described(site, name, &found));
    found
}

/// Returns what was found under a name.
fn described(site: &Site, name: &[u8], found: &io::Result<FileKind>) -> String {
    use rustix::io::Errno;
    let what = match found {
        Ok(FileKind::File(opened)) => {
            let (size, modified) = (opened.status.size(), opened.status.modified());
            let date = HttpDate::from_unix(modified.seconds);
            let date = date.as_ref().map(|date| date.as_str().to_owned());
            format!("exists: {size} bytes, last changed {}", date.unwrap_or_default())
        }
        Ok(FileKind::Directory(_)) => "is a directory".to_owned(),
        Ok(FileKind::Special) => "is a device, FIFO or socket, which is not served".to_owned(),
        Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => "does not exist".to_owned(),
            Some(Errno::NOTDIR) => "does not exist: a part of its path is not a directory".to_owned(),
            Some(Errno::LOOP) if site.refuses_links() => {
                "is behind a symbolic link, which --symlinks refuse does not follow".to_owned()
            }
            Some(Errno::XDEV) => {
                "is behind a symbolic link that leads out of the root, which --symlinks within does not follow".to_owned()
            }
            Some(Errno::ACCESS | Errno::PERM) => "may not be read by the user of the server".to_owned(),
            _ => format!("cannot be opened: {error}"),
        },
    };
    if site.has_alias(name) {
        format!(
            "{}, by --alias {}, {what}",
            trace::shown(name),
            trace::shown(&site.file_path(name))
        )
    } else {
        format!("{} {what}", trace::shown(name))
    }
}

/// Opens a file of the site's configuration, such as an error page. Returns `None` if it cannot
/// be opened.
pub(crate) async fn open_file(services: &Services, site: &Site, name: &[u8]) -> Option<Opened> {
    match open(services, site, name).await {
        Ok(FileKind::File(opened)) => Some(opened),
        _ => None,
    }
}
