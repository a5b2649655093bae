//! Calls whose outcome depends on the rights of the thread.

use crate::harness::{Arg, at, at_mut, cstring, zeroed};
use laio::Errno;
use std::ffi::{CString, c_long};
use std::fmt::Write as _;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

pub(crate) type Make<'a> = &'a mut dyn FnMut(c_long, [usize; 6]) -> Result<usize, Errno>;

/// The user and group of files that belong neither to root nor to the user that the thread becomes.
pub(crate) const OTHER: u32 = 1234;
/// The user that the thread becomes.
pub(crate) const NO_RIGHTS: u32 = 65534;

/// Directories with the same contents, one for each time that the calls are made.
pub(crate) struct Place {
    _directory: tempfile::TempDir,
    pub(crate) path: PathBuf,
    /// Descriptors of the directories, for looking at them when the thread may not open them.
    home: OwnedFd,
    tcp: TcpListener,
}

const COPIES: [&str; 10] = [
    "warm",
    "cold",
    "plain-changed-0",
    "plain-changed-1",
    "laio-changed-0",
    "laio-changed-1",
    "plain-back-0",
    "plain-back-1",
    "laio-back-0",
    "laio-back-1",
];

impl Place {
    pub(crate) fn new() -> Place {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let path = directory.path().to_owned();
        mode(&path, 0o755);
        for copy in COPIES {
            fill(&path.join(copy));
        }
        std::env::set_current_dir(&path).expect("its directory");
        Place {
            home: std::fs::File::open(&path).expect("a directory").into(),
            tcp: TcpListener::bind("127.0.0.1:0").expect("a listening socket"),
            _directory: directory,
            path,
        }
    }

    /// The result of each call, and the attributes of the file that it made.
    pub(crate) fn outcomes(&self, copy: &str, make: Make<'_>) -> Vec<String> {
        assert!(COPIES.contains(&copy), "{copy} is filled");
        let mut log = Vec::new();
        let absolute = self.path.join(copy);
        self.files(&absolute, make, &mut log);
        self.relative(copy, make, &mut log);
        self.connections(&absolute, make, &mut log);
        log
    }

    fn files(&self, at_path: &Path, make: Make<'_>, log: &mut Vec<String>) {
        let here = libc::AT_FDCWD.arg();
        let name = |name: &str| cstring(at_path.join(name));
        let read = (libc::O_RDONLY | libc::O_CLOEXEC).arg();
        let write = (libc::O_WRONLY | libc::O_CLOEXEC).arg();
        for file in ["secret", "other", "grouped", "open", "private/file"] {
            let file_name = name(file);
            for (way, flags) in [("read", read), ("write", write)] {
                let args = [here, file_name.arg(), flags, 0, 0, 0];
                note(
                    log,
                    &format!("open {file} to {way}"),
                    closed(make(libc::SYS_openat, args)),
                );
            }
            let args = [here, file_name.arg(), libc::R_OK.arg(), 0, 0, 0];
            note(
                log,
                &format!("access {file}"),
                make(libc::SYS_faccessat, args),
            );
            let mut stat: libc::stat = zeroed();
            let args = [here, file_name.arg(), at_mut(&mut stat), 0, 0, 0];
            note(
                log,
                &format!("stat {file}"),
                make(libc::SYS_newfstatat, args),
            );
            let args = [file_name.arg(), 3, 0, 0, 0, 0];
            note(
                log,
                &format!("truncate {file}"),
                make(libc::SYS_truncate, args),
            );
            let args = [here, file_name.arg(), 0o640, 0, 0, 0];
            note(
                log,
                &format!("chmod {file}"),
                make(libc::SYS_fchmodat, args),
            );
            let args = [here, file_name.arg(), OTHER as usize, OTHER as usize, 0, 0];
            note(
                log,
                &format!("chown {file}"),
                make(libc::SYS_fchownat, args),
            );
            let args = [here, file_name.arg(), 0, 0, 0, 0];
            note(
                log,
                &format!("utimes {file}"),
                make(libc::SYS_utimensat, args),
            );
        }
        // Names in directories of root, and in directories open to all.
        for directory in ["", "public/", "private/"] {
            let in_it = |file: &str| name(&format!("{directory}{file}"));
            let [new, made, node, link, victim, to, full] =
                ["new", "made", "node", "link", "victim", "to", "full"].map(in_it);
            let text = c"text".arg();
            let create = (libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC).arg();
            let file = 0o644 | libc::S_IFREG as usize;
            let remove = libc::AT_REMOVEDIR.arg();
            #[rustfmt::skip]
            let steps = [
                ("create", libc::SYS_openat, [here, new.arg(), create, 0o666, 0, 0]),
                (
                    "mkdir",
                    libc::SYS_mkdirat,
                    [here, made.arg(), 0o777, 0, 0, 0],
                ),
                ("mknod", libc::SYS_mknodat, [here, node.arg(), file, 0, 0, 0]),
                ("symlink", libc::SYS_symlinkat, [text, here, link.arg(), 0, 0, 0]),
                ("rename", libc::SYS_renameat2, [here, victim.arg(), here, to.arg(), 0, 0]),
                ("unlink", libc::SYS_unlinkat, [here, to.arg(), 0, 0, 0, 0]),
                (
                    "rmdir",
                    libc::SYS_unlinkat,
                    [here, full.arg(), remove, 0, 0, 0],
                ),
            ];
            for (what, number, args) in steps {
                let result = make(number, args);
                let result = if what == "create" {
                    closed(result)
                } else {
                    result
                };
                note(log, &format!("{what} in {directory:?}"), result);
            }
            for file in ["new", "made", "node", "link", "to", "victim", "full"] {
                log.push(self.what_is(at_path, &format!("{directory}{file}")));
            }
        }
    }

