//! Making files other than regular ones: FIFOs, sockets, devices.

use super::outputs::done;
use super::{FileStatus, FileType, Name};
use crate::Call;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A special file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// A named pipe.
    Fifo,
    /// A Unix socket without a listener.
    Socket,
    /// A character device, by its number (`st_rdev`).
    CharDevice(u64),
    /// A block device, by its number (`st_rdev`).
    BlockDevice(u64),
}

impl Node {
    /// Returns the node of the file with this status; `None` for other kinds of files.
    pub fn like(status: &FileStatus) -> Option<Node> {
        match status.file_type() {
            FileType::Fifo => Some(Node::Fifo),
            FileType::Socket => Some(Node::Socket),
            FileType::CharDevice => Some(Node::CharDevice(status.represented_device())),
            FileType::BlockDevice => Some(Node::BlockDevice(status.represented_device())),
            FileType::Regular | FileType::Directory | FileType::Symlink | FileType::Unknown => None,
        }
    }

    /// Returns the bits of `S_IFMT`, and the device number in the kernel's encoding.
    fn words(self) -> (u32, u32) {
        let device = |kind, number: u64| match u32::try_from(number) {
            Ok(number) => (kind, number),
            // The kernel would truncate it to another device's number. It refuses this kind with
            // EINVAL.
            Err(_) => (libc::S_IFMT, 0),
        };
        match self {
            Node::Fifo => (libc::S_IFIFO, 0),
            Node::Socket => (libc::S_IFSOCK, 0),
            Node::CharDevice(number) => device(libc::S_IFCHR, number),
            Node::BlockDevice(number) => device(libc::S_IFBLK, number),
        }
    }
}

operation! {
    /// Makes a FIFO, socket or device (`mknodat`).
    pub struct MakeNode<F: AsFd = OwnedFd> {
        /// Makes it with the permissions of `mode`, reduced by the umask.
        new(name: Name<F>, node: Node, mode: u32)
    }

    // SAFETY: the name is on the operation's heap.
    unsafe call(self) {
        let (directory, path) = self.name.words();
        let (kind, device) = self.node.words();
        let mode = kind | (self.mode & 0o7777);
        Call::new(libc::SYS_mknodat, [directory, path, mode as usize, device as usize])
    }

    /// `EEXIST` if the name exists; `EPERM` for devices without `CAP_MKNOD`, and where the file
    /// system does not support them; `EINVAL` for an invalid device number.
    finish(self, result) -> io::Result<()> { done(result) }
}
