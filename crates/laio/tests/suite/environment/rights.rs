//! Calls in the background have the rights that the thread has when it makes them.
//!
//! The tests change rights in each way, at each time, in each back end, and compare laio's results with those of the
//! plain calls at that moment; by default at every second time, another one for each way. Each combination
//! runs in a process of its own, forked from a process with one thread.

use crate::harness::{LIMIT, Way, call, for_each_backend};
use laio::{BackendKind, Context, Errno, Rights};
use laio_testing::{child, extent, test_name};
use std::ffi::c_long;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

#[path = "rights/changes.rs"]
mod changes;
#[path = "rights/meanwhile.rs"]
mod meanwhile;
#[path = "rights/operations.rs"]
mod operations;
#[path = "rights/proactor.rs"]
mod proactor;
#[path = "rights/process.rs"]
mod process;

use changes::Change;
use operations::{Make, Place};

/// The point in time at which the rights change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Before the context is made.
    Before,
    /// With a context that has made no call.
    Fresh,
    /// With a context whose helpers, ring workers and carriers have made all calls once.
    Used,
    /// Like `Used`, by a thread without `CAP_SYS_ADMIN`: Landlock cannot have restricted it unnoticed, so each helper
    /// serves more than one of its calls.
    Shared,
    /// Like `Used`, by a call through the context.
    Through,
    /// Like `Through`, and the program has promised that the rights change in no other way.
    Settled,
}

const TIMES: [When; 6] = [
    When::Before,
    When::Fresh,
    When::Used,
    When::Shared,
    When::Through,
    When::Settled,
];

/// How a forked process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Well,
    Skipped,
    /// The back end `activations` ends a process whose rights were changed without laio.
    Aborted,
    Badly(i32),
    Never,
}

laio_testing::each_test! {
    capabilities_dropped => everywhere(test_name!(), &changes::CAPABILITIES);
    capabilities_not_effective => everywhere(test_name!(), &changes::EFFECTIVE_CAPABILITIES);
    file_system_user => everywhere(test_name!(), &changes::FILE_SYSTEM_USER);
    file_system_group => everywhere(test_name!(), &changes::FILE_SYSTEM_GROUP);
    users => everywhere(test_name!(), &changes::USERS);
    effective_user_and_back => everywhere(test_name!(), &changes::EFFECTIVE_USER);
    effective_user_of_all_threads => everywhere(test_name!(), &changes::ALL_THREADS);
    effective_user_changed_by_another_thread => everywhere(test_name!(), &changes::BY_ANOTHER_THREAD);
    groups => everywhere(test_name!(), &changes::GROUPS);
    further_groups => everywhere(test_name!(), &changes::FURTHER_GROUPS);
    no_new_privileges => everywhere(test_name!(), &changes::NO_NEW_PRIVILEGES);
    landlock_files => everywhere(test_name!(), &changes::LANDLOCK_FILES);
    landlock_files_without_capabilities => everywhere(test_name!(), &changes::LANDLOCK_AFTER_CAPABILITIES);
    landlock_connections => everywhere(test_name!(), &changes::LANDLOCK_CONNECTIONS);
    filter => if !laio_testing::lacks("seccomp") { everywhere(test_name!(), &changes::FILTER) };
    second_filter => if !laio_testing::lacks("seccomp") { everywhere(test_name!(), &changes::SECOND_FILTER) };
    mounts => everywhere(test_name!(), &changes::MOUNTS);
    mounts_of_another_namespace => everywhere(test_name!(), &changes::OTHER_MOUNTS);
    root => everywhere(test_name!(), &changes::ROOT);
    working_directory => everywhere(test_name!(), &changes::WORKING_DIRECTORY);
    network => everywhere(test_name!(), &changes::NETWORK);
    user_namespace => everywhere(test_name!(), &changes::USER_NAMESPACE);
}

fn everywhere(test: &str, change: &Change) {
    ended_in_children(test, |way| {
        for (index, when) in TIMES.into_iter().enumerate() {
            if !extent::chooses(&format!("{} in {way}", change.name), index, 2) {
                continue;
            }
            let ended = in_a_fork(|| scenario(way, change, when));
            let carried = way.backend == BackendKind::Activations;
            match ended {
                Ended::Well => {}
                Ended::Skipped => {
                    let what = format!("{} {when:?} in {way}", change.name);
                    // The context may need rights that the change takes away; and some changes require the capability
                    // CAP_SYS_ADMIN.
                    let need = if carried || when == When::Shared {
                        laio_testing::INAPPLICABLE
                    } else {
                        "confinement"
                    };
                    laio_testing::skip(need, what);
                }
                // As documented: a hand-off would restore the rights.
                Ended::Aborted if carried && behind_its_back(change, when) => {}
                ended => panic!("{} {when:?} in {way}: {ended:?}", change.name),
            }
        }
    });
}

/// Runs a body in each back end, each time in a process of its own.
fn as_root(test: &str, body: impl Fn(&Way) -> i32) {
    ended_in_children(test, |way| {
        let ended = in_a_fork(|| body(way));
        assert_eq!(ended, Ended::Well, "{way}");
    });
}

fn ended_in_children(test: &str, body: impl Fn(&Way)) {
    // SAFETY: geteuid takes no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return laio_testing::skip("root", "only root has rights to give up");
    }
    let ended = child::run(LIMIT * 8, test, "", || for_each_backend(body)).expect("one child");
    let well = ended.status.is_some_and(|status| status.success()) && ended.finished;
    assert!(well, "{:?}\n{}", ended.status, ended.output);
    let skipped = |line: &&str| line.starts_with("skipped: ");
    let skipped = ended.output.lines().filter(skipped);
    skipped.for_each(|line| println!("{line}"));
}

