//! Terminals: the result of a waiting read when the other end is closed.

use crate::harness::{Arg, LIMIT, at_mut, call, for_each_backend, own, plain, start};
use laio::{Errno, Outcome};
use laio_testing::{Skip, or_skip};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Opens a pair of master and slave.
fn terminal() -> Result<(OwnedFd, OwnedFd), Skip> {
    let (mut master, mut slave) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: both are filled in; the other pointers are null.
    if unsafe { libc::openpty(&mut master, &mut slave, none, none.cast(), none.cast()) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Skip::because("terminals", format!("no terminal: {error}")));
    }
    Ok((own(Ok(master as usize)), own(Ok(slave as usize))))
}

/// The result of a plain read that waits while the master is closed, and of one that begins afterwards.
fn plainly() -> [Result<usize, Errno>; 2] {
    let read = |fd| {
        let mut buffer = [0u8; 16];
        plain(libc::SYS_read, [fd, at_mut(&mut buffer), 16])
    };
    let mut pause = Duration::from_millis(10);
    loop {
        let (master, slave) = terminal().expect("there was one before");
        let fd = slave.arg();
        let reader = std::thread::spawn(move || read(fd));
        std::thread::sleep(pause);
        drop(master);
        let waiting = reader.join().unwrap();
        // On a busy machine the reader may have begun after the master was closed, and then returns the end of file.
        if waiting != Ok(0) || pause > LIMIT {
            return [waiting, read(fd)];
        }
        pause *= 2;
    }
}

#[test]
fn a_waiting_read_ends_when_the_master_is_closed() {
    if or_skip(terminal()).is_none() {
        return;
    }
    let expected = plainly();
    assert_eq!(expected, [Err(Errno::IO), Ok(0)], "as Linux does");
    for_each_backend(|way| {
        if !way.goes_to_background() {
            return;
        }
        for _ in 0..3 {
            let mut context = way.context();
            let (master, slave) = terminal().expect("there was one before");
            let mut buffer = [0u8; 16];
            let args = [slave.arg(), at_mut(&mut buffer), 16];
            let outcome = start(&mut context, libc::SYS_read, args);
            assert!(matches!(outcome, Outcome::Pending(_)));
            // The result is that of a waiting read, even if the read begins after the close.
            let soon = Some(Duration::from_millis(5));
            assert_eq!(context.poll(&mut Vec::new(), soon), Ok(0));
            drop(master);
            let mut found = Vec::new();
            context.poll(&mut found, Some(LIMIT)).unwrap();
            assert_eq!(found[0].result, expected[0]);
            // A read that begins later returns the end of file.
            assert_eq!(call(&mut context, libc::SYS_read, args), expected[1]);
        }
    });
}

/// An end of file that a user types at the terminal also ends a waiting read.
#[test]
fn a_typed_end_of_file_ends_a_waiting_read() {
    if or_skip(terminal()).is_none() {
        return;
    }
    for_each_backend(|way| {
        if !way.goes_to_background() {
            return;
        }
        let mut context = way.context();
        let (master, slave) = terminal().expect("there was one before");
        let mut buffer = [0u8; 16];
        let args = [slave.arg(), at_mut(&mut buffer), 16];
        for (typed, expected) in [(&b"ab\n"[..], Ok(3)), (&b"\x04"[..], Ok(0))] {
            let outcome = start(&mut context, libc::SYS_read, args);
            assert!(matches!(outcome, Outcome::Pending(_)));
            let soon = Some(Duration::from_millis(5));
            assert_eq!(context.poll(&mut Vec::new(), soon), Ok(0));
            rustix::io::write(&master, typed).unwrap();
            let mut found = Vec::new();
            context.poll(&mut found, Some(LIMIT)).unwrap();
            assert_eq!(found[0].result, expected);
        }
    });
}
