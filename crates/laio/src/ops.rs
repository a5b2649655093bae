//! The typed operations: files, names, streams, sockets, processes, time.
//!
//! Each is a struct with public constructors; [`Context::submit`](crate::Context::submit) starts
//! it. Operations own descriptors as `F: AsFd + 'static` (an `OwnedFd`, or an `Rc<OwnedFd>` that
//! several operations share) and buffers as [`Source`] and [`Sink`], and return both in their
//! output.
//!
//! ```
//! use laio::ops::{Name, Open, ReadAt};
//! use laio::{Context, Operation, Options, Outcome};
//!
//! fn run<O: Operation>(context: &mut Context, operation: O) -> O::Output {
//!     match context.submit(operation) {
//!         Outcome::Done(output) => output,
//!         Outcome::Pending(ticket) => {
//!             let mut completions = Vec::new();
//!             context.poll(&mut completions, None).unwrap();
//!             context.take(ticket).unwrap()
//!         }
//!     }
//! }
//!
//! let mut context = Context::new(Options::new())?;
//! let file = run(&mut context, Open::new(Name::new(c"/proc/self/comm"), libc::O_RDONLY))?;
//! let (result, buffer) = run(&mut context, ReadAt::new(file, Vec::with_capacity(64), 0));
//! assert_eq!(result?, buffer.len());
//! # Ok::<(), std::io::Error>(())
//! ```

#[macro_use]
mod declare;

mod address;
mod aligned;
mod attributes;
mod buffer;
mod connect;
mod copying;
mod directory;
mod extended;
mod file;
mod file_system;
mod lent;
mod load;
mod name;
mod node;
mod open;
mod open_file;
mod open_stat;
mod outputs;
mod shared;
mod slab;
mod socket;
mod status;
mod storage;
mod vectored;
mod waiting;

pub use address::Address;
pub use aligned::AlignedBuffer;
pub use attributes::{Access, SetMode, SetOwner, SetTimes};
pub use buffer::{Limit, Owned, Part, Sink, Source, fill};
pub use connect::{Accept, Connect, Shutdown};
pub use copying::{CopyRange, Reflink, SendFile, Splice};
pub use directory::{Entries, Entry, ReadDir};
pub use extended::{
    ATTRIBUTE_MAX, GetAttribute, ListAttributes, RemoveAttribute, SetAttribute, attribute_names,
};
pub use file::{Read, ReadAt, Seek, Whence, Write, WriteAt};
pub use file_system::{FileSystemStatus, StatFileSystem};
pub use lent::Lent;
pub use load::Load;
pub use name::{Link, Mkdir, Name, ReadLink, Rename, Symlink, Unlink};
pub use node::{MakeNode, Node};
pub use open::Open;
pub use open_file::OpenFile;
pub use open_stat::{OpenStat, Opened};
pub use shared::SharedBuffer;
pub use slab::{Slab, SlabBuffer};
pub use socket::{Received, Recv, RecvFrom, Send, SendTo};
pub use status::{FileStatus, FileType, StatFile, StatPath, Timestamp};
pub use storage::{Advice, Advise, Allocate, Close, Fsync, Truncate};
pub use vectored::{SendVectored, Sources, WriteVectored};
pub use waiting::{Exit, Readiness, Sleep, WaitProcess};

use std::os::fd::{AsFd, AsRawFd};

/// The argument word of a descriptor.
fn word(descriptor: &impl AsFd) -> usize {
    descriptor.as_fd().as_raw_fd() as usize
}

/// The argument word of a pointer to memory of the operation.
fn pointer<T>(memory: &mut T) -> usize {
    (&raw mut *memory) as usize
}
