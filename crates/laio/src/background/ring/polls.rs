//! The poll requests that a context has on its own ring, besides its operations: each ends a wait.

use super::super::doorbell::Doorbell;
use io_uring::{opcode, squeue, types};
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// What is polled. The discriminant is the high half of the user data; the low half is zero, which no
/// operation's handle has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Polled {
    Doorbell = 1,
    /// The mount table, which changes with each mount.
    Mounts = 2,
    /// The timer of the operations' deadlines.
    Timer = 3,
}

/// Other requests have user data from here on.
pub(super) const FIRST_OTHER: u64 = 4 << 32;

/// The poll requests, of which each reports one event and is then made again.
#[derive(Debug, Default)]
pub(super) struct Polls {
    mounts: Option<RawFd>,
    /// Only if the pollable descriptor must report it.
    timer: Option<RawFd>,
    is_armed: [bool; 3],
    has_fired: [bool; 3],
    /// Whether a poll has failed with `EBADF`.
    lost_descriptor: bool,
}

impl Polls {
    pub(super) fn new(mounts: Option<RawFd>) -> Polls {
        Polls {
            mounts,
            ..Polls::default()
        }
    }

    /// The requests that are not on the ring. `doorbell`: if it may end the wait.
    pub(super) fn missing(
        &self,
        doorbell: Option<&Doorbell>,
    ) -> impl Iterator<Item = (Polled, squeue::Entry)> + use<> {
        let readable = libc::POLLIN as u32;
        let changed = (libc::POLLPRI | libc::POLLERR) as u32;
        let doorbell = doorbell.map(|doorbell| doorbell.as_fd().as_raw_fd());
        let is_armed = self.is_armed;
        [
            (Polled::Doorbell, doorbell, readable),
            (Polled::Mounts, self.mounts, changed),
            (Polled::Timer, self.timer, readable),
        ]
        .into_iter()
        .filter(move |(polled, ..)| !is_armed[polled.index()])
        .filter_map(|(polled, fd, events)| {
            let entry = opcode::PollAdd::new(types::Fd(fd?), events).build();
            Some((polled, entry.user_data((polled as u64) << 32)))
        })
    }

    /// A request is on the ring.
    pub(super) fn armed(&mut self, polled: Polled) {
        self.is_armed[polled.index()] = true;
    }

    /// A request has ended, with the result of its CQE. `user_data` is less than [`FIRST_OTHER`].
    pub(super) fn ended(&mut self, user_data: u64, result: i32) {
        let index = (user_data >> 32) as usize - 1;
        self.is_armed[index] = false;
        self.has_fired[index] |= result >= 0;
        self.lost_descriptor |= result == -libc::EBADF;
    }

    pub(super) fn is_armed(&self, polled: Polled) -> bool {
        self.is_armed[polled.index()]
    }

    /// Whether the polled descriptor has reported an event since the last call.
    pub(super) fn take_fired(&mut self, polled: Polled) -> bool {
        std::mem::take(&mut self.has_fired[polled.index()])
    }

    /// Whether the program has closed one of the descriptors, found since the last call: to poll it again at
    /// once would end every wait.
    pub(super) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost_descriptor)
    }

    pub(super) fn set_timer(&mut self, timer: RawFd) {
        self.timer = Some(timer);
    }
}

impl Polled {
    fn index(self) -> usize {
        self as usize - 1
    }
}
