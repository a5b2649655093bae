//! Rule 9: calls that act on the calling thread run on it, and a change of the thread's identity applies to its
//! helpers.

use crate::harness::{
    Arg, LIMIT, Way, all_ways, at, at_mut, call, collect, cstring, finish, for_each,
    for_each_backend, for_each_pending_backend, own, pending_read, plain, start, wait_for, watch,
};
use laio::{Context, Errno, Outcome};
use laio_testing::temp::{pipe, scratch};
use laio_testing::{child, limit, test_name};
use std::os::unix::fs::PermissionsExt;

#[test]
fn they_run_inline_on_the_callers_thread() {
    for_each(|way| {
        let mut context = way.context();
        let here = plain(libc::SYS_gettid, []);
        assert_eq!(
            start(&mut context, libc::SYS_gettid, []),
            Outcome::Done(here)
        );
        // The signal mask of this thread changes.
        let (set, mut old, mut now) = (1u64 << (libc::SIGUSR2 - 1), 0u64, 0u64);
        let mask = libc::SYS_rt_sigprocmask;
        let blocked = start(
            &mut context,
            mask,
            [libc::SIG_BLOCK as usize, at(&set), at_mut(&mut old), 8],
        );
        assert_eq!(blocked, Outcome::Done(Ok(0)));
        plain(mask, [libc::SIG_BLOCK as usize, 0, at_mut(&mut now), 8]).unwrap();
        assert_eq!(now, old | set);
        let restored = start(
            &mut context,
            mask,
            [libc::SIG_SETMASK as usize, at(&old), 0, 8],
        );
        assert_eq!(restored, Outcome::Done(Ok(0)));
        plain(mask, [libc::SIG_BLOCK as usize, 0, at_mut(&mut now), 8]).unwrap();
        assert_eq!(now, old);
        // Its name changes too, and its affinity is read.
        let (mut before, mut name) = ([0u8; 16], [0u8; 16]);
        let prctl = libc::SYS_prctl;
        plain(prctl, [libc::PR_GET_NAME as usize, at_mut(&mut before)]).unwrap();
        let named = start(
            &mut context,
            prctl,
            [libc::PR_SET_NAME as usize, c"renamed".arg()],
        );
        assert_eq!(named, Outcome::Done(Ok(0)));
        plain(prctl, [libc::PR_GET_NAME as usize, at_mut(&mut name)]).unwrap();
        assert_eq!(&name[..7], b"renamed");
        plain(prctl, [libc::PR_SET_NAME as usize, at(&before)]).unwrap();
        let mut cpus = [0u64; 16];
        let affinity = start(
            &mut context,
            libc::SYS_sched_getaffinity,
            [0, 128, at_mut(&mut cpus)],
        );
        assert!(matches!(affinity, Outcome::Done(Ok(_))), "{affinity:?}");
        assert_eq!(context.stats().call(libc::SYS_gettid).inline, 1);
    });
}

/// These calls neither wait for operations in flight nor use the budget.
#[test]
fn they_do_not_wait_for_operations() {
    for_each_pending_backend(|way| {
        let mut context = way.with(|options| options.operations(1));
        let (reader, writer) = pipe();
        let mut buffer = [0u8; 1];
        let handle = pending_read(&mut context, [reader.arg(), at_mut(&mut buffer), 1]);
        for _ in 0..1_000 {
            assert!(matches!(
                start(&mut context, libc::SYS_getuid, []),
                Outcome::Done(Ok(_))
            ));
        }
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!(wait_for(&mut context, handle).result, Ok(1));
    });
}

const NOBODY: usize = 65_534;
const KEEP: usize = u32::MAX as usize;

/// Changes the effective user of this thread, through the context.
fn become_user(context: &mut Context, user: usize) {
    // Carriers must not change it while the home thread is in a call, where the disk may keep it.
    let changed = limit::wait_until(LIMIT, || {
        let changed = start(context, libc::SYS_setresuid, [KEEP, user, KEEP]);
        let busy = changed == Outcome::Done(Err(Errno::BUSY));
        assert!(busy || changed == Outcome::Done(Ok(0)), "{changed:?}");
        !busy
    });
    assert!(changed, "still in a call");
}

