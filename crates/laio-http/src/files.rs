//! The response to a request for a file below a directory, without I/O: the caller opens the files.
//!
//! ```
//! use laio_http::files::{Attributes, Body, FileRules, Found, Lookup};
//!
//! let rules = FileRules::default();
//! let head = b"GET /notes/?q HTTP/1.1\r\nHost: example.org\r\nRange: bytes=-4\r\n\r\n";
//! let Lookup::Open(search) = Lookup::new(&rules, head.to_vec()) else { panic!() };
//! assert_eq!(search.name(), b"notes/index.html");
//!
//! let attributes = Attributes { inode: 7, size: 1000, modified: (784_111_777, 0) };
//! let found = Found::File("the open file", attributes);
//! let Lookup::Respond(response) = search.found(&rules, Ok(found), 1_700_000_000) else { panic!() };
//! assert_eq!(response.status.code(), 206);
//! assert!(response.fields.contains(&("content-range", b"bytes 996-999/1000".to_vec())));
//! assert!(matches!(response.body, Body::File { file: "the open file", .. }));
//! ```

mod content;
mod decision;
mod page;

pub use decision::{FileVersion, Selection, multipart};

use crate::{ByteRange, Coding, Limits, Method, Parsed, Rejection, Request, Status, parse};
use content::with_file;
use page::{error, failed, not_found, options, rejected, to_directory};
use std::io;

/// Which files are served, and in which forms.
#[derive(Clone, Debug)]
pub struct FileRules {
    /// The names of index files: the first one that exists is the response for its directory.
    pub index: Vec<String>,
    /// Codings of files that exist beside others, for example `page.html.gz`. Of codings that the client
    /// rates equal, the first one here wins. A file older than the plain one is not used.
    pub precompressed: Vec<Coding>,
    /// Whether names that begin with a dot are served. If not, they are 404, except `.well-known` in the
    /// root.
    pub dotfiles: bool,
}

impl Default for FileRules {
    fn default() -> FileRules {
        FileRules {
            index: vec!["index.html".to_owned()],
            precompressed: Vec::new(),
            dotfiles: false,
        }
    }
}

/// What follows for a request.
#[derive(Debug)]
pub enum Lookup<F> {
    /// The caller opens a file, and passes what it has found to [`Search::found`].
    Open(Search<F>),
    /// The response is known.
    Respond(FileResponse<F>),
}

/// What a name leads to.
#[derive(Debug)]
pub enum Found<F> {
    /// A regular file, open for reading.
    File(F, Attributes),
    /// A directory.
    Directory,
    /// A device, FIFO or socket.
    Special,
}

impl<F> Found<F> {
    /// Returns what an open file is. `mode`: its `st_mode`.
    #[must_use]
    pub fn from_mode(file: F, mode: u32, attributes: Attributes) -> Found<F> {
        match mode & libc::S_IFMT {
            libc::S_IFREG => Found::File(file, attributes),
            libc::S_IFDIR => Found::Directory,
            _ => Found::Special,
        }
    }
}

/// What the response needs to know of a file.
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// The number of the file in its file system.
    pub inode: u64,
    /// The size in bytes.
    pub size: u64,
    /// The time of the last modification: seconds since 1970, and nanoseconds.
    pub modified: (i64, u32),
}

/// Why a file was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There is no such file, or the path leads through a link that is not followed.
    Missing,
    /// The server may not read it.
    Forbidden,
    /// A limit on descriptors or memory.
    Exhausted,
    /// Any other reason.
    Unreadable,
}

impl From<io::Error> for Failure {
    /// The reason that an error of `openat2` gives.
    fn from(error: io::Error) -> Failure {
        use libc::{
            EACCES, EAGAIN, ELOOP, EMFILE, ENAMETOOLONG, ENFILE, ENOENT, ENOMEM, ENOTDIR, ENXIO,
            EPERM, EXDEV,
        };
        match error.raw_os_error().unwrap_or(0) {
            ENOENT | ENOTDIR | ELOOP | EXDEV | ENXIO | ENAMETOOLONG => Failure::Missing,
            EACCES | EPERM => Failure::Forbidden,
            EMFILE | ENFILE | ENOMEM | EAGAIN => Failure::Exhausted,
            _ => Failure::Unreadable,
        }
    }
}

