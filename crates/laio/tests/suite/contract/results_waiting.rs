//! Rule 1, results are those of the plain call: time, events, children, signals, limits.

use crate::harness::{Arg, Sys, at, at_mut, later, own, plain, timespec, zeroed};
use laio_testing::temp::pipe;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};

scenarios! {
    about_files: false;
    sleeping,
    sleeping_until,
    polling,
    selecting,
    waiting_for_events,
    waiting_for_children,
    signals,
    identity,
    limits,
}

fn sleeping(sys: &mut Sys<'_>) {
    for (sec, nsec) in [
        (0, 0),
        (0, 1),
        (0, 2_000_000),
        (0, -1),
        (-1, 0),
        (0, 1_000_000_000),
        (0, i64::MAX),
    ] {
        let request = timespec(sec, nsec);
        let begin = std::time::Instant::now();
        same!(sys, "nanosleep" => SYS_nanosleep [at(&request), 0]);
        let enough = nsec != 2_000_000 || begin.elapsed().as_nanos() >= 2_000_000;
        sys.note("long enough", enough);
        for clock in [
            libc::CLOCK_REALTIME,
            libc::CLOCK_MONOTONIC,
            libc::CLOCK_BOOTTIME,
            libc::CLOCK_TAI,
            libc::CLOCK_MONOTONIC_COARSE,
            77,
        ] {
            for flags in [0, 8] {
                let args = [clock as usize, flags, at(&request), 0];
                let _ = sys.check("clock_nanosleep", libc::SYS_clock_nanosleep, args);
            }
        }
        // The clock of the calling thread, on which the kernel refuses to wait.
        let _ = sys.check(
            "of this thread",
            libc::SYS_clock_nanosleep,
            [libc::CLOCK_THREAD_CPUTIME_ID as usize, 0, at(&request), 0],
        );
    }
}

fn sleeping_until(sys: &mut Sys<'_>) {
    for clock in [
        libc::CLOCK_REALTIME,
        libc::CLOCK_MONOTONIC,
        libc::CLOCK_BOOTTIME,
    ] {
        let mut now = timespec(0, 0);
        same!(sys, "clock_gettime" => SYS_clock_gettime [clock as usize, at_mut(&mut now)]);
        let absolute = libc::TIMER_ABSTIME as usize;
        for (what, by) in [("now", 0), ("soon", 2_000_000), ("past", -5_000_000)] {
            let total = now.tv_sec * 1_000_000_000 + now.tv_nsec + by;
            let until = timespec(total / 1_000_000_000, total % 1_000_000_000);
            same!(sys, what => SYS_clock_nanosleep [clock as usize, absolute, at(&until), 0]);
            let mut after = timespec(0, 0);
            let _ = plain(
                libc::SYS_clock_gettime,
                [clock as usize, at_mut(&mut after)],
            );
            sys.note(
                "not before",
                (after.tv_sec, after.tv_nsec) >= (until.tv_sec, until.tv_nsec),
            );
        }
        let bad = timespec(1, 1_000_000_000);
        same!(sys, "a bad time" => SYS_clock_nanosleep [clock as usize, absolute, at(&bad), 0]);
    }
}

