//! From the head of a request to its response.

use super::found::open;
use super::{Body, Config};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use laio_http::files::{FileResponse, Lookup};
use std::time::SystemTime;

/// Answers the request with this head.
pub(super) async fn answer(config: &Config, head: Vec<u8>) -> Response<Body> {
    let mut lookup = Lookup::new(&config.rules, head);
    loop {
        match lookup {
            Lookup::Open(search) => {
                let found = open(config, search.name()).await;
                lookup = search.found(&config.rules, found, unix_time());
            }
            Lookup::Respond(found) => return response(found),
        }
    }
}

fn response(found: FileResponse<laio::ops::OpenFile>) -> Response<Body> {
    let mut response = Response::new(Body::new(found.body));
    *response.status_mut() = StatusCode::from_u16(found.status.code()).expect("a listed status");
    for (name, value) in found.fields {
        let value = HeaderValue::try_from(value).expect("no control character");
        let headers = response.headers_mut();
        headers.insert(HeaderName::from_static(name), value);
    }
    response
}

fn unix_time() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}
