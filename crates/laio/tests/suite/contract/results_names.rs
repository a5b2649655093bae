//! Rule 1, results are those of the plain call: statuses, lists, links, and names made and removed.

use super::results_opens::note_open_file;
use crate::harness::{Arg, Sys, at_mut, bytes_of, cstring, has_no_reader, plain, zeroed};
use std::os::unix::fs::{MetadataExt, symlink};

scenarios! {
    about_files: true;
    statuses,
    extended_statuses,
    access,
    links_read,
    listings,
    names_made_and_removed,
    nodes,
    long_names_and_loops,
    file_systems,
    watches,
}

/// Its number; not every C library declares it.
const FCHMODAT2: libc::c_long = 452;

/// Makes a directory with one entry of each file type.
pub(crate) fn populate(sys: &Sys<'_>) {
    let dir = &sys.dir;
    std::fs::write(dir.join("file"), b"contents").unwrap();
    std::fs::create_dir(dir.join("dir")).unwrap();
    std::fs::write(dir.join("dir/inner"), b"inner").unwrap();
    symlink("file", dir.join("link")).unwrap();
    symlink("dir", dir.join("dirlink")).unwrap();
    symlink("none", dir.join("dangling")).unwrap();
    symlink("loop", dir.join("loop")).unwrap();
    symlink("/etc/passwd", dir.join("absolute")).unwrap();
    symlink("../..", dir.join("out")).unwrap();
}

pub(crate) const NAMES: [&str; 8] = [
    "file", "dir", "link", "dirlink", "dangling", "loop", "none", "file/x",
];

fn statuses(sys: &mut Sys<'_>) {
    populate(sys);
    let here = libc::AT_FDCWD.arg();
    let flags = [
        0,
        libc::AT_SYMLINK_NOFOLLOW,
        libc::AT_EMPTY_PATH,
        libc::AT_NO_AUTOMOUNT,
        libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH,
        libc::AT_STATX_DONT_SYNC,
        libc::AT_SYMLINK_FOLLOW,
        libc::AT_REMOVEDIR,
        0x4000_0000,
    ];
    for name in NAMES
        .into_iter()
        .chain(["", ".", "dir/", "file/", "dir/inner", "dir/../link"])
    {
        let path = if name.is_empty() {
            cstring("")
        } else {
            sys.path(name)
        };
        for flag in flags {
            let what = format!("newfstatat of {name} with {flag:#x}");
            status_by(sys, &what, libc::SYS_newfstatat, |out| {
                [here, path.arg(), out, flag as usize]
            });
        }
        #[cfg(target_arch = "x86_64")]
        {
            status_by(sys, "stat", libc::SYS_stat, |out| [path.arg(), out, 0, 0]);
            status_by(sys, "lstat", libc::SYS_lstat, |out| [path.arg(), out, 0, 0]);
        }
    }
    for name in ["/", "/dev/null", "/proc/self/status", "/sys/kernel"] {
        let path = cstring(name);
        status_by(sys, name, libc::SYS_newfstatat, |out| {
            [here, path.arg(), out, 0]
        });
    }
    let empty = libc::AT_EMPTY_PATH as usize;
    for name in ["file", "dir"] {
        let file = std::fs::File::open(sys.dir.join(name)).unwrap();
        status_by(sys, "fstat", libc::SYS_fstat, |out| [file.arg(), out, 0, 0]);
        status_by(sys, "an empty name", libc::SYS_newfstatat, |out| {
            [file.arg(), c"".arg(), out, empty]
        });
        status_by(sys, "no name", libc::SYS_newfstatat, |out| {
            [file.arg(), 0, out, empty]
        });
        status_by(sys, "a name in it", libc::SYS_newfstatat, |out| {
            [file.arg(), c"inner".arg(), out, 0]
        });
    }
    let (reader, _writer) = laio_testing::temp::pipe();
    status_by(sys, "fstat of a pipe", libc::SYS_fstat, |out| {
        [reader.arg(), out, 0, 0]
    });
}

