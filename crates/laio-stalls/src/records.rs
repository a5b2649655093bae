//! The records of perf about a thread, as times off the processor.

use crate::waits::OffTime;
use laio::Errno;
use laio::switches::{SwitchRecord, SwitchRecords};

/// How many page faults are remembered between two looks.
const MAX_FAULTS: usize = 64;

/// The records of a thread.
#[derive(Debug)]
pub(crate) struct Records {
    source: SwitchRecords,
    taken: Vec<SwitchRecord>,
    times: RecordedTimes,
}

/// What the records since the last look say. The kernel's ring, which is taken then, limits them.
#[derive(Debug, Default)]
struct RecordedTimes {
    off: Vec<OffTime>,
    faults: Vec<u64>,
}

impl Records {
    /// Begins to record a thread.
    pub(crate) fn open(tid: u32) -> Result<Records, Errno> {
        Ok(Records {
            source: SwitchRecords::open(tid)?,
            taken: Vec::new(),
            times: RecordedTimes::default(),
        })
    }

    /// Takes what has been recorded since the last time. Returns how many records were lost.
    pub(crate) fn update(&mut self) -> u64 {
        self.taken.clear();
        self.source.take(&mut self.taken);
        self.times.update(&self.taken)
    }

    /// The times off the processor: the ones that have ended since the last look, and the one that lasts.
    pub(crate) fn off(&self) -> &[OffTime] {
        &self.times.off
    }

    /// The address of the first page fault that has ended since the last look.
    pub(crate) fn fault(&self) -> Option<u64> {
        self.times.faults.first().copied()
    }
}

impl RecordedTimes {
    fn update(&mut self, records: &[SwitchRecord]) -> u64 {
        self.off.retain(|off| off.end.is_none());
        self.faults.clear();
        let mut lost = 0;
        for record in records {
            match *record {
                SwitchRecord::Out { at, is_preemption } => {
                    // Without its end, one before it has lost its meaning.
                    self.off.pop_if(|off| off.end.is_none());
                    self.off.push(OffTime {
                        start: at,
                        end: None,
                        is_preemption,
                    });
                }
                SwitchRecord::In { at } => {
                    if let Some(last) = self.off.last_mut() {
                        last.end = Some(at);
                    }
                }
                SwitchRecord::Fault { address, .. } => {
                    if self.faults.len() < MAX_FAULTS {
                        self.faults.push(address);
                    }
                }
                SwitchRecord::Lost(count) => lost += count,
            }
        }
        if lost > 0 {
            // What is left may have begun and ended at any time.
            self.off.clear();
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_of_records_takes_no_more_memory_than_one_look() {
        let mut times = RecordedTimes::default();
        for look in 0..100_000 {
            let out = |at| SwitchRecord::Out {
                at,
                is_preemption: false,
            };
            let fault = SwitchRecord::Fault {
                at: look,
                address: look,
            };
            let records = [out(look), SwitchRecord::In { at: look }, fault, out(look)];
            assert_eq!(times.update(&records), 0);
            assert!(times.off.len() <= 3 && times.faults == [look]);
        }
        times.update(&[SwitchRecord::Fault { at: 0, address: 0 }; MAX_FAULTS * 2]);
        assert_eq!(times.faults.len(), MAX_FAULTS);
        assert_eq!(times.update(&[SwitchRecord::Lost(7)]), 7);
        assert!(times.off.is_empty());
    }
}