fn as_root(test: &'static str, body: impl Fn()) {
    child::check(LIMIT * 6, test, "", || {
        if plain(libc::SYS_geteuid, []) != Ok(0) {
            return laio_testing::skip("root", "only root can become another user and come back");
        }
        body();
    });
}

#[test]
fn credentials_apply_to_the_helpers() {
    as_root(test_name!(), || {
        let directory = scratch();
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let secret = directory.path().join("secret");
        std::fs::write(&secret, b"of root").unwrap();
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
        let secret = cstring(secret);
        let new = cstring(directory.path().join("new"));
        let here = libc::AT_FDCWD.arg();
        for_each(|way| {
            let mut context = way.context();
            let open = [here, secret.arg(), libc::O_RDONLY as usize];
            let make = [
                here,
                new.arg(),
                (libc::O_CREAT | libc::O_RDWR) as usize,
                0o600,
            ];
            // A helper with the old identity exists already.
            drop(own(call(&mut context, libc::SYS_openat, open)));
            for _ in 0..2 {
                become_user(&mut context, NOBODY);
                assert_eq!(
                    call(&mut context, libc::SYS_openat, open),
                    Err(Errno::ACCES)
                );
                assert_eq!(
                    call(&mut context, libc::SYS_openat, make),
                    Err(Errno::ACCES)
                );
                assert_eq!(
                    call(&mut context, libc::SYS_mkdirat, [here, new.arg(), 0o700]),
                    Err(Errno::ACCES)
                );
                assert_eq!(
                    call(&mut context, libc::SYS_truncate, [secret.arg(), 0]),
                    Err(Errno::ACCES)
                );
                become_user(&mut context, 0);
                drop(own(call(&mut context, libc::SYS_openat, open)));
                drop(own(call(&mut context, libc::SYS_openat, make)));
                assert_eq!(
                    call(&mut context, libc::SYS_unlinkat, [here, new.arg(), 0]),
                    Ok(0)
                );
            }
        });
    });
}

/// Calls made before the change use the old identity.
#[test]
fn earlier_calls_keep_their_credentials() {
    as_root(test_name!(), || {
        let directory = scratch();
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let secret = directory.path().join("secret");
        std::fs::write(&secret, b"of root").unwrap();
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
        let secret = cstring(secret);
        let made = cstring(directory.path().join("made"));
        for_each(|way| {
            let mut context = way.context();
            let here = libc::AT_FDCWD.arg();
            let opened = start(&mut context, libc::SYS_openat, [here, secret.arg(), 0]);
            let made_now = start(&mut context, libc::SYS_mkdirat, [here, made.arg(), 0o700]);
            become_user(&mut context, NOBODY);
            let denied = start(&mut context, libc::SYS_openat, [here, secret.arg(), 0]);
            let outcomes = [opened, made_now, denied];
            let count = outcomes
                .iter()
                .filter(|outcome| outcome.done().is_none())
                .count();
            let completions = collect(&mut context, count);
            become_user(&mut context, 0);
            let [opened, made_now, denied] = outcomes.map(|outcome| match outcome {
                Outcome::Done(result) => result,
                Outcome::Pending(handle) => {
                    completions
                        .iter()
                        .find(|one| one.handle == handle)
                        .unwrap()
                        .result
                }
            });
            std::fs::remove_dir(directory.path().join("made")).expect("made, by root");
            assert_eq!((made_now, denied), (Ok(0), Err(Errno::ACCES)));
            drop(own(opened));
        });
    });
}

