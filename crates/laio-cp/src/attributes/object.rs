//! What has attributes: an open file, or a name.

use super::errno;
use crate::directory::Handle;
use crate::worker::Worker;
use laio::Errno;
use laio::ops::{Name, Open, RemoveAttribute, SetMode, SetOwner, SetTimes};
use laio_rt::fs::Metadata;
use std::ffi::CStr;
use std::io;
use std::sync::Arc;

/// What has attributes.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    /// An open file.
    Open(Handle),
    /// A name, which is not followed if it is a symbolic link.
    Named(Name<Handle>),
}

impl Object {
    pub(crate) fn set_owner(
        &self,
        worker: &Worker,
        user: Option<u32>,
        group: Option<u32>,
    ) -> io::Result<()> {
        match self {
            Object::Open(file) => worker.plainly(SetOwner::new(file.clone(), user, group)),
            Object::Named(name) => worker.plainly(SetOwner::named(name.clone(), user, group)),
        }
    }

    pub(crate) fn set_mode(&self, worker: &Worker, mode: u32) -> io::Result<()> {
        let name = match self {
            Object::Open(file) => return worker.plainly(SetMode::new(file.clone(), mode)),
            Object::Named(name) => name,
        };
        match worker.plainly(SetMode::named(name.clone(), mode)) {
            // Before Linux 6.6.
            Err(error) if errno(&error) == Some(Errno::NOSYS) => {
                let open = Open::new(name.clone(), libc::O_PATH | libc::O_NOFOLLOW);
                let file = Arc::new(worker.plainly(open)?);
                worker.plainly(SetMode::named(Name::of_open(file), mode).follow())
            }
            result => result,
        }
    }

    pub(crate) fn set_times(&self, worker: &Worker, source: &Metadata) -> io::Result<()> {
        let (accessed, modified) = (Some(source.accessed()), Some(source.modified()));
        match self {
            Object::Open(file) => worker.plainly(SetTimes::new(file.clone(), accessed, modified)),
            Object::Named(name) => {
                worker.plainly(SetTimes::named(name.clone(), accessed, modified))
            }
        }
    }

    pub(super) fn remove_attribute(&self, worker: &Worker, attribute: &CStr) -> io::Result<()> {
        match self {
            Object::Open(file) => worker.plainly(RemoveAttribute::new(file.clone(), attribute)),
            Object::Named(name) => worker.plainly(RemoveAttribute::named(name.clone(), attribute)),
        }
    }
}
