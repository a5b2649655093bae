//! A hand-off must not change the program's credentials, filters and namespaces.

use super::support::{for_each_detector, start};
use laio::{Context, Errno, Outcome};
use laio_testing::{child, test_name};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

const NOBODY: usize = 65_534;
const LIMIT: Duration = Duration::from_secs(360);

/// Makes a call block on a pipe, so that the program continues on another carrier.
fn hand_off(context: &mut Context, pipe: &OwnedFd, buffer: &mut u8) -> bool {
    let args = [
        pipe.as_raw_fd() as usize,
        std::ptr::from_mut(buffer) as usize,
        1,
    ];
    matches!(start(context, libc::SYS_read, args), Outcome::Pending(_))
}

fn effective_user() -> usize {
    rustix::process::geteuid().as_raw() as usize
}

/// A change through laio applies to all carriers; a call in flight keeps the previous credentials.
#[test]
fn a_change_through_laio_stays() {
    child::check(LIMIT, test_name!(), "", || {
        if effective_user() != 0 {
            return laio_testing::skip("root", "only root can become another user");
        }
        for_each_detector(|mut context| {
            let (reader, writer) = rustix::pipe::pipe().unwrap();
            let keep = u32::MAX as usize;
            let changed = start(&mut context, libc::SYS_setresuid, [keep, NOBODY, keep]);
            assert_eq!(changed, Outcome::Done(Ok(0)));
            assert!(context.info().carriers_agree());
            let mut buffer = 0;
            // If no further carrier can be made, helpers make the calls; the user stays.
            assert!(hand_off(&mut context, &reader, &mut buffer));
            assert_eq!(effective_user(), NOBODY);
            rustix::io::write(&writer, b"x").unwrap();
            let mut completions = Vec::new();
            context.poll(&mut completions, None).unwrap();
            assert_eq!(completions[0].result, Ok(1));
            let back = start(&mut context, libc::SYS_setresuid, [keep, 0, keep]);
            assert_eq!(back, Outcome::Done(Ok(0)));
        });
    });
}

/// While the home thread is in a call, its credentials cannot change: the change fails.
#[test]
fn a_change_is_refused_while_it_cannot_be_made() {
    for_each_detector(|mut context| {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut buffer = 0;
        assert!(hand_off(&mut context, &reader, &mut buffer));
        let command = [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0];
        let refused = start(&mut context, libc::SYS_prctl, command);
        assert_eq!(refused, Outcome::Done(Err(Errno::BUSY)));
        rustix::io::write(&writer, b"x").unwrap();
        context.poll(&mut Vec::new(), None).unwrap();
    });
}

/// `carriers_agree` finds a change made without laio; so does the next hand-off, which ends the process.
#[test]
fn a_change_without_laio_is_detected() {
    child::check(LIMIT, test_name!(), "", || {
        if effective_user() != 0 {
            return laio_testing::skip("root", "only root can become another user");
        }
        for_each_detector(|mut context| {
            assert!(context.info().carriers_agree());
            // SAFETY: the child makes calls, and ends without unwinding.
            let child = unsafe { libc::fork() };
            assert!(child >= 0);
            if child == 0 {
                let (reader, writer) = rustix::pipe::pipe().unwrap();
                let (mut one, mut two) = (0, 0);
                let away = hand_off(&mut context, &reader, &mut one);
                // SAFETY: no pointers.
                let changed = unsafe { libc::syscall(libc::SYS_setresuid, -1, NOBODY, -1) } == 0;
                let disagree = !context.info().carriers_agree();
                let (other, _keep) = rustix::pipe::pipe().unwrap();
                let code = if away && changed && disagree { 3 } else { 4 };
                if code == 3 {
                    hand_off(&mut context, &other, &mut two);
                }
                drop(writer);
                // SAFETY: ends the child, which should have ended before.
                unsafe { libc::_exit(code) };
            }
            let mut status = 0;
            // SAFETY: writes the status.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert!(libc::WIFSIGNALED(status), "{status:#x}");
            assert_eq!(libc::WTERMSIG(status), libc::SIGABRT);
        });
    });
}
