//! The same changes, by a thread that uses a proactor whose drivers were started before or after them.

use super::changes::{self, Change};
use super::operations::Place;
use super::{DOES_NOT_APPLY, Ended, SKIPPED, When, compare, in_a_fork, plainly};
use crate::harness::LIMIT;
use crate::proactor::support::block_on;
use laio::{BackendKind, Call, Errno, Operation, Options, Proactor};
use laio_testing::{child, extent, test_name};
use std::ffi::c_long;

const CHANGES: [&Change; 22] = [
    &changes::CAPABILITIES,
    &changes::EFFECTIVE_CAPABILITIES,
    &changes::FILE_SYSTEM_USER,
    &changes::FILE_SYSTEM_GROUP,
    &changes::USERS,
    &changes::EFFECTIVE_USER,
    &changes::ALL_THREADS,
    &changes::BY_ANOTHER_THREAD,
    &changes::GROUPS,
    &changes::FURTHER_GROUPS,
    &changes::NO_NEW_PRIVILEGES,
    &changes::LANDLOCK_FILES,
    &changes::LANDLOCK_AFTER_CAPABILITIES,
    &changes::LANDLOCK_CONNECTIONS,
    &changes::FILTER,
    &changes::SECOND_FILTER,
    &changes::MOUNTS,
    &changes::OTHER_MOUNTS,
    &changes::ROOT,
    &changes::WORKING_DIRECTORY,
    &changes::NETWORK,
    &changes::USER_NAMESPACE,
];

#[test]
fn a_driver_lends_no_rights() {
    if laio_testing::lacks("seccomp") {
        return;
    }
    // SAFETY: geteuid takes no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return laio_testing::skip("root", "only root has rights to give up");
    }
    let everywhere = || {
        for ring in [true, false] {
            let options = Options::new().backend(BackendKind::Lazy).ring(ring);
            for (index, change) in CHANGES.into_iter().enumerate() {
                for when in [When::Before, When::Fresh, When::Used, When::Shared] {
                    if !extent::chooses(&format!("{when:?} {ring}"), index, 3) {
                        continue;
                    }
                    let what = format!("{} {when:?}, ring: {ring}", change.name);
                    match in_a_fork(|| scenario(&options, change, when)) {
                        Ended::Well => {}
                        // The tests of contexts show what this machine lacks.
                        Ended::Skipped => println!("not here: {what}"),
                        ended => panic!("{what}: {ended:?}"),
                    }
                }
            }
        }
    };
    let ended = child::run(LIMIT * 8, test_name!(), "", everywhere).expect("one child");
    let well = ended.status.is_some_and(|status| status.success()) && ended.finished;
    assert!(well, "{:?}\n{}", ended.status, ended.output);
}

/// A call whose memory lives until it is over: the tests wait for it.
struct Raw(Call);

// SAFETY: as above.
unsafe impl Operation for Raw {
    type Output = Result<usize, Errno>;

    fn call(&mut self) -> Call {
        self.0
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        result
    }
}

pub(super) fn by(
    proactor: &Proactor,
) -> impl FnMut(c_long, [usize; 6]) -> Result<usize, Errno> + '_ {
    |number, args| block_on(proactor.submit(Raw(Call::new(number, args))))
}

fn scenario(options: &Options, change: &Change, when: When) -> i32 {
    let place = Place::new();
    if (change.prepare)(&place).is_err() {
        return SKIPPED;
    }
    if when == When::Shared {
        changes::drop_administration();
    }
    let new = || Proactor::new(options.clone()).expect("a proactor");
    let early = (when != When::Before).then(new);
    if let (When::Used | When::Shared, Some(proactor)) = (when, &early) {
        let warm = place.outcomes("warm", &mut by(proactor));
        assert_eq!(warm, place.outcomes("cold", &mut plainly));
    }
    // The kernel refuses some changes to a process with threads, or to a thread without capabilities.
    if (change.change)(&place, &mut plainly).is_err() {
        return if when == When::Before {
            SKIPPED
        } else {
            DOES_NOT_APPLY
        };
    }
    let proactor = early.unwrap_or_else(new);
    compare(&place, "changed", &mut by(&proactor));
    if let Some(back) = change.back {
        back(&place, &mut plainly).expect("a way back");
        compare(&place, "back", &mut by(&proactor));
    }
    0
}
