//! Rule 1, results are those of the plain call: locks and futexes.

use crate::harness::{Arg, LIMIT, Sys, at, at_mut, later, plain, timespec, zeroed};
use laio_testing::temp::pipe;
use std::sync::atomic::{AtomicU32, Ordering};

scenarios! {
    about_files: false;
    file_locks,
    file_locks_that_wait,
    record_locks,
    record_locks_that_wait,
    futexes,
}

fn file_locks(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"");
    let other = std::fs::File::open(sys.dir.join("file")).unwrap();
    let (shared, exclusive) = (libc::LOCK_SH as usize, libc::LOCK_EX as usize);
    let (unlock, now) = (libc::LOCK_UN as usize, libc::LOCK_NB as usize);
    same!(sys, "shared" => SYS_flock [file.arg(), shared]);
    same!(sys, "shared by another" => SYS_flock [other.arg(), shared]);
    same!(sys, "exclusive" => SYS_flock [other.arg(), exclusive | now]);
    same!(sys, "unlock" => SYS_flock [file.arg(), unlock]);
    same!(sys, "exclusive" => SYS_flock [other.arg(), exclusive]);
    same!(sys, "shared" => SYS_flock [file.arg(), shared | now]);
    same!(sys, "nothing" => SYS_flock [file.arg(), 0]);
    same!(sys, "unknown" => SYS_flock [file.arg(), 1 << 10]);
}

fn file_locks_that_wait(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"");
    let other = std::fs::File::open(sys.dir.join("file")).unwrap();
    let exclusive = libc::LOCK_EX as usize;
    plain(libc::SYS_flock, [file.arg(), exclusive]).unwrap();
    let holder = file.try_clone().unwrap();
    let peer = later(move || plain(libc::SYS_flock, [holder.arg(), libc::LOCK_UN as usize]));
    same!(sys, "exclusive" => SYS_flock [other.arg(), exclusive]);
    peer.join().unwrap().unwrap();
    same!(sys, "held" => SYS_flock [file.arg(), exclusive | libc::LOCK_NB as usize]);
}

fn record_lock(kind: i32) -> libc::flock {
    let mut lock: libc::flock = zeroed();
    lock.l_type = kind as i16;
    lock.l_len = 10;
    lock
}

fn record_locks(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"0123456789");
    let other = std::fs::File::options()
        .read(true)
        .write(true)
        .open(sys.dir.join("file"))
        .unwrap();
    let read_only = std::fs::File::open(sys.dir.join("file")).unwrap();
    let lock = |sys: &mut Sys<'_>, what: &str, file: &std::fs::File, command: i32, kind: i32| {
        let mut lock = record_lock(kind);
        same!(sys, what => SYS_fcntl [file.arg(), command as usize, at_mut(&mut lock)]);
        sys.note(
            "now",
            (
                lock.l_type,
                lock.l_pid <= 0 || lock.l_pid == std::process::id() as i32,
            ),
        );
    };
    lock(sys, "write", &file, libc::F_SETLKW, libc::F_WRLCK);
    lock(
        sys,
        "again by another",
        &other,
        libc::F_SETLK,
        libc::F_WRLCK,
    );
    lock(
        sys,
        "by the descriptor",
        &other,
        libc::F_OFD_SETLK,
        libc::F_WRLCK,
    );
    lock(sys, "asked", &other, libc::F_OFD_GETLK, libc::F_WRLCK);
    lock(sys, "asked", &other, libc::F_GETLK, libc::F_WRLCK);
    lock(sys, "unlock", &file, libc::F_SETLKW, libc::F_UNLCK);
    lock(
        sys,
        "by the descriptor",
        &other,
        libc::F_OFD_SETLKW,
        libc::F_WRLCK,
    );
    lock(sys, "held", &file, libc::F_OFD_SETLK, libc::F_RDLCK);
    lock(
        sys,
        "without the right",
        &read_only,
        libc::F_SETLKW,
        libc::F_WRLCK,
    );
    lock(sys, "unknown", &file, libc::F_SETLKW, 77);
    same!(sys, "null" => SYS_fcntl [file.arg(), libc::F_SETLKW as usize, 0]);
    same!(sys, "unknown command" => SYS_fcntl [file.arg(), 7777, 0]);
    same!(sys, "F_GETFL" => SYS_fcntl [file.arg(), libc::F_GETFL as usize]);
    same!(sys, "F_GETFD" => SYS_fcntl [file.arg(), libc::F_GETFD as usize]);
}

