//! laio's store takes object_store 0.14, and DataFusion 55 takes 0.13: this passes on what reads objects. It
//! goes when both take the same.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, Result,
};
use object_store_0_14 as newer;
use object_store_0_14::ObjectStore as _;
use std::fmt;
use std::ops::Range;

/// The whole file system.
#[derive(Debug, Default)]
pub(crate) struct LocalStore {
    laio: laio_object_store::LocalStore,
    /// Lists and writes, as [`laio_object_store::LocalStore`] does it too.
    local: LocalFileSystem,
}

impl LocalStore {
    pub(crate) fn new() -> LocalStore {
        LocalStore::default()
    }
}

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.laio.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for LocalStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let place = newer_path(location)?;
        let got = self.laio.get_opts(&place, newer_options(options)).await;
        let got = got.map_err(older_error)?;
        let (range, meta) = (got.range.clone(), older_meta(location.clone(), &got.meta));
        let bytes = got.into_stream().map(|piece| piece.map_err(older_error));
        Ok(GetResult {
            payload: GetResultPayload::Stream(bytes.boxed()),
            meta,
            range,
            attributes: Attributes::default(),
        })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let place = newer_path(location)?;
        let read = self.laio.get_ranges(&place, ranges).await;
        read.map_err(older_error)
    }

    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.local.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.local.put_multipart_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.local.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.local.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.local.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.local.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.local.rename_opts(from, to, options).await
    }
}

fn newer_path(path: &Path) -> Result<newer::path::Path> {
    newer::path::Path::parse(path.as_ref()).map_err(generic)
}

fn newer_options(options: GetOptions) -> newer::GetOptions {
    let range = options.range.map(|range| match range {
        GetRange::Bounded(range) => newer::GetRange::Bounded(range),
        GetRange::Offset(offset) => newer::GetRange::Offset(offset),
        GetRange::Suffix(length) => newer::GetRange::Suffix(length),
    });
    newer::GetOptions {
        if_match: options.if_match,
        if_none_match: options.if_none_match,
        if_modified_since: options.if_modified_since,
        if_unmodified_since: options.if_unmodified_since,
        range,
        version: options.version,
        head: options.head,
        ..newer::GetOptions::default()
    }
}

fn older_meta(location: Path, meta: &newer::ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        location,
        last_modified: meta.last_modified,
        size: meta.size,
        e_tag: meta.e_tag.clone(),
        version: meta.version.clone(),
    }
}

fn older_error(error: newer::Error) -> Error {
    match error {
        newer::Error::NotFound { path, source } => Error::NotFound { path, source },
        newer::Error::Precondition { path, source } => Error::Precondition { path, source },
        newer::Error::NotModified { path, source } => Error::NotModified { path, source },
        error => generic(error),
    }
}

fn generic(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Generic {
        store: "LocalStore",
        source: Box::new(error),
    }
}
