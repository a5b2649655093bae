//! The records of perf about a thread, as times off the processor.

use crate::waits::OffTime;
use laio::Errno;
use laio::switches::{SwitchRecord, SwitchRecords};

/// How many page faults are remembered between two looks.
const MAX_FAULTS: usize = 64;

/// The records of a thread since the last look.
#[derive(Debug)]
pub(crate) struct Records {
    source: SwitchRecords,
    taken: Vec<SwitchRecord>,
    off: Vec<OffTime>,
    faults: Vec<u64>,
}

impl Records {
    /// Begins to record a thread.
    pub(crate) fn open(tid: u32) -> Result<Records, Errno> {
        Ok(Records {
            source: SwitchRecords::open(tid)?,
            taken: Vec::new(),
            off: Vec::new(),
            faults: Vec::new(),
        })
    }

    /// Takes what has been recorded since the last time. Returns how many records were lost.
    pub(crate) fn update(&mut self) -> u64 {
        self.off.retain(|off| off.end.is_none());
        self.faults.clear();
        self.taken.clear();
        self.source.take(&mut self.taken);
        let mut lost = 0;
        for record in &self.taken {
            match *record {
                SwitchRecord::Out { at, is_preemption } => self.off.push(OffTime {
                    start: at,
                    end: None,
                    is_preemption,
                }),
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

    /// The times off the processor: the ones that have ended since the last look, and the one that lasts.
    pub(crate) fn off(&self) -> &[OffTime] {
        &self.off
    }

    /// The address of the first page fault that has ended since the last look.
    pub(crate) fn fault(&self) -> Option<u64> {
        self.faults.first().copied()
    }
}
