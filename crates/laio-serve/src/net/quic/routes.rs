//! Which endpoint has a connection, so that a packet that arrives at another one reaches it.

use super::connection_id::{ConnectionIdKey, EndpointNumber, Generator, destination};
use crate::observe;
use crate::options::Http3;
use bytes::BytesMut;
use quinn_proto::{EcnCodepoint, EndpointConfig};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::task::{Poll, Waker};

/// A received UDP datagram.
#[derive(Debug)]
pub(super) struct Datagram {
    pub(super) remote: SocketAddr,
    /// The address to which it was sent.
    pub(super) local: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) data: BytesMut,
}

/// The endpoints of all workers of a server, of all generations.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    key: ConnectionIdKey,
    /// Has the key of stateless resets, which all endpoints send for one that has ended.
    config: EndpointConfig,
    endpoints: RwLock<HashMap<EndpointNumber, Arc<Mailbox>>>,
    next: AtomicU32,
    left: AtomicBool,
}

impl Routes {
    /// Adds an endpoint, until the result is dropped.
    pub(super) fn add(self: &Arc<Self>) -> Route {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mailbox = Arc::<Mailbox>::default();
        let mut endpoints = self.endpoints.write().unwrap();
        endpoints.insert(number, mailbox.clone());
        Route {
            routes: self.clone(),
            number,
            mailbox,
        }
    }

    /// Records that another process reads the sockets from now on, so that packets do not arrive
    /// here any more.
    pub(crate) fn leave(&self) {
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
                observe::count_quic(|quic| quic.passed += 1);
                mailbox.put(datagram);
                None
            }
            None => Some(datagram),
        }
    }

    /// Waits for datagrams that other endpoints have received for this one.
    pub(super) async fn passed(&self) -> VecDeque<Datagram> {
        poll_fn(|context| {
            let mut mail = self.mailbox.0.lock().unwrap();
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
        std::mem::take(&mut self.mailbox.0.lock().unwrap().datagrams)
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
#[derive(Debug, Default)]
struct Mailbox(Mutex<Mail>);

#[derive(Debug, Default)]
struct Mail {
    datagrams: VecDeque<Datagram>,
    waker: Option<Waker>,
}

impl Mailbox {
    /// Adds a datagram. Drops it if there are too many, as a network does.
    fn put(&self, datagram: Datagram) {
        let waker = {
            let mut mail = self.0.lock().unwrap();
            if mail.datagrams.len() >= Http3::PASSED_DATAGRAMS {
                return;
            }
            mail.datagrams.push_back(datagram);
            mail.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
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
        let (one, two) = (routes.add(), routes.add());
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
}
