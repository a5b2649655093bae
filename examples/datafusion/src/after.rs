//! The tables are read by the store of laio.

use crate::bridge::LocalStore;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// A session that reads local files.
pub fn session() -> SessionContext {
    let session = SessionContext::new();
    let files = ObjectStoreUrl::local_filesystem();
    let store = LocalStore::new();
    session.register_object_store(files.as_ref(), Arc::new(store));
    session
}