/// Takes the status of a file through the context and plainly, and compares each field.
fn status_by(
    sys: &mut Sys<'_>,
    what: &str,
    number: libc::c_long,
    args: impl Fn(usize) -> [usize; 4],
) {
    let (mut found, mut expected): (libc::stat, libc::stat) = (zeroed(), zeroed());
    let mut before: libc::stat = zeroed();
    let _ = plain(number, args(at_mut(&mut before)));
    let result = sys.check(what, number, args(at_mut(&mut found)));
    let same = plain(number, args(at_mut(&mut expected)));
    // The kernel makes a file of /proc at each look, and other processes may change a shared directory meanwhile.
    let changed = bytes_of(&before) != bytes_of(&expected);
    assert!(!changed || what.starts_with('/'), "{what} has changed");
    let fleeting = changed || what.starts_with("/proc");
    if result.is_ok() && same.is_ok() && !fleeting {
        assert_eq!(bytes_of(&found), bytes_of(&expected), "{what}");
    }
    if result.is_err() {
        assert_eq!(
            bytes_of(&found),
            bytes_of(&zeroed::<libc::stat>()),
            "{what}: written to"
        );
    }
}

fn extended_statuses(sys: &mut Sys<'_>) {
    populate(sys);
    let here = libc::AT_FDCWD.arg();
    for name in NAMES {
        let path = sys.path(name);
        for flag in [
            0,
            libc::AT_SYMLINK_NOFOLLOW,
            libc::AT_STATX_FORCE_SYNC,
            libc::AT_STATX_DONT_SYNC,
            0x6000,
            1 << 25,
        ] {
            for mask in [
                0,
                libc::STATX_BASIC_STATS,
                libc::STATX_ALL,
                0x1_ffff,
                libc::STATX__RESERVED as u32,
            ] {
                let (mut found, mut expected): (libc::statx, libc::statx) = (zeroed(), zeroed());
                let args = |out| [here, path.arg(), flag as usize, mask as usize, out];
                let what = format!("statx of {name} with {flag:#x} and {mask:#x}");
                let result = sys.check(&what, libc::SYS_statx, args(at_mut(&mut found)));
                let same = plain(libc::SYS_statx, args(at_mut(&mut expected)));
                assert_eq!(result, same, "{what}");
                assert_eq!(bytes_of(&found), bytes_of(&expected), "{what}");
            }
        }
    }
    let file = sys.file("other", b"0123456789");
    let mut found: libc::statx = zeroed();
    let empty = libc::AT_EMPTY_PATH as usize;
    same!(sys, "of a descriptor" => SYS_statx [file.arg(), c"".arg(), empty, 0x7ff, at_mut(&mut found)]);
    sys.note("size", found.stx_size);
}

fn access(sys: &mut Sys<'_>) {
    populate(sys);
    let here = libc::AT_FDCWD.arg();
    std::fs::set_permissions(
        sys.dir.join("file"),
        std::os::unix::fs::PermissionsExt::from_mode(0o440),
    )
    .unwrap();
    for name in NAMES {
        let path = sys.path(name);
        for mode in [libc::F_OK, libc::R_OK, libc::W_OK, libc::X_OK, 7, 8, -1] {
            let mode = mode as usize;
            same!(sys, &format!("faccessat of {name} for {mode}") => SYS_faccessat [here, path.arg(), mode]);
            for flag in [
                0,
                libc::AT_EACCESS,
                libc::AT_SYMLINK_NOFOLLOW,
                libc::AT_EMPTY_PATH,
                1 << 25,
            ] {
                let what = format!("faccessat2 of {name} for {mode} with {flag:#x}");
                same!(sys, &what => SYS_faccessat2 [here, path.arg(), mode, flag as usize]);
            }
            #[cfg(target_arch = "x86_64")]
            same!(sys, "access" => SYS_access [path.arg(), mode]);
        }
    }
}

fn links_read(sys: &mut Sys<'_>) {
    populate(sys);
    let here = libc::AT_FDCWD.arg();
    let mut buffer = [0u8; 50];
    for name in ["link", "absolute", "file", "dir", "none", "loop"] {
        let path = sys.path(name);
        for length in [50, 2, 0] {
            buffer.fill(0);
            let what = format!("readlinkat of {name} into {length}");
            same!(sys, &what => SYS_readlinkat [here, path.arg(), at_mut(&mut buffer), length]);
            sys.note("read", String::from_utf8_lossy(&buffer).into_owned());
        }
        #[cfg(target_arch = "x86_64")]
        same!(sys, "readlink" => SYS_readlink [path.arg(), at_mut(&mut buffer), 50]);
    }
}

