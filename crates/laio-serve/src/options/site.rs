//! What a site consists of, and what is special about it.

use super::upstream::Upstream;
use laio_http::Coding;
use laio_http::Status;
use std::path::PathBuf;

/// A directory and how its files are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The directory.
    pub root: PathBuf,
    /// What happens to names that begin with a dot.
    pub dotfiles: Dotfiles,
    /// Where symbolic links may lead.
    pub symlinks: Symlinks,
    /// Names of files that stand for their directory; the first that is there.
    pub index: Vec<String>,
    /// Whether a directory without such a file is listed.
    pub listing: bool,
    /// The file that answers for pages that are not there, with 200: of an application that looks at the
    /// address by itself. Only for clients that ask for HTML.
    pub fallback: Option<String>,
    /// Pages that say what went wrong.
    pub error_pages: Vec<ErrorPage>,
    /// Addresses that have moved; the first that fits.
    pub redirects: Vec<Redirect>,
    /// Header fields by name of file; a later rule takes the place of an earlier one for the same field.
    pub fields: Vec<FieldRule>,
    /// Which other sites' pages may read these files.
    pub cors: Option<Cors>,
    /// Who may read.
    pub auth: Option<Auth>,
    /// Codings of which a ready file may lie beside the plain one (`a.css.br`), in order of preference.
    pub precompressed: Vec<Coding>,
    /// Whether text is compressed while it is sent.
    pub compress: bool,
    /// Servers and programs that answer below some prefixes.
    pub upstreams: Vec<Upstream>,
    /// Directories below which they may name files to be sent (`X-Sendfile`).
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

/// A site with names of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Host names, without port; `*.example.org` is every name below `example.org`.
    pub names: Vec<String>,
    /// What is served under them.
    pub site: Site,
}

/// What happens to names that begin with a dot, other than `.well-known` at the top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dotfiles {
    /// It is as if they were not there.
    #[default]
    Hide,
    /// They are served.
    Serve,
}

/// Where symbolic links may lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// Anywhere below the root (`RESOLVE_BENEATH`).
    #[default]
    Within,
    /// Nowhere: there are none (`RESOLVE_NO_SYMLINKS`).
    Refuse,
    /// Anywhere. Whoever can make a link can publish every file that the server can read.
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

/// An address that has moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The path; a `*` at its end stands for whatever follows.
    pub from: String,
    /// Where to; a `*` is replaced by what the one in `from` stood for.
    pub to: String,
    /// 301, 302, 307 or 308.
    pub status: Status,
}

/// A header field for files whose path fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRule {
    /// Which paths: a glob (`/assets/**`, `*.woff2`); without a slash it is for names in every directory.
    pub glob: String,
    /// The name of the field.
    pub name: String,
    /// Its value; an empty one takes the field of an earlier rule away.
    pub value: String,
}

/// Cross-origin requests (the Fetch standard).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Origins whose pages may read, such as `https://example.org`; `*` is all.
    pub origins: Vec<String>,
    /// Seconds that a browser may remember the answer to its question.
    pub max_age: u32,
}

/// Basic authentication (RFC 7617).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// A file with `name:hash` lines, hashed by bcrypt, as `htpasswd -B` makes it.
    pub users: PathBuf,
    /// What the browser calls it when it asks.
    pub realm: String,
    /// Globs of the paths it is for; empty is all.
    pub paths: Vec<String>,
}
