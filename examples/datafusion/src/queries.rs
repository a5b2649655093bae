//! The queries, and what they need of a session.

use crate::data::TABLES;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::Result;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use std::path::Path;

/// The text of all queries, in order.
pub fn all() -> impl Iterator<Item = &'static str> {
    let queries = include_str!("tpch.sql").split(';').map(str::trim);
    queries.filter(|query| !query.is_empty())
}

/// Makes the tables of a directory known to a session.
pub async fn register(session: &SessionContext, directory: &Path) -> Result<()> {
    for table in TABLES {
        let file = directory.join(format!("{table}.parquet"));
        let file = file.display().to_string();
        session
            .register_parquet(table, file, ParquetReadOptions::default())
            .await?;
    }
    Ok(())
}

/// Runs a query, and returns its rows as a table.
pub async fn run(session: &SessionContext, query: &str) -> Result<String> {
    let rows = session.sql(query).await?.collect().await?;
    Ok(pretty_format_batches(&rows)?.to_string())
}
