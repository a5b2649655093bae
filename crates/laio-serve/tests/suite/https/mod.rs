//! What a server does so that clients use https, and what it negotiates with them.

mod clients;
mod hsts;
mod parameters;
mod redirects;