    /// Uses names relative to the working directory.
    fn relative(&self, copy: &str, make: Make<'_>, log: &mut Vec<String>) {
        let here = libc::AT_FDCWD.arg();
        let flags = (libc::O_RDONLY | libc::O_CLOEXEC).arg();
        for file in ["open", "secret", "relative"] {
            let name = cstring(Path::new(copy).join(file));
            let opened = make(libc::SYS_openat, [here, name.arg(), flags, 0, 0, 0]);
            log.push(format!("open {file} from here: {}", shown(closed(opened))));
            let result = make(libc::SYS_mkdirat, [here, name.arg(), 0o755, 0, 0, 0]);
            log.push(format!("mkdir {file} from here: {}", shown(result)));
        }
    }

    fn connections(&self, at_path: &Path, make: Make<'_>, log: &mut Vec<String>) {
        for (what, name) in [("open", "socket"), ("root's", "private-socket")] {
            let (address, length) = unix_address(&at_path.join(name));
            let result = connected(make, libc::AF_UNIX, at(&address), length);
            log.push(format!(
                "connect to a Unix socket, {what}: {}",
                shown(result)
            ));
        }
        let mut address: libc::sockaddr_in = zeroed();
        address.sin_family = libc::AF_INET as libc::sa_family_t;
        address.sin_port = self.tcp.local_addr().expect("its address").port().to_be();
        address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
        let length = size_of::<libc::sockaddr_in>();
        let result = connected(make, libc::AF_INET, at(&address), length);
        log.push(format!("connect to 127.0.0.1: {}", shown(result)));
    }

    /// Owner, group and mode of a file, read through an earlier descriptor where the thread still may.
    fn what_is(&self, at_path: &Path, name: &str) -> String {
        let copy = at_path.file_name().expect("a name");
        let path = Path::new("/proc/self/fd")
            .join(self.home.as_raw_fd().to_string())
            .join(copy)
            .join(name);
        let mut line = format!("{name:?} is ");
        let _ = match std::fs::symlink_metadata(&path) {
            Ok(is) => write!(line, "{}:{} {:o}", is.uid(), is.gid(), is.mode()),
            Err(error) => write!(line, "{:?}", error.kind()),
        };
        line
    }
}

fn fill(path: &Path) {
    for directory in ["", "public", "private"] {
        let directory = path.join(directory);
        std::fs::create_dir(&directory).expect("a directory");
        std::fs::create_dir(directory.join("full")).expect("a directory");
        std::fs::write(directory.join("victim"), b"victim").expect("a file");
    }
    mode(path, 0o755);
    mode(&path.join("public"), 0o777);
    let files = [
        ("secret", 0, 0o600),
        ("other", OTHER, 0o600),
        ("grouped", 0, 0o660),
        ("open", 0, 0o644),
        ("private/file", 0, 0o666),
    ];
    for (name, user, bits) in files {
        let file = path.join(name);
        std::fs::write(&file, b"contents").expect("a file");
        let group = if name == "grouped" { OTHER } else { 0 };
        std::os::unix::fs::chown(&file, Some(user), Some(group)).expect("an owner");
        mode(&file, bits);
    }
    for (name, bits) in [("socket", 0o777), ("private-socket", 0o700)] {
        let socket = path.join(name);
        // The listener need not accept: connections stay in its queue, and are refused after it is closed.
        std::mem::forget(UnixListener::bind(&socket).expect("a socket"));
        mode(&socket, bits);
    }
    mode(&path.join("private"), 0o700);
}

fn mode(path: &Path, bits: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).expect("a mode");
}

fn note(log: &mut Vec<String>, what: &str, result: Result<usize, Errno>) {
    log.push(format!("{what}: {}", shown(result)));
}

fn shown(result: Result<usize, Errno>) -> String {
    match result {
        Ok(value) => value.to_string(),
        Err(errno) => errno.to_string(),
    }
}

fn closed(result: Result<usize, Errno>) -> Result<usize, Errno> {
    result.map(|fd| {
        // SAFETY: a call has just made it, and no other code knows its number.
        drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
        0
    })
}

fn unix_address(path: &Path) -> (libc::sockaddr_un, usize) {
    let mut address: libc::sockaddr_un = zeroed();
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let name: CString = cstring(path);
    let bytes = name.as_bytes_with_nul();
    assert!(bytes.len() <= address.sun_path.len(), "a short name");
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    (address, size_of::<libc::sockaddr_un>())
}

fn connected(make: Make<'_>, family: i32, address: usize, length: usize) -> Result<usize, Errno> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    let socket = make(libc::SYS_socket, [family.arg(), kind.arg(), 0, 0, 0, 0])?;
    // SAFETY: a call has just made it, and no other code knows its number.
    let socket = unsafe { OwnedFd::from_raw_fd(socket as i32) };
    make(libc::SYS_connect, [socket.arg(), address, length, 0, 0, 0])
}