/// A response to send.
#[derive(Debug)]
pub struct FileResponse<F> {
    /// The status.
    pub status: Status,
    /// The fields: names in small letters, and values.
    pub fields: Vec<(&'static str, Vec<u8>)>,
    /// What follows the fields; empty for `HEAD`.
    pub body: Body<F>,
}

/// The body of a response.
#[derive(Debug)]
pub enum Body<F> {
    /// Nothing.
    Empty,
    /// A page.
    Bytes(Vec<u8>),
    /// Parts of a file.
    File {
        /// The file.
        file: F,
        /// What to send, in this order.
        parts: Vec<Part>,
    },
}

/// A part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes that are not from the file.
    Bytes(Vec<u8>),
    /// Bytes of the file.
    Range(ByteRange),
}

impl Part {
    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::Range(range) => range.len(),
        }
    }

    /// Whether there is no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A request whose file is looked for.
#[derive(Debug)]
pub struct Search<F> {
    /// Parsed again where it is needed: a parsed request borrows it.
    head: Vec<u8>,
    /// The file to open, below the root.
    name: Vec<u8>,
    stage: Stage<F>,
}

#[derive(Debug)]
enum Stage<F> {
    /// The name of the path, which has no slash at its end.
    Path,
    /// An index file: its place in the list, and the length of the name of its directory.
    Index(usize, usize),
    Variant(Variant<F>),
}

/// A precompressed form is looked for.
#[derive(Debug)]
struct Variant<F> {
    plain: (F, Attributes),
    /// The length of the name of the plain file.
    length: usize,
    coding: Coding,
    /// The codings to try if this one is not there.
    left: Vec<Coding>,
}

impl<F> Lookup<F> {
    /// Begins with the head of a request, as HTTP/1.1 writes it.
    #[must_use]
    pub fn new(rules: &FileRules, head: Vec<u8>) -> Lookup<F> {
        let mut name = Vec::new();
        let stage = match with_request(&head, |request| first(rules, request, &mut name)) {
            Ok(Ok(stage)) => stage,
            Ok(Err(response)) => return respond(&head, response),
            Err(rejection) => return respond(&head, rejected(rejection)),
        };
        Search { head, name, stage }.open_next(rules)
    }
}

