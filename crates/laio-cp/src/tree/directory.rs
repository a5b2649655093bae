//! A directory that is being copied, and its entries.

use super::handles::{Handle, HandleSlot, Handles};
use super::identity::Identity;
use super::storage_class::StorageClass;
use crate::outcome::{Failure, failure};
use crate::quote::quote;
use laio::ops::Name;
use laio_rt::fs::{FileType, Metadata};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// An argument of the command.
#[derive(Debug, Default)]
pub(crate) struct Argument {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
    /// The destination is inside the source: created directories must not be copied.
    pub(crate) nested: bool,
    /// The directories that its name has in the target directory are created (`--parents`). A plan
    /// has created them.
    pub(crate) makes_parents: bool,
    /// The copy of this argument has created a directory.
    pub(crate) has_created_directory: AtomicBool,
    /// The walk has met such a directory in the source, and reported it.
    pub(crate) reported_self_copy: AtomicBool,
}

/// How to reopen one side of a directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    /// Its name in the parent directory, or its path.
    pub(crate) name: OsString,
    /// The expected device and inode; `None` if the directory does not exist.
    pub(crate) identity: Option<Identity>,
    /// The name may be a symbolic link.
    pub(crate) follows: bool,
}

/// A source directory and its destination.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) parent: Option<Arc<Directory>>,
    pub(crate) source: Side,
    pub(crate) target: Side,
    /// The descriptors, if they are open.
    pub(crate) open: HandleSlot,
    /// The status of both sides when the directory was entered; `None` for the root.
    pub(crate) info: Option<DirectoryInfo>,
    /// This copy created the directory: it contains only entries of this copy.
    pub(crate) is_new: bool,
    pub(crate) argument: Option<Arc<Argument>>,
    /// The number of the directory's record in a plan.
    pub(crate) plan_number: OnceLock<u32>,
    /// Unfinished entries, plus one until the whole directory has been read.
    pending: AtomicUsize,
}

/// The status of a directory and its destination.
#[derive(Debug)]
pub(crate) struct DirectoryInfo {
    pub(crate) source: Metadata,
    pub(crate) target: Metadata,
    /// Whether the destination existed and keeps its attributes (`--parents`).
    pub(crate) keeps_attributes: bool,
    /// The final mode of the destination, if attributes are not preserved.
    pub(crate) mode: Option<u32>,
    /// The permissions that the default ACL of the destination allows to new files.
    pub(crate) default_acl: Option<u32>,
    /// The names of the source's extended attributes.
    pub(crate) names: AttributeNames,
    /// The storage class of the source.
    pub(crate) storage_class: StorageClass,
}

/// The names of the extended attributes to copy.
#[derive(Debug, Default)]
pub(crate) struct AttributeNames(pub(crate) Vec<CString>);

impl AttributeNames {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, name: &CStr) -> bool {
        self.0.iter().any(|known| known.as_c_str() == name)
    }
}

impl Directory {
    /// The storage class of the source.
    pub(crate) fn storage_class(&self) -> StorageClass {
        let info = self.info.as_ref();
        info.map_or(StorageClass::Unknown, |info| info.storage_class)
    }

    /// A subdirectory, not yet open.
    pub(crate) fn child(
        parent: Arc<Directory>,
        sides: (Side, Side),
        info: Option<DirectoryInfo>,
        is_new: bool,
        argument: Option<Arc<Argument>>,
    ) -> Arc<Directory> {
        Arc::new(Directory {
            parent: Some(parent),
            source: sides.0,
            target: sides.1,
            open: HandleSlot::default(),
            info,
            is_new,
            argument,
            plan_number: OnceLock::new(),
            pending: AtomicUsize::new(1),
        })
    }

    /// The root, which contains the arguments. It stays open.
    pub(crate) fn root(handles: Handles, paths: (PathBuf, PathBuf)) -> Arc<Directory> {
        Directory::pinned(None, handles, paths, None)
    }

    /// A directory that stays open until it is finished. The paths are relative to the parent.
    pub(crate) fn pinned(
        parent: Option<Arc<Directory>>,
        handles: Handles,
        paths: (PathBuf, PathBuf),
        info: Option<DirectoryInfo>,
    ) -> Arc<Directory> {
        let side = |path: PathBuf| Side {
            name: path.into_os_string(),
            ..Side::default()
        };
        Arc::new(Directory {
            parent,
            source: side(paths.0),
            target: side(paths.1),
            open: HandleSlot::always(handles),
            info,
            is_new: false,
            argument: None,
            plan_number: OnceLock::new(),
            pending: AtomicUsize::new(1),
        })
    }

    /// The path of the source, for messages.
    pub(crate) fn source_path(&self) -> PathBuf {
        self.path(|directory| &directory.source.name)
    }

    /// The path of the destination, for messages.
    pub(crate) fn target_path(&self) -> PathBuf {
        self.path(|directory| &directory.target.name)
    }

    /// Builds a path on demand: stored paths of a deep tree would need memory quadratic in its
    /// depth.
    fn path(&self, name: impl Fn(&Directory) -> &OsString) -> PathBuf {
        let names: Vec<_> = self.self_and_ancestors().map(name).collect();
        let mut path = Vec::new();
        for name in names.into_iter().rev() {
            append(&mut path, name);
        }
        OsString::from_vec(path).into()
    }

