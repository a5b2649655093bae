//! Which faults a test tries.

use super::{Fault, Kind};
use crate::extent::Extent;

/// Returns the faults of one kind for a job that makes this many calls of it: one, or every call with every
/// errno in the full extent. Another `trial` begins with another errno, so that few faults for each kind
/// reach many errnos.
pub fn chosen(kind: &'static Kind, calls: u32, trial: usize) -> Vec<Fault> {
    let is_full = Extent::wanted() == Extent::Full;
    spread(kind, calls, trial, if is_full { usize::MAX } else { 1 })
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
