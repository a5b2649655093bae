//! Room for buffered writes: how far the kernel's dirty pages are from the limits at which it makes
//! writers wait.
//!
//! Until half of the sum of its two limits (`vm.dirty_background_ratio`, `vm.dirty_ratio`) the kernel
//! lets writers run. The engine stays below a half of that. Between two looks at the counters it
//! makes only a part of the room use of, because other programs write too.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a context may write before it looks again.
#[derive(Debug, Default)]
pub(crate) struct DirtyRoom {
    bytes: u64,
    /// When to look next; `None` before the first look.
    next: Option<Duration>,
    /// The control groups whose memory is limited; `None`: this cannot be determined, or their
    /// counters do not say enough.
    groups: Option<Vec<PathBuf>>,
}

impl DirtyRoom {
    /// The longest write that is made inline.
    pub(crate) const WRITE_MAX: usize = 256 * 1024;
    /// How often the counters are read at most: that takes about 100 us.
    const LOOKS_APART: Duration = Duration::from_millis(50);
    /// One context uses this part of the room between two looks.
    const SHARE: u64 = 8;

    #[cfg(test)]
    pub(crate) const ENDLESS: DirtyRoom = DirtyRoom {
        bytes: u64::MAX,
        ..DirtyRoom::FULL
    };

    #[cfg(test)]
    pub(crate) const FULL: DirtyRoom = DirtyRoom {
        bytes: 0,
        next: Some(Duration::MAX),
        groups: None,
    };

    /// Whether a write of so many bytes fits; if so, they are taken from the room.
    pub(crate) fn take(&mut self, length: usize) -> bool {
        if length > DirtyRoom::WRITE_MAX {
            return false;
        }
        let now = now();
        if self.next.is_none_or(|next| now >= next) {
            self.look(now);
        }
        let left = self.bytes.checked_sub(length as u64);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }

    #[cold]
    fn look(&mut self, now: Duration) {
        if self.next.is_none() {
            self.groups = limited_groups();
        }
        self.next = Some(now + DirtyRoom::LOOKS_APART);
        self.bytes = self.room().unwrap_or(0) / DirtyRoom::SHARE;
    }

    fn room(&self) -> Option<u64> {
        let counters = std::fs::read_to_string("/proc/vmstat").ok()?;
        let memory = Counters::of_machine(&counters, rustix::param::page_size() as u64)?;
        let mut room = memory.room(memory.freerun);
        for group in self.groups.as_ref()? {
            room = room.min(room_in_group(group, &memory)?);
        }
        Some(room)
    }
}

/// The time since an arbitrary moment, to a few milliseconds, which is cheaper than to nanoseconds.
fn now() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Bytes of page cache, of a machine or of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counters {
    /// Dirty pages, and those being written.
    dirty: u64,
    /// What can become dirty: free memory and files.
    dirtyable: u64,
    /// Below this the kernel lets writers run.
    freerun: u64,
}

impl Counters {
    fn of_machine(vmstat: &str, page_size: u64) -> Option<Counters> {
        let pages = |name| value(vmstat, name);
        let limits = pages("nr_dirty_threshold")? + pages("nr_dirty_background_threshold")?;
        let files = pages("nr_inactive_file")? + pages("nr_active_file")?;
        Some(Counters {
            dirty: (pages("nr_dirty")? + pages("nr_writeback")?) * page_size,
            dirtyable: (pages("nr_free_pages")? + files) * page_size,
            freerun: limits / 2 * page_size,
        })
    }

    /// The room below a half of `freerun`.
    fn room(&self, freerun: u64) -> u64 {
        (freerun / 2).saturating_sub(self.dirty)
    }
}

/// The room in a control group, whose limit is the same part of its memory as the machine's.
fn room_in_group(group: &Path, machine: &Counters) -> Option<u64> {
    let read = |name| std::fs::read_to_string(group.join(name)).ok();
    let number = |name| read(name)?.trim().parse().ok();
    // "max" is no limit.
    let limits = [number("memory.max"), number("memory.high")];
    let Some(limit) = limits.into_iter().flatten().min() else {
        return Some(u64::MAX);
    };
    let used: u64 = number("memory.current")?;
    let stat = read("memory.stat")?;
    let bytes = |name| value(&stat, name);
    let files = bytes("inactive_file")? + bytes("active_file")?;
    let counters = Counters {
        dirty: bytes("file_dirty")? + bytes("file_writeback")?,
        dirtyable: limit.saturating_sub(used) + files,
        freerun: 0,
    };
    let part = machine.freerun as f64 / machine.dirtyable.max(1) as f64;
    Some(counters.room((counters.dirtyable as f64 * part.min(1.0)) as u64))
}

