//! One request of a connection that carries several, and its response: what HTTP/2 and HTTP/3 have in common.

use super::http2_exchange::Exchange;
#[cfg(feature = "http3")]
use super::http3_exchange::Http3Exchange;
use std::rc::Rc;

/// A request of an HTTP/2 or HTTP/3 connection and its response, as a byte stream of their bodies. `each`
/// calls what both have.
pub enum Multiplexed {
    /// A stream of HTTP/2.
    Http2(Rc<Exchange>),
    /// A stream of HTTP/3.
    #[cfg(feature = "http3")]
    Http3(Rc<Http3Exchange>),
}

/// Evaluates an expression with the exchange of a [`Multiplexed`], for each protocol. A trait object would
/// box the future of each call.
macro_rules! each {
    ($multiplexed:expr, $exchange:ident => $result:expr) => {
        match $multiplexed {
            Multiplexed::Http2($exchange) => $result,
            #[cfg(feature = "http3")]
            Multiplexed::Http3($exchange) => $result,
        }
    };
}

pub(super) use each;
