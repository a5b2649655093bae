//! Rule 1, results are those of the plain call: event descriptors, timers, message queues, terminals.

use crate::harness::{Arg, LIMIT, Sys, at, at_mut, later, own, plain, timespec, zeroed};

scenarios! {
    about_files: false;
    event_descriptors,
    timers,
    message_queues,
    posix_message_queues,
    terminals,
}

fn event_descriptors(sys: &mut Sys<'_>) {
    if sys.short {
        return;
    }
    let event = sys.open("eventfd2", libc::SYS_eventfd2, [3, 0]).unwrap();
    let mut word = 0u64;
    same!(sys, "read" => SYS_read [event.arg(), at_mut(&mut word), 8]);
    sys.note("word", word);
    word = 5;
    same!(sys, "write" => SYS_write [event.arg(), at(&word), 8]);
    same!(sys, "write" => SYS_write [event.arg(), at(&word), 8]);
    same!(sys, "read" => SYS_read [event.arg(), at_mut(&mut word), 8]);
    sys.note("word", word);
    let copy = own(plain(libc::SYS_dup, [event.arg()]));
    let peer = later(move || rustix::io::write(&copy, &7u64.to_ne_bytes()).unwrap());
    same!(sys, "read" => SYS_read [event.arg(), at_mut(&mut word), 8]);
    sys.note("word", word);
    peer.join().unwrap();
    word = u64::MAX;
    same!(sys, "too much" => SYS_write [event.arg(), at(&word), 8]);
    word = u64::MAX - 1;
    same!(sys, "full" => SYS_write [event.arg(), at(&word), 8]);
    let copy = own(plain(libc::SYS_dup, [event.arg()]));
    let peer = later(move || rustix::io::read(&copy, &mut [0u8; 8]).unwrap());
    same!(sys, "more" => SYS_write [event.arg(), at(&1u64), 8]);
    peer.join().unwrap();
    let semaphore = own(plain(libc::SYS_eventfd2, [2, libc::EFD_SEMAPHORE as usize]));
    same!(sys, "semaphore" => SYS_read [semaphore.arg(), at_mut(&mut word), 8]);
    sys.note("word", word);
    same!(sys, "pread64" => SYS_pread64 [semaphore.arg(), at_mut(&mut word), 8, 0]);
    // The reads of a signalfd take the signals of the reading thread: a read in the background finds none,
    // so only its errors are compared.
    same!(sys, "signalfd4" => SYS_signalfd4 [event.arg(), at(&0u64), 8, 0]);
}

fn timers(sys: &mut Sys<'_>) {
    let timer = sys
        .open(
            "timerfd_create",
            libc::SYS_timerfd_create,
            [libc::CLOCK_MONOTONIC as usize, 0],
        )
        .unwrap();
    let mut time: libc::itimerspec = zeroed();
    time.it_value.tv_nsec = 3_000_000;
    let mut word = 0u64;
    same!(sys, "timerfd_settime" => SYS_timerfd_settime [timer.arg(), 0, at(&time), 0]);
    if !sys.short {
        same!(sys, "read" => SYS_read [timer.arg(), at_mut(&mut word), 8]);
        sys.note("word", word);
    }
    time.it_value.tv_nsec = -1;
    same!(sys, "a bad time" => SYS_timerfd_settime [timer.arg(), 0, at(&time), 0]);
    same!(sys, "timerfd_gettime" => SYS_timerfd_gettime [timer.arg(), at_mut(&mut time)]);
}

#[repr(C)]
struct Message {
    kind: libc::c_long,
    text: [u8; 40],
}

fn message_queues(sys: &mut Sys<'_>) {
    let queue = sys
        .call(libc::SYS_msgget, [libc::IPC_PRIVATE as usize, 0o600])
        .expect("a queue");
    let mut message = Message {
        kind: 3,
        text: *b"a message, rather long, for a queue here",
    };
    same!(sys, "msgsnd" => SYS_msgsnd [queue, at(&message), 10, 0]);
    message.kind = 5;
    same!(sys, "msgsnd" => SYS_msgsnd [queue, at(&message), 20, 0]);
    message.kind = -1;
    same!(sys, "a bad kind" => SYS_msgsnd [queue, at(&message), 20, 0]);
    same!(sys, "of a kind" => SYS_msgrcv [queue, at_mut(&mut message), 40, 5, 0]);
    same!(sys, "not enough space" => SYS_msgrcv [queue, at_mut(&mut message), 3, 0, 0]);
    same!(sys, "cut" => SYS_msgrcv [queue, at_mut(&mut message), 3, 0, libc::MSG_NOERROR as usize]);
    let none = libc::IPC_NOWAIT as usize;
    same!(sys, "none" => SYS_msgrcv [queue, at_mut(&mut message), 40, 0, none]);
    let peer = later(move || {
        let message = Message {
            kind: 9,
            text: [7; 40],
        };
        plain(libc::SYS_msgsnd, [queue, at(&message), 15, 0])
    });
    same!(sys, "later" => SYS_msgrcv [queue, at_mut(&mut message), 40, 0, 0]);
    sys.note("message", (message.kind, message.text));
    peer.join().unwrap().unwrap();
    let mut sent = 0;
    while plain(libc::SYS_msgsnd, [queue, at(&message), 40, none]).is_ok() {
        sent += 1;
    }
    same!(sys, "full" => SYS_msgsnd [queue, at(&message), 40, none]);
    let peer = later(move || {
        let mut message = Message {
            kind: 0,
            text: [0; 40],
        };
        plain(libc::SYS_msgrcv, [queue, at_mut(&mut message), 40, 0, 0])
    });
    same!(sys, "space later" => SYS_msgsnd [queue, at(&message), 40, 0]);
    peer.join().unwrap().unwrap();
    sys.note("sent", sent);
    while plain(libc::SYS_msgrcv, [queue, at_mut(&mut message), 40, 0, none]).is_ok() {}
    // Removing a queue wakes its waiters.
    let peer = later(move || plain(libc::SYS_msgctl, [queue, libc::IPC_RMID as usize, 0]));
    let removed = sys.call(libc::SYS_msgrcv, [queue, at_mut(&mut message), 40, 0, 0]);
    let errno = removed.map_err(laio::Errno::raw);
    sys.note("removed", matches!(errno, Err(libc::EIDRM | libc::EINVAL)));
    peer.join().unwrap().unwrap();
    same!(sys, "no such queue" => SYS_msgsnd [queue, at(&message), 40, 0]);

    let set = sys
        .call(libc::SYS_semget, [libc::IPC_PRIVATE as usize, 1, 0o600])
        .expect("a semaphore");
    let operation = |by: i16| libc::sembuf {
        sem_num: 0,
        sem_op: by,
        sem_flg: 0,
    };
    let (up, down) = (operation(1), operation(-1));
    same!(sys, "semop" => SYS_semop [set, at(&up), 1]);
    same!(sys, "semop" => SYS_semop [set, at(&down), 1]);
    let soon = timespec(0, 2_000_000);
    same!(sys, "semtimedop" => SYS_semtimedop [set, at(&down), 1, at(&soon)]);
    let peer = later(move || plain(libc::SYS_semop, [set, at(&operation(1)), 1]));
    same!(sys, "later" => SYS_semtimedop [set, at(&down), 1, 0]);
    peer.join().unwrap().unwrap();
    same!(sys, "semctl" => SYS_semctl [set, 0, libc::IPC_RMID as usize]);
    same!(sys, "no such set" => SYS_semop [set, at(&down), 1]);
}

