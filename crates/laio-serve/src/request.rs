//! The steps of a request. Each is a function of the request ([`reply::RequestContext`]) and of the
//! services that it needs ([`crate::services::Services`]).

pub(crate) mod answer;
pub(crate) mod authorize;
pub(crate) mod body;
pub(crate) mod cached_answer;
mod compress;
pub(crate) mod file_reply;
mod listing;
mod open;
pub(crate) mod pages;
pub(crate) mod receive;
pub(crate) mod reply;
mod resident;
pub(crate) mod send;
mod send_deadline;
mod transfer;
pub(crate) mod variant;