fn polling(sys: &mut Sys<'_>) {
    let (reader, writer) = pipe();
    let (empty, keep) = pipe();
    rustix::io::write(&writer, b"x").unwrap();
    let poll = |fd: i32, events: i16| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let mut all = [
        poll(reader.as_raw_fd(), libc::POLLIN),
        poll(writer.as_raw_fd(), libc::POLLOUT | libc::POLLIN),
        poll(empty.as_raw_fd(), libc::POLLIN),
        poll(-1, libc::POLLIN),
        poll(900_000, libc::POLLIN),
    ];
    let results = |sys: &mut Sys<'_>, all: &[libc::pollfd]| {
        sys.note(
            "events",
            all.iter().map(|one| one.revents).collect::<Vec<_>>(),
        );
    };
    let soon = timespec(0, 2_000_000);
    for count in [5, 4, 3, 1] {
        let address = at_mut(&mut all[..]);
        same!(sys, "ppoll" => SYS_ppoll [address, count, 0, 0, 8]);
        results(sys, &all);
        same!(sys, "ppoll for a time" => SYS_ppoll [address, count, at(&timespec(5, 0)), 0, 8]);
        results(sys, &all);
        #[cfg(target_arch = "x86_64")]
        for wait in [-1i32, 0, 5_000] {
            same!(sys, "poll" => SYS_poll [address, count, wait.arg()]);
            results(sys, &all);
        }
    }
    let none = at_mut(&mut all[2]);
    same!(sys, "nothing for a time" => SYS_ppoll [none, 1, at(&soon), 0, 8]);
    same!(sys, "nothing at all" => SYS_ppoll [none, 1, at(&timespec(0, 0)), 0, 8]);
    same!(sys, "no descriptors" => SYS_ppoll [0, 0, at(&soon), 0, 8]);
    same!(sys, "a bad time" => SYS_ppoll [none, 1, at(&timespec(0, -1)), 0, 8]);
    same!(sys, "too many" => SYS_ppoll [none, 1 << 30, at(&soon), 0, 8]);
    same!(sys, "a bad mask" => SYS_ppoll [none, 1, at(&soon), at(&0u64), 3]);
    let mask = 0u64;
    same!(sys, "with a mask" => SYS_ppoll [none, 1, at(&soon), at(&mask), 8]);
    #[cfg(target_arch = "x86_64")]
    same!(sys, "poll for a time" => SYS_poll [none, 1, 2]);
    let peer = later(move || {
        rustix::io::write(&keep, b"x").unwrap();
        keep
    });
    same!(sys, "something later" => SYS_ppoll [none, 1, 0, 0, 8]);
    sys.note("events", all[2].revents);
    peer.join().unwrap();
}

/// A set of descriptors for `select`, large enough for the numbers that occur next to many other tests.
const SET: [u64; 512] = [0; 512];

fn selecting(sys: &mut Sys<'_>) {
    let (reader, writer) = pipe();
    // Descriptors of a fixed number, so that the sets are the same in each run.
    let fixed = |fd: &OwnedFd, number: i32| {
        let copy = plain(
            libc::SYS_fcntl,
            [fd.arg(), libc::F_DUPFD_CLOEXEC as usize, number.arg()],
        );
        own(copy)
    };
    let (one, two) = (fixed(&reader, 200), fixed(&writer, 300));
    let set_of = |fds: &[&OwnedFd]| {
        let mut set = SET;
        for fd in fds {
            let number = fd.as_raw_fd() as usize;
            set[number / 64] |= 1 << (number % 64);
        }
        set
    };
    let (mut readable, mut writable) = (set_of(&[&one]), set_of(&[&two]));
    let count = one.as_raw_fd().max(two.as_raw_fd()) as usize + 1;
    let ready = |sys: &mut Sys<'_>, set: &[u64; SET.len()]| {
        sys.note(
            "ready",
            set.iter().map(|word| word.count_ones()).sum::<u32>(),
        );
    };
    let (soon, mut wait) = (timespec(0, 2_000_000), [0i64, 2_000]);
    let args = [
        count,
        at_mut(&mut readable),
        at_mut(&mut writable),
        0,
        at(&soon),
        0,
    ];
    let _ = sys.check("pselect6", libc::SYS_pselect6, args);
    ready(sys, &readable);
    ready(sys, &writable);
    readable = set_of(&[&one]);
    same!(sys, "pselect6, none" => SYS_pselect6 [count, at_mut(&mut readable), 0, 0, at(&soon), 0]);
    ready(sys, &readable);
    readable = set_of(&[&one]);
    #[cfg(target_arch = "x86_64")]
    {
        same!(sys, "select, none" => SYS_select [count, at_mut(&mut readable), 0, 0, at_mut(&mut wait)]);
        ready(sys, &readable);
        readable = set_of(&[&one]);
        same!(sys, "a bad time" => SYS_select [count, at_mut(&mut readable), 0, 0, at(&[-1i64, 0])]);
    }
    let _ = &mut wait;
    let copy = own(plain(libc::SYS_dup, [writer.arg()]));
    let peer = later(move || rustix::io::write(&copy, b"x").unwrap());
    same!(sys, "later" => SYS_pselect6 [count, at_mut(&mut readable), 0, 0, 0, 0]);
    ready(sys, &readable);
    peer.join().unwrap();
    same!(sys, "a bad count" => SYS_pselect6 [usize::MAX, 0, 0, 0, at(&soon), 0]);
}