fn listings(sys: &mut Sys<'_>) {
    for index in 0..200 {
        std::fs::write(sys.dir.join(format!("file{index:03}")), b"").unwrap();
    }
    let dir = std::fs::File::open(&sys.dir).unwrap();
    let mut buffer = vec![0u64; 128];
    let mut names = Vec::new();
    loop {
        let read = sys
            .call(
                libc::SYS_getdents64,
                [dir.arg(), at_mut(&mut buffer[..]), 1024],
            )
            .unwrap();
        if read == 0 {
            break;
        }
        // SAFETY: the vector has that many initialised bytes.
        let mut bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), read) };
        while !bytes.is_empty() {
            let length = u16::from_ne_bytes([bytes[16], bytes[17]]) as usize;
            let name = bytes[19..length].split(|&byte| byte == 0).next().unwrap();
            names.push(String::from_utf8(name.to_vec()).unwrap());
            bytes = &bytes[length..];
        }
    }
    names.sort();
    sys.note("names", names);
    same!(sys, "at the end" => SYS_getdents64 [dir.arg(), at_mut(&mut buffer[..]), 1024]);
    same!(sys, "again" => SYS_lseek [dir.arg(), 0, 0]);
    let read = sys.call(
        libc::SYS_getdents64,
        [dir.arg(), at_mut(&mut buffer[..]), 1024],
    );
    // The number of entries is the kernel's choice: it stops at the next name if the thread has a pending signal, and
    // the cleanup of a dropped ring looks like one.
    sys.note("some", read.is_ok_and(|read| read > 0));
}

