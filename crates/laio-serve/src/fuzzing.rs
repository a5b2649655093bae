//! Properties of the parsers of this crate, for the fuzz targets. Each function takes arbitrary bytes, and panics if the
//! property does not hold.

pub use laio_serve_base::clients::fuzzing::trusted_proxies;
pub use laio_serve_net::http3::fuzzing::{http3_request, http3_unidirectional, qpack_section};
pub use laio_serve_proxy::cache::fuzzing::response_cache;
pub use laio_serve_uploads::webdav::fuzzing::{if_field, webdav_xml};
