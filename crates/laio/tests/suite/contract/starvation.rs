//! Rule 7: a call that may wait without a bound never takes the helper that another call needs.

use crate::harness::{
    Arg, Way, at, at_mut, collect, cstring, finish, for_each_pending_backend, later, own, pending,
    plain, start, timespec, wait_for, with_helpers,
};
use laio::{BackendKind, Context, Errno, Handle, Outcome};
use laio_testing::temp::scratch;
use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// The number of waiting calls; larger than the number of helpers.
const WAITING: usize = 6;
const HELPERS: u32 = 2;

/// A locked file, and calls that wait for the lock.
struct Locked {
    holder: OwnedFd,
    _waiters: Vec<OwnedFd>,
}

impl Locked {
    fn new(context: &mut Context, directory: &Path) -> (Locked, Vec<Handle>) {
        let path = cstring(directory.join("lock"));
        let open = || {
            let flags = (libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC) as usize;
            let here = libc::AT_FDCWD as usize;
            own(plain(
                libc::SYS_openat,
                [here, at(path.to_bytes_with_nul()), flags, 0o600],
            ))
        };
        let holder = open();
        plain(libc::SYS_flock, [holder.arg(), libc::LOCK_EX as usize]).unwrap();
        let waiters: Vec<OwnedFd> = (0..WAITING).map(|_| open()).collect();
        let handles = waiters
            .iter()
            .map(|fd| pending(context, libc::SYS_flock, [fd.arg(), libc::LOCK_SH as usize]))
            .collect();
        let locked = Locked {
            holder,
            _waiters: waiters,
        };
        (locked, handles)
    }

    fn unlock(&self) {
        plain(libc::SYS_flock, [self.holder.arg(), libc::LOCK_UN as usize]).unwrap();
    }
}

fn read_link(context: &mut Context, link: &CString) -> Result<usize, Errno> {
    let mut target = [0u8; 16];
    let args = [at(link.as_bytes_with_nul()), at_mut(&mut target), 16];
    let here = libc::AT_FDCWD as usize;
    let outcome = start(
        context,
        libc::SYS_readlinkat,
        [here, args[0], args[1], args[2]],
    );
    let result = finish_only(context, outcome);
    assert_eq!(&target[..6], b"target");
    result
}

/// Like `finish`, with other operations in flight.
fn finish_only(context: &mut Context, outcome: Outcome) -> Result<usize, Errno> {
    match outcome {
        Outcome::Done(result) => result,
        Outcome::Pending(handle) => wait_for(context, handle).result,
    }
}

fn link_in(directory: &Path) -> CString {
    let link = directory.join("link");
    std::os::unix::fs::symlink("target", &link).unwrap();
    cstring(link)
}

#[test]
fn waits_for_locks_leave_helpers_to_others() {
    for_each_pending_backend(|way| {
        let directory = scratch();
        let link = link_in(directory.path());
        let mut context = way.with(|options| options.helpers(HELPERS));
        let (locked, _) = Locked::new(&mut context, directory.path());
        assert_eq!(read_link(&mut context, &link), Ok(6));
        locked.unlock();
        for completion in collect(&mut context, WAITING) {
            assert_eq!(completion.result, Ok(0));
        }
    });
}

/// Calls wait for semaphores and futexes, and other calls wake them.
#[test]
fn waking_calls_find_a_helper() {
    for_each_pending_backend(|way| {
        let mut context = way.with(|options| options.helpers(HELPERS));
        let set = plain(libc::SYS_semget, [libc::IPC_PRIVATE as usize, 1, 0o600]).unwrap();
        let operation = |sem_op| libc::sembuf {
            sem_num: 0,
            sem_op,
            sem_flg: 0,
        };
        let (down, up) = (operation(-1), operation(WAITING as i16));
        for _ in 0..WAITING {
            let _ = pending(&mut context, libc::SYS_semop, [set, at(&down), 1]);
        }
        // The waking call may complete before or after some of the calls that it wakes.
        let raised = match start(&mut context, libc::SYS_semop, [set, at(&up), 1]) {
            Outcome::Done(result) => {
                assert_eq!(result, Ok(0));
                0
            }
            Outcome::Pending(_) => 1,
        };
        for completion in collect(&mut context, WAITING + raised) {
            assert_eq!(completion.result, Ok(0));
        }
        plain(libc::SYS_semctl, [set, 0, libc::IPC_RMID as usize, 0]).unwrap();

        let word = 0u32;
        let command = |command: i32| (command | libc::FUTEX_PRIVATE_FLAG) as usize;
        let wait = [at(&word), command(libc::FUTEX_WAIT), 0, 0];
        let mut waiting: HashSet<Handle> = (0..WAITING)
            .map(|_| pending(&mut context, libc::SYS_futex, wait))
            .collect();
        // A later call wakes those that had not begun to sleep.
        let mut waker = None;
        while !waiting.is_empty() {
            let wake = [at(&word), command(libc::FUTEX_WAKE), WAITING];
            if waker.is_none()
                && let Outcome::Pending(handle) = start(&mut context, libc::SYS_futex, wake)
            {
                waker = Some(handle);
            }
            let mut found = Vec::new();
            let soon = Some(Duration::from_millis(1));
            context.poll(&mut found, soon).unwrap();
            for completion in found {
                if waker == Some(completion.handle) {
                    assert!(completion.result.is_ok());
                    waker = None;
                } else {
                    assert_eq!(completion.result, Ok(0));
                    assert!(waiting.remove(&completion.handle));
                }
            }
        }
        drop(context);
    });
}

