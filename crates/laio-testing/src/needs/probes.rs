//! A probe for each need: whether this machine has it, for this user.

use std::ffi::c_void;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::temp::basic::{file_with, in_memory, pipe, scratch};

pub(super) fn io_uring() -> bool {
    // `struct io_uring_params`.
    let mut params = [0u32; 30];
    // SAFETY: the kernel fills in the struct, which lives through the call.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, params.as_mut_ptr()) };
    owned(ring).is_some()
}

pub(super) fn zero_copy() -> bool {
    let locked = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    let may_lock = is_root() || locked.is_none_or(|most| most >= 8 << 20);
    io_uring() && kernel() >= (6, 0) && may_lock
}

pub(super) fn linux_aio() -> bool {
    let mut context: libc::c_ulong = 0;
    // SAFETY: the kernel stores the id of a context, which is destroyed at once.
    unsafe {
        libc::syscall(libc::SYS_io_setup, 1, &raw mut context) == 0
            && libc::syscall(libc::SYS_io_destroy, context) == 0
    }
}

pub(super) fn activations() -> bool {
    /// `HWCAP2_FSGSBASE` of x86.
    const FSGSBASE: libc::c_ulong = 1 << 1;
    // SAFETY: it only reads the auxiliary vector.
    let features = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    cfg!(all(target_arch = "x86_64", target_env = "gnu"))
        && features & FSGSBASE != 0
        && Path::new("/proc/self").exists()
}

pub(super) fn perf() -> bool {
    // The start of `struct perf_event_attr`: a software event that does nothing, and not in the kernel.
    const ATTRIBUTES: [u64; 8] = [1 | 64 << 32, 9, 0, 0, 0, 1 << 5 | 1 << 26, 0, 0];
    let at = ATTRIBUTES.as_ptr();
    // SAFETY: the kernel reads the struct, whose size it holds.
    let event = unsafe { libc::syscall(libc::SYS_perf_event_open, at, 0, -1, -1, 0) };
    owned(event).is_some()
}

pub(super) fn fchmodat2() -> bool {
    const FCHMODAT2: libc::c_long = 452;
    // SAFETY: an empty name changes nothing.
    let result = unsafe { libc::syscall(FCHMODAT2, -1, c"".as_ptr(), 0, 0) };
    result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

pub(super) fn wipe_on_fork() -> bool {
    const LENGTH: usize = 1 << 16;
    // SAFETY: the page is fresh and this function's own; the child makes one load and leaves by _exit.
    unsafe {
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let page = libc::mmap(std::ptr::null_mut(), LENGTH, access, kind, -1, 0);
        if page == libc::MAP_FAILED {
            return false;
        }
        page.cast::<u8>().write(1);
        let advised = libc::madvise(page, LENGTH, libc::MADV_WIPEONFORK) == 0;
        let child = libc::fork();
        if child == 0 {
            libc::_exit(page.cast::<u8>().read_volatile().into());
        }
        let mut status = 1;
        let ended = child > 0 && libc::waitpid(child, &raw mut status, 0) == child;
        libc::munmap(page, LENGTH);
        advised && ended && status == 0
    }
}

pub(super) fn split_buffers() -> bool {
    let page = rustix::param::page_size();
    let Ok(mut file) = tempfile::tempfile() else {
        return false;
    };
    if file.write_all(b"01234567").is_err() {
        return false;
    }
    // SAFETY: two fresh pages, this function's own; the kernel writes to the end of the first.
    unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let pages = libc::mmap(std::ptr::null_mut(), 2 * page, access, kind, -1, 0);
        if pages == libc::MAP_FAILED {
            return false;
        }
        let guarded = libc::mprotect(pages.byte_add(page), page, libc::PROT_NONE) == 0;
        let end = pages.byte_add(page - 4);
        let moved = libc::pread(file.as_raw_fd(), end, 8, 0);
        libc::munmap(pages, 2 * page);
        guarded && moved == 4
    }
}

