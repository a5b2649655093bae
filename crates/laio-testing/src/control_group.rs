//! A control group for a program, with a limit of memory or of processes, as containers and services have.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::Skip;
use crate::limit::wait_until;

/// What a control group limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Bytes of memory; the page cache that its processes have filled counts too.
    Memory(u64),
    /// Processes and threads.
    Processes(u64),
}

/// A control group, which is removed when it is dropped. Its processes have ended by then.
#[derive(Debug)]
pub struct ControlGroup {
    directory: PathBuf,
    members: File,
}

impl ControlGroup {
    /// Makes a control group with a limit, where the machine lets this process do so: in its own group
    /// (version 1) or beside it (version 2, in which a group with processes has no groups with limits).
    ///
    /// # Errors
    ///
    /// The skip, where it does not.
    pub fn new(bound: Bound) -> Result<ControlGroup, Skip> {
        let (controller, most) = match bound {
            Bound::Memory(bytes) => ("memory", bytes),
            Bound::Processes(count) => ("pids", count),
        };
        let skip = |what: &str| Skip::because("control-groups", format!("{controller}: {what}"));
        let mounts =
            fs::read_to_string("/proc/self/mountinfo").map_err(|e| skip(&e.to_string()))?;
        let groups = fs::read_to_string("/proc/self/cgroup").map_err(|e| skip(&e.to_string()))?;
        let parent = parent(&mounts, &groups, controller);
        let parent =
            parent.ok_or_else(|| skip("no group of this process can have one with limits"))?;
        make(&parent, controller, most).map_err(|error| skip(&error.to_string()))
    }

    /// Puts the program that a command starts into the group, with its children.
    pub fn take_in(&self, command: &mut Command) -> io::Result<()> {
        let members = self.members.try_clone()?;
        // SAFETY: the closure makes one system call, which reads one byte: 0 stands for the calling process.
        unsafe {
            command.pre_exec(move || {
                match libc::write(members.as_raw_fd(), c"0".as_ptr().cast(), 1) {
                    1 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            });
        }
        Ok(())
    }

    /// How often the limit was reached.
    pub fn times_reached(&self) -> u64 {
        let read = |name| fs::read_to_string(self.directory.join(name)).unwrap_or_default();
        let counted = ["memory.failcnt", "memory.events", "pids.events"].map(read);
        let count = |text: &String| {
            let max = text.lines().find_map(|line| line.strip_prefix("max "));
            max.unwrap_or(text).trim().parse().unwrap_or(0)
        };
        counted.iter().map(count).sum()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // The kernel counts a process that has ended for a moment longer.
        wait_until(Duration::from_secs(10), || {
            fs::remove_dir(&self.directory).is_ok()
        });
    }
}

fn make(parent: &Path, controller: &str, most: u64) -> io::Result<ControlGroup> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let directory = parent.join(format!("laio-test-{}-{number}", std::process::id()));
    fs::create_dir(&directory)?;
    let limit = ["pids.max", "memory.max", "memory.limit_in_bytes"];
    let limit = limit
        .iter()
        .find(|name| name.starts_with(controller) && directory.join(name).exists());
    let made = limit
        .ok_or(io::ErrorKind::NotFound.into())
        .and_then(|limit| {
            fs::write(directory.join(limit), most.to_string())?;
            OpenOptions::new()
                .write(true)
                .open(directory.join("cgroup.procs"))
        });
    match made {
        Ok(members) => Ok(ControlGroup { directory, members }),
        Err(error) => {
            fs::remove_dir(&directory)?;
            Err(error)
        }
    }
}

/// Returns the directory in which groups with limits can be made, from the contents of `/proc/self/mountinfo`
/// and `/proc/self/cgroup`.
fn parent(mounts: &str, groups: &str, controller: &str) -> Option<PathBuf> {
    let has = |list: &str, separator: char| list.split(separator).any(|name| name == controller);
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, point) = (place.next()?, Path::new(place.next()?));
        let mut kind = kind.split(' ');
        let one = match (kind.next()?, kind.nth(1)?) {
            ("cgroup2", _) => false,
            ("cgroup", options) if has(options, ',') => true,
            _ => return None,
        };
        let own = groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            (if one {
                has(controllers, ',')
            } else {
                controllers.is_empty()
            })
            .then_some(path)
        })?;
        let own = point.join(Path::new(own).strip_prefix(root).ok()?);
        if one {
            return Some(own);
        }
        let parent = if own == point { &own } else { own.parent()? };
        let passed_on = fs::read_to_string(parent.join("cgroup.subtree_control")).ok()?;
        has(passed_on.trim(), ' ').then(|| parent.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::or_skip;

    fn says(group: &ControlGroup, script: &str) -> (bool, String) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        group.take_in(&mut command).unwrap();
        let output = command.output().unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
        )
    }

    #[test]
    fn a_program_is_in_the_group_and_the_group_goes() {
        let Some(group) = or_skip(ControlGroup::new(Bound::Memory(64 << 20))) else {
            return;
        };
        let name = group
            .directory
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let (succeeded, groups) = says(&group, "cat /proc/self/cgroup");
        assert!(succeeded && groups.contains(&name), "{groups}");
        let directory = group.directory.clone();
        drop(group);
        assert!(!directory.exists());
    }

    #[test]
    fn no_second_process_starts() {
        let Some(group) = or_skip(ControlGroup::new(Bound::Processes(1))) else {
            return;
        };
        assert!(says(&group, ":").0);
        assert_eq!(group.times_reached(), 0);
        assert!(!says(&group, "(:); (:)").0);
        assert!(group.times_reached() > 0);
    }

    #[test]
    fn the_group_of_version_1_is_that_of_its_controller() {
        let mounts = "\
            31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
            36 31 0:33 /docker/a /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
        let groups = "8:pids:/\n4:memory:/docker/a/b\n0::/\n";
        let found = parent(mounts, groups, "memory");
        assert_eq!(found, Some("/sys/fs/cgroup/memory/b".into()));
        assert_eq!(parent(mounts, groups, "pids"), None);
    }

    #[test]
    fn the_group_of_version_2_is_beside_that_of_the_process() {
        let directory = crate::temp::scratch();
        let point = directory.path().to_str().unwrap();
        fs::create_dir_all(directory.path().join("a/b")).unwrap();
        fs::write(
            directory.path().join("a/cgroup.subtree_control"),
            "cpu memory\n",
        )
        .unwrap();
        fs::write(directory.path().join("a/b/cgroup.subtree_control"), "\n").unwrap();
        let mounts = format!("30 23 0:26 / {point} rw - cgroup2 cgroup2 rw\n");
        let found = parent(&mounts, "0::/a/b\n", "memory");
        assert_eq!(found, Some(directory.path().join("a")));
        assert_eq!(parent(&mounts, "0::/a/b\n", "pids"), None);
    }
}
