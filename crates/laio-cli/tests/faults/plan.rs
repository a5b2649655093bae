//! Which faults a trial tries.

use std::env;

use laio_testing::fail_nth::{Fault, Kind};

/// Returns the faults of one kind for a job that makes this many calls of it: all of them, or a spread of as many as
/// the environment asks for. Each trial begins at another errno, so that few faults for each reach many errnos.
pub(crate) fn faults(kind: &'static Kind, calls: u32, trial: usize) -> Vec<Fault> {
    let wanted = match env::var("LAIO_TEST_FAULTS").as_deref() {
        Ok("all") => usize::MAX,
        Ok(number) => number
            .parse()
            .expect("LAIO_TEST_FAULTS is a number or `all`"),
        Err(_) => 1,
    };
    let errnos = kind.errnos.len();
    let all = calls as usize * errnos;
    let fault = |index: usize| {
        let errno = kind.errnos[(index + trial) % errnos];
        Fault::errno(kind, (index / errnos) as u32 + 1, errno)
    };
    match wanted >= all {
        true => (0..all).map(fault).collect(),
        // Not a multiple of the number of errnos, so that different n meet different ones.
        false => (0..wanted)
            .map(|step| fault((step * all + trial * 7 % all.max(1)) / wanted % all.max(1)))
            .collect(),
    }
}
