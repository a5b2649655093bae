//! A server that cannot start the threads that it needs.

use crate::common::server::{self, ServerProcess, wait_until};
use laio_testing::fail_nth::{self, Fault};
use std::fs;
use std::process::{Command, Stdio};

/// With `threads`, waiting for clients takes threads. A server that prints its banner answers; one that could not says so
/// and ends.
#[test]
fn a_server_with_too_few_threads_answers_or_refuses_to_start() {
    if laio_testing::lacks("seccomp") {
        return;
    }
    let site = tempfile::tempdir().unwrap();
    fs::write(site.path().join("index.html"), "here").unwrap();
    let clone = fail_nth::kind("clone3").unwrap();
    let answers = |threads: u32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laio"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--backend", "threads"])
            .args(["--workers", "2", "--log", "off", "--seccomp", "off"])
            .arg(site.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let fault = Fault::from_then_on(clone, threads + 1, libc::EAGAIN);
        let (child, faults) = fail_nth::spawn(&mut command, &[clone], Some(fault)).unwrap();
        let mut process = ServerProcess::from_child(child);
        let mut line = process.wait_for_line("");
        while !line.contains("http://") {
            if line.contains("cannot start ") {
                assert!(
                    faults.hit().is_some() && line.contains("ulimit -u"),
                    "{line}"
                );
                wait_until("it has ended", || {
                    process.child.try_wait().unwrap().is_some()
                });
                return false;
            }
            line = process.wait_for_line("");
        }
        let address = line
            .trim()
            .trim_start_matches("http://")
            .trim_end_matches('/');
        let response = server::get(server::connect(address.parse().unwrap()), "/").unwrap();
        assert!(response.ends_with("\r\n\r\nhere"), "{threads}: {response}");
        true
    };
    assert!((0..100).any(answers));
}
