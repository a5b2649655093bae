//! Notifies the service manager of the server's state (`sd_notify(3)`), if there is one.

use rustix::time::{ClockId, clock_gettime};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The state of the server.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// Connections are accepted; also after `Reloading`.
    Ready,
    Reloading,
    Stopping,
}

/// Sends the state. Errors are ignored, because the server works without a service manager.
pub(super) fn send_state(state: State) {
    if let Some(place) = std::env::var_os("NOTIFY_SOCKET") {
        let _ = send(&place, &message(state));
    }
}

fn message(state: State) -> String {
    match state {
        State::Ready => "READY=1\n".to_owned(),
        // The time lets the manager distinguish this message from those of earlier reloads
        // (Type=notify-reload).
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
    // Do not wait for a manager that does not read.
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
    fn states_arrive_at_the_manager() {
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
            let mut received = [0; 100];
            let length = manager.recv(&mut received).unwrap();
            assert_eq!(&received[..length], b"READY=1\n");
        }
        let text = message(State::Stopping);
        assert!(text.starts_with("STOPPING=1\n"));
        assert!(send(&"/nonexistent".into(), &text).is_err());
    }
}
