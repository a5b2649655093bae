//! The configuration of a site.

use super::upstream::Upstream;
use laio_http::Coding;
use laio_http::Status;
use std::path::PathBuf;

/// A directory, and how its files are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The directory.
    pub root: PathBuf,
    /// Whether names that begin with a dot are served.
    pub dotfiles: Dotfiles,
    /// Where symbolic links may lead.
    pub symlinks: Symlinks,
    /// Names of index files, in order of preference.
    pub index: Vec<String>,
    /// Whether directories without an index file are listed.
    pub listing: bool,
    /// The file that answers for missing pages with status 200, for applications that handle
    /// addresses themselves. Only for clients that ask for HTML.
    pub fallback: Option<String>,
    /// Error pages.
    pub error_pages: Vec<ErrorPage>,
    /// Redirects; the first match wins.
    pub redirects: Vec<Redirect>,
    /// Header fields by file name; for the same field a later rule replaces an earlier one.
    pub fields: Vec<FieldRule>,
    /// Which pages of other origins may read the files.
    pub cors: Option<Cors>,
    /// The users who may read.
    pub auth: Option<Auth>,
    /// Codings for which a precompressed file may exist next to the plain one (`a.css.br`), in
    /// order of preference.
    pub precompressed: Vec<Coding>,
    /// Whether text is compressed while it is sent.
    pub compress: bool,
    /// Upstreams that answer below path prefixes.
    pub upstreams: Vec<Upstream>,
    /// Directories below which upstreams may name files to send (`X-Sendfile`).
    pub sendfile_roots: Vec<PathBuf>,
}

impl Default for Site {
    fn default() -> Self {
        Site {
            root: PathBuf::from("."),
            dotfiles: Dotfiles::Hide,
            symlinks: Symlinks::Within,
            index: vec!["index.html".to_owned()],
            listing: false,
            fallback: None,
            error_pages: Vec::new(),
            redirects: Vec::new(),
            fields: Vec::new(),
            cors: None,
            auth: None,
            precompressed: Vec::new(),
            compress: false,
            upstreams: Vec::new(),
            sendfile_roots: Vec::new(),
        }
    }
}

/// A site with host names of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Host names, without port; `*.example.org` is every name below `example.org`.
    pub names: Vec<String>,
    /// The site for these names.
    pub site: Site,
}

/// Whether names that begin with a dot are served. `.well-known` in the root always is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dotfiles {
    /// Answer as if they did not exist.
    #[default]
    Hide,
    /// Serve them.
    Serve,
}

/// Where symbolic links may lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// Anywhere below the root (`RESOLVE_BENEATH`).
    #[default]
    Within,
    /// Nowhere: links are not followed (`RESOLVE_NO_SYMLINKS`).
    Refuse,
    /// Anywhere. A user who can create links can then publish every file that the server can read.
    Follow,
}

/// A page for a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    /// The status, 400 or above.
    pub status: u16,
    /// The file, below the root.
    pub file: String,
}

/// A redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The path; a `*` at its end matches any rest.
    pub from: String,
    /// The target; a `*` is replaced by what the one in `from` matched.
    pub to: String,
    /// 301, 302, 307 or 308.
    pub status: Status,
}

/// A header field for matching paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRule {
    /// A glob (`/assets/**`, `*.woff2`); without a slash it matches names in every directory.
    pub glob: String,
    /// The name of the field.
    pub name: String,
    /// The value; an empty one removes the field of an earlier rule.
    pub value: String,
}

/// Cross-origin requests (the Fetch standard).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Origins whose pages may read, such as `https://example.org`; `*` is all.
    pub origins: Vec<String>,
    /// Seconds that a browser may cache the answer to a preflight request.
    pub max_age: u32,
}

/// Basic authentication (RFC 7617).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// A file with `name:hash` lines, as `htpasswd -B` creates it.
    pub users: PathBuf,
    /// The realm that browsers show.
    pub realm: String,
    /// Globs of the guarded paths; empty guards all.
    pub paths: Vec<String>,
}
