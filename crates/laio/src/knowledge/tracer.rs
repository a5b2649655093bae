//! Another program that traces this process and may change its system calls, as emulators of a root
//! directory do (proot).
//!
//! Such a program rewrites the names in the calls that it sees and knows. It does not see the calls
//! that io_uring makes, and may not know `openat2` and `statx`: these would find another file. So a
//! traced process does without them, unless the tracer is a debugger that changes no names.

use std::sync::OnceLock;

/// The names of the debuggers that change no names, as `/proc/PID/comm` has them.
const DEBUGGERS: [&str; 7] = [
    "strace",
    "gdb",
    "gdbserver",
    "lldb",
    "lldb-server",
    "ltrace",
    "valgrind",
];

/// The tracer of this process that may change its calls, as `NAME (PID)`; `None` if there is none or
/// it cannot be known, without `/proc`. Asked once, when the process first needs it.
pub(crate) fn rewriting() -> Option<&'static str> {
    static KNOWN: OnceLock<Option<String>> = OnceLock::new();
    KNOWN
        .get_or_init(|| {
            let status = std::fs::read_to_string("/proc/self/status").ok()?;
            let process = tracer(&status)?;
            let name = std::fs::read_to_string(format!("/proc/{process}/comm"));
            let name = name.as_deref().unwrap_or("unknown").trim_end();
            (!DEBUGGERS.contains(&name)).then(|| format!("{name} ({process})"))
        })
        .as_deref()
}

/// The process that traces, from `/proc/PID/status`.
fn tracer(status: &str) -> Option<u32> {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix("TracerPid:"))?;
    value.trim().parse().ok().filter(|&process| process != 0)
}

#[cfg(test)]
mod tests {
    use super::tracer;

    #[test]
    fn the_status_names_the_tracer() {
        let status = |tracer: &str| format!("Name:\tx\nTracerPid:\t{tracer}\nUid:\t0\n");
        assert_eq!(tracer(&status("0")), None);
        assert_eq!(tracer(&status("12")), Some(12));
        assert_eq!(tracer("Name:\tx\n"), None);
    }
}
