//! The queries of TPC-H with DataFusion, twice: the modules `before` and `after` differ in the store that
//! reads the tables, and in nothing else.

pub mod after;
pub mod before;
mod bridge;
pub mod data;
pub mod queries;
