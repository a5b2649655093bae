//! The processor time and context switches of a thread or the process.

use std::mem::MaybeUninit;
use std::time::Duration;

/// The usage since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on processors, in its own code and in the kernel.
    pub processor: Duration,
    /// Times that it gave its processor up, to wait.
    pub waits: u64,
    /// Times that its processor was taken from it.
    pub preemptions: u64,
}

impl Usage {
    /// Returns the usage of all threads of the process, including ended ones.
    pub fn of_process() -> Usage {
        Usage::of(libc::RUSAGE_SELF)
    }

    /// Returns the usage of the calling kernel thread.
    pub fn of_thread() -> Usage {
        Usage::of(libc::RUSAGE_THREAD)
    }

    fn of(whose: i32) -> Usage {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a struct of this type; the call fails only for arguments that it does not know,
        // and then leaves the zeros, which are a value of this type.
        let usage = unsafe {
            libc::getrusage(whose, usage.as_mut_ptr());
            usage.assume_init()
        };
        let time =
            |value: libc::timeval| Duration::new(value.tv_sec as u64, value.tv_usec as u32 * 1000);
        Usage {
            processor: time(usage.ru_utime) + time(usage.ru_stime),
            waits: usage.ru_nvcsw as u64,
            preemptions: usage.ru_nivcsw as u64,
        }
    }

    /// Returns the usage since an earlier one.
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            processor: self.processor.saturating_sub(earlier.processor),
            waits: self.waits.saturating_sub(earlier.waits),
            preemptions: self.preemptions.saturating_sub(earlier.preemptions),
        }
    }

    /// Context switches of both kinds.
    pub fn switches(&self) -> u64 {
        self.waits + self.preemptions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_counted() {
        let before = (Usage::of_process(), Usage::of_thread());
        std::thread::spawn(|| {
            let before = Usage::of_thread();
            std::thread::sleep(Duration::from_millis(2));
            assert!(Usage::of_thread().since(&before).waits >= 1);
        })
        .join()
        .unwrap();
        let process = Usage::of_process().since(&before.0);
        assert!(process.switches() >= 1, "{process:?}");
        assert!(Usage::of_thread().processor >= before.1.processor);
    }
}
