//! The time limit of the wait for a response.

use laio_rt::time::Sleep;
use laio_serve_base::options::UpstreamLimits;
use laio_serve_upstream::error::{Progress, UpstreamError};
use laio_serve_upstream::link::Deadline;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The time limit of the wait for a response.
pub(super) struct ResponseWait<'a> {
    limits: &'a UpstreamLimits,
    deadline: Deadline,
    first_byte: Option<Sleep>,
}

impl<'a> ResponseWait<'a> {
    pub(super) fn new(limits: &'a UpstreamLimits, deadline: Deadline) -> Self {
        ResponseWait {
            limits,
            deadline,
            first_byte: None,
        }
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<UpstreamError> {
        let time = self.limits.first_byte_time;
        let limit = self
            .first_byte
            .get_or_insert_with(|| laio_rt::time::sleep(self.deadline.within(time)));
        Pin::new(limit).poll(context).map(|()| {
            let late = UpstreamError::timed_out("the upstream did not answer in time");
            late.at(Progress::NothingReceived)
        })
    }
}
