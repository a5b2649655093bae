//! All other tests once more, in a process that may not use io_uring, as in most containers.

use laio_testing::forbid::{self, Forbid};
use std::process::{Command, Stdio};

#[test]
fn every_other_test_without_io_uring() {
    if laio_testing::lacks("seccomp") {
        return;
    }
    let mut command = Command::new(std::env::current_exe().expect("the test program"));
    command.args(["--skip", "without_io_uring"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let child = forbid::spawn_forbidden(command, &Forbid::io_uring(libc::EPERM)).expect("a child");
    let output = child.wait_with_output().expect("its end");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("test oracle::"), "{text}");
}
