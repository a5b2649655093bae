//! The API with the file functions of tokio.

use crate::replies::{Failure, reply};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use tokio::fs;

/// The API over a directory with files such as `7.json`.
pub fn app(items: PathBuf) -> Router {
    Router::new()
        .route("/items", get(list))
        .route("/items/{id}", get(item))
        .with_state(Arc::new(items))
}

/// `GET /items`: the numbers of all items.
async fn list(State(items): State<Arc<PathBuf>>) -> Result<Response, Failure> {
    let mut entries = fs::read_dir(&*items).await?;
    let mut numbers = Vec::new();
    while let Some(entry) = entries.next_entry().await? {
        let name = entry.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(".json"));
        numbers.extend(name.and_then(|name| name.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(reply(StatusCode::OK, &json!({ "items": numbers })))
}

/// `GET /items/7`: the item, and when its file has changed, in seconds since 1970.
async fn item(State(items): State<Arc<PathBuf>>, Path(id): Path<u64>) -> Result<Response, Failure> {
    let name = items.join(format!("{id}.json"));
    let text = fs::read(&name).await?;
    let value: Value = serde_json::from_slice(&text)?;
    let changed = fs::metadata(&name).await?.modified()?;
    let seconds = changed
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let value = json!({ "id": id, "changed": seconds, "item": value });
    Ok(reply(StatusCode::OK, &value))
}
