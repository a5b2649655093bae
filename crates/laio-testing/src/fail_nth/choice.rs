//! Which faults a test tries.

use std::env;

use super::{Fault, Kind};

/// The name of the variable with the number of faults that a test tries for each kind of call: 1 by default, `all`
/// for every call with every errno.
const FAULTS: &str = "LAIO_TEST_FAULTS";

/// Returns the faults of one kind for a job that makes this many calls of it, as many as the environment asks for.
/// Another `trial` begins with another errno, so that few faults for each kind reach many errnos.
///
/// # Panics
///
/// If the variable is neither a number nor `all`.
pub fn chosen(kind: &'static Kind, calls: u32, trial: usize) -> Vec<Fault> {
    let wanted = match env::var(FAULTS).as_deref() {
        Ok("all") => usize::MAX,
        Ok(number) => number
            .parse()
            .unwrap_or_else(|_| panic!("{FAULTS} is a number or `all`")),
        Err(_) => 1,
    };
    spread(kind, calls, trial, wanted)
}

fn spread(kind: &'static Kind, calls: u32, trial: usize, wanted: usize) -> Vec<Fault> {
    let errnos = kind.errnos.len();
    let all = calls as usize * errnos;
    let fault = |index: usize| {
        let errno = kind.errnos[(index + trial) % errnos];
        Fault::errno(kind, (index / errnos) as u32 + 1, errno)
    };
    let count = wanted.min(all);
    // Seven calls further for each trial, because the first ones are often those of the loader.
    let at = |step: usize| (step * all / count + if count < all { trial * 7 } else { 0 }) % all;
    (0..count).map(|step| fault(at(step))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fail_nth::kind;
    use std::collections::HashSet;

    #[test]
    fn all_are_each_call_with_each_errno() {
        let fsync = kind("fsync").unwrap();
        for trial in [0, 3] {
            let all = spread(fsync, 3, trial, usize::MAX);
            let texts: HashSet<String> = all.iter().map(Fault::to_string).collect();
            assert_eq!(texts.len(), 3 * fsync.errnos.len());
        }
    }

    #[test]
    fn few_are_spread() {
        let fsync = kind("fsync").unwrap();
        assert!(spread(fsync, 0, 1, 5).is_empty());
        assert_eq!(spread(fsync, 100, 1, 5).len(), 5);
        let ones: HashSet<String> = (0..4)
            .map(|trial| spread(fsync, 100, trial, 1)[0].to_string())
            .collect();
        assert_eq!(ones.len(), 4);
    }
}