/// The control groups of this process that may have a limit of memory. `None` if that is not known,
/// or where a group of version 1 has one: its reclaim waits for pages that are being written.
fn limited_groups() -> Option<Vec<PathBuf>> {
    const ROOT: &str = "/sys/fs/cgroup";
    let lines = match std::fs::read_to_string("/proc/self/cgroup") {
        // A kernel without control groups.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(Vec::new()),
        lines => lines.ok()?,
    };
    let mut groups = Vec::new();
    for line in lines.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        let is_old = controllers.split(',').any(|name| name == "memory");
        let root = Path::new(ROOT).join(if is_old { "memory" } else { "" });
        for group in root
            .join(path)
            .ancestors()
            .take_while(|group| group.starts_with(&root))
        {
            if is_old {
                let limit = std::fs::read_to_string(group.join("memory.limit_in_bytes"));
                let unlimited = |limit: String| limit.trim().parse().is_ok_and(is_unlimited);
                if limit.is_ok_and(|limit| !unlimited(limit)) {
                    return None;
                }
            } else if controllers.is_empty() && group.join("memory.max").exists() {
                groups.push(group.to_owned());
            }
        }
    }
    Some(groups)
}

/// Version 1 reports "no limit" as the highest multiple of the page size.
fn is_unlimited(bytes: u64) -> bool {
    bytes > u64::MAX / 4
}

/// The number after a name, in a file with one of each in a line.
fn value(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const VMSTAT: &str = "nr_free_pages 1000\nnr_inactive_file 2000\nnr_active_file 1000\n\
        nr_dirty 90\nnr_writeback 10\nnr_writeback_temp 7\nnr_dirty_threshold 800\n\
        nr_dirty_background_threshold 400\n";

    #[test]
    fn the_room_ends_at_half_of_what_the_kernel_lets_run() {
        let counters = Counters::of_machine(VMSTAT, 4096).unwrap();
        assert_eq!(counters.dirtyable, 4000 * 4096);
        assert_eq!(counters.room(counters.freerun), 200 * 4096);
        let full = VMSTAT.replace("nr_dirty 90", "nr_dirty 300");
        let full = Counters::of_machine(&full, 4096).unwrap();
        assert_eq!(full.room(full.freerun), 0);
        assert_eq!(Counters::of_machine("nr_dirty 90\n", 4096), None);
    }

    #[test]
    fn a_group_has_its_part_of_the_room() {
        let group = std::env::temp_dir().join(format!("laio-group-{}", std::process::id()));
        std::fs::create_dir_all(&group).unwrap();
        let write = |name: &str, text: &str| std::fs::write(group.join(name), text).unwrap();
        write("memory.max", "max\n");
        write("memory.high", "max\n");
        let machine = Counters::of_machine(VMSTAT, 4096).unwrap();
        assert_eq!(room_in_group(&group, &machine), Some(u64::MAX));
        write("memory.high", "10000000\n");
        write("memory.current", "6000000\n");
        assert_eq!(room_in_group(&group, &machine), None, "not enough is known");
        let stat = "file_dirty 100000\nfile_writeback 0\ninactive_file 0\nactive_file 0\n";
        write("memory.stat", stat);
        // The machine lets 600 of 4,000 pages run, so the group 600,000 of 4,000,000 bytes.
        assert_eq!(room_in_group(&group, &machine), Some(200_000));
        std::fs::remove_dir_all(&group).unwrap();
    }

    #[test]
    fn a_write_takes_room_until_none_is_left() {
        let mut room = DirtyRoom {
            bytes: 5000,
            ..DirtyRoom::FULL
        };
        assert!(room.take(4096));
        assert!(!room.take(4096), "not looked again yet");
        assert!(room.take(904));
        room.bytes = u64::MAX;
        assert!(!room.take(DirtyRoom::WRITE_MAX + 1));
    }
}
