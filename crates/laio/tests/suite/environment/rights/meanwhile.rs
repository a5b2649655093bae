//! Rights that change between a call and its result.

use super::changes::drop_administration;
use super::operations::NO_RIGHTS;
use super::{as_root, plainly};
use crate::harness::{Arg, Way, call, collect, cstring, finish, own, pending, start};
use laio::{BackendKind, Errno, Options};
use laio_testing::test_name;
use std::path::Path;

const KEEP: usize = u32::MAX as usize;

/// A refused call is not repeated with rights that the thread has gained since.
#[test]
fn a_refusal_stands_when_rights_are_gained() {
    as_root(test_name!(), |way| {
        let directory = directory();
        let name = cstring(directory.path().join("made"));
        let mut context = way.context();
        // The helpers and workers exist before the change.
        let warm = cstring(directory.path().join("warm"));
        assert_eq!(
            mkdir(&warm, |number, args| call(&mut context, number, args)),
            Ok(0)
        );
        effective_user(NO_RIGHTS as usize);
        let args = [libc::AT_FDCWD.arg(), name.arg(), 0o755, 0, 0, 0];
        let outcome = start(&mut context, libc::SYS_mkdirat, args);
        effective_user(0);
        assert_eq!(finish(&mut context, outcome), Err(Errno::ACCES));
        assert!(!Path::new(name.to_str().unwrap()).exists());
        0
    });
}

/// A call that waits for a thread does not run with rights that the calling thread has gained since.
#[test]
fn a_queued_call_does_not_use_rights_gained_later() {
    as_root(test_name!(), |way| {
        if !matches!(way.backend, BackendKind::Threads | BackendKind::Hybrid) {
            return 0;
        }
        // With a thread of its own for each call.
        queue_with_few_rights(way);
        // With helpers: no Landlock domain is possible. The call is queued only if it comes before the helper has found
        // that the open waits.
        drop_administration();
        (0..20).for_each(|_| queue_with_few_rights(way));
        0
    });
}

fn queue_with_few_rights(way: &Way) {
    let directory = directory();
    let fifo = cstring(directory.path().join("fifo"));
    // SAFETY: the name is a string.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o666) }, 0);
    let name = cstring(directory.path().join("made"));
    let mut context = way.with(|options: Options| options.helpers(1));
    effective_user(NO_RIGHTS as usize);
    let args = [libc::AT_FDCWD.arg(), fifo.arg(), libc::O_RDONLY.arg()];
    let opening = pending(&mut context, libc::SYS_openat, args);
    let args = [libc::AT_FDCWD.arg(), name.arg(), 0o755];
    let making = pending(&mut context, libc::SYS_mkdirat, args);
    effective_user(0);
    let end = std::thread::spawn(move || {
        let fifo = Path::new(fifo.to_str().unwrap());
        std::fs::File::options().write(true).open(fifo)
    });
    for completion in collect(&mut context, 2) {
        if completion.handle == making {
            let allowed = [Err(Errno::AGAIN), Err(Errno::ACCES)];
            assert!(allowed.contains(&completion.result), "{completion:?}");
        } else {
            assert_eq!(completion.handle, opening);
            drop(own(completion.result));
        }
    }
    drop(end.join().unwrap().expect("a FIFO"));
    assert!(!Path::new(name.to_str().unwrap()).exists());
}

/// All calls are made, even if they are more than there may be threads for at once.
#[test]
fn queued_calls_are_made() {
    as_root(test_name!(), |way| {
        if !way.goes_to_background() {
            return 0;
        }
        let directory = directory();
        let names: Vec<_> = (0..40)
            .map(|index| cstring(directory.path().join(index.to_string())))
            .collect();
        let mut context = way.with(|options: Options| options.helpers(3));
        let mut in_flight = 0;
        for name in &names {
            let args = [libc::AT_FDCWD.arg(), name.arg(), 0o755];
            match start(&mut context, libc::SYS_mkdirat, args) {
                laio::Outcome::Pending(_) => in_flight += 1,
                laio::Outcome::Done(result) => assert_eq!(result, Ok(0)),
            }
        }
        let completions = collect(&mut context, in_flight);
        assert!(completions.iter().all(|one| one.result == Ok(0)));
        let made = |name: &&std::ffi::CString| Path::new(name.to_str().unwrap()).is_dir();
        assert_eq!(names.iter().filter(made).count(), names.len());
        0
    });
}

/// Cancels a call that waits for a thread of its own, or runs on it.
#[test]
fn calls_with_their_own_thread_are_cancelled() {
    as_root(test_name!(), |way| {
        if !matches!(way.backend, BackendKind::Threads | BackendKind::Hybrid) {
            return 0;
        }
        let directory = directory();
        let fifo = cstring(directory.path().join("fifo"));
        // SAFETY: the name is a string.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o666) }, 0);
        let mut context = way.with(|options: Options| options.helpers(1));
        let args = [libc::AT_FDCWD.arg(), fifo.arg(), libc::O_RDONLY.arg()];
        let handles: Vec<_> = (0..3)
            .map(|_| pending(&mut context, libc::SYS_openat, args))
            .collect();
        for handle in handles.into_iter().rev() {
            context.cancel(handle).expect("it is in flight");
        }
        let completions = collect(&mut context, 3);
        let cancelled = |one: &laio::Completion| one.result == Err(Errno::CANCELED);
        assert!(completions.iter().all(cancelled), "{completions:?}");
        // Dropping the context ends the other calls.
        pending(&mut context, libc::SYS_openat, args);
        pending(&mut context, libc::SYS_openat, args);
        drop(context);
        0
    });
}

fn directory() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let everybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), everybody).expect("a mode");
    directory
}

fn effective_user(user: usize) {
    let args = [KEEP, user, KEEP, 0, 0, 0];
    assert_eq!(plainly(libc::SYS_setresuid, args), Ok(0));
}

fn mkdir(
    name: &std::ffi::CStr,
    mut make: impl FnMut(std::ffi::c_long, [usize; 6]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let args = [libc::AT_FDCWD.arg(), name.arg(), 0o755, 0, 0, 0];
    make(libc::SYS_mkdirat, args)
}
