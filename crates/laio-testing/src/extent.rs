//! How much the tests try: all that they know, or a part by default, so that `cargo test` ends within
//! minutes.

use std::env;

/// The name of the variable with the extent: unset, `all` or `full`.
pub const EXTENT: &str = "LAIO_TEST_EXTENT";

/// How much the tests try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// Each behaviour, with a part of its cases: a plain `cargo test`.
    Usual,
    /// All cases: `all`, as in `.ci/run`.
    All,
    /// Also what takes hours, every fault with every errno: `full`, as in `.ci/full`.
    Full,
}

impl Extent {
    /// Returns the extent that the environment asks for.
    ///
    /// # Panics
    ///
    /// If the variable has another value.
    pub fn wanted() -> Extent {
        match env::var(EXTENT).as_deref() {
            Err(_) | Ok("") => Extent::Usual,
            Ok("all") => Extent::All,
            Ok("full") => Extent::Full,
            Ok(other) => panic!("{EXTENT} is {other:?}, which is neither \"all\" nor \"full\""),
        }
    }
}

/// Returns this number of cases in the extents above the usual one, otherwise a part of it.
pub fn cases(all: u64, usual: u64) -> u64 {
    if Extent::wanted() == Extent::Usual {
        usual
    } else {
        all
    }
}

/// Whether the case with this index of a group is tried: by default one case in `share`. The name of the
/// group decides where its choice begins, so that groups that repeat the same cases (back ends, environments)
/// try different ones.
pub fn chooses(group: &str, index: usize, share: usize) -> bool {
    Extent::wanted() > Extent::Usual || is_turn(group, index, share)
}

fn is_turn(group: &str, index: usize, share: usize) -> bool {
    // FNV-1a: the choice is the same in every process.
    let hash = group.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    ((hash >> 32) as usize + index).is_multiple_of(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_has_its_share() {
        for group in ["", "lazy/Natural", "uring/Natural"] {
            let count = (0..40).filter(|&index| is_turn(group, index, 4)).count();
            assert_eq!(count, 10, "{group}");
        }
    }

    #[test]
    fn groups_begin_at_different_cases() {
        let first = |group: &str| (0..4).find(|&index| is_turn(group, index, 4));
        let names = [
            "threads",
            "hybrid",
            "posix-aio",
            "linux-aio",
            "uring",
            "lazy",
            "activations",
        ];
        let firsts: std::collections::HashSet<_> = names.into_iter().map(first).collect();
        assert!(firsts.len() > 1);
    }
}
