//! The steps of a request. Each is a function of the request ([`response::RequestContext`]) and of the
//! services that it needs ([`crate::services::Services`]).

pub(crate) mod answer;
pub(crate) mod answer_from_cache;
pub(crate) mod archive;
pub(crate) mod auth_request;
pub(crate) mod auth_servers;
pub(crate) mod auth_state;
pub(crate) mod authorize;
pub(crate) mod body;
pub(crate) mod compress;
pub(crate) mod early_answer;
pub(crate) mod early_hints;
pub(crate) mod file_response;
pub(crate) mod listing;
pub(crate) mod lookup;
pub(crate) mod open;
pub(crate) mod pace;
mod page_cache;
pub(crate) mod pages;
pub(crate) mod receive;
pub(crate) mod redirect_to_https;
pub(crate) mod response;
pub(crate) mod send_buffer;
mod send_deadline;
mod send_pieces;
pub(crate) mod send_response;
mod transfer;
pub(crate) mod variant;