fn names_made_and_removed(sys: &mut Sys<'_>) {
    populate(sys);
    let dir = std::fs::File::open(&sys.dir).unwrap();
    let fd = dir.arg();
    let path = |name: &str| sys.dir.join(name);
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(
            unused_variables,
            reason = "only x86-64 has calls that take paths alone"
        )
    )]
    let (new, other, file) = (
        cstring(path("new")),
        cstring(path("other")),
        cstring(path("file")),
    );
    #[rustfmt::skip]
    let calls: &[(&str, libc::c_long, [usize; 5])] = &[
        ("mkdirat", libc::SYS_mkdirat, [fd, c"made".arg(), 0o7777, 0, 0]),
        ("mkdirat in none", libc::SYS_mkdirat, [fd, c"none/made".arg(), 0o700, 0, 0]),
        ("linkat", libc::SYS_linkat, [fd, c"file".arg(), fd, c"hard".arg(), 0]),
        ("linkat of a link", libc::SYS_linkat, [fd, c"link".arg(), fd, c"hard2".arg(), 0]),
        (
            "linkat, following",
            libc::SYS_linkat,
            [fd, c"link".arg(), fd, c"hard3".arg(), libc::AT_SYMLINK_FOLLOW as usize],
        ),
        ("linkat of a directory", libc::SYS_linkat, [fd, c"dir".arg(), fd, c"hard4".arg(), 0]),
        ("linkat onto", libc::SYS_linkat, [fd, c"file".arg(), fd, c"hard".arg(), 0]),
        ("linkat, unknown", libc::SYS_linkat, [fd, c"file".arg(), fd, c"hard5".arg(), 1 << 25]),
        ("symlinkat", libc::SYS_symlinkat, [c"target".arg(), fd, c"soft".arg(), 0, 0]),
        ("symlinkat onto", libc::SYS_symlinkat, [c"target".arg(), fd, c"soft".arg(), 0, 0]),
        ("symlinkat to nothing", libc::SYS_symlinkat, [c"".arg(), fd, c"soft2".arg(), 0, 0]),
        ("renameat", libc::SYS_renameat, [fd, c"hard".arg(), fd, c"harder".arg(), 0]),
        (
            "renameat2",
            libc::SYS_renameat2,
            [
                fd,
                c"harder".arg(),
                fd,
                c"soft".arg(),
                libc::RENAME_NOREPLACE as usize,
            ],
        ),
        (
            "renameat2, exchange",
            libc::SYS_renameat2,
            [
                fd,
                c"harder".arg(),
                fd,
                c"soft".arg(),
                libc::RENAME_EXCHANGE as usize,
            ],
        ),
        ("renameat2, unknown", libc::SYS_renameat2, [fd, c"harder".arg(), fd, c"soft".arg(), 1 << 20]),
        ("renameat2 of none", libc::SYS_renameat2, [fd, c"none".arg(), fd, c"x".arg(), 0]),
        ("unlinkat", libc::SYS_unlinkat, [fd, c"harder".arg(), 0, 0, 0]),
        ("unlinkat of none", libc::SYS_unlinkat, [fd, c"harder".arg(), 0, 0, 0]),
        ("unlinkat, unknown", libc::SYS_unlinkat, [fd, c"soft".arg(), 1, 0, 0]),
        (
            "unlinkat of a directory",
            libc::SYS_unlinkat,
            [fd, c"made".arg(), libc::AT_REMOVEDIR as usize, 0, 0],
        ),
        ("unlinkat of here", libc::SYS_unlinkat, [fd, c".".arg(), libc::AT_REMOVEDIR as usize, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        ("mkdir", libc::SYS_mkdir, [new.arg(), 0o751, 0, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        ("rmdir", libc::SYS_rmdir, [new.arg(), 0, 0, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        ("rmdir of none", libc::SYS_rmdir, [new.arg(), 0, 0, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        ("link", libc::SYS_link, [file.arg(), new.arg(), 0, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        ("rename", libc::SYS_rename, [new.arg(), other.arg(), 0, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        ("unlink", libc::SYS_unlink, [other.arg(), 0, 0, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        ("unlink of none", libc::SYS_unlink, [other.arg(), 0, 0, 0, 0]),
        #[cfg(target_arch = "x86_64")]
        ("symlink", libc::SYS_symlink, [c"x".arg(), other.arg(), 0, 0, 0]),
        ("fchmodat", libc::SYS_fchmodat, [fd, c"file".arg(), 0o4755, 0, 0]),
        ("fchmodat2", FCHMODAT2, [fd, c"link".arg(), 0o600, libc::AT_SYMLINK_NOFOLLOW as usize, 0]),
        ("fchownat", libc::SYS_fchownat, [fd, c"file".arg(), usize::MAX, usize::MAX, 0]),
        ("in a file", libc::SYS_mkdirat, [fd, c"file/x".arg(), 0o700, 0, 0]),
    ];
    for &(what, number, args) in calls {
        let _ = sys.check(what, number, args);
    }
    let mut left: Vec<_> = std::fs::read_dir(&sys.dir)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let status = entry.metadata().unwrap();
            let links = if status.is_dir() { 0 } else { status.nlink() };
            (entry.file_name(), status.mode(), links)
        })
        .collect();
    left.sort();
    sys.note("left", left);
}

fn nodes(sys: &mut Sys<'_>) {
    let dir = std::fs::File::open(&sys.dir).unwrap();
    let fd = dir.arg();
    same!(sys, "a FIFO" => SYS_mknodat [fd, c"fifo".arg(), libc::S_IFIFO as usize | 0o600, 0]);
    same!(sys, "again" => SYS_mknodat [fd, c"fifo".arg(), libc::S_IFIFO as usize | 0o600, 0]);
    same!(sys, "a file" => SYS_mknodat [fd, c"file".arg(), libc::S_IFREG as usize | 0o600, 0]);
    same!(sys, "a socket" => SYS_mknodat [fd, c"socket".arg(), libc::S_IFSOCK as usize | 0o600, 0]);
    same!(sys, "open of a socket" => SYS_openat [fd, c"socket".arg(), libc::O_RDWR as usize]);
    let both = sys.open(
        "a FIFO, both ways",
        libc::SYS_openat,
        [fd, c"fifo".arg(), libc::O_RDWR as usize],
    );
    note_open_file(sys, both);
    let nonblocking = libc::O_NONBLOCK as usize;
    let reader = sys
        .open(
            "a FIFO, nonblocking",
            libc::SYS_openat,
            [fd, c"fifo".arg(), nonblocking],
        )
        .unwrap();
    let writer = sys.open(
        "and the other end",
        libc::SYS_openat,
        [fd, c"fifo".arg(), libc::O_WRONLY as usize],
    );
    note_open_file(sys, Some(reader));
    note_open_file(sys, writer);
    // Another test's child may still have a copy of the reader.
    assert!(has_no_reader(fd, c"fifo"), "the FIFO still has a reader");
    same!(sys, "no reader" => SYS_openat [fd, c"fifo".arg(), nonblocking | libc::O_WRONLY as usize]);
    // O_PATH needs no peer.
    let path = sys.open(
        "a FIFO's path",
        libc::SYS_openat,
        [fd, c"fifo".arg(), libc::O_PATH as usize],
    );
    note_open_file(sys, path);
}

fn long_names_and_loops(sys: &mut Sys<'_>) {
    let here = libc::AT_FDCWD.arg();
    let mut status: libc::stat = zeroed();
    symlink("b", sys.dir.join("a")).unwrap();
    symlink("a", sys.dir.join("b")).unwrap();
    let long = "x".repeat(256);
    let longer = "x/".repeat(2_500);
    let deep = "./".repeat(1_000) + "a";
    for name in ["a", "a/x", long.as_str(), longer.as_str(), deep.as_str()] {
        let path = sys.path(name);
        same!(sys, "openat" => SYS_openat [here, path.arg(), 0]);
        same!(sys, "not following" => SYS_openat [here, path.arg(), libc::O_NOFOLLOW as usize]);
        drop(sys.open(
            "making",
            libc::SYS_openat,
            [here, path.arg(), libc::O_CREAT as usize, 0],
        ));
        same!(sys, "newfstatat" => SYS_newfstatat [here, path.arg(), at_mut(&mut status), 0]);
        same!(sys, "faccessat" => SYS_faccessat [here, path.arg(), 0]);
        same!(sys, "mkdirat" => SYS_mkdirat [here, path.arg(), 0o700]);
        same!(sys, "unlinkat" => SYS_unlinkat [here, path.arg(), 0]);
    }
}

fn file_systems(sys: &mut Sys<'_>) {
    let path = cstring(&sys.dir);
    let dir = std::fs::File::open(&sys.dir).unwrap();
    let (mut found, mut expected): (libc::statfs, libc::statfs) = (zeroed(), zeroed());
    same!(sys, "statfs" => SYS_statfs [path.arg(), at_mut(&mut found)]);
    let _ = plain(libc::SYS_statfs, [path.arg(), at_mut(&mut expected)]);
    sys.note(
        "kind",
        found.f_type == expected.f_type && found.f_bsize == expected.f_bsize,
    );
    same!(sys, "fstatfs" => SYS_fstatfs [dir.arg(), at_mut(&mut found)]);
    same!(sys, "statfs of none" => SYS_statfs [c"/none".arg(), at_mut(&mut found)]);
    let mut buffer = [0u8; 200];
    let length = sys
        .call(libc::SYS_getcwd, [at_mut(&mut buffer), 200])
        .unwrap();
    sys.note(
        "getcwd",
        String::from_utf8_lossy(&buffer[..length]).into_owned(),
    );
    same!(sys, "getcwd, too small" => SYS_getcwd [at_mut(&mut buffer), 1]);
    same!(sys, "chdir to none" => SYS_chdir [c"/none".arg()]);
    same!(sys, "mount of nothing" => SYS_mount [0, c"/none".arg(), c"none".arg(), 0, 0]);
    same!(sys, "umount2 of none" => SYS_umount2 [c"/none".arg(), 0]);
}

fn watches(sys: &mut Sys<'_>) {
    let path = cstring(&sys.dir);
    let notify = sys
        .open(
            "inotify_init1",
            libc::SYS_inotify_init1,
            [libc::IN_CLOEXEC as usize],
        )
        .unwrap();
    let mask = libc::IN_CREATE as usize;
    same!(sys, "inotify_add_watch" => SYS_inotify_add_watch [notify.arg(), path.arg(), mask]);
    std::fs::write(sys.dir.join("new"), b"").unwrap();
    let mut buffer = [0u8; 200];
    if !sys.short {
        same!(sys, "read" => SYS_read [notify.arg(), at_mut(&mut buffer), 200]);
        sys.note("event", buffer[..24].to_vec());
    }
    same!(sys, "inotify_rm_watch" => SYS_inotify_rm_watch [notify.arg(), 1]);
    same!(sys, "inotify_rm_watch of none" => SYS_inotify_rm_watch [notify.arg(), 99]);
}
