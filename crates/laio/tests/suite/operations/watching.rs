//! Status words, which report the end of an operation while the context's thread is busy.

use super::parked::FRESH;
use crate::harness::*;
use laio::{Call, Context, Errno, Outcome, StatusWord};
use laio_testing::temp::{pipe, scratch};
use std::ffi::CString;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

fn start<const N: usize>(
    context: &mut Context,
    status: &StatusWord,
    number: libc::c_long,
    args: [usize; N],
) -> Outcome {
    // SAFETY: the tests wait for every operation before they leave its memory.
    unsafe { context.call_with_status(Call::new(number, args), 0, NonNull::from(status)) }
}

/// Waits until the status word changes, without polling.
fn watch(status: &StatusWord) -> Result<usize, Errno> {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(result) = status.get() {
            return result;
        }
        assert!(Instant::now() < end, "the word does not change");
        std::thread::yield_now();
    }
}

#[test]
fn the_word_changes_without_the_thread() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (from, to) = pipe();
        let (status, mut buffer) = (StatusWord::new(), [FRESH; 8]);
        let read = [from.arg(), at_mut(&mut buffer), 8];
        let Outcome::Pending(handle) = start(&mut context, &status, libc::SYS_read, read) else {
            panic!("nothing to read");
        };
        assert_eq!((status.get(), status.state()), (None, libc::EINPROGRESS));
        rustix::io::write(&to, b"abc").expect("written");
        assert_eq!(watch(&status), Ok(3));
        assert_eq!(&buffer[..3], b"abc");
        assert_eq!(wait_for(&mut context, handle).result, Ok(3));
        assert_eq!(status.get(), Some(Ok(3)));
    });
}

#[test]
fn errors_and_inline_results_are_reported_too() {
    for_each(|way| {
        let mut context = way.context();
        let status = StatusWord::new();
        let outcome = start(&mut context, &status, libc::SYS_getppid, []);
        let reported = watch(&status);
        assert_eq!(finish(&mut context, outcome), reported);
        assert!(reported.is_ok());
        let outcome = start(&mut context, &status, libc::SYS_close, [usize::MAX]);
        assert_eq!(watch(&status), Err(Errno::BADF));
        assert_eq!(finish(&mut context, outcome), Err(Errno::BADF));
    });
}

#[test]
fn bytes_moved_before_count() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (from, to) = pipe();
        let data = vec![7u8; 300_000];
        let status = StatusWord::new();
        let write = [to.arg(), data.as_ptr() as usize, data.len()];
        let outcome = start(&mut context, &status, libc::SYS_write, write);
        let reader = std::thread::spawn(move || {
            let mut count = 0;
            let mut buffer = vec![0u8; 65_536];
            while count < 300_000 {
                count += rustix::io::read(&from, &mut buffer).expect("the pipe is open");
            }
        });
        assert_eq!(watch(&status), Ok(data.len()));
        assert_eq!(finish(&mut context, outcome), Ok(data.len()));
        reader.join().unwrap();
    });
}

#[test]
fn the_thread_itself_reports_a_cancellation() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (from, _to) = pipe();
        let (status, mut buffer) = (StatusWord::new(), [FRESH; 8]);
        for time_out in [false, true] {
            let read = [from.arg(), at_mut(&mut buffer), 8];
            let Outcome::Pending(handle) = start(&mut context, &status, libc::SYS_read, read)
            else {
                panic!("nothing to read");
            };
            let errno = if time_out {
                let soon = Some(Duration::from_millis(2));
                context.set_timeout(handle, soon).expect("in flight");
                Errno::TIME
            } else {
                context.cancel(handle).expect("in flight");
                Errno::CANCELED
            };
            assert_eq!(wait_for(&mut context, handle).result, Err(errno));
            assert_eq!(status.get(), Some(Err(errno)));
        }
    });
}

/// A reported descriptor belongs to the program, even if the operation is cancelled later.
#[test]
fn a_reported_result_is_final() {
    for_each_pending_backend(|way| {
        let mut context = way.context();
        let directory = scratch();
        let name = CString::new(
            directory
                .path()
                .join("new")
                .into_os_string()
                .into_encoded_bytes(),
        );
        let name = name.expect("no zero");
        let status = StatusWord::new();
        let flags = (libc::O_CREAT | libc::O_RDWR) as usize;
        let open = [libc::AT_FDCWD as usize, name.arg(), flags, 0o600];
        match start(&mut context, &status, libc::SYS_openat, open) {
            Outcome::Done(result) => assert_eq!(Some(result), status.get()),
            Outcome::Pending(handle) => {
                let reported = watch(&status);
                let _ = context.cancel(handle);
                assert_eq!(wait_for(&mut context, handle).result, reported);
            }
        }
        let fd = status.get().expect("it has ended").expect("it was made");
        assert_eq!(call(&mut context, libc::SYS_close, [fd]), Ok(0));
    });
}

/// Helpers of one context write status words that other threads watch.
#[test]
fn another_thread_may_watch() {
    for_each_pending_backend(|way| {
        let mut context = way.context();
        let (from, to) = pipe();
        let (status, mut buffer) = (StatusWord::new(), [FRESH; 8]);
        let read = [from.arg(), at_mut(&mut buffer), 8];
        let outcome = start(&mut context, &status, libc::SYS_read, read);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&status));
            rustix::io::write(&to, b"abcd").expect("written");
            assert_eq!(watcher.join().unwrap(), Ok(4));
        });
        assert_eq!(finish(&mut context, outcome), Ok(4));
    });
}
