//! The tree of files, in memory.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileType, INodeNo};

/// The inode of the root.
pub(super) const ROOT: u64 = 1;

/// The maximum size of a file, since its contents are in memory.
const SIZE_MAX: u64 = 1 << 30;

type Result<T> = std::result::Result<T, i32>;

/// All nodes. A node without names is kept: it may be open, and the file system exists only for a test.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: HashMap<u64, Node>,
    next: u64,
}

#[derive(Debug)]
pub(super) struct Node {
    kind: FileType,
    mode: u16,
    owner: (u32, u32),
    links: u32,
    device: u32,
    /// The contents of a file, or the target of a symbolic link.
    data: Vec<u8>,
    /// The names in a directory, each with the offset at which a listing resumes.
    names: BTreeMap<OsString, (u64, u64)>,
    /// The directory and name under which it was last put, from which its path is derived.
    place: (u64, OsString),
    accessed: SystemTime,
    modified: SystemTime,
    changed: SystemTime,
}

/// The attributes of a new node.
#[derive(Debug)]
pub(super) struct NewNode {
    pub(super) kind: FileType,
    pub(super) mode: u32,
    pub(super) owner: (u32, u32),
    pub(super) device: u32,
    pub(super) data: Vec<u8>,
}

/// Changes of attributes; `None` keeps the value.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) accessed: Option<SystemTime>,
    pub(super) modified: Option<SystemTime>,
}

/// An entry of a listing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) inode: u64,
    /// The offset at which the listing resumes after this entry.
    pub(super) next: u64,
    pub(super) kind: FileType,
    pub(super) name: OsString,
}

impl Tree {
    pub(super) fn new(owner: (u32, u32)) -> Tree {
        let root = NewNode {
            kind: FileType::Directory,
            mode: 0o755,
            owner,
            device: 0,
            data: Vec::new(),
        };
        let mut tree = Tree {
            nodes: HashMap::new(),
            next: ROOT,
        };
        tree.insert(root, (ROOT, OsString::new()));
        tree
    }

    fn insert(&mut self, new: NewNode, place: (u64, OsString)) -> u64 {
        let inode = self.next;
        self.next += 1;
        let now = SystemTime::now();
        let node = Node {
            kind: new.kind,
            mode: (new.mode & 0o7777) as u16,
            owner: new.owner,
            links: if new.kind == FileType::Directory {
                2
            } else {
                1
            },
            device: new.device,
            data: new.data,
            names: BTreeMap::new(),
            place,
            accessed: now,
            modified: now,
            changed: now,
        };
        self.nodes.insert(inode, node);
        inode
    }

    fn node(&self, inode: u64) -> Result<&Node> {
        self.nodes.get(&inode).ok_or(libc::ENOENT)
    }

    fn node_mut(&mut self, inode: u64) -> Result<&mut Node> {
        self.nodes.get_mut(&inode).ok_or(libc::ENOENT)
    }

    fn directory(&mut self, inode: u64) -> Result<&mut Node> {
        let node = self.node_mut(inode)?;
        if node.kind == FileType::Directory {
            Ok(node)
        } else {
            Err(libc::ENOTDIR)
        }
    }

    fn file(&mut self, inode: u64) -> Result<&mut Node> {
        let node = self.node_mut(inode)?;
        match node.kind {
            FileType::Directory => Err(libc::EISDIR),
            FileType::RegularFile => Ok(node),
            _ => Err(libc::EINVAL),
        }
    }

    /// Returns the path of a node below the root, without a leading slash; that of the root is empty.
    pub(super) fn path(&self, inode: u64) -> String {
        let mut parts = Vec::new();
        let mut at = inode;
        while at != ROOT {
            let Some(node) = self.nodes.get(&at) else {
                break;
            };
            parts.push(node.place.1.to_string_lossy().into_owned());
            at = node.place.0;
        }
        parts.reverse();
        parts.join("/")
    }

    /// Returns the path of a name in a directory, whether or not it exists.
    pub(super) fn path_of(&self, parent: u64, name: &OsStr) -> String {
        let directory = self.path(parent);
        let slash = if directory.is_empty() { "" } else { "/" };
        format!("{directory}{slash}{}", name.to_string_lossy())
    }

    /// Returns the inode at a path.
    pub(super) fn find(&self, path: &str) -> Result<u64> {
        let names = path.split('/').filter(|name| !name.is_empty());
        names
            .map(OsStr::new)
            .try_fold(ROOT, |at, name| self.lookup(at, name))
    }

