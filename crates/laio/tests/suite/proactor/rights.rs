//! Rights: a call in the background is allowed no more than a plain call of the thread that polls.

use super::support::block_on;
use crate::harness::LIMIT;
use laio::ops::{Mkdir, Name};
use laio::{Options, Proactor};
use laio_testing::{child, forbid, skip, test_name};
use std::io;
use std::path::Path;

fn mkdir(proactor: &Proactor, path: &Path) -> io::Result<()> {
    block_on(proactor.submit(Mkdir::new(Name::from_path(path).unwrap(), 0o700)))
}

/// A driver that was started with more rights does not lend them to a thread that has given them up.
#[test]
fn a_thread_without_rights_gets_none_from_a_driver() {
    if !rustix::process::geteuid().is_root() {
        return skip("root", "gives up the rights of root");
    }
    child::check(LIMIT, test_name!(), "", || {
        let proactor = Proactor::new(Options::new()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        mkdir(&proactor, &path("before")).unwrap();
        let lesser = || {
            // SAFETY: takes no pointers; only this thread changes.
            unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
            let refused = mkdir(&proactor, &path("during")).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        };
        std::thread::scope(|scope| scope.spawn(lesser).join().unwrap());
        mkdir(&proactor, &path("after")).unwrap();
    });
}

#[test]
fn a_filter_of_the_thread_counts() {
    if laio_testing::lacks("seccomp") {
        return;
    }
    child::check(LIMIT, test_name!(), "", || {
        let proactor = Proactor::new(Options::new()).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        mkdir(&proactor, &path("before")).unwrap();
        let filtered = || {
            forbid::forbid(&[libc::SYS_mkdirat], libc::EXDEV);
            let refused = mkdir(&proactor, &path("during")).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EXDEV));
            forbid::forbid(&[libc::SYS_mkdirat], libc::ENOTTY);
            let refused = mkdir(&proactor, &path("during")).unwrap_err();
            // The kernel takes the value of the filter that was installed last.
            assert!(refused.raw_os_error().is_some());
        };
        std::thread::scope(|scope| scope.spawn(filtered).join().unwrap());
        mkdir(&proactor, &path("after")).unwrap();
    });
}