/// `access` checks the rights of the real user, and so must the look-up.
#[test]
fn access_asks_for_the_real_user() {
    as_root(test_name!(), || {
        let directory = scratch();
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o700)).unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, b"").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        let file = cstring(file);
        let args = [libc::AT_FDCWD.arg(), file.arg(), libc::F_OK as usize];
        for_each(|way| {
            let mut context = way.context();
            assert_eq!(call(&mut context, libc::SYS_faccessat, args), Ok(0));
            // The real user has no rights; the effective user is root.
            let changed = start(&mut context, libc::SYS_setresuid, [NOBODY, 0, 0]);
            assert_eq!(changed, Outcome::Done(Ok(0)));
            let expected = plain(libc::SYS_faccessat, args);
            let found = call(&mut context, libc::SYS_faccessat, args);
            let effective = libc::AT_EACCESS as usize;
            let expected_effective =
                plain(libc::SYS_faccessat2, [args[0], args[1], args[2], effective]);
            let found_effective = call(
                &mut context,
                libc::SYS_faccessat2,
                [args[0], args[1], args[2], effective],
            );
            let back = start(&mut context, libc::SYS_setresuid, [0, 0, 0]);
            assert_eq!(finish(&mut context, back), Ok(0));
            assert_eq!((expected, expected_effective), (Err(Errno::ACCES), Ok(0)));
            assert_eq!((found, found_effective), (expected, expected_effective));
        });
    });
}

/// A relative name is resolved in the directory that was current at the time of the call.
#[test]
fn a_change_of_directory_does_not_reach_earlier_calls() {
    child::check(LIMIT * 6, test_name!(), "", || {
        let directory = scratch();
        let (one, two) = (directory.path().join("one"), directory.path().join("two"));
        for (place, contents) in [(&one, "1"), (&two, "22")] {
            std::fs::create_dir(place).unwrap();
            std::fs::write(place.join("file"), contents).unwrap();
        }
        let (one, two) = (cstring(one), cstring(two));
        for_each_backend(|way| {
            let mut context = way.context();
            assert_eq!(
                start(&mut context, libc::SYS_chdir, [one.arg()]),
                Outcome::Done(Ok(0))
            );
            let args = [libc::AT_FDCWD.arg(), c"file".arg(), libc::O_RDONLY as usize];
            for _ in 0..5 {
                let first = start(&mut context, libc::SYS_openat, args);
                let first = own(finish(&mut context, first));
                assert_eq!(rustix::fs::fstat(&first).unwrap().st_size, 1);
                assert_eq!(
                    start(&mut context, libc::SYS_chdir, [two.arg()]),
                    Outcome::Done(Ok(0))
                );
                let second = start(&mut context, libc::SYS_openat, args);
                let second = own(finish(&mut context, second));
                assert_eq!(rustix::fs::fstat(&second).unwrap().st_size, 2);
                assert_eq!(
                    start(&mut context, libc::SYS_chdir, [one.arg()]),
                    Outcome::Done(Ok(0))
                );
            }
        });
    });
}

/// Many threads with several contexts of all kinds pass bytes along a ring of pipes.
#[test]
fn many_contexts_on_many_threads() {
    let ways: Vec<Way> = all_ways()
        .into_iter()
        .filter(Way::goes_to_background)
        .collect();
    let count = ways.len();
    let pipes: Vec<_> = (0..count).map(|_| pipe()).collect();
    let laps = 200u8;
    std::thread::scope(|scope| {
        for (index, way) in ways.iter().enumerate() {
            let (reader, writer) = (&pipes[index].0, &pipes[(index + 1) % count].1);
            scope.spawn(move || {
                let _watched = watch(&way.to_string());
                let mut contexts: Vec<Context> = (0..3).map(|_| way.context()).collect();
                for lap in 0..laps {
                    let context = &mut contexts[usize::from(lap) % 3];
                    let mut byte = [0u8];
                    let read = call(
                        context,
                        libc::SYS_read,
                        [reader.arg(), at_mut(&mut byte), 1],
                    );
                    assert_eq!((read, byte[0]), (Ok(1), lap), "{way}");
                    if index + 1 < count || lap + 1 < laps {
                        let next = if index + 1 < count { lap } else { lap + 1 };
                        let sent = call(context, libc::SYS_write, [writer.arg(), at(&next), 1]);
                        assert_eq!(sent, Ok(1), "{way}");
                    }
                }
                assert!(contexts.iter().all(|context| context.pending() == 0));
            });
        }
        rustix::io::write(&pipes[0].1, &[0]).unwrap();
    });
}
