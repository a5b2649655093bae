//! The attributes of files: permissions, owner, times, extended attributes.
//!
//! The functions that take a path do not follow a symbolic link in its last component. For names relative to an
//! open directory, [`submit`] the operations of [`laio::ops`] with [`Name::at`].

use super::File;
use crate::Descriptor;
use crate::submission::submit;
use laio::Errno;
use laio::ops::{
    Access, FileType, GetAttribute, ListAttributes, MakeNode, Name, Node, Open, RemoveAttribute,
    SetAttribute, SetMode, SetOwner, SetTimes, Sink, Source, StatFile, Timestamp,
};
use rustix::fs::OFlags;
use std::ffi::CString;
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

impl File {
    /// Sets the permissions.
    ///
    /// # Errors
    /// `PermissionDenied` if another user owns the file.
    pub fn set_mode(&self, mode: u32) -> impl Future<Output = io::Result<()>> {
        submit(SetMode::new(self.handle().clone(), mode))
    }

    /// Sets the owner or group of the file, or both. The kernel clears the set-user-ID and set-group-ID bits.
    ///
    /// # Errors
    /// `PermissionDenied` without the privilege.
    pub fn set_owner(
        &self,
        user: Option<u32>,
        group: Option<u32>,
    ) -> impl Future<Output = io::Result<()>> {
        submit(SetOwner::new(self.handle().clone(), user, group))
    }

    /// Sets the times of last access and modification, each if given. [`Timestamp::NOW`] is the current time.
    ///
    /// # Errors
    /// `PermissionDenied` if another user owns the file.
    pub fn set_times(
        &self,
        accessed: Option<Timestamp>,
        modified: Option<Timestamp>,
    ) -> impl Future<Output = io::Result<()>> {
        submit(SetTimes::new(self.handle().clone(), accessed, modified))
    }

    /// Reads an extended attribute into the spare capacity of the buffer. Returns the number of bytes, and the
    /// buffer with the bytes appended. With no spare capacity at all it returns the size of the attribute. Fails
    /// with `ENODATA` if the file has no such attribute, and with `ERANGE` if the capacity is too small:
    /// [`laio::ops::ATTRIBUTE_MAX`] bytes are always enough.
    pub fn get_attribute<B: Sink>(
        &self,
        attribute: impl Into<CString>,
        buffer: B,
    ) -> impl Future<Output = (io::Result<usize>, B)> {
        let file = self.handle().clone();
        submit(GetAttribute::new(file, attribute, buffer))
    }

    /// Sets an extended attribute. Fails with `EOPNOTSUPP` if the file system does not support attributes of
    /// that kind.
    pub fn set_attribute<B: Source>(
        &self,
        attribute: impl Into<CString>,
        value: B,
    ) -> impl Future<Output = (io::Result<()>, B)> {
        let file = self.handle().clone();
        submit(SetAttribute::new(file, attribute, value))
    }

    /// Reads the list of the names of the extended attributes, as [`File::get_attribute`] reads an attribute.
    /// [`laio::ops::attribute_names`] splits the list.
    pub fn list_attributes<B: Sink>(
        &self,
        buffer: B,
    ) -> impl Future<Output = (io::Result<usize>, B)> {
        submit(ListAttributes::new(self.handle().clone(), buffer))
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` if the file has no such attribute.
    pub fn remove_attribute(
        &self,
        attribute: impl Into<CString>,
    ) -> impl Future<Output = io::Result<()>> {
        let file = self.handle().clone();
        submit(RemoveAttribute::new(file, attribute))
    }
}

/// Sets the permissions of a file.
///
/// # Errors
/// `PermissionDenied` if another user owns the file; `EOPNOTSUPP` if it is a symbolic link, which has no permissions.
pub async fn set_mode(path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
    set_mode_of(Name::<Descriptor>::from_path_in(None, path)?, mode).await
}

/// As [`set_mode`], for a name that may begin in an open directory. Linux before 6.6 has no call for that; there it
/// opens the file with `O_PATH`, checks its type, and changes the mode through `/proc`, so that the name is resolved
/// once.
///
/// # Errors
/// As for [`set_mode`].
pub async fn set_mode_of<F: AsFd + Clone + 'static>(name: Name<F>, mode: u32) -> io::Result<()> {
    match submit(SetMode::named(name.clone(), mode)).await {
        Err(error) if is(&error, Errno::NOSYS) => set_mode_in_steps(name, mode).await,
        result => result,
    }
}

async fn set_mode_in_steps<F: AsFd + 'static>(name: Name<F>, mode: u32) -> io::Result<()> {
    let only_name = (OFlags::PATH | OFlags::NOFOLLOW).bits() as i32;
    let file = Descriptor::from(submit(Open::new(name, only_name)).await?);
    let status = submit(StatFile::new(file.clone())).await?;
    if status.file_type() == FileType::Symlink {
        return Err(Errno::OPNOTSUPP.into());
    }
    submit(SetMode::named(Name::of_open(file), mode).follow()).await
}

fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw())
}

/// Sets the owner or group of a file, or both.
///
/// # Errors
/// `PermissionDenied` without the privilege.
pub async fn set_owner(
    path: impl AsRef<Path>,
    user: Option<u32>,
    group: Option<u32>,
) -> io::Result<()> {
    submit(SetOwner::named(Name::from_path(&path)?, user, group)).await
}

/// Sets the times of last access and modification of a file, each if given.
///
/// # Errors
/// `PermissionDenied` if another user owns the file.
pub async fn set_times(
    path: impl AsRef<Path>,
    accessed: Option<Timestamp>,
    modified: Option<Timestamp>,
) -> io::Result<()> {
    let name = Name::from_path(&path)?;
    submit(SetTimes::named(name, accessed, modified)).await
}

/// Creates a FIFO, socket or device, with the permissions of `mode` less the umask.
///
/// # Errors
/// `AlreadyExists` if the name exists, whatever its type; `PermissionDenied` for devices without the
/// privilege.
pub async fn make_node(path: impl AsRef<Path>, node: Node, mode: u32) -> io::Result<()> {
    submit(MakeNode::new(Name::from_path(&path)?, node, mode)).await
}

/// Checks whether the process has these rights on a file: [`Access::READ`] and others, combined. Follows symbolic
/// links.
///
/// # Errors
/// `PermissionDenied` if it may not, `NotFound` if there is no such file.
pub async fn access(path: impl AsRef<Path>, rights: u32) -> io::Result<()> {
    submit(Access::new(Name::from_path(&path)?, rights)).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;
    use crate::fs::OpenOptions;

    #[test]
    fn modes_in_steps() {
        let runtime = Runtime::new(laio::Options::new()).unwrap();
        runtime.block_on(async {
            let place = tempfile::tempdir().unwrap();
            let (file, link) = (place.path().join("file"), place.path().join("link"));
            std::fs::write(&file, "").unwrap();
            std::os::unix::fs::symlink("file", &link).unwrap();
            let options = OpenOptions::new().directory(true);
            let directory = options.open(place.path()).await.unwrap();
            let name = |name| Name::at(directory.descriptor().clone(), name);
            set_mode_in_steps(name(c"file"), 0o751).await.unwrap();
            let mode = crate::fs::metadata(&file).await.unwrap().mode();
            assert_eq!(mode & 0o7777, 0o751);
            let error = set_mode_in_steps(name(c"link"), 0o700).await.unwrap_err();
            assert!(is(&error, Errno::OPNOTSUPP));
        });
    }
}
