//! Opening the file of a name below the root.

use super::{Config, Symlinks};
use laio::Operation;
use laio::below::{BelowStep, OpenBelow};
use laio::ops::{FileStatus, OpenFile};
use laio_http::files::{Attributes, Failure, Found};
use libc::{RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS};
use std::ffi::CString;
use std::io;
use std::ops::ControlFlow;

/// Opens a name relative to the root.
pub(super) async fn open(config: &Config, name: &[u8]) -> Result<Found<OpenFile>, Failure> {
    let (file, status) = open_below(config, name).await?;
    let modified = status.modified();
    let attributes = Attributes {
        inode: status.inode(),
        size: status.size(),
        modified: (modified.seconds, modified.nanoseconds),
    };
    Ok(Found::from_mode(file, status.mode(), attributes))
}

/// # Errors
/// Those of `openat2` and `statx`.
async fn open_below(config: &Config, name: &[u8]) -> io::Result<(OpenFile, FileStatus)> {
    let resolve = match config.symlinks {
        Symlinks::Within => RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
        Symlinks::Refuse => RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
        Symlinks::Follow => 0,
    };
    let mut opening = OpenBelow::new(config.root.clone(), CString::new(name)?, resolve);
    loop {
        let after = match opening.step()? {
            BelowStep::Open(open) => opening.opened(submit(open).await?),
            BelowStep::Component(open) => opening.component_opened(submit(open).await?),
            BelowStep::ReadLink(read) => opening.link_read(submit(read).await?),
            BelowStep::Stat(stat) => opening.examined(submit(stat).await?),
        };
        if let ControlFlow::Break(found) = after {
            return found;
        }
    }
}

/// Makes an operation, and counts it for tokio's cooperative budget: a task whose operations all finish
/// immediately still lets others run.
async fn submit<O: Operation + Send>(operation: O) -> io::Result<O::Output> {
    let submission = laio_tokio::proactor()?.submit(operation);
    tokio::task::coop::consume_budget().await;
    Ok(submission.await)
}
