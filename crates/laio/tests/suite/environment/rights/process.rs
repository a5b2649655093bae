//! Rights that all threads of the process give up are given up in the background too, whosever rights
//! calls have there.

use super::changes::{self, Change};
use super::operations::{Make, Place};
use super::proactor::by;
use super::{Ended, SKIPPED, compare, ended_in_children, in_a_fork, plainly};
use crate::harness::{Way, call};
use laio::{BackendKind, Context, Options, Proactor, Rights};
use laio_testing::{extent, test_name};

const CHANGES: [&Change; 4] = [
    &changes::ALL_THREADS,
    &changes::BY_ANOTHER_THREAD,
    &changes::FILTER_OF_ALL_THREADS,
    &changes::LANDLOCK_OF_ALL_THREADS,
];

const RIGHTS: [Rights; 2] = [Rights::Thread, Rights::Process];

#[test]
fn what_all_threads_give_up_no_helper_has() {
    if laio_testing::lacks("seccomp") {
        return;
    }
    ended_in_children(test_name!(), |way| {
        // A hand-off would restore the rights.
        if way.backend == BackendKind::Activations {
            return;
        }
        for rights in RIGHTS {
            each_change(&format!("{rights:?} in {way}"), |change| {
                in_context(way, change, rights)
            });
        }
        if way.backend == BackendKind::Lazy {
            for (rights, ring) in RIGHTS
                .into_iter()
                .flat_map(|one| [(one, true), (one, false)])
            {
                let options = Options::new().backend(BackendKind::Lazy).ring(ring);
                let what = format!("{rights:?} in a proactor, ring: {ring}");
                each_change(&what, |change| in_proactor(options.clone(), change, rights));
            }
        }
    });
}

fn each_change(what: &str, scenario: impl Fn(&Change) -> i32) {
    for (index, change) in CHANGES.iter().enumerate() {
        if !extent::chooses(what, index, 3) {
            continue;
        }
        match in_a_fork(|| scenario(change)) {
            Ended::Well => {}
            Ended::Skipped => println!("not here: {}", change.name),
            ended => panic!("{}, {what}: {ended:?}", change.name),
        }
    }
}

fn in_context(way: &Way, change: &Change, rights: Rights) -> i32 {
    let place = Place::new();
    let mut context = Context::new(way.options().rights(rights)).expect("a context");
    across(&place, change, &mut |number, args| {
        call(&mut context, number, args)
    })
}

fn in_proactor(options: Options, change: &Change, rights: Rights) -> i32 {
    let place = Place::new();
    let is_shared = rights == Rights::Process;
    let proactor = Proactor::new(options.rights(rights)).expect("a proactor");
    let ended = across(&place, change, &mut by(&proactor));
    assert!(!is_shared || proactor.stats().one_shots == 0);
    ended
}

/// Makes all calls before the change and after it, and compares the results with the plain calls' results.
fn across(place: &Place, change: &Change, laio: Make<'_>) -> i32 {
    if (change.prepare)(place).is_err() {
        return SKIPPED;
    }
    let warm = place.outcomes("warm", laio);
    assert_eq!(warm, place.outcomes("cold", &mut plainly), "before");
    (change.change)(place, &mut plainly).expect("allowed for all threads");
    compare(place, "changed", laio);
    if let Some(back) = change.back {
        back(place, &mut plainly).expect("a way back");
        compare(place, "back", laio);
    }
    0
}
