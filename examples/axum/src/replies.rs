//! The replies of the API, for both versions.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::io;

/// A response with JSON.
pub(crate) fn reply(status: StatusCode, value: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, value.to_string()).into_response()
}

/// An error as a response: 404 for an item that is not there, 500 for everything else.
pub struct Failure(io::Error);

impl<E: Into<io::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(error.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.0.kind() {
            io::ErrorKind::NotFound => StatusCode::NOT_FOUND,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        reply(status, &json!({ "error": self.0.to_string() }))
    }
}
