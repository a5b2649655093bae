//! What servers and accelerators have in common as processes: a port, an end, and the resources that they use.

use laio::measure::Usage;
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Child;
use std::time::{Duration, Instant};

/// The time limit for a process to start, and to stop.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(30);
pub(super) const LOOK: Duration = Duration::from_millis(5);

/// Returns a port that is free now.
pub(super) fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Ends a child, and waits for it.
pub(super) fn end(child: &mut Child) {
    if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
        // It is our child and not waited for yet, so the process id is still its own.
        let _ = kill_process(pid, Signal::TERM);
    }
    let until = Instant::now() + START_TIMEOUT;
    while Instant::now() < until {
        if let Ok(Some(_)) | Err(_) = child.try_wait() {
            return;
        }
        std::thread::sleep(LOOK);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the usage of the threads of a process; that of ended threads is only contained in the processor time.
pub(super) fn usage(pid: u32) -> Usage {
    let process = format!("/proc/{}", pid);
    let mut usage = Usage::default();
    let stat = std::fs::read_to_string(format!("{process}/stat")).unwrap_or_default();
    // After the name, which may contain spaces: the state, and eleven fields later user and system time.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let ticks: u64 = fields
        .iter()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    usage.processor =
        Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64);
    let tasks = std::fs::read_dir(format!("{process}/task"))
        .into_iter()
        .flatten();
    for task in tasks.flatten() {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        usage.waits += field("voluntary_ctxt_switches:");
        usage.preemptions += field("nonvoluntary_ctxt_switches:");
    }
    usage
}
