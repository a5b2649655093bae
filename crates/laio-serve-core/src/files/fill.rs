//! Caching the files that are requested often.

use super::cache::{Cache, Refill};
use super::contents::{Contents, FileKind, OpenFile, Opened};
use super::file_system::is_local;
use super::read::read;
use super::uncached::{FLAGS, examine, open_below};
use crate::site::Site;
use laio_rt::Descriptor;
use laio_serve_base::options::Limits;
use laio_serve_net::io_contexts::IoContexts;
use rustix::fs::{OFlags, ResolveFlags};
use std::io;
use std::rc::Rc;

/// Opens the file of an admitted name and caches it, if inotify reports its changes. Returns `None` if
/// the caller should open it without the cache.
///
/// # Errors
/// Returns the errors of opening.
pub async fn fill(
    refill: Refill<'_>,
    contexts: &IoContexts,
    limits: &Limits,
    site: &Site,
) -> io::Result<Option<FileKind>> {
    let found = cache_file(refill.cache, contexts, limits, site, refill.name).await;
    if !matches!(found, Ok(Some(FileKind::File(_)))) {
        refill.cache.refuse(site.number, refill.name);
    }
    found
}

async fn cache_file(
    cache: &Cache,
    contexts: &IoContexts,
    limits: &Limits,
    site: &Site,
    name: &[u8],
) -> io::Result<Option<FileKind>> {
    // The directories of its path are others.
    if site.has_file_alias(name) {
        return Ok(None);
    }
    let events_before = cache.event_count();
    let resolve = site.resolve | ResolveFlags::NO_SYMLINKS.bits();
    // Those above an alias do not lead to its files.
    let of_alias = name.len() - site.place(name).1.len();
    for directory in directories(name).filter(|it| it.len() + 1 >= of_alias) {
        if cache.watches(site.number, directory) {
            continue;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(opened) = open_below(contexts, site, directory, flags, resolve).await else {
            return Ok(None);
        };
        let opened = Descriptor::from(opened);
        if !reports_changes(&opened)
            || !cache.watch_directory(events_before, site.number, directory, &opened)
        {
            return Ok(None);
        }
    }
    let Ok(file) = open_below(contexts, site, name, FLAGS, resolve).await else {
        // The path may contain a symbolic link that the site follows.
        return Ok(None);
    };
    let file = Descriptor::from(file);
    if !reports_changes(&file) {
        return examine(contexts, file).await.map(Some);
    }
    let Ok(watch) = cache.watch_file(&file) else {
        return examine(contexts, file).await.map(Some);
    };
    let mut opened = match examine(contexts, file).await? {
        FileKind::File(opened) => opened,
        other => return Ok(Some(other)),
    };
    let size = opened.status.size();
    if let Contents::File(file) = &opened.contents
        && size > cache.limits().file_bytes as u64
    {
        let again = cache.open_file(site.number, name, &opened.status);
        let open = || Rc::new(OpenFile::new(file.clone(), size, contexts.now()));
        opened.contents = Contents::Open(again.unwrap_or_else(open));
    } else {
        let Some(contents) = whole(contexts, limits, &opened).await? else {
            return Ok(None);
        };
        opened.contents = contents;
    }
    opened.fields = Some(Rc::default());
    cache.insert(events_before, site.number, name, &opened, watch);
    Ok(Some(FileKind::File(opened)))
}

/// Reads the contents of a small file. Returns `None` if its length has changed.
async fn whole(
    contexts: &IoContexts,
    limits: &Limits,
    opened: &Opened,
) -> io::Result<Option<Contents>> {
    let size = opened.status.size() as usize;
    let mut bytes = Vec::with_capacity(size);
    while bytes.len() < size {
        let (left, offset) = (size - bytes.len(), bytes.len() as u64);
        match read(contexts, limits, &opened.contents, bytes, left, offset).await {
            Ok(more) => bytes = more,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(Contents::Memory(bytes.into())))
}

/// Returns the directories of the path of a file, the root first.
fn directories(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    std::iter::once(&name[..0]).chain(slashes.map(|(at, _)| &name[..at]))
}

/// Whether inotify reports the changes of the file, except those that [`Cache::MAX_AGE`](crate::Cache::MAX_AGE) names.
fn reports_changes(file: &Descriptor) -> bool {
    is_local(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_a_path() {
        let all = |name: &'static str| -> Vec<&str> {
            let each = directories(name.as_bytes());
            each.map(|name| std::str::from_utf8(name).unwrap())
                .collect()
        };
        assert_eq!(all("file"), [""]);
        assert_eq!(all("a/b/file"), ["", "a", "a/b"]);
    }
}
