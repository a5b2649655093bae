//! Listening sockets inherited from the parent process, by systemd's protocol (`sd_listen_fds`).

use listenfd::ListenFd;
use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{LazyLock, Mutex};

/// An inherited socket, and its name if it has one.
struct Inherited {
    name: String,
    /// An error if it is neither a listening stream socket nor a UDP socket.
    socket: io::Result<OwnedFd>,
    is_datagram: bool,
}

/// The sockets stay open until [`release`], so that a second server in the same process finds them
/// again.
static INHERITED: LazyLock<Mutex<Vec<Inherited>>> = LazyLock::new(|| {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut passed = ListenFd::from_env();
    let names = names.split(':').chain(std::iter::repeat(""));
    let count = passed.len();
    let take = |(index, name): (usize, &str)| {
        let datagram = passed.take_udp_socket(index).ok().flatten();
        Inherited {
            name: name.to_owned(),
            is_datagram: datagram.is_some(),
            socket: match datagram {
                Some(udp) => Ok(udp.into()),
                None => take(&mut passed, index),
            },
        }
    };
    let mut all: Vec<Inherited> = (0..count).zip(names).map(take).collect();
    // A server passes on the sockets of each worker, which may be the same one several times.
    // Without removing duplicates, the number would double at each hand-over.
    let mut seen = HashSet::new();
    all.retain(|it| it.inode().is_none_or(|inode| seen.insert(inode)));
    Mutex::new(all)
});

/// Whether the process has inherited any sockets.
pub fn any() -> bool {
    !INHERITED.lock().unwrap().is_empty()
}

/// Whether a socket with this name was inherited.
pub fn has(name: &str) -> bool {
    INHERITED.lock().unwrap().iter().any(|it| it.name == name)
}

/// Closes the inherited sockets when the server no longer listens. Other processes' descriptors of
/// them stay open.
pub fn release() {
    INHERITED.lock().unwrap().clear();
}

/// Whether the sockets were passed on by another laio server.
pub fn from_server() -> bool {
    any() && std::env::var_os("LAIO_READY_FD").is_some()
}

/// Whether that server ends after the hand-over, rather than supervising this one.
pub fn is_successor() -> bool {
    from_server() && std::env::var_os("LAIO_SUPERVISED").is_none()
}

/// Returns the UDP sockets that are bound to an address.
///
/// # Errors
/// When no descriptors are left.
pub fn datagram_sockets(address: SocketAddr) -> io::Result<Vec<OwnedFd>> {
    let inherited = INHERITED.lock().unwrap();
    let mut sockets = Vec::new();
    for socket in inherited.iter().filter(|socket| socket.is_datagram) {
        let socket = socket.share()?;
        if SocketAddr::try_from(rustix::net::getsockname(&socket)?) == Ok(address) {
            sockets.push(socket);
        }
    }
    Ok(sockets)
}

/// Returns the stream sockets with a name, or all.
///
/// # Errors
/// When there are none, or one of them is not a listening stream socket.
pub fn sockets(name: Option<&str>) -> io::Result<Vec<OwnedFd>> {
    let wanted =
        |socket: &&Inherited| !socket.is_datagram && name.is_none_or(|name| name == socket.name);
    let inherited = INHERITED.lock().unwrap();
    let sockets = inherited.iter().filter(wanted).map(Inherited::share);
    let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
    if sockets.is_empty() {
        let which = name.map(|name| format!(" of the name {name}"));
        let text = format!(
            "no socket{} was inherited: LISTEN_FDS and LISTEN_PID (see sd_listen_fds(3)) say there are {}",
            which.unwrap_or_default(),
            inherited.len()
        );
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    Ok(sockets)
}

impl Inherited {
    /// Returns the inode number, which identifies a socket.
    fn inode(&self) -> Option<u64> {
        let socket = self.socket.as_ref().ok()?;
        Some(rustix::fs::fstat(socket).ok()?.st_ino)
    }

    fn share(&self) -> io::Result<OwnedFd> {
        match &self.socket {
            Ok(socket) => socket.try_clone(),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        }
    }
}

fn take(passed: &mut ListenFd, index: usize) -> io::Result<OwnedFd> {
    let socket = match passed.take_unix_listener(index) {
        Ok(Some(unix)) => OwnedFd::from(unix),
        _ => match passed.take_tcp_listener(index)? {
            Some(tcp) => tcp.into(),
            None => return Err(io::ErrorKind::NotFound.into()),
        },
    };
    if !rustix::net::sockopt::socket_acceptconn(&socket)? {
        let text = "an inherited socket does not listen: its systemd unit needs Accept=no";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(socket)
}
