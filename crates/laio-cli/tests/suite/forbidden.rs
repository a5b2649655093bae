//! The commands where a system call is missing: in an older kernel, or behind a filter. Each call that is younger than
//! Linux 4.14, or that filters are known to forbid, has another way, so that the commands do the same. `clone3` is the C
//! library's: it has another way for `ENOSYS` only.

use crate::common::server::{ServerProcess, TcpServer, get};
use crate::common::{succeeded, text};
use laio_testing::extent;
use laio_testing::forbid::{Forbid, restrict};
use rustix::fs::XattrFlags;
use std::ffi::c_long;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The calls, and their names. Calls that replace each other in one place are forbidden together.
#[rustfmt::skip]
const CALLS: [(&str, &[c_long]); 24] = [
    ("io_uring", laio_testing::forbid::IO_URING),
    ("openat2", &[libc::SYS_openat2]),
    ("statx", &[libc::SYS_statx]),
    ("close_range", &[libc::SYS_close_range]),
    ("copy_file_range", &[libc::SYS_copy_file_range]),
    ("preadv2, pwritev2", laio_testing::forbid::NOWAIT),
    ("pidfd", &[libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal]),
    ("memfd_create", &[libc::SYS_memfd_create]),
    ("perf_event_open", laio_testing::forbid::PERF),
    ("io_setup", &[libc::SYS_io_setup]),
    ("renameat2", &[libc::SYS_renameat2]),
    ("faccessat2", &[libc::SYS_faccessat2]),
    ("fchmodat2", &[452]),
    ("membarrier", &[libc::SYS_membarrier]),
    ("kcmp", &[libc::SYS_kcmp]),
    ("rseq", &[libc::SYS_rseq]),
    ("landlock", &[444, 445, 446]),
    ("epoll_pwait2", &[libc::SYS_epoll_pwait2]),
    ("inotify", &[libc::SYS_inotify_init1, libc::SYS_inotify_add_watch]),
    ("process_vm", &[libc::SYS_process_vm_readv, libc::SYS_process_vm_writev]),
    ("sendfile", &[libc::SYS_sendfile]),
    ("splice, tee", &[libc::SYS_splice, libc::SYS_tee]),
    ("fallocate", &[libc::SYS_fallocate]),
    ("extended attributes at", &[463, 464, 465, 466]),
];

/// The errnos that kernels and filters answer.
const ERRNOS: [(&str, i32); 2] = [("ENOSYS", libc::ENOSYS), ("EPERM", libc::EPERM)];

