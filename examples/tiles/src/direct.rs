//! The archive is read with laio, past the page cache if it is larger than half of the memory.

use crate::tiles::routes;
use axum::Router;
use laio_tokio::fs::Direct;
use pmtiles::{AsyncBackend, AsyncPmTilesReader, BackendResponse, HashMapCache, PmtResult};
use std::path::Path;

struct Archive(laio_tokio::fs::File);

impl AsyncBackend for Archive {
    async fn read(&self, offset: u64, length: usize) -> PmtResult<BackendResponse> {
        let range = offset..offset + length as u64;
        let read = self.0.read_ranges_with(&[range], Direct::Auto).await?;
        Ok(BackendResponse::new(read.bytes[0].clone()))
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
