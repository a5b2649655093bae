//! The features that tests need of a machine, and probes for them.
//!
//! The probes do not use code of the engine or of the tests, so a bug there cannot make a test skip: the run
//! allows skips only for features that these probes find missing.

mod probes;

use probes::{
    accepts, acl, activations, compiles, confinement, control_groups, descriptors, devices,
    direct_io, disk, ext4, fchmodat2, fuse, gnu_cp, holes, inotify_queue, io_uring, ipv6, is_root,
    large_files, leases, linux_aio, loop_devices, mounts, mqueue, native, nowait, openat2,
    own_programs, package, perf, pipe_size, program, reflink, sanitizers, says, seccomp, shm,
    spawn_errors, split_buffers, terminals, time_namespaces, timed_receive, trusted_xattr,
    uninstrumented, user, user_namespaces, wipe_on_fork, xattr, zero_copy,
};
use std::path::{Path, PathBuf};

/// A feature that a test needs.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// Its short name, in skips and in `LAIO_TEST_MAY_SKIP`.
    pub name: &'static str,
    /// A description, and how to get the feature.
    pub what: &'static str,
    probe: fn() -> bool,
}

impl Need {
    /// Whether this machine has it, for this user.
    pub fn is_there(&self) -> bool {
        (self.probe)()
    }
}

