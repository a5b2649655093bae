//! Habits: whether calls of one kind on one descriptor have blocked nearly every time. For such
//! calls `activations` saves the hand-off: they go to the background from the start.

use crate::table::{Attempt, Class, Row};

/// The kinds of calls on files whose habits are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    /// `fsync`, `fallocate` and other calls on a file's data that have no non-blocking form.
    Other,
}

impl Kind {
    pub(crate) const COUNT: usize = 3;

    /// The kind of a call on a file; `None` for names, and for calls on streams unless they also
    /// read and write files.
    #[inline]
    pub(crate) fn for_row(row: &Row) -> Option<Kind> {
        match (row.class, row.attempt) {
            (Class::FileRead | Class::FileWrite | Class::Stream, Attempt::NowaitRead) => {
                Some(Kind::Read)
            }
            (Class::FileRead | Class::FileWrite | Class::Stream, Attempt::NowaitWrite) => {
                Some(Kind::Write)
            }
            (Class::FileRead | Class::FileWrite, _) if row.descriptors[0].is_some() => {
                Some(Kind::Other)
            }
            _ => None,
        }
    }
}

/// How calls of one kind on one descriptor have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Habit {
    /// A blocked call adds 1, and one that returned takes [`Habit::RETURNED`] off. So it grows only
    /// where more than three of four calls block.
    balance: u8,
    /// How often in a row a call that was tried again has blocked.
    confirmed: u8,
    /// The number of calls that are not tried before the next one is.
    untried: u16,
}

impl Habit {
    /// The balance at which calls are not tried any more.
    const FORMED: u8 = 8;
    /// What a call that returned takes off the balance.
    const RETURNED: u8 = 3;
    /// After so many calls that were not tried, one is.
    const RETRY: u16 = 64;
    /// The number doubles so often at most, each time the call that was tried blocks.
    const DOUBLINGS: u8 = 4;

    /// Whether the next call goes to the background from the start.
    #[inline]
    pub(crate) fn is_expected(self) -> bool {
        self.untried > 0
    }

    /// Whether no call has blocked lately.
    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.balance == 0
    }

    /// Records a call that was not tried.
    pub(crate) fn skipped(&mut self) {
        self.untried -= 1;
    }

    /// Records a call that was tried.
    pub(crate) fn tried(&mut self, blocked: bool) {
        let again = self.balance == Habit::FORMED;
        self.balance = if blocked {
            (self.balance + 1).min(Habit::FORMED)
        } else {
            self.balance.saturating_sub(Habit::RETURNED)
        };
        self.confirmed = if blocked && again {
            (self.confirmed + 1).min(Habit::DOUBLINGS)
        } else {
            0
        };
        self.untried = match self.balance {
            Habit::FORMED => Habit::RETRY << self.confirmed,
            _ => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::row;

    /// A habit after calls that blocked or returned.
    fn after(calls: impl IntoIterator<Item = bool>) -> Habit {
        let mut habit = Habit::default();
        for blocked in calls {
            habit.tried(blocked);
        }
        habit
    }

    #[test]
    fn a_habit_forms_if_nearly_every_call_blocks() {
        let formed = Habit::FORMED as usize;
        assert!(!after(vec![true; formed - 1]).is_expected());
        assert!(after(vec![true; formed]).is_expected());
        let one_of = |calls: usize| (0..1000).map(move |number| number % calls != 0);
        assert!(after(one_of(20)).is_expected());
        assert!(!after(one_of(3)).is_expected());
        assert!(after(vec![false; 3]).is_empty());
    }

    #[test]
    fn one_of_many_calls_is_tried_again() {
        let mut habit = after([true; Habit::FORMED as usize]);
        let skip = |habit: &mut Habit| {
            let mut skipped = 0;
            while habit.is_expected() {
                habit.skipped();
                skipped += 1;
            }
            skipped
        };
        for doublings in [0, 1, 2, 3, 4, 4] {
            assert_eq!(skip(&mut habit), Habit::RETRY << doublings);
            habit.tried(true);
        }
        skip(&mut habit);
        habit.tried(false);
        assert!(!habit.is_expected(), "the calls return again");
        for _ in 0..Habit::RETURNED {
            habit.tried(true);
        }
        assert_eq!(skip(&mut habit), Habit::RETRY);
    }

    #[test]
    fn reads_writes_and_flushes_are_apart() {
        let kind = |number: libc::c_long| Kind::for_row(row(number as usize));
        assert_eq!(kind(libc::SYS_pread64), Some(Kind::Read));
        assert_eq!(kind(libc::SYS_read), Some(Kind::Read));
        assert_eq!(kind(libc::SYS_pwritev), Some(Kind::Write));
        assert_eq!(kind(libc::SYS_fdatasync), Some(Kind::Other));
        for none in [
            libc::SYS_sync,
            libc::SYS_sendfile,
            libc::SYS_openat,
            libc::SYS_close,
        ] {
            assert_eq!(kind(none), None);
        }
    }
}
