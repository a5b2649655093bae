//! Rule 1, results are those of the plain call: sockets and their connections.

use crate::harness::{
    Arg, Sys, at, at_mut, later, local_address, own, plain, tcp_address, wait_until_refused, zeroed,
};
use std::io::Write;
use std::os::fd::AsRawFd;

scenarios! {
    about_files: false;
    socket_administration,
    accepting,
    accepting_waits,
    connecting,
    connecting_to_a_full_backlog,
}

fn socket_administration(sys: &mut Sys<'_>) {
    let stream = libc::SOCK_STREAM as usize;
    let socket = sys
        .open(
            "socket",
            libc::SYS_socket,
            [libc::AF_INET as usize, stream, 0],
        )
        .unwrap();
    let address = local_address(0);
    let size = size_of_val(&address);
    let one = 1i32;
    let reuse = [
        socket.arg(),
        libc::SOL_SOCKET as usize,
        libc::SO_REUSEADDR as usize,
        at(&one),
        4,
    ];
    let _ = sys.check("setsockopt", libc::SYS_setsockopt, reuse);
    same!(sys, "bind" => SYS_bind [socket.arg(), at(&address), size]);
    same!(sys, "bind again" => SYS_bind [socket.arg(), at(&address), size]);
    same!(sys, "listen" => SYS_listen [socket.arg(), 5]);
    let mut name: libc::sockaddr_in = zeroed();
    let mut length = size as u32;
    same!(sys, "getsockname" => SYS_getsockname [socket.arg(), at_mut(&mut name), at_mut(&mut length)]);
    sys.note("a port", name.sin_port != 0);
    same!(sys, "getpeername" => SYS_getpeername [socket.arg(), at_mut(&mut name), at_mut(&mut length)]);
    let mut value = 0i32;
    length = 4;
    let get = [
        socket.arg(),
        libc::SOL_SOCKET as usize,
        libc::SO_ACCEPTCONN as usize,
        at_mut(&mut value),
        at_mut(&mut length),
    ];
    let _ = sys.check("getsockopt", libc::SYS_getsockopt, get);
    sys.note("listens", value);
    same!(sys, "no such family" => SYS_socket [99, stream, 0]);
    same!(sys, "no such kind" => SYS_socket [libc::AF_INET as usize, 99, 0]);
    let mut pair = [0i32; 2];
    same!(sys, "socketpair" => SYS_socketpair [libc::AF_UNIX as usize, stream, 0, at_mut(&mut pair)]);
    let [a, b] = pair.map(|fd| own(Ok(fd as usize)));
    same!(sys, "shutdown" => SYS_shutdown [a.arg(), libc::SHUT_WR as usize]);
    let mut byte = [0u8];
    same!(sys, "read" => SYS_read [b.arg(), at_mut(&mut byte), 1]);
    same!(sys, "shutdown, unknown" => SYS_shutdown [a.arg(), 99]);
}

fn accepting(sys: &mut Sys<'_>) {
    let listener = crate::harness::lonely_listener();
    let fd = listener.as_raw_fd().arg();
    let connect = || std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    for (what, flags) in [
        ("nothing", 0),
        ("CLOEXEC", libc::SOCK_CLOEXEC),
        ("NONBLOCK", libc::SOCK_NONBLOCK),
    ] {
        let client = connect();
        let mut address: libc::sockaddr_in = zeroed();
        let mut length = size_of_val(&address) as u32;
        let args = [
            fd,
            at_mut(&mut address),
            at_mut(&mut length),
            flags as usize,
        ];
        let accepted = sys.open(what, libc::SYS_accept4, args).unwrap();
        sys.note(
            "address",
            address.sin_port == client.local_addr().unwrap().port().to_be(),
        );
        sys.note("length", length);
        sys.note("flags", rustix::io::fcntl_getfd(&accepted).unwrap());
        sys.note("status flags", rustix::fs::fcntl_getfl(&accepted).unwrap());
    }
    let _keep = connect();
    same!(sys, "unknown" => SYS_accept4 [fd, 0, 0, 0x1234]);
    let mut length = 0u32;
    let no_room = sys.open(
        "not enough space",
        libc::SYS_accept4,
        [fd, at_mut(&mut [0u8; 16]), at_mut(&mut length), 0],
    );
    sys.note("length", length);
    drop(no_room);
    #[cfg(target_arch = "x86_64")]
    {
        let _keep = connect();
        drop(sys.open("accept", libc::SYS_accept, [fd, 0, 0]));
    }
}

