//! Rule 12: the same scenarios in processes where some system calls are forbidden.

use super::{
    received_whole, results_arguments, results_connections, results_datagrams, results_files,
    results_kinds, results_locks, results_names, results_opens, results_queues, results_streams,
    results_transfers, results_waiting,
};
use crate::harness::{
    Arg, LIMIT, Mode, Sys, Way, at, at_mut, call, collect, cstring, narrowed, own, pending_read,
    plain, same_as_plain, sanitized, start,
};
use laio::{BackendKind, Context, Errno, Options};
use laio_testing::forbid::{self, Forbid};
use laio_testing::sandbox::{self, Environment};
use laio_testing::temp::{drain, fill, pipe, stream_pair};
use laio_testing::{child, extent, test_name};
use std::time::Duration;

/// If set, all scenarios run in each environment and in all modes; otherwise only in the natural mode, without the
/// slow scenarios.
const STRESS: &str = "LAIO_STRESS";

const SLOW: &[&str] = &[
    "waiting_for_children",
    "receive_time_limits",
    "message_queues",
    "record_locks_that_wait",
    "stream_sockets_that_wait",
];

type Scenario = (&'static str, fn(&mut Sys<'_>));

fn scenarios() -> impl Iterator<Item = (Scenario, bool)> {
    let about = |list: &'static [Scenario], files| list.iter().map(move |&one| (one, files));
    about(results_arguments::SCENARIOS, false)
        .chain(about(results_files::SCENARIOS, true))
        .chain(about(results_names::SCENARIOS, true))
        .chain(about(results_streams::SCENARIOS, false))
        .chain(about(results_waiting::SCENARIOS, false))
        .chain(about(results_connections::SCENARIOS, false))
        .chain(about(results_datagrams::SCENARIOS, false))
        .chain(about(received_whole::SCENARIOS, false))
        .chain(about(results_kinds::SCENARIOS, false))
        .chain(about(results_locks::SCENARIOS, false))
        .chain(about(results_opens::SCENARIOS, true))
        .chain(about(results_queues::SCENARIOS, false))
        .chain(about(results_transfers::SCENARIOS, true))
}

/// Runs scenarios, by default a part of them that is another one for each test, in a process where these
/// calls are forbidden.
fn everything_works(test: &'static str, forbid: &Forbid) {
    forbid::child_within(limit(), test, forbid, || {
        run_scenarios(test, &forbid.calls())
    });
}

/// The same in a process as people deploy it.
fn everything_works_in(test: &'static str, environment: Environment) {
    let forbidden = environment
        .filter()
        .map_or(Vec::new(), |filter| filter.calls());
    sandbox::child_in(environment, limit(), test, || {
        run_scenarios(test, &forbidden);
    });
}

fn limit() -> Duration {
    LIMIT * if is_stress() { 100 } else { 12 }
}

fn is_stress() -> bool {
    std::env::var_os(STRESS).is_some()
}

