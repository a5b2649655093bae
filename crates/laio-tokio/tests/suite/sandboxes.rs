//! All other tests once more, in processes as people deploy them.

use crate::support::WITH_RING;
use laio_testing::extent::Extent;
use laio_testing::forbid::{self, Forbid};
use laio_testing::sandbox::{Environment, Sandbox};
use laio_testing::{NO_SKIP, SKIPS, or_skip};
use std::process::{Command, Stdio};

/// The tests that need io_uring.
const RING: &str = "ring::";

#[test]
fn every_other_test_without_io_uring() {
    if laio_testing::lacks("seccomp") {
        return;
    }
    let mut command = every_test_but(&[RING]);
    forbid::restrict(&mut command, &Forbid::io_uring(libc::EPERM));
    check(command);
}

#[test]
fn every_other_test_with_a_ring_in_the_runtime() {
    let mut command = every_test_but(&[]);
    command.env(WITH_RING, "1");
    check(command);
}

laio_testing::each_test! {
    every_other_test_with_io_uring_disabled => every_other_test_in(Environment::IoUringDisabled, &[RING]);
    // Faults reach the program by pidfd_getfd, which the filter forbids to the test.
    every_other_test_as_in_docker => every_other_test_in(Environment::Docker, &["failing_calls"]);
    /// As a service of systemd with a user of its own: with `no_new_privs`, without capabilities or filters.
    // The oracle itself looks into directories that only root may read.
    every_other_test_without_capabilities => every_other_test_in(Environment::Unprivileged, &["oracle"]);
    every_other_test_on_one_processor => every_other_test_in(Environment::OneProcessor, &[]);
    every_other_test_in_a_user_namespace => every_other_test_in(Environment::UserNamespace, &[]);
    // These tests start many threads of their own.
    every_other_test_with_few_threads =>
        every_other_test_in(Environment::FewThreads, &["slow_disk", "lifecycle"]);
}

/// By default only as in Docker, which is the strictest that still runs several tests at a time.
fn every_other_test_in(environment: Environment, skipped: &[&str]) {
    if environment != Environment::Docker && Extent::wanted() == Extent::Usual {
        return;
    }
    let Some(sandbox) = or_skip(Sandbox::new(environment)) else {
        return;
    };
    let mut command = every_test_but(skipped);
    sandbox.confine(&mut command).expect("a sandbox");
    match environment {
        // What needs root or mounts a file system cannot run here, and runs outside of the sandbox.
        Environment::Docker | Environment::Unprivileged | Environment::UserNamespace => {
            command.env_remove(NO_SKIP).env_remove(SKIPS);
        }
        // The tests have threads too: one test at a time.
        Environment::FewThreads => {
            command.arg("--test-threads=1");
        }
        _ => (),
    }
    check(command);
    if let Some(times) = sandbox.times_reached() {
        println!("{environment:?}: the limit was reached {times} times");
    }
}

fn every_test_but(skipped: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test program"));
    command.args(["--skip", "sandboxes"]);
    command.args(skipped.iter().flat_map(|name| ["--skip", name]));
    command
}

fn check(mut command: Command) {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let child = command.spawn().expect("a child");
    let output = child.wait_with_output().expect("its end");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("test names::"), "{text}");
}
