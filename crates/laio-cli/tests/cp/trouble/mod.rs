//! What goes wrong while a copy is running.

mod changing;
mod deep;
mod faults;
mod limits;
mod places;
mod races;
mod resuming;
mod stopping;
mod verifying;

pub(crate) use places::{Places, names, trial};

use libtest_mimic::Trial;

use crate::case::{Case, named};

/// The scenarios among them: the same trouble for both programs.
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