impl<F> Search<F> {
    /// The name to open, relative to the root; `.` for the root itself.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        match &self.name[..] {
            [] => b".",
            name => name,
        }
    }

    /// Continues with what the name leads to. `now`: seconds since 1970.
    #[must_use]
    pub fn found(
        mut self,
        rules: &FileRules,
        found: Result<Found<F>, Failure>,
        now: i64,
    ) -> Lookup<F> {
        match (self.stage, found) {
            (Stage::Variant(variant), found) => {
                let Variant { plain, length, .. } = variant;
                let (file, coding) = match found {
                    Ok(Found::File(file, attributes))
                        if attributes.modified >= plain.1.modified =>
                    {
                        ((file, attributes), variant.coding)
                    }
                    _ if variant.left.is_empty() => (plain, Coding::Identity),
                    _ => {
                        self.name.truncate(length);
                        self.stage = Stage::Path;
                        return self.choose_variant(rules, plain, variant.left, now);
                    }
                };
                self.name.truncate(length);
                self.stage = Stage::Path;
                self.respond(rules, file, coding, now)
            }
            (stage, Ok(Found::File(file, attributes))) => {
                self.stage = stage;
                let left = rules.precompressed.clone();
                self.choose_variant(rules, (file, attributes), left, now)
            }
            // A directory with the name of an index file is none.
            (
                Stage::Index(number, length),
                Ok(Found::Directory | Found::Special) | Err(Failure::Missing),
            ) => {
                self.stage = Stage::Index(number + 1, length);
                self.open_next(rules)
            }
            (Stage::Path, Ok(Found::Directory)) => {
                let response = with_request(&self.head, |request| {
                    to_directory(&self.name, request.query)
                });
                respond(&self.head, response.unwrap_or_else(rejected))
            }
            (_, Ok(_)) => respond(&self.head, not_found()),
            (_, Err(failure)) => respond(&self.head, failed(failure)),
        }
    }

    /// Opens the name, which is that of the next index file for a directory.
    fn open_next(mut self, rules: &FileRules) -> Lookup<F> {
        if let Stage::Index(number, length) = self.stage {
            self.name.truncate(length);
            let Some(index) = rules.index.get(number) else {
                return respond(&self.head, not_found());
            };
            if length > 0 {
                self.name.push(b'/');
            }
            self.name.extend_from_slice(index.as_bytes());
        }
        Lookup::Open(self)
    }

    /// Looks for the precompressed form that the client prefers, of those left.
    fn choose_variant(
        mut self,
        rules: &FileRules,
        plain: (F, Attributes),
        mut left: Vec<Coding>,
        now: i64,
    ) -> Lookup<F> {
        let coding = if left.is_empty() {
            Coding::Identity
        } else {
            with_request(&self.head, |request| {
                Coding::negotiate(&request.headers, &left)
            })
            .unwrap_or(Coding::Identity)
        };
        if coding == Coding::Identity {
            return self.respond(rules, plain, coding, now);
        }
        left.retain(|&other| other != coding);
        let length = self.name.len();
        self.name.extend_from_slice(coding.suffix().as_bytes());
        self.stage = Stage::Variant(Variant {
            plain,
            length,
            coding,
            left,
        });
        Lookup::Open(self)
    }

    /// Responds with a file: 200, 206, 304, 412 or 416.
    fn respond(
        self,
        rules: &FileRules,
        file: (F, Attributes),
        coding: Coding,
        now: i64,
    ) -> Lookup<F> {
        let response = with_request(&self.head, |request| {
            let mut response = with_file(request, &self.name, file, coding, now);
            if !rules.precompressed.is_empty() && !response.status.is_error() {
                response.fields.push(("vary", b"Accept-Encoding".to_vec()));
            }
            response
        });
        respond(&self.head, response.unwrap_or_else(rejected))
    }
}

/// Parses the head, and calls `then` with the request.
fn with_request<R>(head: &[u8], then: impl FnOnce(&Request<'_>) -> R) -> Result<R, Rejection> {
    match parse(head, &Limits::DEFAULT)? {
        Parsed::Complete { request, .. } => Ok(then(&request)),
        Parsed::Partial => Err(Rejection::RequestLine),
    }
}

/// The response as it is sent: without its body for `HEAD`.
fn respond<F>(head: &[u8], mut response: FileResponse<F>) -> Lookup<F> {
    if head.starts_with(b"HEAD ") {
        response.body = Body::Empty;
    }
    Lookup::Respond(response)
}

/// What to open first, or the response if nothing is opened.
fn first<F>(
    rules: &FileRules,
    request: &Request<'_>,
    name: &mut Vec<u8>,
) -> Result<Stage<F>, FileResponse<F>> {
    let path = request
        .path
        .as_ref()
        .map_err(|refused| rejected(*refused))?;
    match request.method {
        Method::Get | Method::Head => {}
        Method::Options if path.is_whole_server() => return Err(options()),
        Method::Options => {}
        method if method.is_known() => {
            let detail = "Files do not allow this method.";
            return Err(error(Status::METHOD_NOT_ALLOWED, detail));
        }
        _ => {
            let detail = "The server does not know this method.";
            return Err(error(Status::NOT_IMPLEMENTED, detail));
        }
    }
    let normal = path.file_name(name).map_err(rejected)?;
    if normal.hidden && !rules.dotfiles {
        // Dot files more often hold configuration and secrets than pages.
        return Err(not_found());
    }
    if request.method == Method::Options {
        return Err(options());
    }
    Ok(if normal.trailing_slash {
        Stage::Index(0, name.len())
    } else {
        Stage::Path
    })
}
