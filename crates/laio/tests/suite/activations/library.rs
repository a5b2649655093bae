//! The state that the C library and the compiler keep for a thread follows the program to its next
//! carrier.

use super::support::{for_each_detector, start};
use crate::harness::timespec;
use laio::{BackendKind, Context, Options, Outcome};
use laio_testing::temp::stream_pair;
use laio_testing::{child, test_name};
use std::cell::Cell;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(360);

/// Makes a call that blocks, so that the program continues on another carrier; then ends the call.
fn hand_off(context: &mut Context, meanwhile: impl FnOnce()) {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let mut buffer = 0u8;
    let before = rustix::thread::gettid();
    let args = [reader.as_raw_fd() as usize, (&raw mut buffer) as usize, 1];
    let outcome = start(context, libc::SYS_read, args);
    assert!(matches!(outcome, Outcome::Pending(_)), "{outcome:?}");
    assert_ne!(rustix::thread::gettid(), before, "another kernel thread");
    meanwhile();
    rustix::io::write(&writer, b"x").unwrap();
    let mut completions = Vec::new();
    while completions.is_empty() {
        context.poll(&mut completions, None).unwrap();
    }
    assert_eq!((completions[0].result, buffer), (Ok(1), b'x'));
}

/// A mutex of the C library that checks its owner.
struct Owned(libc::pthread_mutex_t);

impl Owned {
    fn new(prepare: impl FnOnce(*mut libc::pthread_mutexattr_t) -> i32) -> Box<Owned> {
        // SAFETY: both are initialised before use; the mutex does not move afterwards.
        unsafe {
            let mut attributes = std::mem::zeroed();
            assert_eq!(libc::pthread_mutexattr_init(&mut attributes), 0);
            assert_eq!(prepare(&mut attributes), 0);
            let mut mutex = Box::new(Owned(std::mem::zeroed()));
            assert_eq!(libc::pthread_mutex_init(&mut mutex.0, &attributes), 0);
            mutex
        }
    }
}

#[test]
fn mutexes_know_their_owner() {
    for_each_detector(|mut context| {
        // SAFETY: initialised.
        let checked =
            |it| unsafe { libc::pthread_mutexattr_settype(it, libc::PTHREAD_MUTEX_ERRORCHECK) };
        // SAFETY: initialised.
        let robust =
            |it| unsafe { libc::pthread_mutexattr_setrobust(it, libc::PTHREAD_MUTEX_ROBUST) };
        let mut held = [Owned::new(checked), Owned::new(robust)];
        let plain = Mutex::new(0);
        for _ in 0..20 {
            let guard = plain.lock().unwrap();
            for mutex in &mut held {
                // SAFETY: initialised.
                assert_eq!(unsafe { libc::pthread_mutex_lock(&mut mutex.0) }, 0);
            }
            hand_off(&mut context, || {});
            for mutex in &mut held {
                // SAFETY: initialised.
                assert_eq!(unsafe { libc::pthread_mutex_unlock(&mut mutex.0) }, 0);
            }
            drop(guard);
        }
    });
}

#[test]
fn errno_and_variables_are_the_programs() {
    std::thread_local! {
        static HERE: Cell<u32> = const { Cell::new(0) };
    }
    for_each_detector(|mut context| {
        HERE.set(0);
        for round in 1..20 {
            // SAFETY: fails, and sets errno.
            assert_eq!(unsafe { libc::close(-1) }, -1);
            hand_off(&mut context, || {
                let errno = std::io::Error::last_os_error().raw_os_error();
                assert_eq!(errno, Some(libc::EBADF));
            });
            HERE.set(HERE.get() + 1);
            assert_eq!(HERE.get(), round);
        }
    });
}

/// A panic unwinds frames that began on another kernel thread.
#[test]
fn a_panic_unwinds() {
    for_each_detector(|mut context| {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            hand_off(&mut context, || {});
            std::panic::resume_unwind(Box::new(7));
        }));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&7));
        hand_off(&mut context, || {});
    });
}

/// The thread can be joined although the program ended on another carrier, and its destructors have run.
#[test]
fn a_thread_that_returns_is_joined() {
    static ENDED: AtomicU32 = AtomicU32::new(0);
    struct Last;
    impl Drop for Last {
        fn drop(&mut self) {
            ENDED.fetch_add(1, SeqCst);
        }
    }
    std::thread_local! {
        static LAST: Last = const { Last };
    }
    let rounds = 10;
    for _ in 0..rounds {
        let thread = std::thread::spawn(|| {
            LAST.with(|_| {});
            for_each_detector(|mut context| hand_off(&mut context, || {}));
        });
        thread.join().unwrap();
    }
    assert_eq!(ENDED.load(SeqCst), rounds);
}

/// `sched_getcpu` asks the kernel, because the kernel cannot write the CPU into the thread's memory here.
#[test]
fn the_processor_is_right() {
    let here = || {
        let mut processor = 0u32;
        let nothing = std::ptr::null_mut::<u32>();
        // SAFETY: the kernel writes one number.
        unsafe { libc::syscall(libc::SYS_getcpu, &raw mut processor, nothing, nothing) };
        processor as i32
    };
    for_each_detector(|mut context| {
        for _ in 0..20 {
            hand_off(&mut context, || {});
            let is_told = || {
                let before = here();
                // SAFETY: no pointers.
                let reported = unsafe { libc::sched_getcpu() };
                (before == here()).then_some(reported == before)
            };
            // Checked only if the kernel has not moved the thread meanwhile.
            assert!((0..1_000).find_map(|_| is_told()).unwrap());
        }
    });
}

