//! Listening sockets that the process was started with: by systemd (`sd_listen_fds`), or by whoever speaks
//! its protocol.

use listenfd::ListenFd;
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{LazyLock, Mutex};

/// A socket, and its name if it has one.
struct Inherited {
    name: String,
    /// What is wrong with it, if it is no listening stream socket.
    socket: io::Result<OwnedFd>,
}

/// They stay open until [`release`], so that a server that is started anew before finds them again.
static INHERITED: LazyLock<Mutex<Vec<Inherited>>> = LazyLock::new(|| {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut passed = ListenFd::from_env();
    let names = names.split(':').chain(std::iter::repeat(""));
    let count = passed.len();
    let take = |(index, name): (usize, &str)| Inherited {
        name: name.to_owned(),
        socket: take(&mut passed, index),
    };
    let mut all: Vec<Inherited> = (0..count).zip(names).map(take).collect();
    // A server passes on what each of its workers has, which may be the same socket. If each of the next one's had
    // all of that, there would be twice as many after every hand-over.
    let mut seen = HashSet::new();
    all.retain(|it| it.inode().is_none_or(|inode| seen.insert(inode)));
    Mutex::new(all)
});

/// Whether the process was started with any.
pub(crate) fn any() -> bool {
    !INHERITED.lock().unwrap().is_empty()
}

/// Closes them, when the server no longer listens. A socket that another process has too is still open there.
pub(crate) fn release() {
    INHERITED.lock().unwrap().clear();
}

/// Whether another server has passed them on to this one, which listens where it did.
pub(crate) fn from_server() -> bool {
    any() && std::env::var_os("LAIO_READY_FD").is_some()
}

/// Whether that server leaves them to this one, and does not supervise it.
pub(crate) fn is_successor() -> bool {
    from_server() && std::env::var_os("LAIO_SUPERVISED").is_none()
}

/// Those of a name, or all.
///
/// # Errors
/// When there are none, or one of them is something else.
pub(crate) fn sockets(name: Option<&str>) -> io::Result<Vec<OwnedFd>> {
    let wanted = |socket: &&Inherited| name.is_none_or(|name| name == socket.name);
    let inherited = INHERITED.lock().unwrap();
    let sockets = inherited.iter().filter(wanted).map(Inherited::share);
    let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
    if sockets.is_empty() {
        let which = name.map(|name| format!(" of the name {name}"));
        let text = format!(
            "no socket{} was passed on: LISTEN_FDS and LISTEN_PID (see sd_listen_fds(3)) tell of {}",
            which.unwrap_or_default(),
            inherited.len()
        );
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    Ok(sockets)
}

impl Inherited {
    /// Tells sockets apart.
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
        let text = "a socket that was passed on does not listen: it must be one with Accept=no";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(socket)
}
