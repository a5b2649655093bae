//! Rule 9: the thread's credentials apply to its later operations.

use super::support::result_of;
use crate::harness::{
    Arg, LIMIT, Way, at_mut, call, cstring, for_each_backend, own, pending, plain, zeroed,
};
use laio::{BackendKind, Context, Errno};
use laio_testing::{child, test_name};
use std::ffi::CString;
use std::os::unix::fs::PermissionsExt;

const NOBODY: usize = 65534;

struct Place {
    directory: tempfile::TempDir,
    secret: CString,
    inside: CString,
}

impl Place {
    /// A file that only root may read, and a directory that only root may enter, in a directory open to all.
    fn new() -> Place {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let path = directory.path();
        let set = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
        };
        set(path, 0o755);
        std::fs::write(path.join("secret"), b"secret").expect("a file");
        set(&path.join("secret"), 0o600);
        std::fs::create_dir(path.join("private")).expect("a directory");
        std::fs::write(path.join("private/file"), b"").expect("a file");
        set(&path.join("private/file"), 0o666);
        set(&path.join("private"), 0o700);
        Place {
            secret: cstring(path.join("secret")),
            inside: cstring(path.join("private/file")),
            directory,
        }
    }

    /// The result of each access through the context, after comparison with the plain calls.
    fn results(&self, context: &mut Context) -> Vec<Result<usize, Errno>> {
        self.each(|number, args| call(context, number, args))
    }

    fn plain_results(&self) -> Vec<Result<usize, Errno>> {
        self.each(plain)
    }

    fn each(
        &self,
        mut call: impl FnMut(libc::c_long, [usize; 4]) -> Result<usize, Errno>,
    ) -> Vec<Result<usize, Errno>> {
        let here = libc::AT_FDCWD.arg();
        let mut stat: libc::stat = zeroed();
        let mut results = Vec::new();
        for _ in 0..2 {
            for name in [&self.secret, &self.inside] {
                let flags = (libc::O_RDWR | libc::O_CLOEXEC).arg();
                let opened = call(libc::SYS_openat, [here, name.arg(), flags, 0]);
                results.push(opened.map(|fd| {
                    drop(own(Ok(fd)));
                    0
                }));
                results.push(call(libc::SYS_truncate, [name.arg(), 3, 0, 0]));
                let args = [here, name.arg(), at_mut(&mut stat), 0];
                results.push(call(libc::SYS_newfstatat, args));
                results.push(call(
                    libc::SYS_faccessat,
                    [here, name.arg(), libc::F_OK.arg(), 0],
                ));
                results.push(call(
                    libc::SYS_faccessat,
                    [here, name.arg(), libc::R_OK.arg(), 0],
                ));
                let made = name.arg();
                results.push(call(libc::SYS_mkdirat, [here, made, 0o755, 0]));
            }
        }
        results
    }
}

/// Changes the effective user through the context, so that the context knows.
fn become_user(context: &mut Context, real: usize, effective: usize) {
    assert_eq!(
        call(context, libc::SYS_setresuid, [real, effective, 0]),
        Ok(0)
    );
}

fn as_root(test: &str, body: impl Fn(&Way)) {
    // SAFETY: geteuid takes no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return laio_testing::skip("root", "only root can change its credentials and come back");
    }
    child::check(LIMIT * 6, test, "", || for_each_backend(body));
}

#[test]
fn later_operations_have_the_new_credentials() {
    as_root(test_name!(), |way| {
        let place = Place::new();
        let mut context = way.context();
        let as_root = place.results(&mut context);
        assert_eq!(as_root, place.plain_results());
        assert!(!as_root.contains(&Err(Errno::ACCES)));
        for (real, effective) in [(NOBODY, NOBODY), (NOBODY, 0), (0, NOBODY), (0, 0)] {
            become_user(&mut context, real, effective);
            let results = place.results(&mut context);
            assert_eq!(
                results,
                place.plain_results(),
                "real {real}, effective {effective}"
            );
            assert_eq!(
                results.contains(&Err(Errno::ACCES)),
                (real, effective) != (0, 0)
            );
        }
    });
}

/// A context made by a thread whose real and effective user differ.
#[test]
fn a_new_context_has_the_present_credentials() {
    as_root(test_name!(), |way| {
        let place = Place::new();
        let mut first = way.context();
        become_user(&mut first, NOBODY, 0);
        let mut second = way.context();
        assert_eq!(place.results(&mut second), place.plain_results());
        become_user(&mut second, 0, 0);
        assert_eq!(place.results(&mut second), place.plain_results());
    });
}

#[test]
fn earlier_operations_keep_their_credentials() {
    as_root(test_name!(), |way| {
        // With carriers the change fails while the home thread is in a call: tests/suite/activations.
        if !way.goes_to_background() || way.backend == BackendKind::Activations {
            return;
        }
        let place = Place::new();
        let fifo = place.directory.path().join("fifo");
        let name = cstring(&fifo);
        // SAFETY: the name is a string.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let mut context = way.context();
        let here = libc::AT_FDCWD.arg();
        let args = [here, name.arg(), libc::O_RDONLY.arg()];
        let opening = pending(&mut context, libc::SYS_openat, args);
        // The name is not in the dentry cache, so that the call goes to the background where possible.
        let made = cstring(place.directory.path().join("private/made"));
        let args = [
            here,
            made.arg(),
            (libc::O_CREAT | libc::O_RDWR).arg(),
            0o600,
        ];
        let making = pending(&mut context, libc::SYS_openat, args);
        // Gives the background the time to take the call before the user changes.
        let mut completions = Vec::new();
        while completions.is_empty() {
            context.poll(&mut completions, Some(LIMIT)).expect("poll");
        }
        assert_eq!(completions[0].handle, making);
        drop(own(completions[0].result));
        become_user(&mut context, NOBODY, NOBODY);
        assert_eq!(place.results(&mut context), place.plain_results());
        // Another thread becomes root again, and waits for the peer.
        let (met, wait) = std::sync::mpsc::channel::<()>();
        let writer = std::thread::spawn(move || {
            // SAFETY: setresuid takes no pointers; this thread ends before it does anything else.
            unsafe { libc::syscall(libc::SYS_setresuid, 0, 0, 0) };
            let end = std::fs::File::options().write(true).open(fifo);
            // An error means that the test is over, or has failed.
            let _ = wait.recv();
            drop(end.expect("a FIFO"));
        });
        drop(own(result_of(&mut context, opening)));
        drop(met);
        writer.join().expect("the writer");
        become_user(&mut context, 0, 0);
    });
}