fn waiting_for_events(sys: &mut Sys<'_>) {
    let epoll = sys
        .open("epoll_create1", libc::SYS_epoll_create1, [0])
        .unwrap();
    let (reader, writer) = pipe();
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 77,
    };
    let control = |sys: &mut Sys<'_>,
                   what: &str,
                   operation: i32,
                   fd: &OwnedFd,
                   event: &libc::epoll_event| {
        same!(sys, what => SYS_epoll_ctl [epoll.arg(), operation as usize, fd.arg(), at(event)]);
    };
    control(sys, "add", libc::EPOLL_CTL_ADD, &reader, &event);
    control(sys, "add again", libc::EPOLL_CTL_ADD, &reader, &event);
    control(sys, "modify none", libc::EPOLL_CTL_MOD, &writer, &event);
    event.u64 = 78;
    control(sys, "modify", libc::EPOLL_CTL_MOD, &reader, &event);
    control(sys, "itself", libc::EPOLL_CTL_ADD, &epoll, &event);
    let mut found = [libc::epoll_event { events: 0, u64: 0 }; 4];
    let buffer = at_mut(&mut found);
    let soon = timespec(0, 2_000_000);
    same!(sys, "nothing" => SYS_epoll_pwait [epoll.arg(), buffer, 4, 0, 0, 8]);
    same!(sys, "nothing for a time" => SYS_epoll_pwait [epoll.arg(), buffer, 4, 2, 0, 8]);
    same!(sys, "for a finer time" => SYS_epoll_pwait2 [epoll.arg(), buffer, 4, at(&soon), 0, 8]);
    same!(sys, "a bad time" => SYS_epoll_pwait2 [epoll.arg(), buffer, 4, at(&timespec(0, -1)), 0, 8]);
    same!(sys, "not enough space" => SYS_epoll_pwait [epoll.arg(), buffer, 0, 2, 0, 8]);
    #[cfg(target_arch = "x86_64")]
    same!(sys, "epoll_wait" => SYS_epoll_wait [epoll.arg(), buffer, 4, 2]);
    let copy = own(plain(libc::SYS_dup, [writer.arg()]));
    let peer = later(move || rustix::io::write(&copy, b"x").unwrap());
    same!(sys, "later" => SYS_epoll_pwait [epoll.arg(), buffer, 4, usize::MAX, 0, 8]);
    let [first, ..] = found;
    sys.note("event", ({ first.events }, { first.u64 }));
    peer.join().unwrap();
    #[cfg(target_arch = "x86_64")]
    same!(sys, "still there" => SYS_epoll_wait [epoll.arg(), buffer, 4, usize::MAX]);
    same!(sys, "for ever" => SYS_epoll_pwait2 [epoll.arg(), buffer, 4, 0, 0, 8]);
    control(sys, "delete", libc::EPOLL_CTL_DEL, &reader, &event);
    control(sys, "delete again", libc::EPOLL_CTL_DEL, &reader, &event);
}

