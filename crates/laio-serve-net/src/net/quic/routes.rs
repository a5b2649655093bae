//! Which endpoint has a connection, so that a packet that arrives at another one reaches it.

use super::connection_id::{ConnectionIdKey, EndpointNumber, Generator, destination};
use bytes::BytesMut;
use laio_serve_base::observe;
use laio_serve_base::options::Http3;
use quinn_proto::{EcnCodepoint, EndpointConfig};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::task::{Poll, Waker};

/// A received UDP datagram.
#[derive(Clone, Debug)]
pub(super) struct Datagram {
    pub(super) remote: SocketAddr,
    /// The address to which it was sent.
    pub(super) local: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) data: BytesMut,
}

/// The endpoints of all workers of a server, of all generations.
#[derive(Debug, Default)]
pub struct Routes {
    key: ConnectionIdKey,
    /// Has the key of stateless resets, which all endpoints send for one that has ended.
    config: EndpointConfig,
    endpoints: RwLock<HashMap<EndpointNumber, Arc<Mailbox>>>,
    /// New connections that arrived before the endpoints that accept them have started, and their addresses.
    early: Mutex<VecDeque<(SocketAddr, Datagram)>>,
    next: AtomicU32,
    left: AtomicBool,
}

impl Routes {
    /// Adds the endpoint of a socket with this address, until the result is dropped.
    pub(super) fn add(self: &Arc<Self>, address: SocketAddr) -> Route {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::new(Mailbox {
            address,
            is_retired: AtomicBool::new(false),
            mail: Mutex::default(),
        });
        let mut endpoints = self.endpoints.write().unwrap();
        endpoints.insert(number, mailbox.clone());
        // Under the lock of the endpoints, so that none is kept after this.
        let mut early = self.early.lock().unwrap();
        for (to, datagram) in std::mem::take(&mut *early) {
            if to == address {
                mailbox.put(datagram)
            } else {
                put(&mut early, (to, datagram))
            }
        }
        drop(early);
        Route {
            routes: self.clone(),
            number,
            mailbox,
        }
    }

    /// Records that another process reads the sockets from now on, so that packets do not arrive
    /// here any more.
    pub fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Whether another process reads the sockets.
    pub(crate) fn are_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }
}

/// The entry of an endpoint.
#[derive(Debug)]
pub(super) struct Route {
    routes: Arc<Routes>,
    number: EndpointNumber,
    mailbox: Arc<Mailbox>,
}

impl Route {
    /// Returns the configuration of the endpoint.
    pub(super) fn config(&self) -> Arc<EndpointConfig> {
        let mut config = self.routes.config.clone();
        let (key, number) = (self.routes.key.clone(), self.number);
        config.cid_generator(move || Box::new(Generator::new(key.clone(), number)));
        Arc::new(config)
    }

    /// Passes a datagram to the endpoint of its connection. Returns it if that is this endpoint, or
    /// none.
    pub(super) fn pass(&self, datagram: Datagram) -> Option<Datagram> {
        let number = destination(&datagram.data).and_then(|id| self.routes.key.open(id));
        let Some(number) = number.filter(|&number| number != self.number) else {
            return Some(datagram);
        };
        let mailbox = self.routes.endpoints.read().unwrap().get(&number).cloned();
        match mailbox {
            Some(mailbox) => {
                observe::quic::count(|quic| quic.passed += 1);
                mailbox.put(datagram);
                None
            }
            None => Some(datagram),
        }
    }

    /// Records that another endpoint accepts the connections from now on.
    pub(super) fn retire(&self) {
        self.mailbox.is_retired.store(true, Ordering::Relaxed);
    }

    /// Records that no other endpoint accepts the connections any more.
    pub(super) fn resume(&self) {
        self.mailbox.is_retired.store(false, Ordering::Relaxed);
    }

    /// Whether another endpoint accepts the connections.
    pub(super) fn is_retired(&self) -> bool {
        self.mailbox.is_retired.load(Ordering::Relaxed)
    }

    /// Passes a datagram to an endpoint that accepts connections at the same address, or keeps it for one that
    /// is about to start. Returns false if another process accepts them.
    pub(super) fn pass_to_successor(&self, datagram: Datagram) -> bool {
        if self.are_left() {
            return false;
        }
        self.retire();
        let endpoints = self.routes.endpoints.read().unwrap();
        observe::quic::count(|quic| quic.passed += 1);
        let accepting = endpoints.values().find(|other| {
            other.address == self.mailbox.address && !other.is_retired.load(Ordering::Relaxed)
        });
        let early = &self.routes.early;
        match accepting {
            Some(successor) => successor.put(datagram),
            None => put(&mut early.lock().unwrap(), (self.mailbox.address, datagram)),
        }
        true
    }

