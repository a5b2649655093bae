//! Signals while the program changes its kernel thread: the program handles each one, and no result is wrong.
//!
//! `LAIO_STORM_SIGNALS` sets the number of signals.

use super::stress;
use super::support::{for_each_detector, start};
use laio::Outcome;
use laio_testing::{child, limit, test_name};
use std::cell::Cell;
use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(900);

static HANDLED: AtomicU64 = AtomicU64::new(0);
/// The number of handlers that ran while the program or another handler was inside the critical section.
static WRONG: AtomicU64 = AtomicU64::new(0);

std::thread_local! {
    static PROGRAM: Cell<bool> = const { Cell::new(false) };
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, _: *mut c_void) {
    // The program's own thread-local variables, which no other thread shares.
    if PROGRAM.get() && BUSY.replace(true) {
        WRONG.fetch_add(1, SeqCst);
    }
    BUSY.set(false);
    HANDLED.fetch_add(1, SeqCst);
}

/// A thread that sends signals, alternately to the process and to the thread whose number is given.
struct Storm {
    handled_before: u64,
    over: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    sender: JoinHandle<()>,
}

impl Storm {
    fn begin(home: i32) -> Storm {
        let (over, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (until, count) = (over.clone(), sent.clone());
        let sender = std::thread::spawn(move || {
            while !until.load(SeqCst) {
                let process = std::process::id() as i32;
                // SAFETY: no pointers.
                unsafe {
                    match count.fetch_add(1, SeqCst) % 2 {
                        0 => libc::syscall(libc::SYS_kill, process, libc::SIGUSR1),
                        _ => libc::syscall(libc::SYS_tgkill, process, home, libc::SIGUSR1),
                    };
                }
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        Storm {
            handled_before: HANDLED.load(SeqCst),
            over,
            sent,
            sender,
        }
    }

    fn handled(&self) -> u64 {
        HANDLED.load(SeqCst) - self.handled_before
    }

    fn end(self) {
        self.over.store(true, SeqCst);
        // Pending signals of one number merge; the last one is still handled.
        let handled = || self.handled() > 0;
        assert!(limit::wait_until(Duration::from_secs(60), handled));
        let sent = self.sent.load(SeqCst);
        println!("{sent} sent, {} handled", self.handled());
        self.sender.join().unwrap();
        assert_eq!(
            WRONG.load(SeqCst),
            0,
            "handlers that ran in parallel with the program"
        );
    }
}

fn wanted() -> u64 {
    let wanted = std::env::var("LAIO_STORM_SIGNALS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(500)
}

/// Registers the handler, and returns the number of the calling thread.
fn prepare() -> i32 {
    // SAFETY: the set is filled in before use.
    let none = unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        none
    };
    laio::handle_signal(libc::SIGUSR1, on_signal, 0, &none).unwrap();
    PROGRAM.set(true);
    rustix::thread::gettid().as_raw_nonzero().get()
}

#[test]
fn a_storm_of_signals_changes_no_result() {
    child::check(LIMIT, test_name!(), "", || {
        let home = prepare();
        for_each_detector(|mut context| {
            let storm = Storm::begin(home);
            let mut handoffs = 0;
            while storm.handled() < wanted() {
                handoffs += 200;
                stress::run(&mut context, handoffs);
            }
            storm.end();
        });
    });
}

/// Signals arrive at each instruction of a call that does not block, while it switches to the carrier's stack and back.
#[test]
fn signals_are_handled_at_every_instruction_of_a_call() {
    child::check(LIMIT, test_name!(), "", || {
        let home = prepare();
        let file = tempfile::tempfile().unwrap();
        for_each_detector(|mut context| {
            let storm = Storm::begin(home);
            let mut buffer = 0u64;
            let args = [file.as_raw_fd() as usize, (&raw mut buffer) as usize, 8, 0];
            while storm.handled() < wanted() {
                let outcome = start(&mut context, libc::SYS_pread64, args);
                if !matches!(outcome, Outcome::Done(_)) {
                    context.poll(&mut Vec::new(), None).unwrap();
                }
            }
            storm.end();
        });
    });
}