/// Starts a child that exits with a code, optionally after a short time.
// The scenario waits for the child.
#[allow(clippy::zombie_processes)]
fn child(code: i32, slowly: bool) -> usize {
    let script = format!("{}exit {code}", if slowly { "sleep 0.02; " } else { "" });
    let child = Command::new("/bin/sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .spawn()
        .expect("a shell");
    child.id() as usize
}

/// Starts a child that runs until it is killed.
// The scenario waits for the child.
#[allow(clippy::zombie_processes)]
fn patient_child() -> usize {
    let mut sleep = Command::new("/bin/sleep");
    let child = sleep.arg("1000").stdin(Stdio::null()).spawn();
    child.expect("sleep").id() as usize
}

fn waiting_for_children(sys: &mut Sys<'_>) {
    for slowly in [false, true] {
        let mut status = 0i32;
        let pid = child(5, slowly);
        let result = sys.call(libc::SYS_wait4, [pid, at_mut(&mut status), 0, 0]);
        sys.note("wait4", (result == Ok(pid), status));
        let pid = child(6, slowly);
        let mut usage: libc::rusage = zeroed();
        let result = sys.call(
            libc::SYS_wait4,
            [pid, at_mut(&mut status), 0, at_mut(&mut usage)],
        );
        sys.note(
            "wait4 with its usage",
            (result == Ok(pid), status, usage.ru_maxrss > 0),
        );
        let pid = child(7, slowly);
        let exited = libc::WEXITED as usize;
        let mut info: libc::siginfo_t = zeroed();
        let keep = [
            libc::P_PID as usize,
            pid,
            at_mut(&mut info),
            exited | libc::WNOWAIT as usize,
            0,
        ];
        let _ = sys.check("waitid, keeping it", libc::SYS_waitid, keep);
        same!(sys, "waitid" => SYS_waitid [libc::P_PID as usize, pid, at_mut(&mut info), exited, 0]);
        // SAFETY: the kernel has filled it in for a child.
        let (who, what) = unsafe { (info.si_pid(), info.si_status()) };
        sys.note(
            "info",
            (info.si_signo, info.si_code, who as usize == pid, what),
        );
        same!(sys, "waitid again" => SYS_waitid [libc::P_PID as usize, pid, at_mut(&mut info), exited, 0]);
        let pid = child(8, slowly);
        same!(sys, "waitid, no record" => SYS_waitid [libc::P_PID as usize, pid, 0, exited, 0]);
        let pid = child(9, slowly);
        let _ = sys.check(
            "waitid with its usage",
            libc::SYS_waitid,
            [
                libc::P_PID as usize,
                pid,
                at_mut(&mut info),
                exited,
                at_mut(&mut usage),
            ],
        );
        let pid = child(10, slowly);
        let pidfd = own(plain(libc::SYS_pidfd_open, [pid, 0]));
        let _ = sys.check(
            "waitid by descriptor",
            libc::SYS_waitid,
            [
                libc::P_PIDFD as usize,
                pidfd.arg(),
                at_mut(&mut info),
                exited,
                0,
            ],
        );
    }
    let pid = patient_child();
    let mut status = 77i32;
    let nohang = libc::WNOHANG as usize;
    let mut info: libc::siginfo_t = zeroed();
    same!(sys, "not yet" => SYS_wait4 [pid, at_mut(&mut status), nohang, 0]);
    same!(sys, "not yet" => SYS_waitid [libc::P_PID as usize, pid, at_mut(&mut info), nohang | 4, 0]);
    // SAFETY: plain data; zero means that there is no child yet.
    sys.note("status", (status, unsafe { info.si_pid() }));
    let killed = plain(libc::SYS_kill, [pid, libc::SIGKILL as usize]);
    sys.note("killed", killed);
    let result = sys.call(libc::SYS_wait4, [pid, at_mut(&mut status), 0, 0]);
    sys.note("wait4", (result == Ok(pid), status));
    same!(sys, "not a child" => SYS_wait4 [1, at_mut(&mut status), 0, 0]);
    same!(sys, "bad options" => SYS_wait4 [pid, at_mut(&mut status), 1 << 20, 0]);
    same!(sys, "no options" => SYS_waitid [libc::P_PID as usize, pid, 0, 0, 0]);
    same!(sys, "no such kind" => SYS_waitid [99, pid, 0, 4, 0]);
}

fn signals(sys: &mut Sys<'_>) {
    let mut old = 0u64;
    let set: u64 = 1 << (libc::SIGUSR2 - 1);
    same!(sys, "block" => SYS_rt_sigprocmask [libc::SIG_BLOCK as usize, at(&set), at_mut(&mut old), 8]);
    let mut info: libc::siginfo_t = zeroed();
    let soon = timespec(0, 2_000_000);
    same!(sys, "none" => SYS_rt_sigtimedwait [at(&set), at_mut(&mut info), at(&soon), 8]);
    same!(sys, "none now" => SYS_rt_sigtimedwait [at(&set), at_mut(&mut info), at(&timespec(0, 0)), 8]);
    same!(sys, "a bad set" => SYS_rt_sigtimedwait [at(&set), at_mut(&mut info), at(&soon), 3]);
    same!(sys, "unblock" => SYS_rt_sigprocmask [libc::SIG_UNBLOCK as usize, at(&set), 0, 8]);
    same!(sys, "unknown" => SYS_rt_sigprocmask [99, at(&set), 0, 8]);
    same!(sys, "kill of no process" => SYS_kill [std::process::id() as usize, 0]);
    same!(sys, "a bad signal" => SYS_kill [std::process::id() as usize, 999]);
}

fn identity(sys: &mut Sys<'_>) {
    same!(sys, "getpid" => SYS_getpid []);
    same!(sys, "getppid" => SYS_getppid []);
    same!(sys, "getuid" => SYS_getuid []);
    same!(sys, "geteuid" => SYS_geteuid []);
    same!(sys, "getgid" => SYS_getgid []);
    same!(sys, "getpgid" => SYS_getpgid [0]);
    same!(sys, "getpgid of none" => SYS_getpgid [usize::MAX]);
    let same = sys.call(libc::SYS_gettid, []) == plain(libc::SYS_gettid, []);
    sys.note("gettid", same);
    same!(sys, "prctl" => SYS_prctl [libc::PR_GET_DUMPABLE as usize]);
    same!(sys, "prctl, unknown" => SYS_prctl [77_777]);
    same!(sys, "personality" => SYS_personality [0xffff_ffff]);
    same!(sys, "getpriority" => SYS_getpriority [0, 0]);
    same!(sys, "sched_yield" => SYS_sched_yield []);
    same!(sys, "sched_getscheduler" => SYS_sched_getscheduler [0]);
    let mut cpus = [0u64; 16];
    same!(sys, "sched_getaffinity" => SYS_sched_getaffinity [0, 128, at_mut(&mut cpus)]);
    same!(sys, "setns of nothing" => SYS_setns [usize::MAX, 0]);
    same!(sys, "unshare of nothing" => SYS_unshare [0]);
    same!(sys, "seccomp, unknown" => SYS_seccomp [77, 0, 0]);
}

fn limits(sys: &mut Sys<'_>) {
    let mut limit: libc::rlimit = zeroed();
    same!(sys, "getrlimit" => SYS_getrlimit [libc::RLIMIT_CORE as usize, at_mut(&mut limit)]);
    same!(sys, "unknown" => SYS_getrlimit [99, at_mut(&mut limit)]);
    same!(sys, "prlimit64" => SYS_prlimit64 [0, libc::RLIMIT_CORE as usize, 0, at_mut(&mut limit)]);
    let mut name: libc::utsname = zeroed();
    same!(sys, "uname" => SYS_uname [at_mut(&mut name)]);
    let mut info: libc::sysinfo = zeroed();
    same!(sys, "sysinfo" => SYS_sysinfo [at_mut(&mut info)]);
    let mut usage: libc::rusage = zeroed();
    same!(sys, "getrusage" => SYS_getrusage [0, at_mut(&mut usage)]);
    let mut now = timespec(0, 0);
    same!(sys, "clock_gettime" => SYS_clock_gettime [1, at_mut(&mut now)]);
    same!(sys, "a clock of none" => SYS_clock_gettime [99, at_mut(&mut now)]);
    // SAFETY: a descriptor made by the call.
    let memory = sys
        .call(libc::SYS_memfd_create, [c"laio".arg(), 1])
        .map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) });
    sys.note("memfd_create", memory.is_ok());
    if let Ok(memory) = memory {
        same!(sys, "write" => SYS_write [memory.arg(), at("bytes"), 5]);
        let mut status: libc::stat = zeroed();
        same!(sys, "fstat" => SYS_fstat [memory.arg(), at_mut(&mut status)]);
        sys.note("size", status.st_size);
    }
}