    /// Waits for datagrams that other endpoints have received for this one.
    pub(super) async fn passed(&self) -> VecDeque<Datagram> {
        poll_fn(|context| {
            let mut mail = self.mailbox.mail.lock().unwrap();
            if mail.datagrams.is_empty() {
                mail.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut mail.datagrams))
        })
        .await
    }

    /// Returns the datagrams that others have received for this one until now.
    pub(super) fn passed_now(&self) -> VecDeque<Datagram> {
        std::mem::take(&mut self.mailbox.mail.lock().unwrap().datagrams)
    }

    pub(super) fn are_left(&self) -> bool {
        self.routes.are_left()
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        let mut endpoints = self.routes.endpoints.write().unwrap();
        endpoints.remove(&self.number);
    }
}

/// Datagrams that other endpoints have received for one.
#[derive(Debug)]
struct Mailbox {
    /// The address of the endpoint.
    address: SocketAddr,
    is_retired: AtomicBool,
    mail: Mutex<Mail>,
}

#[derive(Debug, Default)]
struct Mail {
    datagrams: VecDeque<Datagram>,
    waker: Option<Waker>,
}

impl Mailbox {
    fn put(&self, datagram: Datagram) {
        let waker = {
            let mut mail = self.mail.lock().unwrap();
            put(&mut mail.datagrams, datagram);
            mail.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Adds a datagram. Drops it if there are too many, as a network does.
fn put<T>(datagrams: &mut VecDeque<T>, datagram: T) {
    if datagrams.len() < Http3::PASSED_DATAGRAMS {
        datagrams.push_back(datagram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laio_rt::future::poll_once;
    use quinn_proto::ConnectionIdGenerator;
    use std::pin::pin;

    fn datagram(data: &[u8]) -> Datagram {
        Datagram {
            remote: "127.0.0.1:1".parse().unwrap(),
            local: None,
            ecn: None,
            data: BytesMut::from(data),
        }
    }

    fn packet_for(route: &Route) -> Vec<u8> {
        let mut generator = Generator::new(route.routes.key.clone(), route.number);
        [&[0x40], &generator.generate_cid()[..], b"rest"].concat()
    }

    #[test]
    fn a_datagram_reaches_the_endpoint_that_its_connection_id_names() {
        let runtime = laio_rt::Runtime::new(laio::Options::new()).unwrap();
        let routes = Arc::<Routes>::default();
        let address = "127.0.0.1:443".parse().unwrap();
        let (one, two) = (routes.add(address), routes.add(address));
        let packet = packet_for(&two);
        assert!(two.pass(datagram(&packet)).is_some());
        assert!(one.pass(datagram(&packet)).is_none());
        assert!(one.pass(datagram(b"\x40 of another server")).is_some());
        for _ in 0..2 * Http3::PASSED_DATAGRAMS {
            one.pass(datagram(&packet));
        }
        let passed = runtime.block_on(two.passed());
        assert_eq!(passed.len(), Http3::PASSED_DATAGRAMS);
        assert_eq!(passed[0].data[..], packet[..]);
        drop(two);
        assert!(one.pass(datagram(&packet)).is_some());
        runtime.block_on(async {
            assert!(poll_once(&mut pin!(one.passed())).await.is_none());
        });
    }

    #[test]
    fn a_retired_endpoint_passes_new_connections_to_one_at_its_address() {
        let routes = Arc::<Routes>::default();
        let [here, there] = ["127.0.0.1:443", "127.0.0.2:443"].map(|it| it.parse().unwrap());
        let (old, older) = (routes.add(here), routes.add(here));
        older.retire();
        // Nothing accepts them yet.
        assert!(old.pass_to_successor(datagram(b"one")));
        let elsewhere = routes.add(there);
        let new = routes.add(here);
        assert!(old.pass_to_successor(datagram(b"two")));
        assert_eq!(new.passed_now().len(), 2);
        assert!(older.passed_now().is_empty() && elsewhere.passed_now().is_empty());
        routes.leave();
        assert!(!old.pass_to_successor(datagram(b"three")));
    }
}