pub(super) fn timed_receive() -> bool {
    let mut bad = libc::timespec {
        tv_sec: 0,
        tv_nsec: -1,
    };
    // SAFETY: no descriptor and no messages; the kernel reads the time, and refuses it.
    let received = unsafe {
        let none = std::ptr::null_mut::<c_void>();
        libc::syscall(libc::SYS_recvmmsg, -1, none, 0, 0, &raw mut bad)
    };
    received == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

pub(super) fn own_programs() -> bool {
    /// Set in the program that this starts, so that it starts no other.
    const STARTED: &str = "LAIO_TEST_OWN_PROGRAM";
    if std::env::var_os(STARTED).is_some() {
        return true;
    }
    let Ok(program) = std::env::current_exe() else {
        return false;
    };
    let mut start = Command::new(program);
    start.arg("--list").env(STARTED, "1").stdin(Stdio::null());
    start.stdout(Stdio::null()).stderr(Stdio::null());
    // An error of the exec is one of the start.
    let Ok(mut child) = start.spawn() else {
        return false;
    };
    let _ = child.kill();
    child.wait().is_ok()
}

pub(super) fn spawn_errors() -> bool {
    match Command::new("/no/such/program").spawn() {
        Err(_) => true,
        Ok(mut child) => {
            let _ = child.wait();
            false
        }
    }
}

pub(super) fn nowait() -> bool {
    const NOWAIT: libc::c_int = libc::RWF_NOWAIT;
    // SAFETY: no vector and no descriptor: nothing is read.
    let result = unsafe { libc::syscall(libc::SYS_preadv2, -1, 0, 0, 0, 0, NOWAIT) };
    result == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EBADF)
}

pub(super) fn openat2() -> bool {
    let how = [libc::O_PATH as u64, 0, libc::RESOLVE_BENEATH];
    let (name, at, size) = (c".".as_ptr(), how.as_ptr(), size_of_val(&how));
    // SAFETY: name and struct live through the call.
    let file = unsafe { libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, name, at, size) };
    owned(file).is_some()
}

pub(super) fn seccomp() -> bool {
    /// `SECCOMP_GET_ACTION_AVAIL`, which installs nothing.
    const IS_AVAILABLE: libc::c_uint = 2;
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads the action.
    unsafe { libc::syscall(libc::SYS_seccomp, IS_AVAILABLE, 0, &raw const action) == 0 }
}

pub(super) fn fuse() -> bool {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    let may_mount = if is_root() {
        mounts()
    } else {
        program("fusermount3") && Path::new("/sys/fs/fuse/connections").exists()
    };
    device.is_ok() && may_mount
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(super) fn devices() -> bool {
    let directory = scratch();
    let path = name_of(&directory.path().join("null"));
    // SAFETY: the name lives through the call.
    unsafe { libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(1, 3)) == 0 }
}

pub(super) fn mounts() -> bool {
    let script = "mount --make-rprivate / && mount -t tmpfs none /tmp";
    succeeds(Command::new("unshare").args(["-m", "sh", "-c", script]))
}

pub(super) fn confinement() -> bool {
    const CREATE_RULESET: libc::c_long = 444;
    const VERSION: usize = 1;
    // SAFETY: no memory is passed.
    let version = unsafe { libc::syscall(CREATE_RULESET, 0, 0, VERSION) };
    let unshare = ["--mount", "--net", "--user", "true"];
    is_root() && version >= 4 && succeeds(Command::new("unshare").args(unshare))
}

/// Makes and removes a group for each of both: below the own one, or beside it where these are in one tree.
pub(super) fn control_groups() -> bool {
    const SCRIPT: &str = r#"
        made=/sys/fs/cgroup/$1$(sed -n "s/^[0-9]*:$1:\(.*\)/\1/p" /proc/self/cgroup)/laio-probe-$$
        if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
            made=/sys/fs/cgroup$(dirname "$(sed -n 's/^0:://p' /proc/self/cgroup)")/laio-probe-$$
        fi
        mkdir "$made" || exit 1
        ls "$made" | grep -q "^$1.max$\|^$1.limit_in_bytes$"; there=$?
        rmdir "$made" && exit $there"#;
    ["memory", "pids"]
        .iter()
        .all(|controller| succeeds(Command::new("sh").args(["-c", SCRIPT, "sh", controller])))
}

