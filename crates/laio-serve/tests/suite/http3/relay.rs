//! A network that loses, repeats and reorders datagrams.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Forwards datagrams between clients and a server, until it is dropped.
pub(super) struct Relay {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    mute: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// One in how many datagrams suffers each.
#[derive(Clone, Copy)]
pub(super) struct Faults {
    pub(super) lost: u32,
    pub(super) repeated: u32,
    /// Sent after the next one.
    pub(super) delayed: u32,
    pub(super) changed: u32,
}

impl Faults {
    pub(super) const NONE: Faults = Faults {
        lost: 0,
        repeated: 0,
        delayed: 0,
        changed: 0,
    };
}

impl Relay {
    /// Starts a relay for one client.
    pub(super) fn start(server: SocketAddr, faults: Faults) -> Relay {
        let near = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let far = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        far.connect(server).unwrap();
        let address = near.local_addr().unwrap();
        let ends = Arc::<AtomicBool>::default();
        let mute = Arc::<AtomicBool>::default();
        let client = Arc::new(std::sync::Mutex::new(None::<SocketAddr>));
        for socket in [&near, &far] {
            let time = Some(Duration::from_millis(50));
            socket.set_read_timeout(time).unwrap();
        }
        let mut threads = Vec::new();
        for upward in [true, false] {
            let (near, far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let (ends, mute, client) = (ends.clone(), mute.clone(), client.clone());
            threads.push(std::thread::spawn(move || {
                let mut random = Random(if upward { 1 } else { 2 });
                let mut delayed: Option<Vec<u8>> = None;
                let send = |datagram: &[u8]| {
                    if upward {
                        drop(far.send(datagram))
                    } else {
                        let client = *client.lock().unwrap();
                        client
                            .iter()
                            .for_each(|to| drop(near.send_to(datagram, to)));
                    }
                };
                let mut buffer = [0; 65536];
                while !ends.load(Ordering::Relaxed) {
                    let received = if upward {
                        near.recv_from(&mut buffer)
                    } else {
                        far.recv(&mut buffer).map(|count| (count, server))
                    };
                    let Ok((count, from)) = received else {
                        delayed.take().iter().for_each(|datagram| send(datagram));
                        continue;
                    };
                    if upward {
                        *client.lock().unwrap() = Some(from);
                    }
                    let datagram = &mut buffer[..count];
                    if upward && mute.load(Ordering::Relaxed) || random.one_in(faults.lost) {
                        continue;
                    }
                    if random.one_in(faults.changed) {
                        let at = random.next() as usize % count.max(1);
                        datagram[at] ^= 1 << (random.next() % 8);
                    }
                    if delayed.is_none() && random.one_in(faults.delayed) {
                        delayed = Some(datagram.to_vec());
                        continue;
                    }
                    send(datagram);
                    if random.one_in(faults.repeated) {
                        send(datagram);
                    }
                    delayed.take().iter().for_each(|datagram| send(datagram));
                }
            }));
        }
        Relay {
            address,
            ends,
            mute,
            threads,
        }
    }

    /// Loses everything that the client sends from now on.
    pub(super) fn mute(&self) {
        self.mute.store(true, Ordering::Relaxed);
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Pseudorandom numbers (xorshift).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32
    }

    fn one_in(&mut self, count: u32) -> bool {
        count > 0 && self.next().is_multiple_of(count)
    }
}
