//! A server of map tiles from one archive, three times: `before` maps the archive into memory, `after` reads
//! it with laio, and `direct` reads it with laio past the page cache if it is large.

pub mod after;
pub mod archive;
pub mod before;
pub mod direct;
mod tiles;
