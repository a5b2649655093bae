//! Child processes and signals.

use crate::common::{all, each, waiting};
use laio::ops::{Exit, WaitProcess};
use laio_rt::process::Child;
use laio_rt::signal::{SIGUSR1, SIGUSR2, Signals};
use laio_rt::{submit, time};
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn children_are_waited_for() {
    each(all(), async |_| {
        let mut child = Child::spawn(&mut shell("exit 7")).unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(7));
        assert_eq!(child.wait().await.unwrap().code(), Some(7));
        let mut child = Child::spawn(&mut shell("kill -9 $$")).unwrap();
        assert_eq!(child.wait().await.unwrap().signal(), Some(9));
    });
}

#[test]
fn a_program_that_does_not_exist_is_an_error() {
    if laio_testing::lacks("spawn-errors") {
        return;
    }
    each(all(), async |_| {
        let started = Child::spawn(&mut Command::new("/no/such"));
        assert_eq!(started.unwrap_err().kind(), ErrorKind::NotFound);
    });
}

#[test]
fn other_tasks_run_while_a_child_does() {
    each(waiting(), async |_| {
        let mut child = Child::spawn(&mut shell("exec sleep 1000")).unwrap();
        let wait = time::timeout(Duration::from_millis(20), child.wait());
        assert!(wait.await.is_err());
        // Cancelling the wait loses nothing.
        child.kill().unwrap();
        assert_eq!(child.wait().await.unwrap().signal(), Some(9));
    });
}

#[test]
fn children_talk_through_pipes() {
    each(waiting(), async |_| {
        let mut command = Command::new("tr");
        command
            .args(["a-z", "A-Z"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = Child::spawn(&mut command).unwrap();
        let (input, output) = (child.take_stdin().unwrap(), child.take_stdout().unwrap());
        assert!(child.take_stderr().is_none());
        input.write_all("hello, ").await.0.unwrap();
        input.write_all("child").await.0.unwrap();
        drop(input);
        let mut all = Vec::with_capacity(100);
        loop {
            let (result, filled) = output.read(all).await;
            all = filled;
            if result.unwrap() == 0 {
                break;
            }
        }
        assert_eq!(all, b"HELLO, CHILD");
        assert!(child.wait().await.unwrap().success());
    });
}

#[test]
fn the_bare_operation() {
    each(all(), async |_| {
        let spawn = |script| shell(script).spawn().unwrap().id();
        let exit = submit(WaitProcess::new(spawn("exit 3"))).await.unwrap();
        assert_eq!(exit, Exit::Code(3));
        let pid = spawn("kill -15 $$");
        let wait = || submit(WaitProcess::new(pid).keep());
        let killed = Exit::Signal {
            number: 15,
            core: false,
        };
        assert_eq!(wait().await.unwrap(), killed);
        assert_eq!(submit(WaitProcess::new(pid)).await.unwrap(), killed);
        let error = wait().await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(laio::Errno::CHILD.raw()));
    });
}

#[test]
fn signals_are_awaited() {
    let own = std::process::id();
    let send = |signal: &str| {
        let status = Command::new("kill")
            .args([signal, &own.to_string()])
            .status();
        assert!(status.unwrap().success());
    };
    each(waiting(), async |_| {
        let mut signals = Signals::new(&[SIGUSR1, SIGUSR2]).unwrap();
        let mut others = Signals::new(&[SIGUSR2]).unwrap();
        let short = Duration::from_millis(5);
        assert!(time::timeout(short, signals.next()).await.is_err());
        send("-USR1");
        assert_eq!(signals.next().await.unwrap(), SIGUSR1);
        send("-USR2");
        assert_eq!(signals.next().await.unwrap(), SIGUSR2);
        assert_eq!(others.next().await.unwrap(), SIGUSR2);
        // A wait after a cancelled one still receives the signal.
        for _ in 0..20 {
            assert!(
                time::timeout(Duration::from_micros(100), signals.next())
                    .await
                    .is_err()
            );
            send("-USR1");
            assert_eq!(signals.next().await.unwrap(), SIGUSR1);
        }
        assert!(Signals::new(&[-1]).is_err());
    });
}
