//! What the environment takes away from the process, and what that costs.

use std::thread::available_parallelism;

/// A restriction that was found, with its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restriction {
    /// What restricts.
    pub name: &'static str,
    /// What it takes away, and what happens instead.
    pub effect: &'static str,
}

impl Restriction {
    pub(super) fn probe() -> Vec<Restriction> {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let processors = available_parallelism().map_or(0, usize::from);
        find(
            &read("/proc/self/status"),
            &read("/proc/sys/kernel/io_uring_disabled"),
            processors,
        )
    }
}

/// Finds restrictions in the contents of two files of `/proc`.
fn find(status: &str, io_uring_disabled: &str, processors: usize) -> Vec<Restriction> {
    let has = |name: &str, value: &str| {
        status.lines().any(|line| {
            line.split_once(':')
                .is_some_and(|(n, v)| n == name && v.trim() == value)
        })
    };
    let found = [
        (
            has("Seccomp", "2"),
            "seccomp filter",
            "may forbid io_uring and perf; with Rights::Thread, a call by name that blocks starts a thread",
        ),
        (
            matches!(io_uring_disabled.trim(), "1" | "2"),
            "kernel.io_uring_disabled",
            "no io_uring, for users or for all: helper threads and epoll finish what blocks",
        ),
        (
            processors == 1,
            "one processor",
            "threads do not look for work before they sleep: a call that blocks costs wakeups",
        ),
    ];
    let there = found.into_iter().filter(|(is_there, ..)| *is_there);
    there
        .map(|(_, name, effect)| Restriction { name, effect })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_restriction_is_named() {
        assert_eq!(find("Seccomp:\t0\nNoNewPrivs:\t1\n", "0\n", 2), []);
        let found = find("Seccomp:\t2\n", "2\n", 1);
        let names: Vec<_> = found.iter().map(|one| one.name).collect();
        assert_eq!(
            names,
            [
                "seccomp filter",
                "kernel.io_uring_disabled",
                "one processor"
            ]
        );
    }
}
