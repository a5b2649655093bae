//! Failures while a copy is running.

mod changing;
mod deep;
mod faults;
mod faulty_fs;
mod limits;
mod races;
mod resuming;
mod stopping;
mod verifying;

pub(crate) use faulty_fs::{FaultyFixture, names, trial};

use libtest_mimic::Trial;

use crate::case::{Case, named};

/// The scenarios with the same failure for both programs.
pub(crate) fn cases() -> Vec<Case> {
    named("limits", limits::cases())
}

pub(crate) fn trials() -> Vec<Trial> {
    let rooms = [
        faults::trials(),
        changing::trials(),
        stopping::trials(),
        verifying::trials(),
        resuming::trials(),
        races::trials(),
        deep::trials(),
    ];
    rooms.into_iter().flatten().collect()
}
