//! Signals while the program changes its kernel thread: each is handled, by the program, and no result is wrong.

use super::stress;
use super::support::for_each_detector;
use laio_testing::{child, limit, test_name};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

static HANDLED: AtomicU64 = AtomicU64::new(0);
/// Handlers that ran while the program, or another handler of its, was in the middle of something.
static WRONG: AtomicU64 = AtomicU64::new(0);

std::thread_local! {
    static PROGRAM: Cell<bool> = const { Cell::new(false) };
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, _: *mut c_void) {
    // The program's own thread-local variables, and nobody else in them.
    if PROGRAM.get() && BUSY.replace(true) {
        WRONG.fetch_add(1, SeqCst);
    }
    BUSY.set(false);
    HANDLED.fetch_add(1, SeqCst);
}

/// The signals are sent to the process, and to the thread by its first number.
#[test]
fn a_storm_of_signals_changes_no_result() {
    child::check(Duration::from_secs(120), test_name!(), "", || {
        // SAFETY: the set is filled in before use.
        let none = unsafe {
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            none
        };
        laio::handle_signal(libc::SIGUSR1, on_signal, 0, &none).unwrap();
        PROGRAM.set(true);
        let home = rustix::thread::gettid().as_raw_nonzero().get();
        for_each_detector(|mut context| {
            let stop = Arc::new(AtomicBool::new(false));
            let before = HANDLED.load(SeqCst);
            let storm = std::thread::spawn({
                let stop = stop.clone();
                move || {
                    let mut sent = 0u64;
                    while !stop.load(SeqCst) && sent < 5_000 {
                        let process = std::process::id() as i32;
                        // SAFETY: no pointers.
                        unsafe {
                            match sent % 2 {
                                0 => libc::kill(process, libc::SIGUSR1),
                                _ => libc::syscall(libc::SYS_tgkill, process, home, libc::SIGUSR1)
                                    as i32,
                            };
                        }
                        sent += 1;
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    sent
                }
            });
            stress::run(&mut context, 1_000);
            stop.store(true, SeqCst);
            let sent = storm.join().unwrap();
            // Signals of one number merge while they wait; the last one is handled all the same.
            let handled = || HANDLED.load(SeqCst) > before;
            assert!(sent > 0 && limit::wait_until(Duration::from_secs(10), handled));
            println!("{sent} sent, {} handled", HANDLED.load(SeqCst) - before);
        });
        assert_eq!(WRONG.load(SeqCst), 0, "handlers ran beside the program");
    });
}
