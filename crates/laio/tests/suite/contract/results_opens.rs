//! Rule 1, results are those of the plain call: opening by name.

use super::results_names::{NAMES, populate};
use crate::harness::{Arg, Sys, at, at_mut, plain, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};

scenarios! {
    about_files: true;
    opens,
    opens_that_resolve,
    opens_without_a_directory,
}

fn opens(sys: &mut Sys<'_>) {
    populate(sys);
    #[rustfmt::skip]
    let flags = [
        ("O_RDONLY", libc::O_RDONLY),
        ("O_WRONLY", libc::O_WRONLY),
        ("O_RDWR", libc::O_RDWR),
        ("O_RDWR|O_APPEND", libc::O_RDWR | libc::O_APPEND),
        ("O_NONBLOCK", libc::O_NONBLOCK),
        ("O_CLOEXEC", libc::O_CLOEXEC),
        ("O_DIRECTORY", libc::O_DIRECTORY),
        ("O_NOFOLLOW", libc::O_NOFOLLOW),
        ("O_PATH", libc::O_PATH),
        ("O_PATH|O_NOFOLLOW|O_RDWR", libc::O_PATH | libc::O_NOFOLLOW | libc::O_RDWR),
        ("O_CREAT", libc::O_CREAT | libc::O_RDWR),
        ("O_CREAT|O_EXCL", libc::O_CREAT | libc::O_EXCL | libc::O_RDWR),
        ("O_TRUNC", libc::O_TRUNC | libc::O_RDWR),
        ("O_CREAT|O_TRUNC", libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY),
        ("O_CREAT|O_DIRECTORY", libc::O_CREAT | libc::O_DIRECTORY),
        ("O_TMPFILE", libc::O_TMPFILE | libc::O_RDWR),
        ("O_TMPFILE alone", libc::O_TMPFILE),
        ("O_SYNC", libc::O_SYNC | libc::O_RDWR),
        ("O_DSYNC", libc::O_DSYNC | libc::O_RDWR),
        ("O_DIRECT", libc::O_DIRECT),
        ("O_NOATIME", libc::O_NOATIME),
        ("O_NOCTTY", libc::O_NOCTTY),
        ("O_ASYNC", libc::O_ASYNC),
        ("3", 3),
        ("unknown", 0x4000_0000),
        ("all but O_CREAT", libc::O_RDWR | libc::O_APPEND | libc::O_NOATIME | libc::O_SYNC | libc::O_CLOEXEC),
    ];
    let here = libc::AT_FDCWD.arg();
    for (what, flag) in flags {
        for name in NAMES {
            let path = sys.path(name);
            let args = [here, path.arg(), flag as usize, 0o640];
            opened(sys, &format!("{name} with {what}"), libc::SYS_openat, args);
            // One call must not find the file that the previous call made.
            let _ = std::fs::remove_file(sys.dir.join("none"));
        }
    }
    #[cfg(target_arch = "x86_64")]
    {
        let path = sys.path("file");
        opened(
            sys,
            "open",
            libc::SYS_open,
            [path.arg(), libc::O_RDWR as usize, 0, 0],
        );
        opened(sys, "creat", libc::SYS_creat, [path.arg(), 0o600, 0, 0]);
        let path = sys.path("none");
        opened(
            sys,
            "creat of none",
            libc::SYS_creat,
            [path.arg(), 0o604, 0, 0],
        );
    }
    opened(sys, "no name", libc::SYS_openat, [here, c"".arg(), 0, 0]);
    opened(
        sys,
        "/dev/null",
        libc::SYS_openat,
        [here, c"/dev/null".arg(), libc::O_RDWR as usize, 0],
    );
    opened(
        sys,
        "/proc",
        libc::SYS_openat,
        [here, c"/proc/self/status".arg(), 0, 0],
    );
    opened(
        sys,
        "a terminal without a process",
        libc::SYS_openat,
        [here, c"/dev/tty".arg(), 0, 0],
    );
}

/// Opens a file, and notes its type and flags.
fn opened(sys: &mut Sys<'_>, what: &str, number: libc::c_long, args: [usize; 4]) {
    let fd = sys.open(what, number, args);
    note_open_file(sys, fd);
}

pub(crate) fn note_open_file(sys: &mut Sys<'_>, fd: Option<OwnedFd>) {
    let Some(fd) = fd else { return };
    let status = rustix::fs::fstat(&fd).unwrap();
    let flags = |command| plain(libc::SYS_fcntl, [fd.arg(), command, 0]);
    sys.note("status flags", flags(libc::F_GETFL as usize));
    sys.note("descriptor flags", flags(libc::F_GETFD as usize));
    let regular = status.st_mode & libc::S_IFMT == libc::S_IFREG;
    sys.note(
        "mode and size",
        (status.st_mode, if regular { status.st_size } else { 0 }),
    );
    let place = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
    if status.st_nlink > 0 {
        sys.note(
            "name",
            place.strip_prefix(&sys.dir).map(std::path::Path::to_owned),
        );
    }
}

