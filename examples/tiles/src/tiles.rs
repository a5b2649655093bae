//! The routes of the server, for all versions.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use pmtiles::{AsyncBackend, AsyncPmTilesReader, HashMapCache, PmtError, TileCoord};
use std::sync::Arc;
use twox_hash::XxHash3_64;

type Reader<B> = AsyncPmTilesReader<B, HashMapCache>;

/// The tiles of an archive, below their zoom level, column and row.
pub(crate) fn routes<B: AsyncBackend + Send + Sync + 'static>(archive: Reader<B>) -> Router {
    Router::new()
        .route("/{z}/{x}/{y}", get(tile::<B>))
        .with_state(Arc::new(archive))
}

/// `GET /8/130/77`: the tile, or 204 if the archive has none there.
async fn tile<B: AsyncBackend + Send + Sync + 'static>(
    State(archive): State<Arc<Reader<B>>>,
    Path((z, x, y)): Path<(u8, u32, u32)>,
    request: HeaderMap,
) -> Result<Response, Failure> {
    let place = TileCoord::new(z, x, y).map_err(|_| Failure(StatusCode::NOT_FOUND))?;
    let Some(bytes) = archive.get_tile(place).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let tag = format!("\"{:016x}\"", XxHash3_64::oneshot(&bytes));
    if request
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| known == tag.as_str())
    {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let kind = archive.get_header().tile_type.content_type().to_owned();
    Ok(([(header::CONTENT_TYPE, kind), (header::ETAG, tag)], bytes).into_response())
}

/// A request that gets no tile.
struct Failure(StatusCode);

impl From<PmtError> for Failure {
    fn from(error: PmtError) -> Failure {
        eprintln!("the archive cannot be read: {error}");
        Failure(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}