fn accepting_waits(sys: &mut Sys<'_>) {
    let listener = crate::harness::lonely_listener();
    let address = listener.local_addr().unwrap();
    let peer = later(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(b"hello").unwrap();
        stream
    });
    let accepted = sys
        .open(
            "accept4",
            libc::SYS_accept4,
            [listener.as_raw_fd().arg(), 0, 0, 0],
        )
        .unwrap();
    let mut buffer = [0u8; 10];
    same!(sys, "read" => SYS_read [accepted.arg(), at_mut(&mut buffer), 10]);
    sys.note("read", buffer);
    peer.join().unwrap();
}

fn connecting(sys: &mut Sys<'_>) {
    let listener = crate::harness::lonely_listener();
    let address = tcp_address(&listener);
    let size = size_of_val(&address);
    let socket = |kind: i32| {
        own(plain(
            libc::SYS_socket,
            [libc::AF_INET as usize, kind as usize, 0],
        ))
    };
    let client = socket(libc::SOCK_STREAM);
    same!(sys, "connect" => SYS_connect [client.arg(), at(&address), size]);
    same!(sys, "again" => SYS_connect [client.arg(), at(&address), size]);
    let local = listener.local_addr().unwrap();
    drop(listener);
    wait_until_refused(local);
    let client = socket(libc::SOCK_STREAM);
    same!(sys, "refused" => SYS_connect [client.arg(), at(&address), size]);
    same!(sys, "too short" => SYS_connect [client.arg(), at(&address), 3]);
    let mut wrong = address;
    wrong.sin_family = 99;
    same!(sys, "another family" => SYS_connect [client.arg(), at(&wrong), size]);
    let datagram = socket(libc::SOCK_DGRAM);
    same!(sys, "a datagram socket" => SYS_connect [datagram.arg(), at(&address), size]);
    let local = own(plain(
        libc::SYS_socket,
        [libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0],
    ));
    let (name, length) = unix_address("none");
    same!(sys, "no such name" => SYS_connect [local.arg(), at(&name), length]);
    let _file = sys.file("file", b"");
    let (name, length) = unix_address(sys.dir.join("file").to_str().unwrap());
    same!(sys, "a name of a file" => SYS_connect [local.arg(), at(&name), length]);
}

fn unix_address(name: &str) -> (libc::sockaddr_un, usize) {
    let mut address: libc::sockaddr_un = zeroed();
    address.sun_family = libc::AF_UNIX as u16;
    for (to, from) in address.sun_path.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    (address, size_of::<libc::sockaddr_un>())
}

/// A local socket whose backlog is full makes `connect` wait.
fn connecting_to_a_full_backlog(sys: &mut Sys<'_>) {
    let name = sys.dir.join("socket");
    let listener = own(plain(
        libc::SYS_socket,
        [libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0],
    ));
    let (address, length) = unix_address(name.to_str().unwrap());
    plain(libc::SYS_bind, [listener.arg(), at(&address), length]).unwrap();
    plain(libc::SYS_listen, [listener.arg(), 0]).unwrap();
    let socket = |flags: i32| {
        own(plain(
            libc::SYS_socket,
            [
                libc::AF_UNIX as usize,
                (libc::SOCK_STREAM | flags) as usize,
                0,
            ],
        ))
    };
    let first = socket(0);
    same!(sys, "connect" => SYS_connect [first.arg(), at(&address), length]);
    let nonblocking = socket(libc::SOCK_NONBLOCK);
    same!(sys, "nonblocking" => SYS_connect [nonblocking.arg(), at(&address), length]);
    let second = socket(0);
    let accepting = own(plain(libc::SYS_dup, [listener.arg()]));
    let peer = later(move || {
        let one = own(plain(libc::SYS_accept4, [accepting.arg(), 0, 0, 0]));
        (
            one,
            own(plain(libc::SYS_accept4, [accepting.arg(), 0, 0, 0])),
        )
    });
    same!(sys, "connect" => SYS_connect [second.arg(), at(&address), length]);
    peer.join().unwrap();
}
