//! Who may come in: a file that was asked for before. Files that are read once, however many, put nothing out.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// Names that were asked for, in a table in which later ones take the place of earlier ones.
pub(super) struct Doorkeeper {
    random: RandomState,
    names: Box<[u64]>,
    since: Option<Instant>,
}

/// How often a name was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    First,
    Again,
    /// It is of no use to try to keep it.
    Refused,
}

/// What the last bit of a place says.
const REFUSED: u64 = 1;

impl Doorkeeper {
    /// How long names are remembered: what could not be kept may be something else by then.
    const REMEMBERS: Duration = Duration::from_secs(10);

    pub(super) fn new(names: usize) -> Doorkeeper {
        Doorkeeper {
            random: RandomState::new(),
            names: vec![0; names].into(),
            since: None,
        }
    }

    pub(super) fn see(&mut self, name: &[u8], now: Instant) -> Sight {
        let old = |since| now.saturating_duration_since(since) >= Self::REMEMBERS;
        if self.since.is_none_or(old) {
            self.since = Some(now);
            self.names.fill(0);
        }
        let (place, hash) = self.place(name);
        match std::mem::replace(place, hash) {
            seen if seen == hash => Sight::Again,
            seen if seen == hash | REFUSED => {
                *place = seen;
                Sight::Refused
            }
            _ => Sight::First,
        }
    }

    /// Says not to try again for a while.
    pub(super) fn refuse(&mut self, name: &[u8]) {
        let (place, hash) = self.place(name);
        *place = hash | REFUSED;
    }

    fn place(&mut self, name: &[u8]) -> (&mut u64, u64) {
        let hash = self.random.hash_one(name);
        let place = (hash >> 32) as usize % self.names.len();
        // Not zero, which is nobody.
        (&mut self.names[place], hash & !REFUSED | 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_in_the_second_time() {
        let mut doorkeeper = Doorkeeper::new(64);
        let now = Instant::now();
        assert_eq!(doorkeeper.see(b"a", now), Sight::First);
        assert_eq!(doorkeeper.see(b"a", now), Sight::Again);
        doorkeeper.refuse(b"a");
        assert_eq!(doorkeeper.see(b"a", now), Sight::Refused);
        let later = now + Doorkeeper::REMEMBERS;
        assert_eq!(doorkeeper.see(b"a", later), Sight::First);
    }
}
