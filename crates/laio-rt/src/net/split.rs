//! The two halves of a connection, for two tasks.

use super::Stream;
use crate::executor::Core;
use crate::submission::submit;
use laio::ops::{Shutdown as End, Sink, Source, Sources};
use std::future::Future;
use std::io;
use std::net::Shutdown;

pub(super) fn split<K>(stream: Stream<K>) -> (ReadHalf<K>, WriteHalf<K>) {
    let writer = WriteHalf(stream.share());
    (ReadHalf(stream), writer)
}

/// The reading half of a connection; see [`Stream::into_split`].
#[derive(Debug)]
pub struct ReadHalf<K>(Stream<K>);

impl<K> ReadHalf<K> {
    /// See [`Stream::read`].
    pub fn read<B: Sink>(&self, buffer: B) -> impl Future<Output = (io::Result<usize>, B)> {
        self.0.read(buffer)
    }

    /// Returns the connection.
    pub fn stream(&self) -> &Stream<K> {
        &self.0
    }
}

/// The writing half of a connection; see [`Stream::into_split`]. Dropping it ends the stream for the peer.
#[derive(Debug)]
pub struct WriteHalf<K>(Stream<K>);

impl<K> WriteHalf<K> {
    /// See [`Stream::write_all`].
    pub fn write_all<B: Source>(&self, buffer: B) -> impl Future<Output = (io::Result<()>, B)> {
        self.0.write_all(buffer)
    }

    /// See [`Stream::write_vectored`].
    pub fn write_vectored<S: Sources>(
        &self,
        sources: S,
    ) -> impl Future<Output = (io::Result<()>, S)> {
        self.0.write_vectored(sources)
    }

    /// Returns the connection.
    pub fn stream(&self) -> &Stream<K> {
        &self.0
    }
}

impl<K> Drop for WriteHalf<K> {
    fn drop(&mut self) {
        let descriptor = self.0.descriptor().clone();
        match Core::try_current() {
            // In a task of its own, because dropping the future would cancel the operation.
            Some(core) => {
                core.spawn(submit(End::new(descriptor, Shutdown::Write)))
                    .detach();
            }
            // Without a runtime no operation is in flight. An error means that the stream has ended already.
            None => {
                let how = rustix::net::Shutdown::Write;
                let _ = rustix::net::shutdown(&descriptor, how);
            }
        }
    }
}