pub(super) fn user_namespaces() -> bool {
    succeeds(Command::new("unshare").args(["--user", "--map-root-user", "true"]))
}

pub(super) fn loop_devices() -> bool {
    let mut options = File::options();
    let control = options.read(true).write(true).open("/dev/loop-control");
    is_root() && control.is_ok()
}

pub(super) fn terminals() -> bool {
    File::options()
        .read(true)
        .write(true)
        .open("/dev/ptmx")
        .is_ok()
}

pub(super) fn time_namespaces() -> bool {
    succeeds(Command::new("unshare").args(["--time", "true"]))
}

pub(super) fn user() -> bool {
    const ANY: u32 = 65_534;
    let program = std::env::current_exe();
    let reaches = |path: &Path| {
        let mut look = Command::new("test");
        succeeds(look.arg("-x").arg(path).uid(ANY).gid(ANY).current_dir("/"))
    };
    is_root() && program.is_ok_and(|path| reaches(&path))
}

pub(super) fn disk() -> bool {
    !in_memory(scratch().path())
}

pub(super) fn shm() -> bool {
    in_memory("/dev/shm".as_ref())
}

pub(super) fn ext4() -> bool {
    const EXT4: u64 = 0xef53;
    rustix::fs::statfs(scratch().path()).is_ok_and(|fs| fs.f_type as u64 == EXT4)
}

pub(super) fn reflink() -> bool {
    let directory = scratch();
    let from = file_with(directory.path(), &[1]);
    let to = file_with(directory.path(), &[]);
    rustix::fs::ioctl_ficlone(&to, &from).is_ok()
}

pub(super) fn holes() -> bool {
    let directory = scratch();
    let file = file_with(directory.path(), &[]);
    let made = file.as_file().set_len(4 << 20);
    made.is_ok() && file.as_file().metadata().is_ok_and(|m| m.blocks() == 0)
}

pub(super) fn large_files() -> bool {
    let directory = scratch();
    let file = file_with(directory.path(), &[]);
    file.as_file().set_len(1 << 40).is_ok()
}

pub(super) fn direct_io() -> bool {
    let directory = scratch();
    let file = file_with(directory.path(), &[]);
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_DIRECT);
    options.open(file.path()).is_ok()
}

pub(super) fn leases() -> bool {
    let directory = scratch();
    let path = directory.path().join("file");
    // Closed again: a file that is open for writing has no lease for readers.
    let file = std::fs::write(&path, b"leased").and_then(|()| File::open(&path));
    let Ok(file) = file else {
        return false;
    };
    // SAFETY: no memory is passed; the lease ends with the file.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) == 0 }
}

pub(super) fn xattr() -> bool {
    let places = [scratch(), ordinary()];
    places
        .iter()
        .all(|place| has_attribute(place.path(), c"user.laio", b"1"))
}

pub(super) fn acl() -> bool {
    /// Version 2, and read and write for the owner, a user, the group, the mask and others.
    const LIST: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\x01\0\0\0\
        \x04\0\x04\0\xff\xff\xff\xff\x10\0\x04\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";
    let places = [scratch(), ordinary()];
    let mut places = places.iter();
    places.all(|place| has_attribute(place.path(), c"system.posix_acl_access", LIST))
}

pub(super) fn trusted_xattr() -> bool {
    has_attribute(scratch().path(), c"trusted.laio", b"1")
}

pub(super) fn descriptors() -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    limit.is_none_or(|most| most >= 20_000)
}

pub(super) fn pipe_size() -> bool {
    let (_reader, writer) = pipe();
    rustix::pipe::fcntl_getpipe_size(&writer).is_ok_and(|size| size >= 64 << 10)
}