/// The thread's name, set before, applies to its carriers.
#[test]
fn carriers_have_the_name() {
    child::check(LIMIT, test_name!(), "", || {
        rustix::thread::set_name(c"a-program").unwrap();
        for_each_detector(|mut context| {
            hand_off(&mut context, || {
                assert_eq!(rustix::thread::name().unwrap().as_c_str(), c"a-program");
            });
        });
    });
}

/// Signals that the program blocks are blocked on every carrier.
#[test]
fn carriers_have_the_signal_mask() {
    let change = |context: &mut Context, how: i32| {
        let set = 1u64 << (libc::SIGUSR2 - 1);
        let (at, nowhere) = ((&raw const set) as usize, 0);
        let args = [how as usize, at, nowhere, size_of_val(&set)];
        let changed = start(context, libc::SYS_rt_sigprocmask, args);
        assert_eq!(changed, Outcome::Done(Ok(0)));
    };
    let is_blocked = || {
        // SAFETY: the set is filled in before it is read.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut set);
            libc::sigismember(&set, libc::SIGUSR2) == 1
        }
    };
    for_each_detector(|mut context| {
        change(&mut context, libc::SIG_BLOCK);
        hand_off(&mut context, || assert!(is_blocked()));
        change(&mut context, libc::SIG_UNBLOCK);
        hand_off(&mut context, || assert!(!is_blocked()));
    });
}

/// Carriers also take over a mask that the program has set without laio after making the context: a signal to the
/// process stays pending, and does not end it.
#[test]
fn carriers_have_a_mask_set_without_laio() {
    // Whether it was blocked before.
    let change = |how| {
        // SAFETY: the sets are filled in before they are read.
        unsafe {
            let mut old = std::mem::zeroed();
            libc::pthread_sigmask(how, &only(libc::SIGTERM), &mut old);
            libc::sigismember(&old, libc::SIGTERM) == 1
        }
    };
    let body = || {
        for_each_detector(|mut context| {
            for _ in 0..2 {
                change(libc::SIG_BLOCK);
                hand_off(&mut context, || {
                    assert!(change(libc::SIG_BLOCK), "the signal was not blocked before");
                    // SAFETY: plain calls; nothing is written. The signal is pending, for the thread or for the
                    // process.
                    let taken = unsafe {
                        assert_eq!(libc::kill(libc::getpid(), libc::SIGTERM), 0);
                        let long = timespec(LIMIT.as_secs() as i64 / 2, 0);
                        libc::sigtimedwait(&only(libc::SIGTERM), std::ptr::null_mut(), &long)
                    };
                    assert_eq!(taken, libc::SIGTERM);
                });
                change(libc::SIG_UNBLOCK);
                hand_off(&mut context, || assert!(!change(libc::SIG_UNBLOCK)));
            }
        });
    };
    child::check(LIMIT, test_name!(), "", || {
        // In a child, because the test runner's first thread would take the signal; the child has a single thread.
        // SAFETY: the child ends without returning.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_ok();
                libc::_exit(i32::from(!passed));
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            status
        };
        assert_eq!(status, 0, "killed by a signal, or failed");
    });
}

/// A set of one signal.
fn only(signal: i32) -> libc::sigset_t {
    // SAFETY: the set is filled in.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        set
    }
}

/// A forked child makes its own context; after exec nothing of the context is left.
#[test]
fn other_programs_are_run() {
    for_each_detector(|mut context| {
        hand_off(&mut context, || {
            let mut shell = std::process::Command::new("/bin/sh");
            let status = shell.args(["-c", "exit 5"]).status().unwrap();
            assert_eq!(status.code(), Some(5));
        });
    });
}

/// At the limit a call that would block fails, and a call that does not block succeeds.
#[test]
fn at_the_limit_no_call_waits() {
    for_each_detector(|context| {
        let detector = context.info().detector().unwrap();
        drop(context);
        let options = Options::new()
            .backend(BackendKind::Activations)
            .carry_streams(true);
        let mut context = Context::new(options.detector(detector).carriers(3)).unwrap();
        // Before Linux 6.4 pipes cannot be read without blocking.
        let pairs: Vec<_> = (0..4).map(|_| stream_pair()).collect();
        let mut buffers = [0u8; 4];
        let mut read = |context: &mut Context, at: usize| {
            let address = (&raw mut buffers[at]) as usize;
            let args = [pairs[at].0.as_raw_fd() as usize, address, 1, 0, 0, 0];
            start(context, libc::SYS_recvfrom, args)
        };
        for at in 0..3 {
            assert!(matches!(read(&mut context, at), Outcome::Pending(_)));
        }
        assert_eq!(
            read(&mut context, 3),
            Outcome::Done(Err(laio::Errno::AGAIN))
        );
        for (_, writer) in &pairs {
            rustix::io::write(writer, b"x").unwrap();
        }
        assert_eq!(read(&mut context, 3), Outcome::Done(Ok(1)));
        let mut completions = Vec::new();
        while completions.len() < 3 {
            context.poll(&mut completions, None).unwrap();
        }
        assert!(completions.iter().all(|one| one.result == Ok(1)));
    });
}