/// All needs.
#[rustfmt::skip]
pub const NEEDS: &[Need] = &[
    need("io_uring", "io_uring, which containers and sysctls forbid", io_uring),
    need("zero-copy", "io_uring of Linux 6.0 and 8 MiB of locked memory", zero_copy),
    need("linux-aio", "io_setup of the kernel", linux_aio),
    need("activations", "x86-64 with fsgsbase, and /proc", activations),
    need("perf", "perf events of one's own threads: perf_event_paranoid at 2 or less", perf),
    need("fchmodat2", "Linux 6.6", fchmodat2),
    need(
        "wipe-on-fork",
        "pages that a fork replaces by zeros, which emulators of programs lack",
        wipe_on_fork,
    ),
    need(
        "own-programs",
        "to start programs for this processor: with an emulator, its entry in binfmt_misc",
        own_programs,
    ),
    need(
        "spawn-errors",
        "posix_spawn with the error of a program that does not exist, which emulators of programs lose",
        spawn_errors,
    ),
    need(
        "split-buffers",
        "a kernel that fills a buffer as far as it is mapped, which emulators of programs check as a whole",
        split_buffers,
    ),
    need("timed-receive", "the time-out of recvmmsg, which emulators of programs ignore", timed_receive),
    need("nowait", "preadv2 and pwritev2 with RWF_NOWAIT", nowait),
    need("openat2", "Linux 5.6, and no filter against it", openat2),
    need("seccomp", "seccomp filters, which emulators of programs lack", seccomp),
    need("fuse", "/dev/fuse, and root or fusermount3 with fusectl mounted", fuse),
    need("root", "to be root", is_root),
    need(
        "control-groups",
        "control groups with limits of memory and processes: root, and a writable /sys/fs/cgroup",
        control_groups,
    ),
    need("user-namespaces", "user namespaces: user.max_user_namespaces", user_namespaces),
    need("devices", "to make device nodes: root outside a user namespace", devices),
    need("mounts", "mount namespaces and mounts: CAP_SYS_ADMIN", mounts),
    need(
        "confinement",
        "root, Landlock with rules for connections (Linux 6.7), and namespaces of every kind",
        confinement,
    ),
    need("loop-devices", "loop devices: root, and /dev/loop-control", loop_devices),
    need("terminals", "pseudo-terminals: /dev/ptmx", terminals),
    need("time-namespaces", "time namespaces: CAP_SYS_ADMIN", time_namespaces),
    need(
        "user",
        "root, and a target directory that other users can reach",
        user,
    ),
    need("disk", "a file system on a disk: LAIO_TEST_DIR names a directory", disk),
    need("shm", "/dev/shm in memory", shm),
    need("ext4", "ext4: LAIO_TEST_DIR names a directory", ext4),
    need("reflink", "files that share blocks (xfs, btrfs): LAIO_TEST_DIR names a directory", reflink),
    need("holes", "a file system that keeps holes: LAIO_TEST_DIR names a directory", holes),
    need(
        "large-files",
        "a file system with files of a terabyte: LAIO_TEST_DIR names a directory",
        large_files,
    ),
    need("direct-io", "a file system with O_DIRECT: LAIO_TEST_DIR names a directory", direct_io),
    need("leases", "a file system with leases", leases),
    need(
        "xattr",
        "extended attributes of users on all file systems for tests",
        xattr,
    ),
    need("acl", "access control lists where tests make their files", acl),
    need(
        "trusted-xattr",
        "attributes of the system: CAP_SYS_ADMIN",
        trusted_xattr,
    ),
    need("descriptors", "a hard limit of 20,000 descriptors: ulimit -Hn", descriptors),
    need("pipe-size", "pipes of 64 KiB: fs.pipe-max-size, fs.pipe-user-pages-soft", pipe_size),
    need("ipv6", "IPv6 on the loopback", ipv6),
    need("mqueue", "POSIX message queues: CONFIG_POSIX_MQUEUE", mqueue),
    need("inotify-queue", "fs.inotify.max_queued_events of at most 100,000", inotify_queue),
    need("uninstrumented", "no sanitizer", uninstrumented),
    need("gnu-cp", "GNU cp 9", gnu_cp),
    need("bash", "bash", || program("bash")),
    need("zsh", "zsh", || program("zsh")),
    need("fish", "fish", || program("fish")),
    need("curl", "curl", || program("curl")),
    need("pebble", "Pebble, an ACME server: .ci/install-pebble", || pebble().is_some()),
    need(
        "native",
        "programs of this processor: an emulator has memory, descriptors, signals and calls that tests would take for those \
         of the program",
        native,
    ),
    need("strace", "strace, and programs of this processor", || {
        native() && program("strace")
    }),
    need("proot", "proot, which emulates a root directory by tracing", || native() && program("proot")),
    need("php-fpm", "php-fpm", || program("php-fpm")),
    need("python3", "Python, as python3", || program("python3")),
    need("python3.11", "Python 3.11 to 3.14, as python3", || {
        (11..=14).any(|minor| says("python3", &format!("Python 3.{minor}.")))
    }),
    need("node", "Node.js, as node", || program("node")),
    need("php-cgi", "php-cgi: the package php-cgi", || {
        program("php-cgi")
    }),
    need("mpirun", "mpirun of Open MPI: the package openmpi-bin", || says("mpirun", "Open MPI")),
    need("parallel", "GNU parallel: the package parallel", || {
        says("parallel", "GNU parallel")
    }),
    need("systemd-analyze", "systemd-analyze", || {
        program("systemd-analyze")
    }),
    need("valgrind", "valgrind", || program("valgrind")),
    need("gcc", "gcc", || program("gcc")),
    need("g++", "g++", || program("g++")),
    need("clang", "clang", || program("clang")),
    need("clang++", "clang++", || program("clang++")),
    need("sanitizers", "the sanitizers of each C compiler that is there", sanitizers),
    need("static-libc", "a static C library: libc6-dev", || {
        compiles("cc", &["-static"])
    }),
    need("libuv", "libuv for programs in C: libuv1-dev and pkg-config", || package("libuv")),
    need("liburing", "liburing for programs in C: liburing-dev and pkg-config", || package("liburing")),
    need("glib", "GLib for programs in C: libglib2.0-dev and pkg-config", || package("glib-2.0")),
    need("libevent", "libevent for programs in C: libevent-dev and pkg-config", || package("libevent")),
    need("asio", "standalone Asio for programs in C++: libasio-dev", || accepts("#include <asio.hpp>")),
    need("c++20", "a C++ compiler with the coroutines of C++20", || accepts("#include <coroutine>")),
];

const fn need(name: &'static str, what: &'static str, probe: fn() -> bool) -> Need {
    Need { name, what, probe }
}

/// Returns the need with this name.
pub fn find(name: &str) -> Option<&'static Need> {
    NEEDS.iter().find(|need| need.name == name)
}

/// Returns the path of Pebble: where `.ci/install-pebble` has put it, or in `PATH`.
pub fn pebble() -> Option<PathBuf> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path);
    let mut programs = [installed]
        .into_iter()
        .chain(directories)
        .map(|directory| directory.join("pebble"));
    programs.find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_there_once_and_can_stand_in_a_list() {
        for (index, need) in NEEDS.iter().enumerate() {
            assert!(!need.name.contains([',', ' ', '\t']), "{}", need.name);
            assert!(NEEDS[..index].iter().all(|other| other.name != need.name));
            assert!(!need.what.is_empty(), "{}", need.name);
        }
    }

    #[test]
    fn every_probe_comes_to_an_end() {
        for need in NEEDS {
            println!("{}: {}", need.name, need.is_there());
        }
    }
}
