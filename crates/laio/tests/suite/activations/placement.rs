//! Which calls are made on a carrier, and which go to the background from the start.

use super::support::{for_each_detector, lacks};
use crate::harness::{Arg, LIMIT, at_mut, call, cstring, own, plain, start, wait_for};
use laio::{BackendKind, Context, Options, Outcome};
use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::temp::stream_pair;
use laio_testing::{FaultFs, or_skip};
use std::os::fd::{AsRawFd, OwnedFd};

const PAGE: usize = 4096;
/// More than enough for a habit to form, and to be tried again.
const MANY: u64 = 200;

/// A file of one page, whose reads block while it is not in the page cache.
struct SlowFile {
    fs: FaultFs,
    fd: OwnedFd,
}

impl SlowFile {
    fn mount() -> Option<SlowFile> {
        let fs = or_skip(FaultFs::options().cached(true).mount())?;
        fs.add_file("file", &[7; PAGE]);
        let fd = open(&fs);
        Some(SlowFile { fs, fd })
    }

    /// Reads the page from the server, which answers only after the call has been found to block.
    /// Returns the number of hand-offs.
    fn read_slowly(&self, context: &mut Context) -> u64 {
        let before = context.stats().handoffs;
        let dont_need = libc::POSIX_FADV_DONTNEED.arg();
        plain(libc::SYS_fadvise64, [self.fd.arg(), 0, 0, dont_need]).unwrap();
        self.fs.set(Kind::Read, Fault::Hang);
        let mut page = [0_u8; PAGE];
        let outcome = self.start(context, &mut page);
        let Outcome::Pending(handle) = outcome else {
            panic!("done while the server hangs: {outcome:?}");
        };
        context.flush().unwrap();
        assert!(self.fs.wait_hung(1, LIMIT), "the server has no request");
        self.fs.release(Released::Served);
        self.fs.clear_all();
        assert_eq!(wait_for(context, handle).result, Ok(PAGE));
        assert_eq!(page, [7; PAGE]);
        context.stats().handoffs - before
    }

    fn start(&self, context: &mut Context, page: &mut [u8; PAGE]) -> Outcome {
        let args = [self.fd.arg(), at_mut(page), PAGE, 0];
        start(context, libc::SYS_pread64, args)
    }

    /// Reads the page, which is in memory. Returns whether that was done inline.
    fn read_cached(&self, context: &mut Context) -> bool {
        let mut page = [0_u8; PAGE];
        let outcome = self.start(context, &mut page);
        let (result, inline) = match outcome {
            Outcome::Done(result) => (result, true),
            Outcome::Pending(handle) => (wait_for(context, handle).result, false),
        };
        assert_eq!(result, Ok(PAGE));
        inline
    }

    /// Reads slowly until the calls are not tried any more.
    fn form_habit(&self, context: &mut Context) {
        let formed = (0..MANY).any(|_| self.read_slowly(context) == 0);
        assert!(formed, "each of {MANY} calls took a hand-off");
    }
}

fn open(fs: &FaultFs) -> OwnedFd {
    let name = cstring(fs.join("file"));
    own(plain(
        libc::SYS_openat,
        [libc::AT_FDCWD.arg(), name.arg(), libc::O_RDONLY.arg()],
    ))
}

#[test]
fn reads_that_block_each_time_take_no_hand_off() {
    for_each_detector(|mut context| {
        let Some(file) = SlowFile::mount() else {
            return;
        };
        let handoffs: u64 = (0..MANY).map(|_| file.read_slowly(&mut context)).sum();
        assert!(
            (1..MANY / 5).contains(&handoffs),
            "{handoffs} hand-offs in {MANY} calls"
        );
        assert!(context.info().helper_threads() > 0);
    });
}

#[test]
fn reads_that_no_longer_block_are_made_inline_again() {
    for_each_detector(|mut context| {
        let Some(file) = SlowFile::mount() else {
            return;
        };
        file.form_habit(&mut context);
        let comes_back = (0..MANY).any(|_| file.read_cached(&mut context));
        assert!(comes_back, "none of {MANY} calls was made inline");
        let inline = (0..MANY).filter(|_| file.read_cached(&mut context)).count();
        assert_eq!(inline as u64, MANY);
    });
}

#[test]
fn another_file_with_the_number_is_tried() {
    for_each_detector(|mut context| {
        let Some(file) = SlowFile::mount() else {
            return;
        };
        let other = open(&file.fs);
        for ends in ["dup3", "forget"] {
            file.form_habit(&mut context);
            match ends {
                "dup3" => {
                    let args = [other.arg(), file.fd.arg(), libc::O_CLOEXEC.arg()];
                    assert!(call(&mut context, libc::SYS_dup3, args).is_ok());
                }
                _ => context.forget(file.fd.as_raw_fd()),
            }
            assert_eq!(file.read_slowly(&mut context), 1, "{ends}");
        }
    });
}

/// Such a `sendfile` waits for the file only, so it needs no helper.
#[test]
fn sendfile_on_a_nonblocking_socket_is_made_inline() {
    let options = Options::new().backend(BackendKind::Activations);
    let mut context = match Context::new(options) {
        Ok(context) => context,
        Err(errno) => return lacks("activations", errno.to_string()),
    };
    let (near, far) = stream_pair();
    rustix::io::ioctl_fionbio(&near, true).unwrap();
    let name = cstring("contents");
    let file = own(plain(libc::SYS_memfd_create, [name.arg(), 0]));
    rustix::io::write(&file, &[7; PAGE]).unwrap();
    let mut page = [0_u8; PAGE];
    for _ in 0..MANY {
        let mut offset = 0_i64;
        let args = [near.arg(), file.arg(), at_mut(&mut offset), PAGE];
        let outcome = start(&mut context, libc::SYS_sendfile, args);
        assert_eq!(outcome, Outcome::Done(Ok(PAGE)));
        assert_eq!(rustix::io::read(&far, &mut page), Ok(PAGE));
    }
    assert_eq!(context.info().helper_threads(), 0);
}
