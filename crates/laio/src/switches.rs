//! Records of perf about a thread of any process: when it leaves a processor and when it gets one, and
//! the addresses of its page faults that had to wait.
//!
//! For `laio stalls`, which may not contain unsafe code: a program that uses the library does not have
//! this.

use crate::Errno;
use crate::sys::perf::{Attributes, MAJOR_FAULTS, Ring};

/// What the kernel has recorded. Times are of the monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchRecord {
    /// The thread has left its processor; another one may have taken it away.
    Out {
        /// When.
        at: u64,
        /// Whether the thread could have run on.
        is_preemption: bool,
    },
    /// The thread has got a processor.
    In {
        /// When.
        at: u64,
    },
    /// A page fault outside of the kernel is over, which had to wait.
    Fault {
        /// When.
        at: u64,
        /// The address that the program has used.
        address: u64,
    },
    /// The ring was full, and so many records are lost.
    Lost(u64),
}

/// The records of one thread.
#[derive(Debug)]
pub struct SwitchRecords(Ring);

impl SwitchRecords {
    /// Begins to record.
    ///
    /// # Errors
    /// If the kernel or a filter of system calls does not permit it, the thread does not exist, or this user
    /// has too many records.
    pub fn open(thread: u32) -> Result<SwitchRecords, Errno> {
        /// The pages of records.
        const PAGES: usize = 8;
        /// A sample has the instruction, the thread, the time and the address; other records end with the
        /// thread and the time.
        const SAMPLE: u64 = 1 | 2 | 4 | 8;
        let mut attributes = Attributes::timed_switches();
        attributes.config = MAJOR_FAULTS;
        attributes.sample_period = 1;
        attributes.sample_type = SAMPLE;
        attributes.wakeup_watermark = (PAGES * rustix::param::page_size() / 2) as u32;
        Ring::open(thread, &attributes, PAGES).map(SwitchRecords)
    }

    /// Takes the records that have arrived, in their order.
    pub fn take(&mut self, records: &mut Vec<SwitchRecord>) {
        parse(&self.0.take(), records);
    }
}

/// Each record begins with its type (4 bytes), flags (2) and size (2). Bytes that are no record end the list.
fn parse(mut bytes: &[u8], records: &mut Vec<SwitchRecord>) {
    const HEADER: usize = 8;
    while let Some(head) = word(bytes, 0) {
        let (kind, flags, size) = (head as u32, (head >> 32) as u16, (head >> 48) as usize);
        if size < HEADER || size > bytes.len() {
            return;
        }
        let (record, rest) = bytes.split_at(size);
        records.extend(parse_one(kind, flags, record));
        bytes = rest;
    }
}

fn parse_one(kind: u32, flags: u16, record: &[u8]) -> Option<SwitchRecord> {
    const LOST: u32 = 2;
    const SAMPLED: u32 = 9;
    const SWITCHED: u32 = 14;
    const OUT: u16 = 1 << 13;
    const PREEMPTED: u16 = 1 << 14;
    match kind {
        LOST => Some(SwitchRecord::Lost(word(record, 16)?)),
        SAMPLED => Some(SwitchRecord::Fault {
            at: word(record, 24)?,
            address: word(record, 32)?,
        }),
        SWITCHED if flags & OUT != 0 => Some(SwitchRecord::Out {
            at: word(record, 16)?,
            is_preemption: flags & PREEMPTED != 0,
        }),
        SWITCHED => Some(SwitchRecord::In {
            at: word(record, 16)?,
        }),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_sleep_is_a_record() {
        if laio_testing::lacks("perf") {
            return laio_testing::skip("perf", "records of a thread");
        }
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut records = SwitchRecords::open(thread).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let mut taken = Vec::new();
        records.take(&mut taken);
        let out = taken.iter().position(|record| {
            matches!(
                record,
                SwitchRecord::Out {
                    is_preemption: false,
                    ..
                }
            )
        });
        let after = &taken[out.unwrap()..];
        let is_in = |record: &SwitchRecord| matches!(record, SwitchRecord::In { .. });
        assert!(after.iter().any(is_in), "{taken:?}");
        let last = taken.iter().filter_map(time).max();
        taken.clear();
        records.take(&mut taken);
        assert!(taken.iter().filter_map(time).all(|at| Some(at) > last));
    }

    fn time(record: &SwitchRecord) -> Option<u64> {
        match *record {
            SwitchRecord::Out { at, .. }
            | SwitchRecord::In { at }
            | SwitchRecord::Fault { at, .. } => Some(at),
            SwitchRecord::Lost(_) => None,
        }
    }

    #[test]
    fn bytes_that_are_no_record_end_the_list() {
        let mut records = Vec::new();
        parse(&[0; 64], &mut records);
        parse(&[255; 64], &mut records);
        parse(&[14, 0, 0, 0, 0, 0, 8, 0], &mut records);
        assert_eq!(records, []);
    }
}