pub(super) fn ipv6() -> bool {
    std::net::TcpListener::bind("[::1]:0").is_ok()
}

pub(super) fn mqueue() -> bool {
    // SAFETY: the name lives through the call; a queue that is not there is not made.
    let result = unsafe { libc::syscall(libc::SYS_mq_unlink, c"laio-none".as_ptr()) };
    result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

pub(super) fn inotify_queue() -> bool {
    let length = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events");
    length.is_ok_and(|text| text.trim().parse().is_ok_and(|most: u64| most <= 100_000))
}

pub(super) fn uninstrumented() -> bool {
    let options = ["ASAN_OPTIONS", "TSAN_OPTIONS"];
    options.iter().all(|name| std::env::var_os(name).is_none())
}

pub(super) fn gnu_cp() -> bool {
    let program = std::env::var_os("LAIO_TEST_GNU_CP").unwrap_or_else(|| "/bin/cp".into());
    let Ok(output) = Command::new(program).arg("--version").output() else {
        return false;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.strip_prefix("cp (GNU coreutils) ");
    let major = version.and_then(|rest| rest.split('.').next()?.parse().ok());
    matches!(major, Some(9u32..))
}

pub(super) fn sanitizers() -> bool {
    let compilers = ["cc", "gcc", "clang"];
    let mut there = compilers.into_iter().filter(|name| program(name));
    there.all(|name| compiles(name, &["-fsanitize=address,undefined"]))
}

pub(super) fn compiles(compiler: &str, arguments: &[&str]) -> bool {
    let mut compile = Command::new(compiler);
    compile
        .args(arguments)
        .args(["-x", "c", "-", "-o", "/dev/null"]);
    compile.stdin(Stdio::piped());
    compile.stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = compile.spawn() else {
        return false;
    };
    if let Some(mut input) = child.stdin.take() {
        // A compiler that does not read its input fails by itself.
        let _ = input.write_all(b"int main(void) { return 0; }\n");
    }
    child.wait().is_ok_and(|status| status.success())
}

/// Whether a C++ compiler accepts a line of C++20.
pub(super) fn accepts(line: &str) -> bool {
    let compile = "printf '%s\\n' \"$1\" | \"$0\" -std=c++20 -fsyntax-only -x c++ -";
    let with = |compiler| succeeds(Command::new("sh").args(["-c", compile, compiler, line]));
    ["g++", "clang++"].into_iter().any(with)
}

pub(super) fn package(name: &str) -> bool {
    succeeds(Command::new("pkg-config").args(["--exists", name]))
}

pub(super) fn native() -> bool {
    let own = std::env::current_exe().ok().and_then(processor);
    own.is_some() && own == processor("/bin/sh".into())
}

/// The processor that a program is for: `e_machine` of its ELF header.
fn processor(program: PathBuf) -> Option<[u8; 2]> {
    let mut header = [0; 20];
    File::open(program).ok()?.read_exact(&mut header).ok()?;
    header[18..].try_into().ok()
}

pub(super) fn program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

pub(super) fn says(name: &str, words: &str) -> bool {
    let output = Command::new(name).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(words))
}

fn succeeds(command: &mut Command) -> bool {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// A directory for files that need not be on a disk.
fn ordinary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn has_attribute(directory: &Path, name: &std::ffi::CStr, value: &[u8]) -> bool {
    let file = file_with(directory, &[]);
    let path = name_of(file.path());
    let bytes = value.as_ptr().cast::<c_void>();
    // SAFETY: the names and the value live through the call.
    unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), bytes, value.len(), 0) == 0 }
}

fn name_of(path: &Path) -> std::ffi::CString {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::CString::new(path.as_os_str().as_bytes()).expect("a path without zeros")
}

/// Returns the version of the kernel.
fn kernel() -> (u32, u32) {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn owned(result: libc::c_long) -> Option<OwnedFd> {
    let fd = i32::try_from(result).ok().filter(|&fd| fd >= 0)?;
    // SAFETY: the call has just made it, and nothing else knows it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}