fn record_locks_that_wait(sys: &mut Sys<'_>) {
    let file = sys.file("file", b"0123456789");
    let other = std::fs::File::options()
        .read(true)
        .write(true)
        .open(sys.dir.join("file"))
        .unwrap();
    let lock = record_lock(libc::F_WRLCK);
    plain(
        libc::SYS_fcntl,
        [file.arg(), libc::F_OFD_SETLK as usize, at(&lock)],
    )
    .unwrap();
    let holder = file.try_clone().unwrap();
    let peer = later(move || {
        let lock = record_lock(libc::F_UNLCK);
        plain(
            libc::SYS_fcntl,
            [holder.arg(), libc::F_OFD_SETLK as usize, at(&lock)],
        )
    });
    same!(sys, "by the descriptor" => SYS_fcntl [other.arg(), libc::F_OFD_SETLKW as usize, at(&lock)]);
    peer.join().unwrap().unwrap();
    same!(sys, "held" => SYS_fcntl [file.arg(), libc::F_OFD_SETLK as usize, at(&lock)]);
    let unlock = record_lock(libc::F_UNLCK);
    let _ = plain(
        libc::SYS_fcntl,
        [other.arg(), libc::F_OFD_SETLK as usize, at(&unlock)],
    );

    // Tests locks of the process, which a child holds.
    let (ready, ready_end) = pipe();
    let (go, let_go) = pipe();
    // SAFETY: the child makes system calls only, and leaves by _exit.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let _ = plain(
            libc::SYS_fcntl,
            [other.arg(), libc::F_SETLK as usize, at(&lock)],
        );
        let _ = plain(libc::SYS_write, [ready_end.arg(), at("x"), 1]);
        let mut buffer = [0u8];
        let _ = plain(libc::SYS_read, [go.arg(), buffer.as_mut_ptr() as usize, 1]);
        let _ = plain(libc::SYS_nanosleep, [at(&timespec(0, 15_000_000)), 0]);
        let _ = plain(libc::SYS_exit_group, [0]);
    }
    rustix::io::read(&ready, &mut [0u8]).unwrap();
    same!(sys, "at once" => SYS_fcntl [file.arg(), libc::F_SETLK as usize, at(&lock)]);
    rustix::io::write(&let_go, b"x").unwrap();
    same!(sys, "by the process" => SYS_fcntl [file.arg(), libc::F_SETLKW as usize, at(&lock)]);
    plain(libc::SYS_wait4, [pid.arg(), 0, 0, 0]).unwrap();
}

fn futexes(sys: &mut Sys<'_>) {
    let word = AtomicU32::new(1);
    let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    let wake = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    same!(sys, "another value" => SYS_futex [at(&word), wait, 2, 0]);
    same!(sys, "for a time" => SYS_futex [at(&word), wait, 1, at(&timespec(0, 2_000_000))]);
    same!(sys, "a bad time" => SYS_futex [at(&word), wait, 1, at(&timespec(0, -1))]);
    same!(sys, "wake no waiter" => SYS_futex [at(&word), wake, 1]);
    same!(sys, "a bad place" => SYS_futex [1, wait, 1, 0]);
    same!(sys, "unknown" => SYS_futex [at(&word), 77, 1, 0]);
    let (address, pointer) = (at(&word), &word);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Repeats until a waiter has been woken.
            let woken = laio_testing::limit::wait_until(LIMIT, || {
                plain(libc::SYS_futex, [address, wake, 1]) == Ok(1)
            });
            assert!(woken);
            pointer.store(2, Ordering::SeqCst);
        });
        same!(sys, "until woken" => SYS_futex [address, wait, 1, 0]);
    });
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || plain(libc::SYS_futex, [address, wait, 2, 0]));
        let woken = laio_testing::limit::wait_until(LIMIT, || {
            sys.call(libc::SYS_futex, [address, wake, 1]) == Ok(1)
        });
        sys.note("woken", (woken, waiter.join().unwrap()));
    });
}