fn run_scenarios(test: &str, forbidden: &[libc::c_long]) {
    let mut failed = Vec::new();
    for (index, ((name, scenario), about_files)) in scenarios().enumerate() {
        if !is_stress()
            && (SLOW.contains(&name) || !extent::chooses(test, index, crate::ENVIRONMENTS_SHARE))
        {
            continue;
        }
        let modes: &[Mode] = if is_stress() { &[] } else { &[Mode::Natural] };
        let run = || narrowed(modes, forbidden, || same_as_plain(scenario, about_files));
        if std::panic::catch_unwind(run).is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

laio_testing::each_test! {
    /// The filter of a common container runtime.
    without_io_uring_and_perf => everything_works(test_name!(), &Forbid::io_uring_and_perf(libc::EPERM));
    as_in_docker => everything_works_in(test_name!(), Environment::Docker);
    where_io_uring_is_disabled => everything_works_in(test_name!(), Environment::IoUringDisabled);
    without_capabilities_and_new_privileges => everything_works_in(test_name!(), Environment::Unprivileged);
    on_one_processor => everything_works_in(test_name!(), Environment::OneProcessor);
    in_a_user_namespace => everything_works_in(test_name!(), Environment::UserNamespace);
    with_little_memory => everything_works_in(test_name!(), Environment::LittleMemory);
    with_few_threads => everything_works_in(test_name!(), Environment::FewThreads);
    where_io_uring_is_not_implemented => everything_works(test_name!(), &Forbid::io_uring(libc::ENOSYS));
}

/// A filter that permits making a ring, but not using it.
#[test]
fn where_only_entering_the_ring_is_forbidden() {
    let enter = Forbid::new(&[libc::SYS_io_uring_enter], libc::EPERM);
    everything_works(test_name!(), &enter);
}

#[test]
fn without_modern_calls() {
    let forbid = Forbid::io_uring(libc::EACCES)
        .and(forbid::NOWAIT, libc::EPERM)
        .and(forbid::OPENAT2, libc::EPERM)
        .and(&[libc::SYS_faccessat2], libc::EPERM);
    everything_works(test_name!(), &forbid);
}

#[test]
fn without_modern_calls_except_the_ring() {
    let others = [
        libc::SYS_statx,
        libc::SYS_faccessat2,
        libc::SYS_epoll_pwait2,
    ];
    let forbid = Forbid::nowait(libc::ENOSYS)
        .and(forbid::OPENAT2, libc::ENOSYS)
        .and(&others, libc::ENOSYS);
    everything_works(test_name!(), &forbid);
}

#[test]
fn without_non_blocking_reads_and_cached_opens() {
    let forbid = Forbid::nowait(libc::EPERM).and(forbid::OPENAT2, libc::EACCES);
    everything_works(test_name!(), &forbid);
}

/// `uring` fails with the reason; `lazy` works without the ring.
#[test]
fn a_missing_ring_is_reported() {
    for errno in [libc::EPERM, libc::ENOSYS, libc::EACCES, libc::ENOMEM] {
        forbid::child(test_name!(), &Forbid::io_uring(errno), || {
            let uring = Context::new(Options::new().backend(BackendKind::Uring));
            assert_eq!(uring.err(), Some(Errno::from_raw(errno)));
            let lazy = Context::new(Options::new().backend(BackendKind::Lazy)).unwrap();
            assert_eq!(
                (lazy.info().backend(), lazy.info().has_ring()),
                (BackendKind::Lazy, false)
            );
            let chosen = Context::new(Options::new()).unwrap();
            assert_eq!(chosen.info().backend(), BackendKind::Lazy);
        });
    }
}

/// Contexts are made before a filter that forbids the calls of their attempts.
#[test]
fn a_filter_that_is_installed_later() {
    if laio_testing::lacks("seccomp") {
        return;
    }
    let calls: &[libc::c_long] = &[
        libc::SYS_preadv2,
        libc::SYS_pwritev2,
        libc::SYS_openat2,
        libc::SYS_faccessat2,
    ];
    for errno in [libc::EPERM, libc::ENOSYS, libc::EACCES] {
        child::check(LIMIT * 3, test_name!(), &errno.to_string(), || {
            let directory = laio_testing::temp::scratch();
            std::fs::write(directory.path().join("file"), b"contents").unwrap();
            let path = cstring(directory.path().join("file"));
            let mut contexts: Vec<(String, Context)> = Vec::new();
            for backend in [
                BackendKind::Threads,
                BackendKind::Hybrid,
                BackendKind::PosixAio,
                BackendKind::LinuxAio,
                BackendKind::Uring,
                BackendKind::Lazy,
            ] {
                if let Ok(context) = Context::new(Options::new().backend(backend)) {
                    contexts.push((backend.to_string(), context));
                }
            }
            let without = Options::new().backend(BackendKind::Lazy).ring(false);
            contexts.push(("lazy-without-ring".into(), Context::new(without).unwrap()));
            forbid::forbid(calls, errno);
            for (name, context) in &mut contexts {
                let here = libc::AT_FDCWD.arg();
                for _ in 0..2 {
                    let file = own(call(
                        context,
                        libc::SYS_openat,
                        [here, path.arg(), libc::O_RDWR as usize],
                    ));
                    let mut buffer = [0u8; 8];
                    assert_eq!(
                        call(
                            context,
                            libc::SYS_read,
                            [file.arg(), at_mut(&mut buffer), 8]
                        ),
                        Ok(8),
                        "{name}"
                    );
                    assert_eq!(
                        call(
                            context,
                            libc::SYS_pread64,
                            [file.arg(), at_mut(&mut buffer), 8, 3]
                        ),
                        Ok(5),
                        "{name}"
                    );
                    assert_eq!(
                        call(context, libc::SYS_pwrite64, [file.arg(), at("x"), 1, 3]),
                        Ok(1)
                    );
                    assert_eq!(
                        call(context, libc::SYS_faccessat, [here, path.arg(), 4]),
                        Ok(0),
                        "{name}"
                    );
                    let mut status: libc::stat = crate::harness::zeroed();
                    assert_eq!(
                        call(
                            context,
                            libc::SYS_newfstatat,
                            [here, path.arg(), at_mut(&mut status), 0]
                        ),
                        Ok(0)
                    );
                    assert_eq!(status.st_size, 8);
                }
                let (reader, writer) = pipe();
                let mut buffer = [0u8; 3];
                let read = pending_read(context, [reader.arg(), at_mut(&mut buffer), 3]);
                let write = start(context, libc::SYS_write, [writer.arg(), at("abc"), 3]);
                let count = 1 + usize::from(write.done().is_none());
                let completions = collect(context, count);
                assert!(completions.iter().any(|one| one.handle == read), "{name}");
                assert!(completions.iter().all(|one| one.result == Ok(3)), "{name}");
            }
            drop(contexts);
        });
    }
}

/// Without /proc, as in a bare chroot, the engine cannot read the mounts.
#[test]
fn without_proc() {
    if sanitized() {
        return laio_testing::skip("uninstrumented", "a sanitizer needs /proc");
    }
    child::check(LIMIT * 3, test_name!(), "", || {
        let directory = laio_testing::temp::scratch();
        std::fs::create_dir(directory.path().join("dir")).unwrap();
        std::fs::write(directory.path().join("dir/file"), b"contents").unwrap();
        let root = cstring(directory.path());
        if plain(libc::SYS_chroot, [root.arg()]).is_err() {
            return laio_testing::skip("root", "chroot is not permitted");
        }
        plain(libc::SYS_chdir, [c"/".arg()]).unwrap();
        crate::harness::for_each(|way: &Way| {
            let mut context = way.context();
            let here = libc::AT_FDCWD.arg();
            for name in [c"/dir/file", c"dir/file", c"./dir/../dir/file"] {
                for _ in 0..2 {
                    let file = own(call(
                        &mut context,
                        libc::SYS_openat,
                        [here, name.arg(), libc::O_RDWR as usize],
                    ));
                    let mut buffer = [0u8; 8];
                    assert_eq!(
                        call(
                            &mut context,
                            libc::SYS_read,
                            [file.arg(), at_mut(&mut buffer), 8]
                        ),
                        Ok(8)
                    );
                    assert_eq!(&buffer, b"contents");
                    let mut status: libc::stat = crate::harness::zeroed();
                    let found = call(
                        &mut context,
                        libc::SYS_newfstatat,
                        [here, name.arg(), at_mut(&mut status), 0],
                    );
                    assert_eq!((found, status.st_size), (Ok(0), 8));
                    let found = call(
                        &mut context,
                        libc::SYS_fstat,
                        [file.arg(), at_mut(&mut status)],
                    );
                    assert_eq!((found, status.st_size), (Ok(0), 8));
                }
            }
            let missing = call(
                &mut context,
                libc::SYS_openat,
                [here, c"/dir/none".arg(), 0],
            );
            assert_eq!(missing, Err(Errno::NOENT));
        });
        // The parent removes the scratch directory: its path does not exist inside the chroot.
        std::mem::forget(directory);
    });
}

/// Almost all descriptors of the process are in use.
#[test]
fn without_descriptors() {
    child::check(LIMIT * 3, test_name!(), "", || {
        let directory = laio_testing::temp::scratch();
        let path = cstring(directory.path().join("file"));
        std::fs::write(directory.path().join("file"), b"contents").unwrap();
        crate::harness::for_each(|way: &Way| {
            let mut context = way.context();
            let (reader, writer) = pipe();
            let (a, b) = stream_pair();
            fill(&a);
            let old = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            let mut none = old;
            none.current = Some(3);
            rustix::process::setrlimit(rustix::process::Resource::Nofile, none).unwrap();
            let here = libc::AT_FDCWD.arg();
            let opened = call(&mut context, libc::SYS_openat, [here, path.arg(), 0]);
            let mut status: libc::stat = crate::harness::zeroed();
            let found = call(
                &mut context,
                libc::SYS_newfstatat,
                [here, path.arg(), at_mut(&mut status), 0],
            );
            let access = call(&mut context, libc::SYS_faccessat, [here, path.arg(), 4]);
            let mut buffer = [0u8; 3];
            rustix::io::write(&writer, b"abc").unwrap();
            let read = call(
                &mut context,
                libc::SYS_read,
                [reader.arg(), at_mut(&mut buffer), 3],
            );
            rustix::process::setrlimit(rustix::process::Resource::Nofile, old).unwrap();
            assert_eq!(opened, Err(Errno::MFILE));
            assert_eq!((found, status.st_size), (Ok(0), 8));
            assert_eq!((access, read), (Ok(0), Ok(3)));
            drain(&b);
        });
    });
}

/// The environment variable chooses the back end, unless the program chooses one.
#[test]
fn the_environment_names_the_back_end() {
    for backend in BackendKind::ALL {
        child::check(LIMIT * 3, test_name!(), backend.name(), || {
            // SAFETY: the only other threads of this process are the harness's, which read no variables.
            unsafe { std::env::set_var(Options::ENV_BACKEND, backend.name()) };
            let Ok(context) = Context::new(Options::new()) else {
                let of_the_kernel = [BackendKind::Uring, BackendKind::LinuxAio];
                assert!(
                    of_the_kernel.contains(&backend) || !backend.is_built(),
                    "only these back ends may be missing"
                );
                return;
            };
            assert_eq!(context.info().backend(), backend);
            let own = Context::new(Options::new().backend(BackendKind::Sync)).unwrap();
            assert_eq!(own.info().backend(), BackendKind::Sync);
            // SAFETY: as above.
            unsafe { std::env::set_var(Options::ENV_BACKEND, "none such") };
            assert_eq!(Context::new(Options::new()).err(), Some(Errno::INVAL));
        });
    }
}

/// The filter permits making a ring, and forbids using it later.
#[test]
fn a_ring_that_is_forbidden_later_is_reported() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        child::check(LIMIT * 3, test_name!(), &errno.to_string(), || {
            let mut context = match Context::new(Options::new().backend(BackendKind::Uring)) {
                Ok(context) => context,
                Err(errno) => return laio_testing::skip("io_uring", format!("no ring: {errno}")),
            };
            let (reader, writer) = pipe();
            let mut buffer = [0u8; 3];
            pending_read(&mut context, [reader.arg(), at_mut(&mut buffer), 3]);
            forbid::forbid(&[libc::SYS_io_uring_enter], errno);
            rustix::io::write(&writer, b"abc").unwrap();
            let mut completions = Vec::new();
            let polled = context.poll(&mut completions, Some(Duration::from_millis(20)));
            assert_eq!(polled, Err(Errno::from_raw(errno)));
            assert_eq!(context.pending(), 1, "the operation stays");
            // Dropping it neither hangs nor fails.
            drop(context);
        });
    }
}