/// Whether the rights change without laio while a context exists.
fn behind_its_back(change: &Change, when: When) -> bool {
    // Changes that no context makes are made without one, whatever the scenario is.
    let is_plain = when == When::Through && !change.through;
    matches!(when, When::Fresh | When::Used | When::Shared) || is_plain || change.back.is_some()
}

/// The exit status if this machine lacks a feature that the change needs.
const SKIPPED: i32 = 77;
/// The exit status if the change is impossible with this back end or at this time.
const DOES_NOT_APPLY: i32 = 0;

fn scenario(way: &Way, change: &Change, when: When) -> i32 {
    let place = Place::new();
    if let Err(reason) = (change.prepare)(&place) {
        println!("{}: {reason}", change.name);
        return SKIPPED;
    }
    if when == When::Settled && !change.through {
        return DOES_NOT_APPLY;
    }
    if when == When::Shared {
        changes::drop_administration();
    }
    let made = |context: Result<Context, Errno>| {
        // `activations` reads files below /proc, which the thread may have lost access to.
        let needs_files = way.backend == BackendKind::Activations;
        context
            .inspect_err(|errno| assert!(needs_files, "no context: {errno}"))
            .ok()
    };
    let mut early = None;
    if when != When::Before {
        early = made(Context::new(way.options().rights(match when {
            When::Settled => Rights::Settled,
            _ => Rights::Thread,
        })));
        if early.is_none() {
            return DOES_NOT_APPLY;
        }
    }
    if matches!(
        when,
        When::Used | When::Shared | When::Through | When::Settled
    ) {
        let context = early.as_mut().expect("made before");
        let warm = place.outcomes("warm", &mut |number, args| call(context, number, args));
        let plain = place.outcomes("cold", &mut |number, args| plainly(number, args));
        assert_eq!(warm, plain, "before the change");
    }
    let changed = match when {
        When::Through | When::Settled => {
            let context = early.as_mut().expect("made before");
            (change.change)(&place, &mut |number, args| call(context, number, args))
        }
        _ => (change.change)(&place, &mut |number, args| plainly(number, args)),
    };
    match changed {
        Ok(()) => {}
        Err(errno) => {
            println!("{} {when:?}: {errno}", change.name);
            // The kernel refuses some changes to a process with threads, or to a thread without capabilities; but a
            // single thread with all rights can make each change, unless the machine forbids it.
            return match when {
                When::Before => SKIPPED,
                _ => DOES_NOT_APPLY,
            };
        }
    }
    let Some(mut context) = early.or_else(|| made(Context::new(way.options()))) else {
        return DOES_NOT_APPLY;
    };
    compare(&place, "changed", &mut |number, args| {
        call(&mut context, number, args)
    });
    if let Some(back) = change.back {
        let gained = match when {
            When::Settled => back(&place, &mut |number, args| call(&mut context, number, args)),
            _ => back(&place, &mut |number, args| plainly(number, args)),
        };
        gained.expect("a way back");
        compare(&place, "back", &mut |number, args| {
            call(&mut context, number, args)
        });
    }
    drop(context);
    0
}

/// Asserts that laio's results equal those of the plain calls; more than once, since the first call may change which
/// helper makes the next one.
fn compare(place: &Place, stage: &str, laio: Make<'_>) {
    for round in 0..2 {
        let plain = place.outcomes(&format!("plain-{stage}-{round}"), &mut |number, args| {
            plainly(number, args)
        });
        let laio = place.outcomes(&format!("laio-{stage}-{round}"), laio);
        let differing: Vec<_> = plain.iter().zip(&laio).filter(|(a, b)| a != b).collect();
        assert!(
            differing.is_empty(),
            "{stage}, round {round}: plain and laio differ: {differing:#?}"
        );
    }
}

fn plainly(number: c_long, args: [usize; 6]) -> Result<usize, Errno> {
    crate::harness::plain(number, args)
}

/// Runs a body in a forked process, which has no other threads.
fn in_a_fork(body: impl FnOnce() -> i32) -> Ended {
    // SAFETY: the only other threads of this process are the test harness's, which hold no locks now; the child leaves
    // by _exit.
    let process = unsafe { libc::fork() };
    assert!(process >= 0, "fork: {}", std::io::Error::last_os_error());
    if process == 0 {
        let code = catch_unwind(AssertUnwindSafe(body)).unwrap_or(101);
        // SAFETY: it ends the process.
        unsafe { libc::_exit(code) };
    }
    wait_within(process)
}

fn wait_within(process: i32) -> Ended {
    let end = Instant::now() + LIMIT;
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes the status.
        let waited = unsafe { libc::waitpid(process, &mut status, libc::WNOHANG) };
        assert!(waited >= 0, "waitpid: {}", std::io::Error::last_os_error());
        if waited == process {
            return match status {
                0 => Ended::Well,
                _ if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == SKIPPED => {
                    Ended::Skipped
                }
                _ if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT => {
                    Ended::Aborted
                }
                status => Ended::Badly(status),
            };
        }
        if Instant::now() > end {
            // SAFETY: our own child, which has not been waited for.
            unsafe {
                libc::kill(process, libc::SIGKILL);
                libc::waitpid(process, &mut status, 0);
            }
            return Ended::Never;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
