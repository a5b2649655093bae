//! How much memory this process may use, which bounds how much of a file the page cache can keep.

use std::path::Path;
use std::sync::OnceLock;

/// Bytes: the memory of the machine, or the lowest limit of the control groups of this process. They are
/// read once.
pub(super) fn bytes() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let machine = rustix::system::sysinfo();
        let machine = machine.totalram as u64 * u64::from(machine.mem_unit.max(1));
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let limit = limit(&groups, Path::new("/sys/fs/cgroup"));
        limit.map_or(machine, |limit| limit.min(machine))
    })
}

/// The lowest limit of the groups in these lines of `/proc/self/cgroup`; `None` without a limit. The group
/// may have another path in a container, where its own files are at the root.
fn limit(groups: &str, root: &Path) -> Option<u64> {
    let lines = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        Some((fields.next()?, fields.next()?.trim_start_matches('/')))
    });
    let lowest = lines.filter_map(|(controllers, path)| {
        let is_old = controllers.split(',').any(|name| name == "memory");
        let (root, file) = match is_old {
            true => (root.join("memory"), "memory.limit_in_bytes"),
            false if controllers.is_empty() => (root.to_owned(), "memory.max"),
            false => return None,
        };
        let path = root.join(path);
        let groups = path.ancestors().take_while(|path| path.starts_with(&root));
        // "max" is no limit; version 1 reports one that is larger than any memory.
        let limits = groups.filter_map(|group| {
            let text = std::fs::read_to_string(group.join(file)).ok()?;
            text.trim().parse().ok()
        });
        limits.min()
    });
    lowest.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_limit_of_the_groups_counts() {
        assert!(bytes() > 1 << 20);
        let root = laio_testing::temp::scratch();
        let root = root.path();
        assert_eq!(limit("0::/a/b\n", root), None);
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/memory.max"), "5000\n").unwrap();
        std::fs::write(root.join("a/b/memory.max"), "max\n").unwrap();
        assert_eq!(limit("0::/a/b\n", root), Some(5000));
        assert_eq!(limit("0::/c\n", root), None);
        std::fs::create_dir_all(root.join("memory")).unwrap();
        std::fs::write(root.join("memory/memory.limit_in_bytes"), "4000\n").unwrap();
        let both = "0::/a/b\n7:cpu,memory:/x\n3:pids:/a\nnothing\n";
        assert_eq!(limit(both, root), Some(4000));
    }
}