    pub(super) fn lookup(&self, parent: u64, name: &OsStr) -> Result<u64> {
        let directory = self.node(parent)?;
        if directory.kind != FileType::Directory {
            return Err(libc::ENOTDIR);
        }
        directory
            .names
            .get(name)
            .map(|&(inode, _)| inode)
            .ok_or(libc::ENOENT)
    }

    pub(super) fn attributes(&self, inode: u64) -> Result<FileAttr> {
        let node = self.node(inode)?;
        let size = node.data.len() as u64;
        Ok(FileAttr {
            ino: INodeNo(inode),
            size,
            blocks: size.div_ceil(512),
            atime: node.accessed,
            mtime: node.modified,
            ctime: node.changed,
            crtime: node.changed,
            kind: node.kind,
            perm: node.mode,
            nlink: node.links,
            uid: node.owner.0,
            gid: node.owner.1,
            rdev: node.device,
            blksize: 4096,
            flags: 0,
        })
    }

    pub(super) fn change(&mut self, inode: u64, changes: &Changes) -> Result<FileAttr> {
        if let Some(size) = changes.size {
            self.resize(inode, size)?;
        }
        let node = self.node_mut(inode)?;
        let now = SystemTime::now();
        node.mode = changes
            .mode
            .map_or(node.mode, |mode| (mode & 0o7777) as u16);
        node.owner.0 = changes.uid.unwrap_or(node.owner.0);
        node.owner.1 = changes.gid.unwrap_or(node.owner.1);
        node.accessed = changes.accessed.unwrap_or(node.accessed);
        node.modified = changes.modified.unwrap_or(node.modified);
        node.changed = now;
        self.attributes(inode)
    }

    fn resize(&mut self, inode: u64, size: u64) -> Result<()> {
        if size > SIZE_MAX {
            return Err(libc::EFBIG);
        }
        let node = self.file(inode)?;
        node.data.resize(size as usize, 0);
        node.touch();
        Ok(())
    }

    /// Replaces the contents of a file.
    pub(super) fn replace(&mut self, inode: u64, data: &[u8]) -> Result<()> {
        let node = self.file(inode)?;
        node.data = data.to_vec();
        node.touch();
        Ok(())
    }

    /// Moves all times of a node back by this duration.
    pub(super) fn age(&mut self, inode: u64, by: Duration) -> Result<()> {
        let node = self.node_mut(inode)?;
        for time in [&mut node.accessed, &mut node.modified, &mut node.changed] {
            *time -= by;
        }
        Ok(())
    }

    /// Creates a node with a name.
    pub(super) fn make(&mut self, parent: u64, name: &OsStr, new: NewNode) -> Result<FileAttr> {
        if self.directory(parent)?.names.contains_key(name) {
            return Err(libc::EEXIST);
        }
        let is_directory = new.kind == FileType::Directory;
        let inode = self.insert(new, (parent, name.to_owned()));
        self.enter(parent, name, inode)?;
        if is_directory {
            self.node_mut(parent)?.links += 1;
        }
        self.attributes(inode)
    }

    fn enter(&mut self, parent: u64, name: &OsStr, inode: u64) -> Result<()> {
        // Inode numbers and offsets use one counter: both only have to be unique. 1 and 2 are for "." and
        // "..", and the root has taken 1 from the counter.
        self.next += 2;
        let resume = self.next;
        let directory = self.directory(parent)?;
        directory.names.insert(name.to_owned(), (inode, resume));
        directory.touch();
        self.node_mut(inode)?.place = (parent, name.to_owned());
        Ok(())
    }

    pub(super) fn link(&mut self, inode: u64, parent: u64, name: &OsStr) -> Result<FileAttr> {
        if self.node(inode)?.kind == FileType::Directory {
            return Err(libc::EPERM);
        }
        if self.directory(parent)?.names.contains_key(name) {
            return Err(libc::EEXIST);
        }
        self.enter(parent, name, inode)?;
        self.node_mut(inode)?.links += 1;
        self.attributes(inode)
    }

    pub(super) fn unlink(&mut self, parent: u64, name: &OsStr) -> Result<()> {
        let inode = self.lookup(parent, name)?;
        if self.node(inode)?.kind == FileType::Directory {
            return Err(libc::EISDIR);
        }
        self.leave(parent, name, inode)
    }