fn fifos(directory: &Path, count: usize) -> Vec<CString> {
    let fifo = |number: usize| {
        let path = directory.join(number.to_string());
        let kind = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        cstring(path)
    };
    (0..count).map(fifo).collect()
}

/// Starts opens of the writing ends, which wait for readers.
fn open_to_write(context: &mut Context, fifos: &[CString]) -> Vec<Handle> {
    let here = libc::AT_FDCWD as usize;
    let flags = (libc::O_WRONLY | libc::O_CLOEXEC) as usize;
    let open = |fifo: &CString| {
        let args = [here, at(fifo.as_bytes_with_nul()), flags, 0];
        pending(context, libc::SYS_openat, args)
    };
    fifos.iter().map(open).collect()
}

/// Only the helper that opens a name learns that the name is a FIFO without a peer.
#[test]
fn opens_of_fifos_leave_helpers_to_others() {
    for_each_pending_backend(|way| {
        let directory = scratch();
        let link = link_in(directory.path());
        let mut context = way.with(|options| options.helpers(HELPERS));
        let fifos = fifos(directory.path(), WAITING);
        let opens = open_to_write(&mut context, &fifos);
        assert_eq!(read_link(&mut context, &link), Ok(6));
        for open in opens {
            context.cancel(open).unwrap();
            assert_eq!(wait_for(&mut context, open).result, Err(Errno::CANCELED));
        }
    });
}

/// Beyond the limit of waiting calls, a further one fails with `EAGAIN`, and other calls work.
#[test]
fn at_the_limit_of_waits_a_call_fails() {
    for_each_pending_backend(|way| {
        // In this back end each waiting call has a carrier.
        if way.backend == BackendKind::Activations {
            return;
        }
        let directory = scratch();
        let link = link_in(directory.path());
        let limit = WAITING as u32;
        let mut context = way.with(|options| options.helpers(HELPERS).waiting_helpers(limit));
        assert_eq!(context.info().limits().waiting_helpers, limit);
        let (locked, handles) = Locked::new(&mut context, directory.path());
        let word = 0u32;
        let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        let args = [at(&word), wait, 0, 0];
        let refused = start(&mut context, libc::SYS_futex, args);
        assert_eq!(refused, Outcome::Done(Err(Errno::AGAIN)));
        assert_eq!(read_link(&mut context, &link), Ok(6));
        assert!(context.info().helper_threads() <= (HELPERS + limit) as usize);
        // When one of them ends, another may wait.
        context.cancel(handles[0]).unwrap();
        assert_eq!(
            wait_for(&mut context, handles[0]).result,
            Err(Errno::CANCELED)
        );
        let time = timespec(0, 1);
        let args = [at(&word), wait, 0, at(&time)];
        let accepted = start(&mut context, libc::SYS_futex, args);
        assert_eq!(finish_only(&mut context, accepted), Err(Errno::TIMEDOUT));
        locked.unlock();
        collect(&mut context, WAITING - 1);
    });
}

/// With back-pressure the same call begins when a waiting call ends.
#[test]
fn with_back_pressure_a_waiting_call_begins_later() {
    for_each_pending_backend(|way: &Way| {
        if way.backend == BackendKind::Activations {
            return;
        }
        let mut context = way.with(|options| with_helpers(options, 1));
        let word = 0u32;
        let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        let (long, short) = ([at(&word), wait, 0, 0], timespec(0, 1));
        let first = pending(&mut context, libc::SYS_futex, long);
        let second = pending(
            &mut context,
            libc::SYS_futex,
            [at(&word), wait, 0, at(&short)],
        );
        context.cancel(first).unwrap();
        let results: Vec<_> = collect(&mut context, 2)
            .into_iter()
            .map(|one| (one.handle, one.result))
            .collect();
        let expected = [
            (first, Err(Errno::CANCELED)),
            (second, Err(Errno::TIMEDOUT)),
        ];
        assert_eq!(results, expected);
        let outcome = start(
            &mut context,
            libc::SYS_futex,
            [at(&word), wait, 0, at(&short)],
        );
        assert_eq!(finish(&mut context, outcome), Err(Errno::TIMEDOUT));
    });
}

/// With back-pressure an open that a helper finds to wait begins when another waiting call ends. In the queue it can
/// be cancelled, and calls that end by themselves pass it.
#[test]
fn with_back_pressure_an_open_of_a_fifo_begins_later() {
    for_each_pending_backend(|way: &Way| {
        if way.backend == BackendKind::Activations {
            return;
        }
        let directory = scratch();
        let link = link_in(directory.path());
        let mut context = way.with(|options| with_helpers(options, 1));
        let fifos = fifos(directory.path(), 4);
        let opens = open_to_write(&mut context, &fifos);
        assert_eq!(read_link(&mut context, &link), Ok(6));
        context.cancel(opens[0]).unwrap();
        let first = wait_for(&mut context, opens[0]).result;
        assert_eq!(first, Err(Errno::CANCELED));
        context.cancel(opens[2]).unwrap();
        let third = wait_for(&mut context, opens[2]).result;
        assert_eq!(third, Err(Errno::CANCELED));
        let path = fifos[1].to_str().unwrap().to_owned();
        let reader = later(move || drop(std::fs::File::open(path)));
        let writer = own(wait_for(&mut context, opens[1]).result);
        reader.join().unwrap();
        drop(writer);
        assert_eq!(
            context.pending(),
            1,
            "the last one waits, and ends with the context"
        );
    });
}
