//! The reactor: readiness by epoll, for streams where there is no ring.

use crate::Errno;
use crate::operations::{Direction, Slot};
use crate::sys::high_fd::HighFd;
use rustix::event::epoll;
use rustix::time::Timespec;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::time::Duration;

/// An event that a wait returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The descriptor is ready: the operation can be attempted again.
    Ready(Slot),
    /// The doorbell rang.
    Doorbell,
    /// The mounts have changed.
    Mounts,
    /// The timer of operations' deadlines has expired.
    Timer,
    /// Linux AIO has completions.
    Aio,
}

/// One epoll set. Interest is one-shot: a descriptor closed behind the context's back leaves no
/// registration that a new descriptor with its number could inherit.
pub(crate) struct Reactor {
    epoll: HighFd,
    /// Slot + 1 of the operations that wait to read and to write, by descriptor.
    waiting: Vec<[u32; 2]>,
    waiting_count: usize,
    events: Vec<epoll::Event>,
}

const DOORBELL: u64 = u64::MAX;
const MOUNTS: u64 = u64::MAX - 1;
const TIMER: u64 = u64::MAX - 2;
const AIO: u64 = u64::MAX - 3;

impl Reactor {
    /// Events taken by one wait.
    const EVENTS_MAX: usize = 256;

    pub(crate) fn new(
        doorbell: BorrowedFd<'_>,
        mounts: Option<BorrowedFd<'_>>,
    ) -> Result<Reactor, Errno> {
        let epoll = HighFd::from(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let data = epoll::EventData::new_u64(DOORBELL);
        epoll::add(&epoll, doorbell, data, epoll::EventFlags::IN)?;
        if let Some(mounts) = mounts {
            let data = epoll::EventData::new_u64(MOUNTS);
            // Without it mount changes are noticed later, which is no reason to fail.
            let _ = epoll::add(&epoll, mounts, data, epoll::EventFlags::PRI);
        }
        Ok(Reactor {
            epoll,
            waiting: Vec::new(),
            waiting_count: 0,
            events: Vec::new(),
        })
    }

    /// Arms a readiness event for an operation. Fails with `EPERM` for descriptors that are always
    /// ready.
    pub(crate) fn add(&mut self, fd: RawFd, direction: Direction, slot: Slot) -> Result<(), Errno> {
        let index = usize::try_from(fd).map_err(|_| Errno::BADF)?;
        if index >= self.waiting.len() {
            // An arbitrary number must not allocate memory.
            rustix::io::fcntl_getfd(crate::sys::borrow(fd).ok_or(Errno::BADF)?)?;
            self.waiting
                .resize((index + 1).next_power_of_two().max(64), [0; 2]);
        }
        let place = &mut self.waiting[index][direction as usize];
        assert_eq!(*place, 0, "one operation of a direction waits at a time");
        *place = slot + 1;
        if let Err(errno) = self.arm(fd) {
            self.waiting[index][direction as usize] = 0;
            return Err(errno);
        }
        self.waiting_count += 1;
        Ok(())
    }

    /// Adds a timer to the epoll set.
    pub(crate) fn set_timer(&mut self, timer: BorrowedFd<'_>) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(TIMER);
        Ok(epoll::add(&self.epoll, timer, data, epoll::EventFlags::IN)?)
    }

    /// Adds the eventfd of Linux AIO to the epoll set, edge-triggered, so that it need not be read.
    pub(crate) fn set_aio(&mut self, aio: BorrowedFd<'_>) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(AIO);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.epoll, aio, data, flags)?)
    }

    /// Removes the event of an operation.
    pub(crate) fn remove(&mut self, fd: RawFd, direction: Direction) {
        let place = &mut self.waiting[fd as usize][direction as usize];
        if std::mem::take(place) != 0 {
            self.waiting_count -= 1;
            // The descriptor may be gone; then so is its registration.
            let _ = self.arm(fd);
        }
    }

    /// Registers the current interest in a descriptor.
    fn arm(&self, fd: RawFd) -> Result<(), Errno> {
        let [read, write] = self.waiting[fd as usize];
        let borrowed = crate::sys::borrow(fd).ok_or(Errno::BADF)?;
        let mut flags = epoll::EventFlags::ONESHOT;
        if read != 0 {
            flags |= epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        }
        if write != 0 {
            flags |= epoll::EventFlags::OUT;
        }
        let data = epoll::EventData::new_u64(fd as u64);
        match epoll::modify(&self.epoll, borrowed, data, flags) {
            Err(rustix::io::Errno::NOENT) if read == 0 && write == 0 => Ok(()),
            Err(rustix::io::Errno::NOENT) => Ok(epoll::add(&self.epoll, borrowed, data, flags)?),
            result => Ok(result?),
        }
    }

    /// Waits for events; `None` waits for ever. A signal ends the wait early, without events.
    /// Returns whether one did.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        found: &mut Vec<Event>,
    ) -> Result<bool, Errno> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        });
        self.events.clear();
        self.events.reserve(Reactor::EVENTS_MAX);
        let buffer = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, buffer, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        }
        for event in std::mem::take(&mut self.events) {
            let flags = event.flags;
            match event.data.u64() {
                DOORBELL => found.push(Event::Doorbell),
                MOUNTS => found.push(Event::Mounts),
                TIMER => found.push(Event::Timer),
                AIO => found.push(Event::Aio),
                fd => self.ready(fd as RawFd, flags, found),
            }
        }
        Ok(false)
    }

    fn ready(&mut self, fd: RawFd, flags: epoll::EventFlags, found: &mut Vec<Event>) {
        use epoll::EventFlags as Flags;
        let broken = flags.intersects(Flags::HUP | Flags::ERR);
        let readable = broken || flags.intersects(Flags::IN | Flags::RDHUP);
        let writable = broken || flags.contains(Flags::OUT);
        for (direction, ready) in [(Direction::Read, readable), (Direction::Write, writable)] {
            let place = &mut self.waiting[fd as usize][direction as usize];
            if ready && *place != 0 {
                found.push(Event::Ready(std::mem::take(place) - 1));
                self.waiting_count -= 1;
            }
        }
        // One-shot: the interest in the other direction must be registered again.
        if self.waiting[fd as usize] != [0; 2] {
            let _ = self.arm(fd);
        }
    }

    /// Whether an operation waits for an event.
    pub(crate) fn is_awaiting(&self) -> bool {
        self.waiting_count > 0
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.waiting.capacity() * size_of::<[u32; 2]>()
            + self.events.capacity() * size_of::<epoll::Event>()
    }
}

impl std::fmt::Debug for Reactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reactor")
            .field("waiting", &self.waiting_count)
            .finish_non_exhaustive()
    }
}

impl AsFd for Reactor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
