//! Rule 6: a signal handler runs all the time, and no call returns `EINTR`.

use crate::harness::*;
use laio::{Context, Errno};
use laio_testing::Bombardment;
use laio_testing::temp::{fill, pattern, pipe, stream_pair};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Runs the body in all ways, while signals arrive.
fn under_signals(body: impl Fn(&mut Context, &Way)) {
    for_each(|way| {
        let mut context = way.context();
        let _fire = Bombardment::begin(libc::SIGUSR2);
        body(&mut context, way);
    });
}

fn write_later(to: &OwnedFd) -> JoinHandle<()> {
    let to = to.try_clone().expect("a descriptor");
    later(move || {
        rustix::io::write(&to, b"abc").expect("written");
    })
}

#[test]
fn reads_and_receives() {
    under_signals(|context, _| {
        let mut buffer = [0u8; 3];
        let (from, to) = pipe();
        let writer = write_later(&to);
        let read = [from.arg(), at_mut(&mut buffer), 3];
        assert_eq!(call(context, libc::SYS_read, read), Ok(3));
        writer.join().expect("no panic");
        let (ours, theirs) = stream_pair();
        rustix::io::write(&theirs, b"12").expect("written");
        let mut all = [0u8; 5];
        let writer = write_later(&theirs);
        let flags = libc::MSG_WAITALL as usize;
        let recv = [ours.arg(), at_mut(&mut all), 5, flags, 0, 0];
        assert_eq!(call(context, libc::SYS_recvfrom, recv), Ok(5));
        assert_eq!(&all, b"12abc");
        writer.join().expect("no panic");
    });
}

#[test]
fn writes() {
    under_signals(|context, way| {
        let size = if way.is_short() { 300 } else { 500_000 };
        let bytes = pattern(size, 2);
        let (ours, theirs) = stream_pair();
        let (from, to) = pipe();
        for (to, from) in [(ours, theirs), (to, from)] {
            let before = fill(&to);
            let reader = later(move || {
                let mut all = Vec::new();
                let mut buffer = vec![0; 20_000];
                loop {
                    match rustix::io::read(&from, &mut buffer).expect("bytes") {
                        0 => return all,
                        read => all.extend_from_slice(&buffer[..read]),
                    }
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
            let write = [to.arg(), at(&bytes[..]), size];
            assert_eq!(call(context, libc::SYS_write, write), Ok(size));
            drop(to);
            assert!(reader.join().expect("no panic")[before..] == bytes);
        }
    });
}

#[test]
fn timed_waits_are_not_shortened() {
    const WAIT: Duration = Duration::from_millis(5);
    under_signals(|context, _| {
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: WAIT.as_nanos() as i64,
        };
        let check = |context: &mut Context, what: &str, number, args: [usize; 6], expected| {
            let since = Instant::now();
            assert_eq!(call(context, number, args), expected, "{what}");
            let took = since.elapsed();
            assert!(took >= WAIT && took < LIMIT, "{what}: {took:?}");
        };
        let sleep = [at(&time), 0, 0, 0, 0, 0];
        check(context, "nanosleep", libc::SYS_nanosleep, sleep, Ok(0));
        let clock = [libc::CLOCK_MONOTONIC as usize, 0, at(&time), 0, 0, 0];
        check(
            context,
            "clock_nanosleep",
            libc::SYS_clock_nanosleep,
            clock,
            Ok(0),
        );
        let (from, _to) = pipe();
        let mut set = libc::pollfd {
            fd: from.arg() as i32,
            events: libc::POLLIN,
            revents: 0,
        };
        // The plain call writes the remaining time back.
        let mut left = time;
        let ppoll = [at_mut(&mut set), 1, at_mut(&mut left), 0, 0, 0];
        check(context, "ppoll", libc::SYS_ppoll, ppoll, Ok(0));
        let word = 0u32;
        let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        let futex = [at(&word), wait, 0, at(&time), 0, 0];
        check(
            context,
            "futex",
            libc::SYS_futex,
            futex,
            Err(Errno::TIMEDOUT),
        );
    });
}

#[test]
fn connecting_accepting_and_locking() {
    under_signals(|context, _| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = tcp_address(&listener);
        let local = listener.local_addr().expect("its address");
        let client = later(move || std::net::TcpStream::connect(local).expect("a connection"));
        let accept = [listener.arg_of(), 0, 0, libc::SOCK_CLOEXEC as usize];
        drop(own(call(context, libc::SYS_accept4, accept)));
        client.join().expect("no panic");
        let kind = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as usize;
        let socket = own(plain(libc::SYS_socket, [libc::AF_INET as usize, kind, 0]));
        let connect = [socket.arg(), at(&address), size_of_val(&address)];
        assert_eq!(call(context, libc::SYS_connect, connect), Ok(0));

        let file = tempfile::NamedTempFile::new().expect("a file");
        for number in [libc::SYS_flock, libc::SYS_fcntl] {
            let [holds, wants] = [0, 1].map(|_| {
                std::fs::File::options()
                    .read(true)
                    .write(true)
                    .open(file.path())
                    .expect("a file")
            });
            let mut lock: libc::flock = zeroed();
            lock.l_type = libc::F_WRLCK as i16;
            let args = |file: &std::fs::File| match number {
                libc::SYS_flock => [file.arg(), libc::LOCK_EX as usize, 0],
                _ => [file.arg(), libc::F_OFD_SETLKW as usize, at(&lock)],
            };
            plain(number, args(&holds)).expect("a lock");
            let holder = later(move || drop(holds));
            assert_eq!(call(context, number, args(&wants)), Ok(0));
            holder.join().expect("no panic");
        }
    });
}

/// Like [`Arg`], for a listener.
trait Listening {
    fn arg_of(&self) -> usize;
}

impl Listening for std::net::TcpListener {
    fn arg_of(&self) -> usize {
        std::os::fd::AsRawFd::as_raw_fd(self) as usize
    }
}
