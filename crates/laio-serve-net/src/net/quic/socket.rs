//! A UDP socket whose calls do not block: datagrams are sent and received in batches, and with
//! segmentation by the kernel (`UDP_SEGMENT`, `UDP_GRO`) where it has that.

use super::routes::Datagram;
use crate::io_contexts::IoContexts;
use bytes::BytesMut;
use laio::ops::Readiness;
use laio_rt::{Descriptor, Submission};
use laio_serve_base::options::{Http3, IoStep};
use quinn_proto::{EcnCodepoint, Transmit};
use quinn_udp::{RecvMeta, UdpSocketState};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

pub(super) struct UdpSocket {
    socket: Descriptor,
    state: UdpSocketState,
    local: SocketAddr,
}

/// The buffers of one receive.
pub(super) struct ReceiveBuffers(Vec<u8>);

impl ReceiveBuffers {
    pub(super) fn new() -> ReceiveBuffers {
        ReceiveBuffers(vec![0; Http3::RECEIVE_BATCH * Http3::RECEIVE_BUFFER])
    }
}

impl UdpSocket {
    /// Takes a bound socket, and makes it non-blocking.
    ///
    /// # Errors
    /// Those of socket options that every kernel has.
    pub(super) fn new(socket: OwnedFd) -> io::Result<UdpSocket> {
        let state = UdpSocketState::new((&socket).into())?;
        let local = rustix::net::getsockname(&socket)?.try_into()?;
        let socket = Descriptor::from(socket);
        Ok(UdpSocket {
            socket,
            state,
            local,
        })
    }

    /// Returns the address to which the socket is bound.
    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Whether the kernel sends packets whole or not at all, so that their size can be tried.
    pub(super) fn sends_whole(&self) -> bool {
        !self.state.may_fragment()
    }

    /// Returns how many datagrams one call can send.
    pub(super) fn segments(&self) -> usize {
        self.state.max_gso_segments().clamp(1, Http3::SEND_BATCH)
    }

    /// Receives the datagrams that have arrived, up to a batch.
    ///
    /// # Errors
    /// `WouldBlock` if there are none.
    pub(super) fn receive(
        &self,
        buffers: &mut ReceiveBuffers,
        mut each: impl FnMut(Datagram),
    ) -> io::Result<()> {
        let mut metas = [RecvMeta::default(); Http3::RECEIVE_BATCH];
        let mut parts = buffers.0.chunks_exact_mut(Http3::RECEIVE_BUFFER);
        let mut slices = metas.map(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
        let count = self
            .state
            .recv((&self.socket).into(), &mut slices, &mut metas)?;
        let parts = buffers.0.chunks_exact(Http3::RECEIVE_BUFFER);
        for (meta, part) in metas[..count].iter().zip(parts) {
            // The kernel joins datagrams of the same size.
            for data in part[..meta.len].chunks(meta.stride.max(1)) {
                each(Datagram {
                    remote: meta.addr,
                    local: meta.dst_ip,
                    ecn: meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
                    data: BytesMut::from(data),
                });
            }
        }
        Ok(())
    }

    /// Sends the datagrams of `transmit`. Returns false if the socket's buffer is full. Other errors
    /// mean that the datagrams are lost, which the protocol notices.
    pub(super) fn send(&self, transmit: &Transmit, contents: &[u8]) -> bool {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit
                .ecn
                .and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: &contents[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        let sent = self.state.try_send((&self.socket).into(), &transmit);
        !sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Waits until a datagram can be received.
    pub(super) fn readable(&self, contexts: &IoContexts) -> Submission<Readiness<Descriptor>> {
        contexts.submit(IoStep::Receive, Readiness::readable(self.socket.clone()))
    }

    /// Waits until a datagram can be sent.
    pub(super) fn writable(&self) -> Submission<Readiness<Descriptor>> {
        laio_rt::submit(Readiness::writable(self.socket.clone()))
    }
}