/// Runs a test for each call and errno, without io_uring too: it would make the calls behind the filter's
/// back. By default one in four of these: each call once.
fn each(test: impl Fn(&Forbid) -> Result<(), String>) {
    if laio_testing::lacks("seccomp") {
        return;
    }
    let mut failed = Vec::new();
    let mut count = 0;
    for (number, (name, calls)) in CALLS.into_iter().enumerate() {
        for (errno_name, errno) in ERRNOS {
            for (ring, forbid) in [
                ("", Forbid::new(calls, errno)),
                (
                    " and io_uring",
                    Forbid::io_uring(libc::EPERM).and(calls, errno),
                ),
            ] {
                count += 1;
                // Another combination for each call.
                if !extent::chooses("", count + number, 4) {
                    continue;
                }
                let panicked = |_| Err("as printed above".to_owned());
                let tested = catch_unwind(AssertUnwindSafe(|| test(&forbid)));
                if let Err(why) = tested.unwrap_or_else(panicked) {
                    failed.push(format!("without {name}{ring} ({errno_name}): {why}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn laio(forbid: &Forbid, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
    command.args(arguments).env_remove("LAIO_BACKEND");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    restrict(&mut command, forbid);
    command
}

/// A tree with a file of each kind that a copy treats differently.
fn tree() -> TempDir {
    let root = laio_testing::temp::scratch();
    let at = |name: &str| root.path().join(name);
    fs::create_dir_all(at("site/inner/deep")).unwrap();
    fs::write(at("site/index.html"), "the index\n").unwrap();
    fs::write(at("site/inner/small.txt"), "small\n").unwrap();
    fs::write(at("site/inner/deep/large.bin"), vec![b'x'; 3 << 20]).unwrap();
    fs::write(at("site/empty"), "").unwrap();
    let sparse = fs::File::create(at("site/sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    symlink("inner/small.txt", at("site/link.txt")).unwrap();
    symlink("inner", at("site/to-inner")).unwrap();
    symlink("/etc/passwd", at("site/outside.txt")).unwrap();
    fs::hard_link(at("site/index.html"), at("site/inner/same.html")).unwrap();
    fs::set_permissions(at("site/empty"), fs::Permissions::from_mode(0o640)).unwrap();
    root
}

/// Every name below a directory, with what a copy of it keeps.
fn listing(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let status = fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().display();
        let (mode, links, time) = (status.mode(), status.nlink(), status.mtime_nsec());
        let contents = if status.is_file() {
            let mut hasher = DefaultHasher::new();
            fs::read(&path).unwrap().hash(&mut hasher);
            format!("{:x}", hasher.finish())
        } else if status.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            left.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            String::new()
        };
        lines.push(format!("{name} {mode:o} {links} {time} {contents}"));
    }
    lines.sort();
    lines
}

#[test]
fn a_machine_is_described() {
    each(|forbid| {
        let output = laio(forbid, &["info", "/"]).output().unwrap();
        if output.status.success() && text(&output.stdout).contains("Back end") {
            Ok(())
        } else {
            Err(text(&output.stderr).to_owned())
        }
    });
}

#[test]
fn a_copy_is_the_same() {
    let from = tree();
    let source = from.path().join("site");
    let expected = listing(&source);
    each(|forbid| {
        let to = laio_testing::temp::scratch();
        let copy = to.path().join("copy");
        let names = [source.to_str().unwrap(), copy.to_str().unwrap()];
        let output = laio(forbid, &["cp", "-a", names[0], names[1]])
            .output()
            .unwrap();
        if !output.status.success() || !output.stderr.is_empty() {
            return Err(format!("{}: {}", output.status, text(&output.stderr)));
        }
        if listing(&copy) == expected {
            Ok(())
        } else {
            Err(format!("{:#?} instead of {expected:#?}", listing(&copy)))
        }
    });
}

/// As in a root directory without `/proc`, before Linux 6.13.
#[test]
fn a_copy_without_proc_is_the_same() {
    if laio_testing::lacks("mounts") || laio_testing::lacks("seccomp") {
        return;
    }
    let from = tree();
    let source = from.path().join("site");
    let link = source.join("link.txt");
    let can_have = laio_testing::needs::find("trusted-xattr").is_some_and(|need| need.is_there());
    if can_have {
        rustix::fs::lsetxattr(&link, "trusted.laio", b"kept", XattrFlags::empty()).unwrap();
    }
    let to = laio_testing::temp::scratch();
    let copy = to.path().join("copy");
    let mut command = Command::new("unshare");
    let hide = "mount -t tmpfs none /proc && exec \"$0\" cp -a \"$@\"";
    command.args(["--mount", "sh", "-c", hide, env!("CARGO_BIN_EXE_laio")]);
    command.arg(&source).arg(&copy);
    command.env_remove("LAIO_BACKEND");
    restrict(
        &mut command,
        &Forbid::new(&[463, 464, 465, 466], libc::ENOSYS),
    );
    let output = command.output().unwrap();
    succeeded(&output);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(listing(&copy), listing(&source));
    let mut value = [0; 4];
    let length = rustix::fs::lgetxattr(copy.join("link.txt"), "trusted.laio", &mut value);
    assert!(
        !can_have || (length == Ok(4) && value == *b"kept"),
        "{length:?}"
    );
}

/// As in a root directory without `/proc`, by which unnamed files get their names.
#[test]
fn files_are_uploaded_without_proc() {
    if laio_testing::lacks("mounts") {
        return;
    }
    for backend in ["hybrid", "threads", "lazy"] {
        let root = laio_testing::temp::scratch();
        let mut command = Command::new("unshare");
        let hide = "mount -t tmpfs none /proc && exec \"$0\" serve \"$@\"";
        command.args(["--mount", "sh", "-c", hide, env!("CARGO_BIN_EXE_laio")]);
        command.arg(root.path()).args(["--backend", backend]);
        command.args(["--listen", "127.0.0.1:0", "--workers", "1", "--log", "off"]);
        command.args(["--upload=anyone", "--upload-keep-free", "1", "--webdav"]);
        let server = TcpServer::listening(ServerProcess::spawn(&mut command));
        for (request, body, status) in [
            ("PUT /a", "one", "201"),
            ("PUT /a", "another", "204"),
            ("MKCOL /d", "", "201"),
            ("PUT /d/b", "", "201"),
            ("PUT /no/b", "", "409"),
            ("COPY /a", "", "201"),
        ] {
            let mut stream = server.connect();
            let length = body.len();
            let fields = "Host: a\r\nConnection: close\r\nDestination: /copy";
            write!(
                stream,
                "{request} HTTP/1.1\r\n{fields}\r\nContent-Length: {length}\r\n\r\n{body}"
            )
            .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let expected = format!("HTTP/1.1 {status} ");
            assert!(
                answer.starts_with(&expected),
                "{backend}, {request}: {answer}"
            );
        }
        for name in ["a", "copy"] {
            let stored = fs::read_to_string(root.path().join(name));
            assert_eq!(stored.unwrap(), "another", "{backend}");
        }
        let names = listing(root.path());
        assert_eq!(names.len(), 5, "{backend}: {names:?}");
    }
}

#[test]
fn a_site_is_served() {
    let from = tree();
    let site = from.path().join("site");
    each(|forbid| {
        let arguments = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--workers",
            "1",
            "--log",
            "off",
        ];
        let mut command = laio(forbid, &arguments);
        let server = TcpServer::listening(ServerProcess::spawn(command.arg(&site)));
        for (target, status, body) in [
            ("/", "200", "the index\n"),
            ("/inner/small.txt", "200", "small\n"),
            ("/link.txt", "200", "small\n"),
            ("/to-inner/small.txt", "200", "small\n"),
            ("/outside.txt", "404", ""),
            ("/missing.txt", "404", ""),
        ] {
            // The second answer may come from the cache.
            for _ in 0..2 {
                let answer = get(server.connect(), target).map_err(|error| error.to_string())?;
                if !answer.starts_with(&format!("HTTP/1.1 {status}")) || !answer.ends_with(body) {
                    return Err(format!("{target}: {answer}"));
                }
            }
        }
        let answer = get(server.connect(), "/inner/deep/large.bin");
        let length = answer.map_err(|error| error.to_string())?.len();
        if length > 3 << 20 {
            Ok(())
        } else {
            Err(format!("{length} bytes of a large file"))
        }
    });
}

#[test]
fn without_a_filter_all_is_well() {
    let none = Forbid::new(&[libc::SYS_kexec_load], libc::EPERM);
    if !laio_testing::lacks("seccomp") {
        succeeded(&laio(&none, &["info"]).output().unwrap());
    }
}
