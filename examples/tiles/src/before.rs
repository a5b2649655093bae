//! The archive is mapped into memory.

use crate::tiles::routes;
use axum::Router;
use pmtiles::{AsyncPmTilesReader, HashMapCache, MmapBackend, PmtResult};
use std::path::Path;

/// The routes of the tiles of an archive.
pub async fn app(path: &Path) -> PmtResult<Router> {
    let archive = MmapBackend::try_from(path).await?;
    let directories = HashMapCache::default();
    Ok(routes(
        AsyncPmTilesReader::try_from_cached_source(archive, directories).await?,
    ))
}
