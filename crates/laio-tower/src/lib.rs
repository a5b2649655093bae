//! A tower service that answers with the files below a directory, as `laio serve` does.

#![forbid(unsafe_code)]

mod answer;
mod body;
mod fallback;
mod found;

pub use body::Body;
pub use fallback::{Fallback, FallbackBody};
pub use laio_http::Coding;

use http::{Request, Response, StatusCode};
use laio::ops::OpenFile;
use laio_http::files::FileRules;
use std::convert::Infallible;
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Answers `GET` and `HEAD` with the files below a directory.
///
/// The answers are those of `laio serve`: conditions, ranges (also several), content types, index files,
/// redirects of directories, and the same refusals of unclear paths. Names are opened below the
/// directory's descriptor with `openat2`, so neither `..` nor a symbolic link leads out of it. A cached
/// file is opened and read by the thread that polls; what would block goes to the background.
///
/// It is a [`tower_service::Service`] of any request, which axum takes as it is:
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// let files = laio_tower::ServeDir::new("/usr/share")?.precompressed([laio_tower::Coding::Gzip]);
/// let app: axum::Router = axum::Router::new().nest_service("/files", files);
/// # drop(app);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ServeDir(Arc<Config>);

#[derive(Clone, Debug)]
struct Config {
    root: OpenFile,
    rules: FileRules,
    symlinks: Symlinks,
}

/// Where symbolic links may lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// Anywhere below the directory, by relative names.
    #[default]
    Within,
    /// Nowhere: a name with a link in it is not found.
    Refuse,
    /// Anywhere: a user who can create links can publish every file that the process can read.
    Follow,
}

impl ServeDir {
    /// Opens the directory, which may block. It stays the same one if it is renamed.
    ///
    /// # Errors
    /// Those of opening; `NotADirectory`.
    pub fn new(root: impl AsRef<Path>) -> io::Result<ServeDir> {
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_DIRECTORY);
        Ok(ServeDir(Arc::new(Config {
            root: OpenFile::from(options.open(root)?),
            rules: FileRules::default(),
            symlinks: Symlinks::default(),
        })))
    }

    /// Sets the names of index files: the first one that exists is the answer for its directory. The
    /// default is `index.html`.
    #[must_use]
    pub fn index<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> ServeDir {
        self.with(|config| config.rules.index = names.into_iter().map(Into::into).collect())
    }

    /// Answers with `NAME.br`, `NAME.zst` or `NAME.gz` instead of `NAME` if the client accepts that coding
    /// and the file is not older. Of codings that the client rates equal, the first one here wins.
    #[must_use]
    pub fn precompressed(self, codings: impl IntoIterator<Item = Coding>) -> ServeDir {
        self.with(|config| config.rules.precompressed = codings.into_iter().collect())
    }

    /// Serves names that begin with a dot. By default they are 404, except `.well-known` in the root.
    #[must_use]
    pub fn dotfiles(self, serve: bool) -> ServeDir {
        self.with(|config| config.rules.dotfiles = serve)
    }

    /// Sets where symbolic links may lead.
    #[must_use]
    pub fn symlinks(self, symlinks: Symlinks) -> ServeDir {
        self.with(|config| config.symlinks = symlinks)
    }

    /// Passes what would be answered with 404 to another service, with the body of its request.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// let app = axum::Router::new().route("/", axum::routing::get(async || "made here"));
    /// let files = laio_tower::ServeDir::new("/usr/share")?.fallback(app);
    /// let app: axum::Router = axum::Router::new().fallback_service(files);
    /// # drop(app);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fallback<F>(self, other: F) -> Fallback<F> {
        Fallback::new(self, other, None)
    }

    /// As [`ServeDir::fallback`], and the answer of the other service keeps the status 404: for a page that
    /// says so.
    #[must_use]
    pub fn not_found_service<F>(self, other: F) -> Fallback<F> {
        Fallback::new(self, other, Some(StatusCode::NOT_FOUND))
    }

    /// Answers a request. Errors are answers: this always returns one.
    pub async fn respond<B>(&self, request: &Request<B>) -> Response<Body> {
        let head = head(request);
        answer::answer(&self.0, head).await
    }

    fn with(mut self, set: impl FnOnce(&mut Config)) -> ServeDir {
        set(Arc::make_mut(&mut self.0));
        self
    }
}

impl<B> tower_service::Service<Request<B>> for ServeDir {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (config, head) = (self.0.clone(), head(&request));
        Box::pin(async move { Ok(answer::answer(&config, head).await) })
    }
}

/// The head of a request as HTTP/1.1 writes it, for the parser of `laio-http`, with the fields on which an
/// answer depends. The server that has read the request has checked the others.
fn head<B>(request: &Request<B>) -> Vec<u8> {
    const FIELDS: [http::HeaderName; 8] = [
        http::header::ACCEPT_ENCODING,
        http::header::IF_MATCH,
        http::header::IF_MODIFIED_SINCE,
        http::header::IF_NONE_MATCH,
        http::header::IF_RANGE,
        http::header::IF_UNMODIFIED_SINCE,
        http::header::RANGE,
        http::header::ACCEPT,
    ];
    let mut head = Vec::with_capacity(256);
    head.extend_from_slice(request.method().as_str().as_bytes());
    head.push(b' ');
    let target = request.uri().path_and_query();
    head.extend_from_slice(target.map_or("/", |target| target.as_str()).as_bytes());
    // No answer depends on the host, but the parser insists on one.
    head.extend_from_slice(b" HTTP/1.1\r\nHost: localhost\r\n");
    for name in FIELDS {
        for value in request.headers().get_all(&name) {
            head.extend_from_slice(name.as_str().as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value.as_bytes());
            head.extend_from_slice(b"\r\n");
        }
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// The example on the front page of the crate compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
