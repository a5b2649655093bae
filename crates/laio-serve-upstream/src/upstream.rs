//! Servers and programs behind this one: `group` has those of a prefix, `route` chooses one for a request
//! by `balancer` and `health`, `link` provides a connection and carries its bytes, `resolver` looks up
//! names.

pub mod balancer;
mod encryption;
pub mod error;
pub mod group;
pub mod group_limits;
pub mod health;
pub mod health_check;
pub mod http2;
pub mod link;
pub mod proxy_protocol;
pub mod resolver;
pub mod route;
pub mod spool_files;
pub mod target;
