//! The steps of a request. Each is a function of the request ([`response::RequestContext`]) and of the
//! services that it needs ([`crate::services::Services`]).

pub mod answer;
pub mod answer_from_cache;
pub mod archive;
pub mod auth_request;
pub mod auth_servers;
pub mod auth_state;
pub mod authorize;
pub mod body;
pub mod compress;
pub mod directory_answer;
pub mod early_answer;
pub mod early_hints;
pub mod file_response;
pub mod generated_body;
pub mod listing;
pub mod lookup;
pub mod open;
pub mod pace;
pub mod page_cache;
pub mod pages;
pub mod receive;
pub mod redirect_to_https;
pub mod response;
pub mod send_buffer;
mod send_deadline;
mod send_pieces;
pub mod send_response;
mod transfer;
pub mod variant;