    /// Counts an entry to copy.
    pub(crate) fn add_pending(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a finished entry, or the end of the listing. Returns `true` for the last.
    pub(crate) fn finish_one(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// This directory and all its ancestors.
    pub(crate) fn self_and_ancestors(&self) -> impl Iterator<Item = &Directory> {
        std::iter::successors(Some(self), |directory| directory.parent.as_deref())
    }

    /// The path of a name relative to its argument.
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
    /// The name of the copy, if it differs.
    pub(crate) new_name: Option<OsString>,
    pub(crate) kind: FileType,
    /// The argument, if the entry is one.
    pub(crate) argument: Option<Arc<Argument>>,
    /// The directory's descriptors, while the entry is being copied.
    pub(crate) handles: Option<Handles>,
}

impl Entry {
    /// The name of the copy.
    pub(crate) fn new_name(&self) -> &OsStr {
        self.new_name.as_ref().unwrap_or(&self.name)
    }

    /// The descriptors of the directories, which must be open: without them names would be relative
    /// to the working directory.
    pub(crate) fn handles(&self) -> &Handles {
        self.handles
            .as_ref()
            .expect("open while the entry is being copied")
    }

    /// A copy of the entry without descriptors, for later use.
    pub(crate) fn without_handles(&self) -> Entry {
        Entry {
            handles: None,
            ..self.clone()
        }
    }

    /// The name of the source, for an operation.
    pub(crate) fn source(&self) -> Name<Handle> {
        name_in(&self.handles().source, &self.name)
    }

    /// The name of the destination, for an operation.
    pub(crate) fn target(&self) -> Name<Handle> {
        name_in(&self.handles().target, self.new_name())
    }

    /// The storage class of the source.
    pub(crate) fn storage_class(&self) -> StorageClass {
        self.directory.storage_class()
    }

    /// Whether the destination's directory does not exist, because of `--dry-run`.
    pub(crate) fn has_no_target_directory(&self) -> bool {
        self.directory.is_new && self.directory.target.identity.is_none()
    }

    /// Whether parent directories must be created in the target directory (`--parents`).
    pub(crate) fn has_parents(&self) -> bool {
        let argument = self.argument.as_ref();
        argument.is_some_and(|argument| argument.makes_parents)
            && self.new_name().as_encoded_bytes().contains(&b'/')
    }

    /// A name in the directory of the destination.
    pub(crate) fn sibling(&self, name: &OsStr) -> Name<Handle> {
        name_in(&self.handles().target, self.sibling_name(name).as_os_str())
    }

    /// The same name, relative to the descriptor of the destination's directory: the name of the copy may be a path.
    pub(crate) fn sibling_name(&self, name: &OsStr) -> PathBuf {
        let has_parts = |name: &OsStr| name.as_bytes().contains(&b'/');
        let above = if has_parts(self.new_name()) && !has_parts(name) {
            Path::new(self.new_name()).parent()
        } else {
            None
        };
        above.map_or_else(|| name.into(), |above| above.join(name))
    }

    /// The path of such a name, for messages, and for calls that take no directory.
    pub(crate) fn sibling_path(&self, name: &OsStr) -> PathBuf {
        joined(
            self.directory.target_path(),
            self.sibling_name(name).as_os_str(),
        )
    }

    /// A path below the target directory, for `--parents`.
    pub(crate) fn path_in_target(&self, path: &Path) -> Name<Handle> {
        let components = path.components();
        let within: PathBuf = components
            .filter(|part| *part != Component::RootDir)
            .collect();
        name_in(&self.handles().target, within.as_os_str())
    }

    /// The path of the source, for messages, and for calls that take no directory.
    pub(crate) fn source_path(&self) -> PathBuf {
        joined(self.directory.source_path(), &self.name)
    }

    /// The path of the destination, for messages, and for calls that take no directory.
    pub(crate) fn target_path(&self) -> PathBuf {
        joined(self.directory.target_path(), self.new_name())
    }

    /// The quoted path of the source, for messages.
    pub(crate) fn quoted_source(&self) -> String {
        quote(self.source_path())
    }

    /// The quoted path of the destination, for messages.
    pub(crate) fn quoted_target(&self) -> String {
        quote(self.target_path())
    }

    /// Makes a failure about the source: `cannot open 'x' for reading`.
    pub(crate) fn source_failure<'a>(
        &'a self,
        before: &'a str,
        after: &'a str,
    ) -> impl Fn(std::io::Error) -> Failure + 'a {
        move |error| Failure::from_error(error, format!("{before} {}{after}", self.quoted_source()))
    }

    /// The failure of a destination that is another file than the one that was examined.
    pub(crate) fn replaced_failure(&self) -> Failure {
        let name = self.quoted_target();
        failure!("not overwriting {name}, as it was replaced while being copied")
    }

    /// Makes a failure about the destination.
    pub(crate) fn target_failure<'a>(
        &'a self,
        before: &'a str,
    ) -> impl Fn(std::io::Error) -> Failure + 'a {
        move |error| Failure::from_error(error, format!("{before} {}", self.quoted_target()))
    }
}

/// Joins a directory and a name.
fn joined(directory: PathBuf, name: &OsStr) -> PathBuf {
    let mut path = directory.into_os_string().into_vec();
    append(&mut path, name);
    OsString::from_vec(path).into()
}

/// Appends a name after exactly one slash.
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

/// Builds an operation's name. Names come from `getdents` or were accepted as arguments, so they
/// contain no zero byte.
fn name_in(directory: &Option<Handle>, name: &OsStr) -> Name<Handle> {
    Name::from_path_in(directory.clone(), name).expect("names have no zero byte")
}

/// Drops the ancestors in a loop: recursion would overflow the stack for a deep tree.
impl Drop for Directory {
    fn drop(&mut self) {
        let mut above = self.parent.take();
        while let Some(mut directory) = above.and_then(Arc::into_inner) {
            above = directory.parent.take();
        }
    }
}
