//! Probes whether perf events report that a thread of the process sleeps.

use super::{Refusal, setting};
use laio::Errno;
use laio::measure::Sleeps;
use std::time::Duration;

/// Whether a thread's blocking can be observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerfEvents {
    /// Opened, mapped, and seen to report a sleep of the probing thread.
    pub usable: Result<(), Refusal>,
    /// `/proc/sys/kernel/perf_event_paranoid`, where the kernel has it.
    pub paranoid: Option<i32>,
}

impl PerfEvents {
    pub(super) fn probe() -> PerfEvents {
        let paranoid = setting("/proc/sys/kernel/perf_event_paranoid");
        PerfEvents {
            usable: reports_a_sleep().map_err(|errno| refusal(errno, paranoid)),
            paranoid,
        }
    }
}

fn refusal(errno: Errno, paranoid: Option<i32>) -> Refusal {
    let meaning = match errno {
        Errno::NOSYS => "not in this kernel, or hidden by a filter".to_owned(),
        Errno::PERM | Errno::ACCES => match paranoid {
            Some(level) if level > 2 => {
                format!("forbidden by sysctl kernel.perf_event_paranoid = {level}")
            }
            _ => "forbidden by a filter, as in most containers, or by RLIMIT_MEMLOCK".to_owned(),
        },
        Errno::NODEV | Errno::OPNOTSUPP | Errno::NOENT => "not known to this kernel".to_owned(),
        Errno::TIME => "opens, but does not report that a thread sleeps".to_owned(),
        errno => errno.to_string(),
    };
    Refusal::new(errno, meaning)
}

/// Sleeps and checks for a record. Some events open but never report anything (those that count,
/// with `exclude_kernel`), so opening proves nothing. Without a record it returns `ETIME`.
fn reports_a_sleep() -> Result<(), Errno> {
    let sleeps = Sleeps::of_thread()?;
    for _ in 0..8 {
        std::thread::sleep(Duration::from_micros(100));
        if sleeps.any_recorded() {
            return Ok(());
        }
    }
    Err(Errno::TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_support_or_a_reason() {
        if let Err(refusal) = PerfEvents::probe().usable {
            assert!(!refusal.meaning.is_empty());
            assert_ne!(refusal.errno, Errno::INVAL, "the attributes are wrong");
        }
    }
}
