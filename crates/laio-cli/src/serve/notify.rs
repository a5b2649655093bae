//! Telling the service manager how the server is (`sd_notify(3)`). Without one that listens, nothing happens.

use rustix::time::{ClockId, clock_gettime};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// How it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// Connections are accepted; also after `Reloading`.
    Ready,
    Reloading,
    Stopping,
}

/// Tells it, or not: that nobody hears it must not keep the server from its work.
pub(super) fn tell(state: State) {
    if let Some(place) = std::env::var_os("NOTIFY_SOCKET") {
        let _ = send(&place, &message(state));
    }
}

fn message(state: State) -> String {
    match state {
        State::Ready => "READY=1\n".to_owned(),
        // By the time the manager tells this message from one of an earlier reload (Type=notify-reload).
        State::Reloading => {
            let now = clock_gettime(ClockId::Monotonic);
            let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
            format!("RELOADING=1\nMONOTONIC_USEC={micros}\n")
        }
        State::Stopping => "STOPPING=1\n".to_owned(),
    }
}

fn send(place: &OsString, message: &str) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    // Never wait for a manager that does not read.
    socket.set_nonblocking(true)?;
    let address = match place.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(OsStr::from_bytes(place.as_bytes()))?,
    };
    socket.send_to_addr(message.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_arrives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let name = format!("laio-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let other = UnixDatagram::bind_addr(&address).unwrap();
        for (manager, place) in [
            (manager, path.into_os_string()),
            (other, format!("@{name}").into()),
        ] {
            send(&place, &message(State::Ready)).unwrap();
            let mut told = [0; 100];
            let length = manager.recv(&mut told).unwrap();
            assert_eq!(&told[..length], b"READY=1\n");
        }
        let told = message(State::Stopping);
        assert!(told.starts_with("STOPPING=1\n"));
        assert!(send(&"/nonexistent".into(), &told).is_err());
    }
}
