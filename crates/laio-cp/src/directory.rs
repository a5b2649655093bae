//! A directory that is being copied: where names in it begin, and when it is done.

use crate::attributes::Names;
use crate::descriptors::Slot;
use crate::made::Identity;
use crate::medium::Medium;
use crate::outcome::Failure;
use crate::plan::Noted;
use crate::quote::quote;
use laio::ops::Name;
use laio_rt::fs::{FileType, Metadata};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// An open directory, which any number of operations, on any thread, may hold.
pub(crate) type Handle = Arc<OwnedFd>;

/// An argument of the command.
#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
    /// The destination is inside the source: directories that are made must not be copied.
    pub(crate) nested: bool,
    /// A directory has been made.
    pub(crate) has_made: AtomicBool,
    /// Such a directory has been found in the source.
    pub(crate) meets_itself: AtomicBool,
}

/// A source directory and its destination, open. None: names begin in the working directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handles {
    pub(crate) source: Option<Handle>,
    pub(crate) target: Option<Handle>,
}

/// One side of a directory: how it is found again when it is not open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    /// Its name in the directory above, or where names begin.
    pub(crate) name: OsString,
    /// What it must be; none if it is not there.
    pub(crate) identity: Option<Identity>,
    /// The name may be that of a symbolic link.
    pub(crate) follows: bool,
}

/// A source directory and its destination.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) parent: Option<Arc<Directory>>,
    pub(crate) source: Side,
    pub(crate) target: Side,
    /// Its descriptors, unless they were given up for others.
    pub(crate) open: Slot,
    /// What was found when the directory was begun; none for where arguments begin.
    pub(crate) found: Option<Found>,
    /// Made by this copy: nothing is in it that this copy has not put there.
    pub(crate) is_new: bool,
    pub(crate) argument: Option<Arc<Argument>>,
    /// What a plan has of it.
    pub(crate) noted: OnceLock<Box<Noted>>,
    /// Entries that are not done, and one until the last of them has been read.
    left: AtomicUsize,
}

/// What is known of a directory and its destination.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) source: Metadata,
    pub(crate) target: Metadata,
    /// The destination keeps the attributes that it has.
    pub(crate) stays: bool,
    /// The mode that the destination gets in the end, if attributes are not preserved.
    pub(crate) mode: Option<u32>,
    /// New files get an ACL from the directory, and of the permissions that they ask for no more than these.
    pub(crate) default_acl: Option<u32>,
    /// Extended attributes of the source.
    pub(crate) names: Names,
    /// What the source is on.
    pub(crate) medium: Medium,
}

impl Directory {
    /// What the source is on.
    pub(crate) fn medium(&self) -> Medium {
        let found = self.found.as_ref();
        found.map_or(Medium::Unknown, |found| found.medium)
    }

    /// One in another, not yet open.
    pub(crate) fn below(
        parent: Arc<Directory>,
        sides: (Side, Side),
        found: Option<Found>,
        is_new: bool,
        argument: Option<Arc<Argument>>,
    ) -> Arc<Directory> {
        Arc::new(Directory {
            parent: Some(parent),
            source: sides.0,
            target: sides.1,
            open: Slot::default(),
            found,
            is_new,
            argument,
            noted: OnceLock::new(),
            left: AtomicUsize::new(1),
        })
    }

    /// Where the arguments begin. It stays open.
    pub(crate) fn root(handles: Handles, paths: (PathBuf, PathBuf)) -> Arc<Directory> {
        Directory::pinned(None, handles, paths, None)
    }

    /// One that stays open until it is done with. The paths are those from the parent.
    pub(crate) fn pinned(
        parent: Option<Arc<Directory>>,
        handles: Handles,
        paths: (PathBuf, PathBuf),
        found: Option<Found>,
    ) -> Arc<Directory> {
        let side = |path: PathBuf| Side {
            name: path.into_os_string(),
            ..Side::default()
        };
        Arc::new(Directory {
            parent,
            source: side(paths.0),
            target: side(paths.1),
            open: Slot::always(handles),
            found,
            is_new: false,
            argument: None,
            noted: OnceLock::new(),
            left: AtomicUsize::new(1),
        })
    }

    /// The source, as in messages.
    pub(crate) fn source_path(&self) -> PathBuf {
        self.path(|directory| &directory.source.name)
    }

    /// The destination, as in messages.
    pub(crate) fn target_path(&self) -> PathBuf {
        self.path(|directory| &directory.target.name)
    }

    /// Paths are made when they are needed: kept, those of a deep tree would be the square of its depth.
    fn path(&self, name: impl Fn(&Directory) -> &OsString) -> PathBuf {
        let names: Vec<_> = self.chain().map(name).collect();
        let mut path = Vec::new();
        for name in names.into_iter().rev() {
            append(&mut path, name);
        }
        OsString::from_vec(path).into()
    }

