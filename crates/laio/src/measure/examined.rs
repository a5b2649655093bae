//! Opening a file and reading its status as one typed operation, and closing it.

use crate::measure::{Caller, Direct, Plain, Subject, Via, expect, the_completion};
use crate::ops::{Close, Name, OpenStat, Opened, StatFile};
use crate::{Call, Context, Errno, Operation, Outcome};
use std::ffi::CString;
use std::hint::black_box;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

/// [`OpenStat`] and [`Close`] of a file; as plain calls `openat`, `statx` and `close`.
#[derive(Debug)]
pub struct OpenStatClose {
    path: CString,
}

const FLAGS: i32 = libc::O_RDONLY | libc::O_CLOEXEC;

impl OpenStatClose {
    /// # Errors
    /// `EINVAL` if the path has a zero byte in it.
    pub fn new(path: &Path) -> Result<OpenStatClose, Errno> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
        Ok(OpenStatClose { path })
    }

    fn by_calls(&self, mut caller: impl Caller) -> Result<(), Errno> {
        // SAFETY: plain data, for which all zeros is a valid value.
        let mut status: libc::statx = unsafe { std::mem::zeroed() };
        let (path, empty) = (self.path.as_ptr() as usize, c"".as_ptr() as usize);
        let open = [libc::AT_FDCWD as usize, path, FLAGS as usize, 0];
        let fields = (libc::STATX_BASIC_STATS | libc::STATX_BTIME) as usize;
        // SAFETY: name and buffer live through the calls, none of which is pending afterwards; the
        // descriptor is the one just opened.
        unsafe {
            let fd = caller.call(black_box(&Call::new(libc::SYS_openat, open)))?;
            let flags = libc::AT_EMPTY_PATH as usize;
            let stat = [fd, empty, flags, fields, (&raw mut status) as usize];
            caller.call(black_box(&Call::new(libc::SYS_statx, stat)))?;
            expect(caller.call(black_box(&Call::new(libc::SYS_close, [fd]))), 0)
        }
    }

    fn by_operations(&self, context: &mut Context) -> io::Result<()> {
        let opened: Opened = run(
            context,
            OpenStat::new(Name::new(self.path.clone()), libc::O_RDONLY),
        )?;
        let has_status = black_box(opened.status()).is_some();
        let mut file = opened.into_own_descriptor();
        if !has_status {
            let shared = std::rc::Rc::new(file);
            black_box(run(context, StatFile::new(shared.clone())))?;
            file = std::rc::Rc::into_inner(shared).expect("the operation is over");
        }
        run(context, Close::new(file))
    }
}

fn run<O: Operation>(context: &mut Context, operation: O) -> O::Output {
    match context.submit(operation) {
        Outcome::Done(output) => output,
        Outcome::Pending(ticket) => {
            let _ = the_completion(context);
            context.take(ticket).expect("the only operation in flight")
        }
    }
}

impl Subject for OpenStatClose {
    fn run(&mut self, via: &mut Via<'_>, count: usize) -> Result<u64, Errno> {
        let start = Instant::now();
        for _ in 0..count {
            match via {
                Via::Plain => self.by_calls(Plain)?,
                Via::Direct => self.by_calls(Direct)?,
                Via::Context(context) => self.by_operations(context)?,
                Via::Ring(_) => return Err(Errno::OPNOTSUPP),
            }
        }
        Ok(start.elapsed().as_nanos() as u64)
    }
}
