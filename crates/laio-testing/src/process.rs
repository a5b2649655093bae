//! Resources of this process: descriptors, threads, memory. For tests that look for leaks.
//!
//! The numbers are those of the whole process: tests that compare them must not run concurrently with others,
//! so give such a test a program of its own, or a child process.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::Skip;

/// Returns the number of open descriptors, without the one needed to count them.
pub fn fd_count() -> usize {
    open_fds().len()
}

/// Returns the open descriptors, ascending, without the one needed to list them.
pub fn open_fds() -> Vec<i32> {
    let mut fds: Vec<i32> = fs::read_dir("/proc/self/fd")
        .expect("/proc is needed to list descriptors")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // The listing contained its own descriptor, which is closed now.
    fds.retain(|&fd| fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_ok());
    fds.sort_unstable();
    fds
}

/// Raises the soft limit of descriptors to the hard one, and returns it: shells, containers and services
/// start with 1,024.
pub fn raise_descriptors() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // The kernel only refuses values above the hard limit.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Makes the process ignore a signal, for the rest of its life.
pub fn ignore_signal(signal: i32) {
    // SAFETY: to ignore a signal installs no handler.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Restores the default action of the signals that a shell may have set to be ignored (`nohup`, a background job), so
/// that programs started by this process inherit it. Call this before starting a program that handles signals.
pub fn restore_signals() {
    let signals = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTSTP,
        libc::SIGUSR1,
        libc::SIGUSR2,
    ];
    for signal in signals {
        // SAFETY: the kernel writes the action to the local struct; the second call takes no pointers.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut action);
            if action.sa_sigaction == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

/// As [`raise_descriptors`], for a test that needs this many.
///
/// # Errors
///
/// If the hard limit is lower.
pub fn allow_descriptors(wanted: u64) -> Result<(), Skip> {
    let most = raise_descriptors();
    if most >= wanted {
        Ok(())
    } else {
        Err(Skip::because(
            "descriptors",
            format!("{wanted} descriptors are needed, and the hard limit (ulimit -Hn) is {most}"),
        ))
    }
}

/// Returns a descriptor number that no other thread gets, because the kernel assigns the lowest free number.
/// If the hard limit is below `wanted`, the number is near that limit, in the same order and 10 apart for
/// each 1,000.
///
/// # Panics
///
/// If the limit is below 1,000, or `wanted` is not below 10,000.
pub fn high_descriptor(wanted: u64) -> usize {
    let most = raise_descriptors();
    assert!(most >= 1_000 && wanted < 10_000, "{wanted} of {most}");
    let near_limit = most - 20 - (10_000 - wanted) / 100;
    wanted.min(near_limit) as usize
}

/// Returns the number of threads.
pub fn thread_count() -> usize {
    status_field("Threads:")
}

/// Returns the resident memory of the process in bytes.
pub fn resident_bytes() -> usize {
    status_field("VmRSS:") * 1024
}

/// Returns the names of the threads, in no order.
pub fn thread_names() -> Vec<String> {
    fs::read_dir("/proc/self/task")
        .expect("/proc is needed to list threads")
        .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("comm")).ok())
        .map(|name| name.trim_end().to_owned())
        .collect()
}

fn status_field(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("/proc is needed");
    status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or_else(|| panic!("no {field} in /proc/self/status"))
}

/// Makes a file the standard stream of this number, 0, 1 or 2, of the process.
///
/// # Panics
///
/// For another number.
pub fn replace_stream(number: i32, file: impl AsFd) {
    assert!((0..=2).contains(&number), "{number} is no standard stream");
    // SAFETY: the number is that of a standard stream, which the standard library never owns.
    let result = unsafe { libc::dup2(file.as_fd().as_raw_fd(), number) };
    assert_eq!(result, number, "{}", std::io::Error::last_os_error());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn an_open_file_is_listed() {
        let file = fs::File::open("/dev/null").unwrap();
        assert!(open_fds().contains(&file.as_raw_fd()));
        assert!(fd_count() >= 1);
    }

    #[test]
    fn a_thread_is_listed_by_name() {
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let (started, ready) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("listed".into())
            .spawn(move || {
                started.send(()).unwrap();
                wait.recv()
            })
            .unwrap();
        ready.recv().unwrap();
        assert!(thread_names().contains(&"listed".to_owned()));
        assert!(thread_count() >= 2);
        drop(stop);
        assert!(thread.join().unwrap().is_err());
    }

    #[test]
    fn memory_is_counted() {
        assert!(resident_bytes() > 100_000);
    }
}
