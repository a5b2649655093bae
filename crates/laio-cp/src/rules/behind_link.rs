//! The file behind a symbolic link, for copies that give files their names when they are complete: the link stays, and the
//! file that it leads to is replaced where it is.

use crate::io::Io;
use crate::outcome::Failure;
use crate::tree::{Directory, Entry, Handle, Handles, identity};
use laio::Errno;
use laio::ops::{Name, Open, ReadLink, StatPath};
use laio_rt::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The maximum number of links that lead to each other, as in the kernel.
const LINKS_MAX: u32 = 40;

/// Returns the entry whose destination is the file behind the symbolic link that has the name of the copy; `None` if that
/// name is no symbolic link. `existing` is the status of the file, if there is one.
pub(crate) async fn entry_behind(
    io: &Io,
    entry: &Entry,
    existing: Option<&Metadata>,
) -> Result<Option<Entry>, Failure> {
    let failed = entry.target_failure("cannot follow symbolic link");
    let mut at = Place {
        directory: entry.handles().target.clone(),
        name: entry.new_name().into(),
        shown: entry.directory.target_path(),
    };
    for followed in 0..LINKS_MAX {
        let status = at.status(io).await.map_err(&failed)?;
        if status.as_ref().is_some_and(Metadata::is_symlink) {
            at = at.follow(io).await.map_err(&failed)?;
            continue;
        }
        if followed == 0 {
            return Ok(None);
        }
        if status.as_ref().map(identity) != existing.map(identity) {
            return Err(entry.replaced_failure());
        }
        return Ok(Some(at.entry(entry)));
    }
    Err(failed(Errno::LOOP.into()))
}

/// A name on the way to the file.
struct Place {
    directory: Option<Handle>,
    name: PathBuf,
    /// The path of the directory, for messages.
    shown: PathBuf,
}

impl Place {
    fn at(&self, name: &Path) -> io::Result<Name<Handle>> {
        Name::from_path_in(self.directory.clone(), name)
    }

    /// The status of what has the name; `None` if nothing has.
    async fn status(&self, io: &Io) -> io::Result<Option<Metadata>> {
        let stat = StatPath::new(self.at(&self.name)?).no_follow();
        match io.call_target(stat).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            status => status.map(Some),
        }
    }

    /// The place that the link leads to.
    async fn follow(&self, io: &Io) -> io::Result<Place> {
        let text = io.call_target(ReadLink::new(self.at(&self.name)?)).await?;
        let above = self.name.parent().unwrap_or(Path::new(""));
        let path = above.join(Path::new(&text));
        let Some(name) = path.file_name() else {
            // It ends in `..`, so it leads to a directory.
            return Err(Errno::ISDIR.into());
        };
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let open = Open::new(
            self.at(above.unwrap_or(Path::new(".")))?,
            libc::O_PATH | libc::O_DIRECTORY,
        );
        let directory = io.call_target(open).await?;
        Ok(Place {
            directory: Some(Arc::new(directory)),
            name: name.into(),
            shown: above.map_or(self.shown.clone(), |above| self.shown.join(above)),
        })
    }

    /// The entry with this destination.
    fn entry(self, of: &Entry) -> Entry {
        let handles = Handles {
            source: of.handles().source.clone(),
            target: self.directory,
        };
        let paths = (of.directory.source_path(), self.shown);
        Entry {
            directory: Directory::pinned(None, handles.clone(), paths, None),
            new_name: Some(self.name.into_os_string()),
            handles: Some(handles),
            ..of.clone()
        }
    }
}
