//! Between the kernel and the FUSE library.
//!
//! The library reads requests from a descriptor and writes answers to it. It does not know interrupts
//! (it answers `ENOSYS`, after which the kernel never sends one again), and its reading thread can
//! only be stopped by unmounting. So it gets one end of a socket pair that keeps message boundaries,
//! as the device does, and two threads pass the messages on: they pick out interrupts, and stop when
//! told to.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};

use super::rules::Rules;

/// The most data in one request or answer. A message must fit into the socket's buffer, which is
/// 208 KiB where nobody has changed it.
pub(super) const DATA_MAX: u32 = 128 * 1024;

const MESSAGE_MAX: usize = DATA_MAX as usize + 4096;

/// `struct fuse_in_header`: length, opcode, number of the request, inode, uid, gid, pid, padding.
const HEADER: usize = 40;
const OPCODE: usize = 4;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;

/// The two threads.
#[derive(Debug)]
pub(super) struct Relay {
    stop: Arc<OwnedFd>,
    socket: Arc<OwnedFd>,
    requests: JoinHandle<()>,
    answers: JoinHandle<()>,
}

/// The relay's end and the library's end.
pub(super) fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        kind,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Sends the library the greeting that it expects first from a kernel. The real greeting has already
/// been answered when the file system was mounted.
pub(super) fn greet(socket: &OwnedFd) -> io::Result<()> {
    const VERSION: [u32; 2] = [7, 40];
    let length = HEADER as u32 + 16;
    let mut message = Vec::with_capacity(length as usize);
    message.extend_from_slice(&length.to_ne_bytes());
    message.extend_from_slice(&INIT.to_ne_bytes());
    message.resize(HEADER, 0);
    // Version, then how far to read ahead, then capabilities: nothing to negotiate here.
    for word in [VERSION[0], VERSION[1], 0, 0] {
        message.extend_from_slice(&word.to_ne_bytes());
    }
    rustix::net::send(socket, &message, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Takes the answer to [`greet`], which is of no interest.
pub(super) fn take_greeting(socket: &OwnedFd) -> io::Result<()> {
    let mut answer = [0; 4096];
    rustix::net::recv(socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    Ok(())
}

impl Relay {
    /// Starts passing on. The relay owns both descriptors.
    pub(super) fn start(
        device: OwnedFd,
        socket: OwnedFd,
        rules: Arc<Rules>,
        interruptible: bool,
    ) -> io::Result<Relay> {
        // The thread waits in poll, for the device or for the end.
        rustix::io::ioctl_fionbio(&device, true)?;
        let stop = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
        let (device, socket) = (Arc::new(device), Arc::new(socket));
        let requests = {
            let (device, socket, stop) =
                (Arc::clone(&device), Arc::clone(&socket), Arc::clone(&stop));
            let interrupt = move |request| {
                if interruptible {
                    rules.interrupt(request);
                }
            };
            spawn("faultfs-requests", move || {
                pass_requests(&device, &socket, &stop, &interrupt)
            })?
        };
        let answers = {
            let socket = Arc::clone(&socket);
            spawn("faultfs-answers", move || pass_answers(&socket, &device))?
        };
        Ok(Relay {
            stop,
            socket,
            requests,
            answers,
        })
    }

    /// Stops, and closes the device.
    pub(super) fn stop(self) {
        // An eventfd takes any number that is not the largest.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        let _ = rustix::net::shutdown(&*self.socket, Shutdown::Both);
        // A thread that panicked has ended too.
        let _ = self.requests.join();
        let _ = self.answers.join();
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(body)
}

/// From the kernel to the library, until the end or an unmount.
fn pass_requests(device: &OwnedFd, socket: &OwnedFd, stop: &OwnedFd, interrupt: &dyn Fn(u64)) {
    let mut buffer = vec![0; MESSAGE_MAX];
    loop {
        let mut ready = [
            PollFd::new(device, PollFlags::IN),
            PollFd::new(stop, PollFlags::IN),
        ];
        match rustix::event::poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => break,
        }
        if !ready[1].revents().is_empty() {
            break;
        }
        let message = match rustix::io::read(device, &mut buffer) {
            Ok(length) => &buffer[..length],
            // NOENT: the request was given up before it was read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
            // NODEV: unmounted.
            Err(_) => break,
        };
        if word(message, OPCODE) == INTERRUPT {
            interrupt(long(message, HEADER));
        } else if rustix::net::send(socket, message, SendFlags::NOSIGNAL).is_err() {
            break;
        }
    }
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

/// From the library to the kernel, until the library or the other thread hangs up.
fn pass_answers(socket: &OwnedFd, device: &OwnedFd) {
    let mut buffer = vec![0; MESSAGE_MAX];
    loop {
        match rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((_, 0)) => return,
            // It fails when nobody waits for the answer any more.
            Ok((length, _)) => drop(rustix::io::write(device, &buffer[..length])),
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn word(message: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(message[offset..offset + 4].try_into().expect("four bytes"))
}

fn long(message: &[u8], offset: usize) -> u64 {
    u64::from_ne_bytes(message[offset..offset + 8].try_into().expect("eight bytes"))
}