    /// One more entry is being copied.
    pub(crate) fn begin(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    /// An entry is done, or all have been read. True for the last.
    pub(crate) fn end(&self) -> bool {
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// The directories above this one, and it.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &Directory> {
        std::iter::successors(Some(self), |directory| directory.parent.as_deref())
    }

    /// How far below its argument a name is: its path from there.
    pub(crate) fn path_below(&self, name: &OsStr) -> PathBuf {
        match &self.argument {
            Some(argument) => {
                let path = self.source_path().join(name);
                path.strip_prefix(&argument.source)
                    .map_or(path.clone(), Path::to_path_buf)
            }
            None => Path::new(name).to_path_buf(),
        }
    }
}

/// A file to be copied.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) directory: Arc<Directory>,
    pub(crate) name: OsString,
    /// The name of the copy, if it is another.
    pub(crate) new_name: Option<OsString>,
    pub(crate) kind: FileType,
    /// It is an argument of the command, and this is which.
    pub(crate) argument: Option<Arc<Argument>>,
    /// The directory's descriptors, while the entry is being copied.
    pub(crate) held: Option<Handles>,
}

impl Entry {
    pub(crate) fn new_name(&self) -> &OsStr {
        self.new_name.as_ref().unwrap_or(&self.name)
    }

    /// The directories, which must be held: without them a name would begin somewhere else.
    pub(crate) fn at(&self) -> &Handles {
        self.held.as_ref().expect("held while it is being copied")
    }

    /// The same, not held: for later.
    pub(crate) fn for_later(&self) -> Entry {
        Entry {
            held: None,
            ..self.clone()
        }
    }

    /// The source, for an operation.
    pub(crate) fn source(&self) -> Name<Handle> {
        name_in(&self.at().source, &self.name)
    }

    /// The destination, for an operation.
    pub(crate) fn target(&self) -> Name<Handle> {
        name_in(&self.at().target, self.new_name())
    }

    /// What the source is on.
    pub(crate) fn medium(&self) -> Medium {
        self.directory.medium()
    }

    /// Nothing is done, so there is not even the directory that the destination would be in.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.directory.is_new && self.directory.target.identity.is_none()
    }

    /// Whether directories are to be made for it, in the directory that it goes into.
    pub(crate) fn has_parents(&self) -> bool {
        let root = &self.directory.open;
        let within = self.argument.is_some() && root.get().is_some_and(|at| at.target.is_some());
        within && self.new_name().as_encoded_bytes().contains(&b'/')
    }

    /// Another name beside the destination.
    pub(crate) fn beside(&self, name: &OsStr) -> Name<Handle> {
        let has_parts = |name: &OsStr| name.as_bytes().contains(&b'/');
        let above = match has_parts(self.new_name()) && !has_parts(name) {
            true => Path::new(self.new_name()).parent(),
            false => None,
        };
        match above {
            Some(above) => name_in(&self.at().target, above.join(name).as_os_str()),
            None => name_in(&self.at().target, name),
        }
    }

    /// Where a path goes that is kept whole (`--parents`).
    pub(crate) fn in_target(&self, path: &Path) -> Name<Handle> {
        let components = path.components();
        let within: PathBuf = components
            .filter(|part| *part != Component::RootDir)
            .collect();
        name_in(&self.at().target, within.as_os_str())
    }

    pub(crate) fn source_path(&self) -> PathBuf {
        joined(self.directory.source_path(), &self.name)
    }

    pub(crate) fn target_path(&self) -> PathBuf {
        joined(self.directory.target_path(), self.new_name())
    }

    /// The source, as in messages.
    pub(crate) fn quoted_source(&self) -> String {
        quote(self.source_path())
    }

    /// The destination, as in messages.
    pub(crate) fn quoted_target(&self) -> String {
        quote(self.target_path())
    }

    /// A failure with a message about the source: `cannot open 'x' for reading`.
    pub(crate) fn source_failure<'a>(
        &'a self,
        before: &'a str,
        after: &'a str,
    ) -> impl Fn(std::io::Error) -> Failure + 'a {
        move |error| Failure::of(error, format!("{before} {}{after}", self.quoted_source()))
    }

    /// A failure with a message about the destination.
    pub(crate) fn target_failure<'a>(
        &'a self,
        before: &'a str,
    ) -> impl Fn(std::io::Error) -> Failure + 'a {
        move |error| Failure::of(error, format!("{before} {}", self.quoted_target()))
    }
}

/// A name in a directory.
fn joined(directory: PathBuf, name: &OsStr) -> PathBuf {
    let mut path = directory.into_os_string().into_vec();
    append(&mut path, name);
    OsString::from_vec(path).into()
}

/// Appends a name, with one slash between.
fn append(path: &mut Vec<u8>, name: &OsStr) {
    if Path::new(name).is_absolute() {
        path.clear();
    }
    if !path.is_empty() {
        let last = path.iter().rposition(|byte| *byte != b'/');
        path.truncate(last.map_or(0, |last| last + 1));
        path.push(b'/');
    }
    path.extend_from_slice(name.as_bytes());
}

/// Names are taken from directories, or were accepted as arguments: they have no zero byte.
fn name_in(directory: &Option<Handle>, name: &OsStr) -> Name<Handle> {
    Name::from_path_in(directory.clone(), name).expect("names have no zero byte")
}

/// A deep tree must not end in a deep recursion.
impl Drop for Directory {
    fn drop(&mut self) {
        let mut above = self.parent.take();
        while let Some(mut directory) = above.and_then(Arc::into_inner) {
            above = directory.parent.take();
        }
    }
}
