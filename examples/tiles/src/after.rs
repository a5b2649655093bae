//! The archive is read with laio.

use crate::tiles::routes;
use axum::Router;
use pmtiles::{AsyncBackend, AsyncPmTilesReader, BackendResponse, HashMapCache, PmtResult};
use std::path::Path;

struct Archive(laio_tokio::fs::File);

impl AsyncBackend for Archive {
    async fn read(&self, offset: u64, length: usize) -> PmtResult<BackendResponse> {
        let (read, bytes) = self.0.read_at(Vec::with_capacity(length), offset).await;
        let bytes = axum::body::Bytes::from(bytes).slice(..read?.min(length));
        Ok(BackendResponse::new(bytes))
    }
}

/// The routes of the tiles of an archive.
pub async fn app(path: &Path) -> PmtResult<Router> {
    let archive = Archive(laio_tokio::fs::File::open(path).await?);
    let directories = HashMapCache::default();
    Ok(routes(
        AsyncPmTilesReader::try_from_cached_source(archive, directories).await?,
    ))
}