fn opens_that_resolve(sys: &mut Sys<'_>) {
    populate(sys);
    let dir = std::fs::File::open(&sys.dir).unwrap();
    let size = size_of::<libc::open_how>();
    let mut how: libc::open_how = zeroed();
    for (what, resolve) in [
        ("nothing", 0),
        ("BENEATH", libc::RESOLVE_BENEATH),
        ("IN_ROOT", libc::RESOLVE_IN_ROOT),
        ("NO_SYMLINKS", libc::RESOLVE_NO_SYMLINKS),
        ("NO_MAGICLINKS", libc::RESOLVE_NO_MAGICLINKS),
        ("NO_XDEV", libc::RESOLVE_NO_XDEV),
        (
            "BENEATH and IN_ROOT",
            libc::RESOLVE_BENEATH | libc::RESOLVE_IN_ROOT,
        ),
        ("unknown", 1 << 20),
    ] {
        how.resolve = resolve;
        for name in [
            c"file",
            c"link",
            c"dangling",
            c"loop",
            c"absolute",
            c"out/x",
            c"..",
            c"dir/../file",
            c"dir/../../x",
            c"/etc/passwd",
            c"/proc/self/exe",
            c"none",
            c"dir/inner",
            c".",
            c"/",
        ] {
            let args = [dir.arg(), name.arg(), at(&how), size];
            let fd = sys.open(&format!("{name:?} with {what}"), libc::SYS_openat2, args);
            note_open_file(sys, fd);
        }
    }
    how.resolve = 0;
    let open =
        |sys: &mut Sys<'_>, what: &str, how: &libc::open_how, name: &std::ffi::CStr, size| {
            let fd = sys.open(
                what,
                libc::SYS_openat2,
                [dir.arg(), name.arg(), at(how), size],
            );
            note_open_file(sys, fd);
        };
    let how_with = |flags: i64, mode| {
        let mut how: libc::open_how = zeroed();
        (how.flags, how.mode) = (flags as u64, mode);
        how
    };
    open(
        sys,
        "a mode for nothing",
        &how_with(0, 0o600),
        c"file",
        size,
    );
    open(sys, "unknown flags", &how_with(1 << 40, 0), c"file", size);
    open(
        sys,
        "unknown low flags",
        &how_with(0x4000_0000, 0),
        c"file",
        size,
    );
    open(
        sys,
        "O_PATH and more",
        &how_with(i64::from(libc::O_PATH | libc::O_RDWR), 0),
        c"file",
        size,
    );
    open(
        sys,
        "read and append",
        &how_with(i64::from(libc::O_RDWR | libc::O_APPEND), 0),
        c"file",
        size,
    );
    open(
        sys,
        "O_CREAT",
        &how_with(i64::from(libc::O_CREAT | libc::O_RDWR), 0o640),
        c"new",
        size,
    );
    open(
        sys,
        "O_CREAT, bad mode",
        &how_with(i64::from(libc::O_CREAT), 0o77_0000),
        c"newer",
        size,
    );
    open(sys, "too small", &how_with(0, 0), c"file", 8);
    open(sys, "too large", &how_with(0, 0), c"file", 100_000);
    let wide = [[0u64; 3], [0; 3]];
    same!(sys, "larger, zeros" => SYS_openat2 [usize::MAX, c"file".arg(), at(&wide), 48]);
    let wide = [[0u64; 3], [1; 3]];
    same!(sys, "larger, not zeros" => SYS_openat2 [dir.arg(), c"file".arg(), at(&wide), 48]);
    // The name is in the dentry cache, because it was opened above.
    how.resolve = libc::RESOLVE_CACHED;
    open(sys, "CACHED", &how, c"dir/inner", size);
    how.flags = (libc::O_CREAT | libc::O_RDWR) as u64;
    open(sys, "CACHED and O_CREAT", &how, c"dir/newest", size);
}

/// Opens relative to a directory that has been removed.
fn opens_without_a_directory(sys: &mut Sys<'_>) {
    std::fs::create_dir(sys.dir.join("gone")).unwrap();
    let dir = std::fs::File::open(sys.dir.join("gone")).unwrap();
    std::fs::remove_dir(sys.dir.join("gone")).unwrap();
    let mut status: libc::stat = zeroed();
    let fd = dir.arg();
    same!(sys, "openat" => SYS_openat [fd, c"x".arg(), 0]);
    same!(sys, "making" => SYS_openat [fd, c"x".arg(), libc::O_CREAT as usize, 0o600]);
    same!(sys, "newfstatat" => SYS_newfstatat [fd, c"x".arg(), at_mut(&mut status), 0]);
    same!(sys, "mkdirat" => SYS_mkdirat [fd, c"x".arg(), 0o700]);
    same!(sys, "fstat" => SYS_fstat [fd, at_mut(&mut status)]);
    let mut buffer = [0u8; 100];
    same!(sys, "getdents64" => SYS_getdents64 [fd, at_mut(&mut buffer), 100]);
}
