//! Finding the files of an archive, in one order, by the rules of reading.

use super::format::{Member, NAME_MAX};
use crate::files::resolve::enter;
use crate::files::temporary_name::is_temporary;
use crate::files::uncached::open_below;
use crate::request::auth_state::AuthState;
use crate::request::listing::served_status;
use crate::request::lookup::explain;
use crate::services::Services;
use crate::site::Site;
use crate::site::auth::Resource;
use laio::ops::{FileType, ReadDir};
use laio_http::{RequestPath, Status, path};
use laio_rt::Descriptor;
use laio_serve_base::clients::Client;
use laio_serve_base::options::{IoStep, Limits};
use laio_serve_upstream::group;
use rustix::fs::OFlags;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// A walk through a directory.
pub(super) struct Walk<'a> {
    pub(super) services: &'a Services,
    pub(super) site: &'a Site,
    pub(super) client: &'a Client,
    /// What auth servers have said about the request.
    pub(super) auth: Option<&'a AuthState<'a>>,
    /// The client may read what passwords guard.
    pub(super) sees_all: bool,
}

/// The reason why a directory cannot be packed.
pub(super) enum WalkError {
    /// It has too many files, bytes, or directories inside each other.
    TooLarge,
    Disk(io::Error),
}

impl From<io::Error> for WalkError {
    fn from(error: io::Error) -> WalkError {
        WalkError::Disk(error)
    }
}

/// Opens a name below the root of a site.
pub(super) async fn open(
    services: &Services,
    site: &Site,
    name: &[u8],
    flags: OFlags,
) -> io::Result<Descriptor> {
    let contexts = &services.contexts;
    let opening = async {
        let _permit = contexts.permit(IoStep::Open).await;
        open_below(contexts, site, name, flags | OFlags::CLOEXEC, site.resolve).await
    };
    match laio_rt::time::timeout(services.limits.open_time, opening).await {
        Ok(opened) => Ok(opened?.into()),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

impl Walk<'_> {
    /// Returns the files and directories in a directory, by name, each directory before what is in it.
    pub(super) async fn members(
        &self,
        top: &[u8],
        directory: Descriptor,
    ) -> Result<Vec<Member>, WalkError> {
        let limits = &self.services.limits;
        let (mut members, mut bytes) = (Vec::new(), 0u64);
        // Of each directory the entries that are left, in reverse order.
        let mut levels = vec![self.entries(top, &directory, limits.zip_entries).await?];
        while let Some(level) = levels.last_mut() {
            let Some(entry) = level.pop() else {
                levels.pop();
                continue;
            };
            if members.len() >= limits.zip_entries {
                return Err(WalkError::TooLarge);
            }
            let shown = &entry.name[top.len()..];
            let shown = shown.strip_prefix(b"/").unwrap_or(shown);
            if shown.len() >= NAME_MAX {
                return Err(WalkError::TooLarge);
            }
            if !entry.directory {
                bytes = bytes.saturating_add(entry.size);
                if bytes > limits.zip_bytes {
                    return Err(WalkError::TooLarge);
                }
                let member = Member::new(shown, entry.size, entry.modified, entry.executable);
                members.push(member);
                continue;
            }
            let shown = [shown, b"/"].concat();
            members.push(Member::new(&shown, 0, entry.modified, false));
            if levels.len() >= Limits::ZIP_DEPTH {
                return Err(WalkError::TooLarge);
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let opened = open(self.services, self.site, &entry.name, flags).await?;
            let left = limits.zip_entries - members.len();
            levels.push(self.entries(&entry.name, &opened, left).await?);
            laio_rt::give_way().await;
        }
        Ok(members)
    }

    /// Returns the entries of a directory that requests could read, sorted in reverse.
    async fn entries(
        &self,
        inside: &[u8],
        directory: &Descriptor,
        most: usize,
    ) -> Result<Vec<Entry>, WalkError> {
        let contexts = &self.services.contexts;
        let mut found = Vec::new();
        let mut buffer = Vec::with_capacity(ReadDir::<Descriptor>::ROOM);
        loop {
            let read = ReadDir::with_buffer(directory.clone(), buffer);
            let entries = contexts.submit(IoStep::Open, read).await?;
            if entries.is_empty() {
                break;
            }
            for entry in entries.iter() {
                let leaf = entry.name().as_bytes();
                let mut name = inside.to_vec();
                enter(&mut name, leaf);
                if !self.is_served(&name, leaf) {
                    continue;
                }
                let known = entry.file_type();
                let status = served_status(contexts, self.site, inside, directory, leaf, known);
                let Some(status) = status.await? else {
                    continue;
                };
                // A linked directory could contain this one.
                let linked = known == FileType::Symlink || known == FileType::Unknown;
                if status.is_dir() && linked && !self.is_directory(&name).await? {
                    continue;
                }
                if found.len() >= most {
                    return Err(WalkError::TooLarge);
                }
                found.push(Entry {
                    name: name.into(),
                    directory: status.is_dir(),
                    size: status.size(),
                    modified: status.modified().seconds,
                    executable: status.mode() & 0o100 != 0,
                });
            }
            buffer = entries.into_buffer();
        }
        found.sort_unstable_by(|one, other| other.name.cmp(&one.name));
        Ok(found)
    }

    /// Whether a name is that of a directory itself, and not of a symbolic link to one.
    async fn is_directory(&self, name: &[u8]) -> io::Result<bool> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY;
        match open(self.services, self.site, name, flags).await {
            Ok(_) => Ok(true),
            Err(error) if explain(&error).0 == Status::NOT_FOUND => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a request of this client for a name would get a file of that name.
    fn is_served(&self, name: &[u8], leaf: &[u8]) -> bool {
        let site = self.site;
        if leaf.starts_with(b".") && !site.serves_dotfiles && name != b".well-known" {
            return false;
        }
        if is_temporary(leaf) || !RequestPath::can_name(leaf) {
            return false;
        }
        let access = site.network_access.as_ref();
        if access.is_some_and(|access| !access.admits_to(self.client, Resource::Name(name))) {
            return false;
        }
        if !self.sees_all
            && site
                .users
                .as_ref()
                .is_some_and(|users| users.is_guarded(Resource::Name(name)))
        {
            return false;
        }
        if let Some(rules) = &site.auth_requests {
            let let_in = |rule| self.auth.is_some_and(|auth| auth.is_let_in_by(rule));
            if rules
                .of(Resource::Name(name))
                .any(|(rule, _)| !let_in(rule))
            {
                return false;
            }
        }
        let application = site.application.as_ref();
        if application.is_some_and(|application| application.hides(name)) {
            return false;
        }
        site.routes.is_empty() || !self.is_of_upstream(name)
    }

    /// Whether an upstream answers for a name.
    fn is_of_upstream(&self, name: &[u8]) -> bool {
        let mut address = Vec::new();
        path::encode(name, false, None, &mut address);
        let address = String::from_utf8_lossy(&address);
        let path = RequestPath::new(&address);
        path.map_or(true, |path| {
            group::route(&self.site.routes, &path).is_some()
        })
    }
}

/// A file or directory that was found.
struct Entry {
    /// The name below the root.
    name: Box<[u8]>,
    directory: bool,
    size: u64,
    modified: i64,
    executable: bool,
}
