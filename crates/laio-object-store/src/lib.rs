//! The local file system as a store of the crate `object_store`.

#![forbid(unsafe_code)]

mod pieces;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use laio_tokio::fs::File;
pub use laio_tokio::fs::{Direct, DirectReason, RangeStats};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, Extensions, GetOptions, GetResult, GetResultPayload,
    ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, RenameOptions, Result,
};
use pieces::read_pieces;
use std::fmt;
use std::fs::Metadata;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// A local directory as an [`ObjectStore`], in place of [`LocalFileSystem`].
///
/// [`LocalFileSystem`] gets and reads ranges on tokio's pool of blocking threads. Here the file is opened
/// and read by the thread that polls, as far as that does not block; all ranges of
/// [`get_ranges`](ObjectStore::get_ranges) that would block go to the background at once and wake the task
/// once. What creates, removes or lists is [`LocalFileSystem`]'s own: none of it can be attempted.
///
/// Objects, their entity tags and errors are those of [`LocalFileSystem`], so both may be used on the same
/// directory.
///
/// ```
/// use object_store::{ObjectStoreExt, path::Path};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path();
/// let store = laio_object_store::LocalStore::new_with_prefix(directory)?;
/// store.put(&Path::from("a/b"), "0123456789".into()).await?;
/// assert_eq!(store.get_range(&Path::from("a/b"), 2..5).await?, "234");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct LocalStore {
    inner: LocalFileSystem,
    direct: Direct,
    stats: Arc<Mutex<RangeStats>>,
}

impl LocalStore {
    /// The whole file system, as [`LocalFileSystem::new`].
    #[must_use]
    pub fn new() -> LocalStore {
        LocalStore::default()
    }

    /// A directory, as [`LocalFileSystem::new_with_prefix`].
    ///
    /// # Errors
    /// If there is no such directory.
    pub fn new_with_prefix(prefix: impl AsRef<std::path::Path>) -> Result<LocalStore> {
        LocalFileSystem::new_with_prefix(prefix).map(LocalStore::from)
    }

    /// Whether writes synchronize the file and its directory, as [`LocalFileSystem::with_fsync`].
    #[must_use]
    pub fn with_fsync(mut self, fsync: bool) -> LocalStore {
        self.inner = self.inner.with_fsync(fsync);
        self
    }

    /// Whether deleting the last file of a directory removes the directory too, as
    /// [`LocalFileSystem::with_automatic_cleanup`].
    #[must_use]
    pub fn with_automatic_cleanup(mut self, automatic_cleanup: bool) -> LocalStore {
        self.inner = self.inner.with_automatic_cleanup(automatic_cleanup);
        self
    }

    /// Whether [`get_ranges`](ObjectStore::get_ranges) reads past the page cache, as
    /// [`File::read_ranges_with`]; by default never.
    #[must_use]
    pub fn with_direct(mut self, direct: Direct) -> LocalStore {
        self.direct = direct;
        self
    }

    /// What [`get_ranges`](ObjectStore::get_ranges) has done so far, in this store and its clones.
    #[must_use]
    pub fn range_stats(&self) -> RangeStats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of the file of an object, as [`LocalFileSystem::path_to_filesystem`].
    ///
    /// # Errors
    /// If the location can be no name of a file.
    pub fn path_to_filesystem(&self, location: &Path) -> Result<PathBuf> {
        self.inner.path_to_filesystem(location)
    }

    /// Opens the file of an object.
    async fn open(&self, location: &Path) -> Result<(File, PathBuf)> {
        let path = self.inner.path_to_filesystem(location)?;
        match File::open(&path).await {
            Ok(file) => Ok((file, path)),
            Err(error) => Err(failed(&path, error)),
        }
    }
}

impl From<LocalFileSystem> for LocalStore {
    /// Keeps the options, such as [`LocalFileSystem::with_fsync`].
    fn from(store: LocalFileSystem) -> LocalStore {
        LocalStore {
            inner: store,
            ..LocalStore::default()
        }
    }
}

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "laio:{}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for LocalStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (file, path) = self.open(location).await?;
        let metadata = file
            .metadata()
            .await
            .map_err(|error| failed(&path, error))?;
        if metadata.is_dir() {
            let error = io::Error::new(io::ErrorKind::NotFound, "is directory");
            return Err(failed(&path, error));
        }
        let meta = meta(location.clone(), &metadata);
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => range.as_range(meta.size).map_err(generic)?,
            None => 0..meta.size,
        };
        let content = if options.head {
            range.start..range.start
        } else {
            range.clone()
        };
        let pieces = read_pieces(file, content);
        let pieces = pieces.map(move |piece| match piece {
            Ok(bytes) => Ok(Bytes::from(bytes)),
            Err(error) => Err(failed(&path, error)),
        });
        Ok(GetResult {
            payload: GetResultPayload::Stream(pieces.boxed()),
            meta,
            range,
            attributes: Attributes::default(),
            extensions: Extensions::default(),
        })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let (file, path) = self.open(location).await?;
        let read = file.read_ranges_with(ranges, self.direct).await;
        let read = read.map_err(|error| failed(&path, error))?;
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        stats.add(&read.stats);
        drop(stats);
        for (range, bytes) in ranges.iter().zip(&read.bytes) {
            if (bytes.len() as u64) < range.end - range.start {
                let text = format!("{}: the object ends before {}", path.display(), range.end);
                return Err(generic(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
            }
        }
        Ok(read.bytes)
    }

    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

/// An error of opening or reading the file of an object.
fn failed(path: &std::path::Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound {
            path: path.display().to_string(),
            source: error.into(),
        },
        kind => generic(io::Error::new(kind, format!("{}: {error}", path.display()))),
    }
}

fn generic(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Generic {
        store: "LocalStore",
        source: Box::new(error),
    }
}

fn meta(location: Path, metadata: &Metadata) -> ObjectMeta {
    // Linux has this time for every file.
    let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    let since = modified.duration_since(SystemTime::UNIX_EPOCH);
    let (inode, size) = (metadata.ino(), metadata.len());
    let micros = since.unwrap_or_default().as_micros();
    ObjectMeta {
        location,
        last_modified: modified.into(),
        size,
        // That of `LocalFileSystem`, whose writes return it.
        e_tag: Some(format!("\"{inode:x}-{micros:x}-{size:x}\"")),
        version: None,
    }
}