fn posix_message_queues(sys: &mut Sys<'_>) {
    let name = format!("laio-{}-{:p}\0", std::process::id(), sys);
    let mut attributes = [0i64; 8];
    (attributes[1], attributes[2]) = (2, 16);
    let flags = (libc::O_CREAT | libc::O_RDWR) as usize;
    let made = plain(
        libc::SYS_mq_open,
        [at(name.as_str()), flags, 0o600, at(&attributes)],
    );
    if let Err(errno) = made {
        return laio_testing::skip("mqueue", format!("mq_open: {errno}"));
    }
    let queue = own(made);
    same!(sys, "mq_unlink" => SYS_mq_unlink [at(name.as_str())]);
    let mut buffer = [0u8; 16];
    same!(sys, "send" => SYS_mq_timedsend [queue.arg(), at("one"), 3, 1, 0]);
    same!(sys, "send" => SYS_mq_timedsend [queue.arg(), at("two"), 3, 2, 0]);
    let past = timespec(1, 0);
    same!(sys, "full" => SYS_mq_timedsend [queue.arg(), at("three"), 5, 3, at(&past)]);
    let mut priority = 0u32;
    let receive = [
        queue.arg(),
        at_mut(&mut buffer),
        16,
        at_mut(&mut priority),
        0,
    ];
    let _ = sys.check("receive", libc::SYS_mq_timedreceive, receive);
    sys.note("priority", priority);
    let _ = sys.check("receive", libc::SYS_mq_timedreceive, receive);
    let copy = own(plain(libc::SYS_dup, [queue.arg()]));
    let peer = later(move || plain(libc::SYS_mq_timedsend, [copy.arg(), at("late"), 4, 7, 0]));
    let _ = sys.check("receive later", libc::SYS_mq_timedreceive, receive);
    sys.note("received", (buffer, priority));
    peer.join().unwrap().unwrap();
    same!(sys, "not enough space" => SYS_mq_timedreceive [queue.arg(), at_mut(&mut buffer), 1, 0, 0]);
}

fn terminals(sys: &mut Sys<'_>) {
    // SAFETY: grantpt, unlockpt and ptsname_r get a descriptor of our own and a buffer with its
    // length.
    let (master, name) = unsafe {
        let master = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY);
        if master < 0 {
            return;
        }
        let mut name = [0u8; 64];
        assert_eq!(libc::grantpt(master), 0);
        assert_eq!(libc::unlockpt(master), 0);
        assert_eq!(libc::ptsname_r(master, name.as_mut_ptr().cast(), 64), 0);
        (own(Ok(master as usize)), name)
    };
    let flags = (libc::O_RDWR | libc::O_NOCTTY) as usize;
    let terminal = sys.open(
        "open",
        libc::SYS_openat,
        [libc::AT_FDCWD.arg(), at(&name), flags],
    );
    let terminal = terminal.unwrap();
    let mut buffer = [0u8; 20];
    same!(sys, "write" => SYS_write [master.arg(), at("a line\n"), 7]);
    if !sys.short {
        same!(sys, "read" => SYS_read [terminal.arg(), at_mut(&mut buffer), 20]);
        sys.note("read", buffer);
        let copy = own(plain(libc::SYS_dup, [master.arg()]));
        let peer = later(move || rustix::io::write(&copy, b"later\n").unwrap());
        same!(sys, "read later" => SYS_read [terminal.arg(), at_mut(&mut buffer), 20]);
        sys.note("read", buffer);
        peer.join().unwrap();
    }
    same!(sys, "write" => SYS_write [terminal.arg(), at("out"), 3]);
    laio_testing::limit::wait_until(LIMIT, || rustix::io::ioctl_fionread(&master).unwrap() > 0);
    drop(terminal);
    same!(sys, "the last of it" => SYS_read [master.arg(), at_mut(&mut buffer), 1]);
}