    pub(super) fn remove_directory(&mut self, parent: u64, name: &OsStr) -> Result<()> {
        let inode = self.lookup(parent, name)?;
        if !self.directory(inode)?.names.is_empty() {
            return Err(libc::ENOTEMPTY);
        }
        self.leave(parent, name, inode)
    }

    fn leave(&mut self, parent: u64, name: &OsStr, inode: u64) -> Result<()> {
        let is_directory = self.node(inode)?.kind == FileType::Directory;
        let directory = self.directory(parent)?;
        directory.names.remove(name);
        directory.links -= u32::from(is_directory);
        directory.touch();
        let node = self.node_mut(inode)?;
        node.links = if is_directory { 0 } else { node.links - 1 };
        node.changed = SystemTime::now();
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        replace: bool,
    ) -> Result<()> {
        let inode = self.lookup(from.0, from.1)?;
        let moves_directory = self.node(inode)?.kind == FileType::Directory;
        match self.lookup(to.0, to.1) {
            Ok(old) if old == inode => return Ok(()),
            Ok(_) if !replace => return Err(libc::EEXIST),
            Ok(old) => match (moves_directory, self.node(old)?.kind == FileType::Directory) {
                (true, false) => return Err(libc::ENOTDIR),
                (false, true) => return Err(libc::EISDIR),
                (true, true) => self.remove_directory(to.0, to.1)?,
                (false, false) => self.unlink(to.0, to.1)?,
            },
            Err(libc::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        let old_directory = self.directory(from.0)?;
        old_directory.names.remove(from.1);
        old_directory.links -= u32::from(moves_directory);
        old_directory.touch();
        self.enter(to.0, to.1, inode)?;
        self.node_mut(to.0)?.links += u32::from(moves_directory);
        Ok(())
    }

    /// Returns at most `size` bytes of the contents from an offset on; for a symbolic link, of its target.
    pub(super) fn read(&mut self, inode: u64, offset: u64, length: usize) -> Result<&[u8]> {
        let node = self.node_mut(inode)?;
        if node.kind == FileType::Directory {
            return Err(libc::EISDIR);
        }
        node.accessed = SystemTime::now();
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(node.data.len());
        let end = start.saturating_add(length).min(node.data.len());
        Ok(&node.data[start..end])
    }

    /// Writes at an offset.
    pub(super) fn write(&mut self, inode: u64, offset: u64, data: &[u8]) -> Result<()> {
        let end = offset.checked_add(data.len() as u64).ok_or(libc::EFBIG)?;
        if end > self.file(inode)?.data.len() as u64 {
            self.resize(inode, end)?;
        }
        let node = self.file(inode)?;
        node.data[offset as usize..end as usize].copy_from_slice(data);
        node.touch();
        Ok(())
    }

    pub(super) fn allocate(
        &mut self,
        inode: u64,
        mode: i32,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        let end = offset.checked_add(length).ok_or(libc::EFBIG)?;
        let keep = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let zeroes = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
        if mode & !(libc::FALLOC_FL_KEEP_SIZE | zeroes) != 0 {
            return Err(libc::EOPNOTSUPP);
        }
        let size = self.file(inode)?.data.len() as u64;
        if !keep && end > size {
            self.resize(inode, end)?;
        }
        if mode & zeroes != 0 {
            let node = self.file(inode)?;
            let size = node.data.len() as u64;
            node.data[offset.min(size) as usize..end.min(size) as usize].fill(0);
            node.touch();
        }
        Ok(())
    }

    /// Returns the entries of a directory after the offset at which an earlier listing stopped; 0 is the
    /// start.
    pub(super) fn list(&self, inode: u64, after: u64) -> Result<Vec<Entry>> {
        let directory = self.node(inode)?;
        if directory.kind != FileType::Directory {
            return Err(libc::ENOTDIR);
        }
        let entry = |inode, next, name: &OsStr| {
            let kind = self
                .nodes
                .get(&inode)
                .map_or(FileType::RegularFile, |node| node.kind);
            Entry {
                inode,
                next,
                kind,
                name: name.to_owned(),
            }
        };
        let mut entries = vec![
            entry(inode, 1, OsStr::new(".")),
            entry(directory.place.0, 2, OsStr::new("..")),
        ];
        let names = directory.names.iter();
        entries.extend(names.map(|(name, &(inode, resume))| entry(inode, resume, name)));
        entries.sort_by_key(|entry| entry.next);
        entries.retain(|entry| entry.next > after);
        Ok(entries)
    }
}

impl Node {
    fn touch(&mut self) {
        self.modified = SystemTime::now();
        self.changed = self.modified;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(kind: FileType, data: &[u8]) -> NewNode {
        NewNode {
            kind,
            mode: 0o644,
            owner: (0, 0),
            device: 0,
            data: data.to_vec(),
        }
    }

    /// Returns a tree with `dir` and `dir/file`, and the inodes of both.
    fn small() -> (Tree, u64, u64) {
        let mut tree = Tree::new((0, 0));
        let directory = new(FileType::Directory, b"");
        let directory = tree.make(ROOT, "dir".as_ref(), directory).unwrap().ino.0;
        let file = new(FileType::RegularFile, b"contents");
        let file = tree.make(directory, "file".as_ref(), file).unwrap().ino.0;
        (tree, directory, file)
    }

    #[test]
    fn paths_are_found_and_told() {
        let (tree, directory, file) = small();
        assert_eq!(tree.find("dir/file"), Ok(file));
        assert_eq!(tree.find("/dir/"), Ok(directory));
        assert_eq!(tree.find("dir/none"), Err(libc::ENOENT));
        assert_eq!(tree.find("dir/file/x"), Err(libc::ENOTDIR));
        assert_eq!(tree.path(file), "dir/file");
        assert_eq!(tree.path_of(directory, "none".as_ref()), "dir/none");
        assert_eq!(tree.path_of(ROOT, "none".as_ref()), "none");
    }

    #[test]
    fn contents_grow_shrink_and_have_holes() {
        let (mut tree, _, file) = small();
        tree.write(file, 10, b"xy").unwrap();
        assert_eq!(tree.read(file, 0, 100).unwrap(), b"contents\0\0xy");
        assert_eq!(tree.read(file, 10, 1).unwrap(), b"x");
        assert_eq!(tree.read(file, 50, 1).unwrap(), b"");
        tree.change(
            file,
            &Changes {
                size: Some(3),
                ..Changes::default()
            },
        )
        .unwrap();
        assert_eq!(tree.read(file, 0, 100).unwrap(), b"con");
        tree.allocate(file, 0, 0, 5).unwrap();
        assert_eq!(tree.attributes(file).unwrap().size, 5);
        let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        tree.allocate(file, punch, 1, 100).unwrap();
        assert_eq!(tree.read(file, 0, 100).unwrap(), b"c\0\0\0\0");
        assert_eq!(tree.write(file, u64::MAX, b"x"), Err(libc::EFBIG));
    }

    #[test]
    fn names_come_and_go() {
        let (mut tree, directory, file) = small();
        assert_eq!(
            tree.remove_directory(ROOT, "dir".as_ref()),
            Err(libc::ENOTEMPTY)
        );
        assert_eq!(tree.unlink(ROOT, "dir".as_ref()), Err(libc::EISDIR));
        assert_eq!(tree.link(file, ROOT, "second".as_ref()).unwrap().nlink, 2);
        let from = (directory, OsStr::new("file"));
        assert_eq!(
            tree.rename(from, (ROOT, "dir".as_ref()), true),
            Err(libc::EISDIR)
        );
        tree.rename(from, (ROOT, "third".as_ref()), true).unwrap();
        assert_eq!(tree.path(file), "third");
        tree.unlink(ROOT, "second".as_ref()).unwrap();
        assert_eq!(tree.attributes(file).unwrap().nlink, 1);
        tree.remove_directory(ROOT, "dir".as_ref()).unwrap();
        assert_eq!(tree.attributes(ROOT).unwrap().nlink, 2);
    }

    #[test]
    fn a_listing_goes_on_where_it_stopped() {
        let (mut tree, _, _) = small();
        for name in ["b", "a", "c"] {
            tree.make(ROOT, name.as_ref(), new(FileType::RegularFile, b""))
                .unwrap();
        }
        let all = tree.list(ROOT, 0).unwrap();
        let names: Vec<&str> = all
            .iter()
            .map(|entry| entry.name.to_str().unwrap())
            .collect();
        assert_eq!(names, [".", "..", "dir", "b", "a", "c"]);
        assert_eq!(tree.list(ROOT, all[2].next).unwrap(), all[3..]);
        tree.unlink(ROOT, "dir".as_ref()).unwrap_err();
        tree.unlink(ROOT, "b".as_ref()).unwrap();
        assert_eq!(tree.list(ROOT, all[2].next).unwrap(), all[4..]);
    }
}
