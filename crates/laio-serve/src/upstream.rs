//! Servers and programs behind this one: `group` has those of a prefix, `route` chooses one for a request
//! by `balancer` and `health`, `pool` provides a connection, `link` carries its bytes, `resolver` looks up
//! names.

pub(crate) mod balancer;
mod encryption;
pub(crate) mod error;
pub(crate) mod group;
pub(crate) mod group_limits;
pub(crate) mod health;
pub(crate) mod health_check;
pub(crate) mod http2;
pub(crate) mod link;
mod pool;
pub(crate) mod proxy_protocol;
pub(crate) mod resolver;
pub(crate) mod route;
pub(crate) mod spool_files;
pub(crate) mod target;
