//! The name that a change is about: a directory below the root, and a name in it.

use super::disk::Disk;
use super::problem::Problem;
use laio::ops::{FileStatus, Name, StatPath};
use laio_rt::Descriptor;
use laio_serve_base::options::IoStep;
use laio_serve_core::files::uncached::open_below;
use laio_serve_core::site::Site;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ffi::CString;
use std::io;

/// A name in an open directory. The directory stays below the root by the rules of reading; the name itself is
/// never followed.
pub(super) struct Target {
    pub(super) directory: Descriptor,
    leaf: CString,
    /// The name below the root.
    pub(super) name: Vec<u8>,
}

impl Target {
    /// Opens the directory of a name.
    pub(super) async fn open(disk: Disk<'_>, site: &Site, name: &[u8]) -> Result<Target, Problem> {
        let slash = name.iter().rposition(|&byte| byte == b'/');
        let (inside, leaf) = match slash {
            Some(slash) => (&name[..slash], &name[slash + 1..]),
            None => (&name[..0], name),
        };
        if leaf.is_empty() {
            return Err(Problem::NO_FILE);
        }
        // Resolving the path has refused names that contain NUL.
        let leaf = CString::new(leaf).map_err(io::Error::from)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let contexts = &disk.services.contexts;
        let opened = disk.within(disk.services.limits.open_time, async {
            let _permit = contexts.permit(IoStep::Open).await;
            open_below(contexts, site, inside, flags, site.resolve).await
        });
        let directory = opened.await.map_err(|error| match Problem::from(error) {
            missing if missing.status == Problem::NOT_FOUND.status => Problem::NO_PARENT,
            other => other,
        })?;
        Ok(Target {
            directory: Descriptor::from(directory),
            leaf,
            name: name.to_vec(),
        })
    }

    /// Returns another name in the same directory.
    pub(super) fn beside(&self, leaf: CString) -> Target {
        Target {
            directory: self.directory.clone(),
            leaf,
            name: self.name.clone(),
        }
    }

    /// Returns the name in its directory.
    pub(super) fn leaf(&self) -> &std::ffi::CStr {
        &self.leaf
    }

    /// Returns the name.
    pub(super) fn at(&self) -> Name<Descriptor> {
        Name::at(self.directory.clone(), self.leaf.clone())
    }

    /// Returns the status of what has the name, without following a link. None if nothing has it.
    pub(super) async fn status(&self, disk: Disk<'_>) -> io::Result<Option<FileStatus>> {
        let status = disk.names(StatPath::new(self.at()).no_follow()).await;
        match status {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
