//! A JSON API over a directory of small files, twice: the modules `before` and `after` differ in the file
//! functions that they import, and in nothing else.

pub mod after;
pub mod before;
mod replies;
