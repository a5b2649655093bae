//! The configuration of a site.

use super::access::Access;
use super::archive::Archives;
use super::auth_request::AuthRequests;
use super::candidate::Candidate;
use super::declare::options;
use super::hsts::Hsts;
use super::message_fields::MessageFields;
use super::upload::Uploads;
use super::upstream::Upstreams;
use laio_http::{Coding, Status};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

options! {
    /// A directory, and how its files are served.
    pub struct Site {
        /// The directory to serve [default: the working directory; no directory beside --proxy or a redirect
        /// of all paths]
        ///
        /// Without DIR, a site with `--proxy`, or with a `--redirect` of `/*`, has no files: what neither of
        /// them answers is 404. It has the files of the working directory if another option is about files:
        /// `--php`, `--fastcgi`, `--listing`, `--zip`, `--fallback`, `--error-page`, `--upload`, `--webdav`,
        /// or a file of `--try`.
        #[arg(id = "root", value_name = "DIR")]
        pub root: Option<PathBuf> = None,
        /// Serve the paths below PATH from another directory, or PATH from another file: /static=/srv/static.
        ///
        /// Their files come from TARGET, whatever the served directory has under PATH. The longest PATH
        /// counts. Other rules compare paths and names with PATH, as if TARGET were there; but a listing of
        /// what is above does not show it. PATH has no empty names, `.` or `..`. Cannot be combined with
        /// `--upload`.
        #[arg(long = "alias", value_name = "PATH=TARGET", help_heading = "Files")]
        pub aliases: Vec<Alias> = Vec::new(),
        /// Index file of a directory; the first that exists.
        ///
        /// Several names are separated by commas.
        #[arg(long = "index", value_name = "NAME", default_value = "index.html", value_delimiter = ',', help_heading = "Files")]
        pub index: Vec<String> = vec!["index.html".to_owned()],
        /// List directories without an index file.
        ///
        /// As HTML, or as JSON for programs that prefer it. Symbolic links are listed as what they lead to,
        /// and omitted if they are not served.
        #[arg(long = "listing", help_heading = "Files")]
        pub listing: bool = false,
        /// Directories as archives.
        #[command(flatten)]
        pub archives: Archives = Archives::default(),
        /// Answer with this file, and 200, for missing pages (single-page applications).
        ///
        /// Only for clients that ask for HTML.
        #[arg(long = "fallback", value_name = "FILE", help_heading = "Files")]
        pub fallback: Option<String> = None,
        /// Answer with the first of these that exists, for a request path: {path}, {path}/ (a directory with
        /// an index), {path}.html, /index.php?{query}, @upstream, or =404.
        ///
        /// Several candidates are separated by commas. `{path}` is the path of the request and `{query}` its
        /// query; the query stays as it is unless the candidate has one. `@upstream` is the upstream whose
        /// prefix the path has; without it, upstreams come before files. A status must be the last one.
        #[arg(long = "try", value_name = "CANDIDATE", value_delimiter = ',', help_heading = "Files")]
        pub candidates: Vec<Candidate> = Vec::new(),
        /// Answer an error with this file of DIR.
        ///
        /// The status stays the same.
        #[arg(long = "error-page", value_name = "STATUS=FILE", help_heading = "Files")]
        pub error_pages: Vec<ErrorPage> = Vec::new(),
        /// Serve names that begin with a dot.
        ///
        /// Otherwise only `.well-known` in DIR is served.
        #[arg(long = "dotfiles", help_heading = "Files")]
        pub dotfiles: bool = false,
        /// Where symbolic links may lead: within DIR, nowhere (refuse), or anywhere (follow).
        ///
        /// With `follow`, a user who can create links can publish every file that the server can read.
        #[arg(long = "symlinks", value_name = "WHERE", default_value = "within", help_heading = "Files")]
        pub symlinks: Symlinks = Symlinks::Within,
        /// Serve FILE.br, FILE.zst or FILE.gz instead of FILE to clients that accept it, in this order
        /// of preference.
        ///
        /// The value is a list of `br`, `zst` and `gz`; without one it is all three, in this order.
        #[arg(long = "precompressed", value_name = "CODINGS", value_delimiter = ',', num_args = 0..=1, require_equals = true,
            default_missing_value = "br,zst,gz", help_heading = "Responses")]
        pub precompressed: Vec<Coding> = Vec::new(),
        /// Compress text while it is sent, in the first of these codings that the client rates highest.
        ///
        /// The value is a list of `zstd`, `br` and `gzip`; without one it is all three, in this order.
        #[arg(long = "compress", value_name = "CODINGS", value_delimiter = ',', num_args = 0..=1, require_equals = true,
            default_missing_value = "zstd,br,gzip", help_heading = "Responses")]
        pub compress: Vec<Coding> = Vec::new(),
        /// Compress the text of upstreams too, in the codings of `--compress`.
        ///
        /// Responses without a coding of their own and without `Cache-Control: no-transform`; event streams are not
        /// compressed. Leave it off where a response contains a secret beside something that others can choose: its
        /// length then tells how much of the secret they have guessed (BREACH).
        #[arg(long = "compress-upstreams", help_heading = "Responses")]
        pub compress_upstreams: bool = false,
        /// Set a header field for files that match the glob; without a slash it matches names in every
        /// directory.
        ///
        /// For the same field, a later rule replaces an earlier one, and an empty value removes it.
        #[arg(long = "header", value_name = "GLOB=NAME: VALUE", help_heading = "Responses")]
        pub fields: Vec<FieldRule> = Vec::new(),
        /// Set Cache-Control for files that match the glob.
        ///
        /// These rules come after the rules of `--header`.
        #[arg(long = "cache-control", value_name = "GLOB=DIRECTIVES", value_parser = FieldRule::cache_control, help_heading = "Responses")]
        pub cache_control: Vec<FieldRule> = Vec::new(),
        /// Rules for the fields of all responses, and of requests to upstreams.
        #[command(flatten)]
        pub message_fields: MessageFields = MessageFields::default(),
        /// Tell clients a link before the response (103 Early Hints), for paths that match the glob:
        /// '*.html=</style.css>; rel=preload; as=style'.
        ///
        /// Over HTTP/2 and HTTP/3 only, for GET, and to browsers only for pages. A directory has the path of its first
        /// `--index`. All fitting links are sent. The response has no such field of itself: `--header` sets it.
        #[arg(long = "early-hints", value_name = "GLOB=LINK", help_heading = "Responses")]
        pub early_hints: Vec<EarlyHint> = Vec::new(),
        /// Redirect a path, with 301 or another status; a * at the end of FROM replaces the * in TO.
        ///
        /// The other statuses are 302, 307 and 308. The first match wins. FROM may be a regular expression after a ~
        /// (after ~* it ignores case), for the decoded path; $1 to $9 and ${NAME} in TO are what its groups match.
        #[arg(long = "redirect", value_name = "FROM=TO[=STATUS]", help_heading = "Responses")]
        pub redirects: Vec<Redirect> = Vec::new(),
        /// Answer the path FROM as if the request had the path TO, and the query of TO if it has one.
        ///
        /// FROM and TO are as in `--redirect`; `{query}` in the query of TO is the query of the request. The
        /// first match counts, once, before upstreams, `--try` and files; a redirect of the path comes
        /// before. A client must be allowed to read both paths.
        #[arg(long = "rewrite", value_name = "FROM=TO", help_heading = "Files")]
        pub rewrites: Vec<Rewrite> = Vec::new(),
        /// Which pages of other origins may read the files.
        #[command(flatten)]
        pub cors: Cors = Cors::default(),
        /// Whether browsers use only https for the host.
        #[command(flatten)]
        pub hsts: Hsts = Hsts::default(),
        /// The clients that are let in, and their limits.
        #[command(flatten)]
        pub access: Access = Access::default(),
        /// The users who may read.
        #[command(flatten)]
        pub auth: Auth = Auth::default(),
        /// The servers that decide who may read.
        #[command(flatten)]
        pub auth_requests: AuthRequests = AuthRequests::default(),
        /// Who may change the files.
        #[command(flatten)]
        pub uploads: Uploads = Uploads::default(),
        /// Servers and programs that answer some requests.
        #[command(flatten)]
        pub upstreams: Upstreams = Upstreams::default(),
    }
}

impl Site {
    /// Returns the directory whose files are served; none if the site has no files.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        match &self.root {
            Some(root) => Some(root),
            None if self.needs_no_files() => None,
            None => Some(Path::new(".")),
        }
    }

    /// Whether something else than files answers, and no option is about files.
    fn needs_no_files(&self) -> bool {
        let Upstreams {
            http, fastcgi, php, ..
        } = &self.upstreams;
        let redirects_all = self.redirects.iter().any(|redirect| redirect.from == "/*");
        let mut candidates = self.candidates.iter();
        (redirects_all || !http.is_empty())
            && php.is_none()
            && fastcgi.is_empty()
            && !self.listing
            && self.archives.zip.is_none()
            && self.fallback.is_none()
            && self.error_pages.is_empty()
            && self.uploads.who.is_none()
            && !self.uploads.webdav
            && !candidates.any(|candidate| matches!(candidate, Candidate::File { .. }))
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

impl FromStr for Symlinks {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Symlinks, Self::Err> {
        match name {
            "within" => Ok(Symlinks::Within),
            "refuse" => Ok(Symlinks::Refuse),
            "follow" => Ok(Symlinks::Follow),
            _ => Err("the value must be within, refuse or follow"),
        }
    }
}

/// A directory whose files have paths of their own, or a file that has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The path without slashes around it: `static` for `/static` and what is below it.
    pub path: String,
    /// The directory or file.
    pub target: PathBuf,
}

impl Alias {
    /// Returns the name of the file, if it is one now.
    #[doc(hidden)]
    pub fn file(&self) -> Option<&OsStr> {
        self.target.file_name().filter(|_| self.target.is_file())
    }

    /// Returns the directory, or that of the file.
    #[doc(hidden)]
    pub fn directory(&self) -> &Path {
        match (self.file(), self.target.parent()) {
            (Some(_), Some(parent)) if parent.as_os_str().is_empty() => Path::new("."),
            (Some(_), Some(parent)) => parent,
            _ => &self.target,
        }
    }
}

/// Parses `/static=/srv/static`.
impl FromStr for Alias {
    type Err = String;

    fn from_str(text: &str) -> Result<Alias, String> {
        let (path, target) = pair(text)?;
        let name = path
            .strip_prefix('/')
            .map(|name| name.trim_end_matches('/'));
        let is_name = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
        match name.filter(|name| name.split('/').all(is_name)) {
            Some(name) if !target.is_empty() => Ok(Alias {
                path: name.to_owned(),
                target: target.into(),
            }),
            _ => Err(format!(
                "{text:?} does not say which directory or file a path has: write /static=/srv/static"
            )),
        }
    }
}

/// A page for a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    /// The status, 400 or above.
    pub status: u16,
    /// The file, below the root.
    pub file: String,
}

/// Parses `404=missing.html`.
impl FromStr for ErrorPage {
    type Err = String;

    fn from_str(text: &str) -> Result<ErrorPage, String> {
        let (status, file) = pair(text)?;
        let not_a_status = |_| format!("{status} is not a status");
        Ok(ErrorPage {
            status: status.parse().map_err(not_a_status)?,
            file: file.to_owned(),
        })
    }
}

/// A link that clients get before a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlyHint {
    /// A glob (`/app/**`, `*.html`); without a slash it matches names in every directory.
    pub glob: String,
    /// The value of `Link`.
    pub link: String,
}

/// Parses `GLOB=LINK`.
impl FromStr for EarlyHint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<EarlyHint, Self::Err> {
        let (glob, link) = pair(text)?;
        Ok(EarlyHint {
            glob: glob.to_owned(),
            link: link.trim().to_owned(),
        })
    }
}

/// A path that is answered as if it were another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// The path, as in a [`Redirect`].
    pub from: String,
    /// The new path, perhaps with a query.
    pub to: String,
}

/// Parses `/app/*=/index.html` or `~^/item/(\d+)$=/item.php?id=$1`.
impl FromStr for Rewrite {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Rewrite, Self::Err> {
        let (from, to) = pattern_and_target(text)?;
        Ok(Rewrite {
            from: from.to_owned(),
            to: to.to_owned(),
        })
    }
}

/// A redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The path; a `*` at its end matches any rest. After a `~` it is a regular expression for the decoded path, and
    /// after `~*` one that ignores case.
    pub from: String,
    /// The target; a `*` is replaced by what the one in `from` matched, and `$1` or `${name}` by what a group of the
    /// expression matched.
    pub to: String,
    /// 301, 302, 307 or 308.
    pub status: Status,
}

/// Parses `/old/*=/new/*` or `/old/*=/new/*=308`.
impl FromStr for Redirect {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Redirect, Self::Err> {
        let (from, to) = pattern_and_target(text)?;
        // The target may contain a = too.
        let (to, status) = match to.rsplit_once('=') {
            Some((to, digits)) if digits.len() == 3 && digits.starts_with('3') => (to, digits),
            _ => (to, "301"),
        };
        let status = status.parse().ok().and_then(Status::from_code);
        Ok(Redirect {
            from: from.to_owned(),
            to: to.to_owned(),
            status: status.ok_or("the status must be 301, 302, 307 or 308")?,
        })
    }
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

/// Parses `GLOB=NAME: VALUE`.
impl FromStr for FieldRule {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<FieldRule, Self::Err> {
        let (glob, field) = pair(text)?;
        let (name, value) = field
            .split_once(':')
            .ok_or("a : is missing after the name of the field")?;
        Ok(FieldRule {
            glob: glob.to_owned(),
            name: name.trim().to_owned(),
            value: value.trim().to_owned(),
        })
    }
}

impl FieldRule {
    /// Parses `GLOB=DIRECTIVES`, a rule for `Cache-Control`.
    ///
    /// # Errors
    /// When there is no `=`.
    pub fn cache_control(text: &str) -> Result<FieldRule, &'static str> {
        let (glob, directives) = pair(text)?;
        Ok(FieldRule {
            glob: glob.to_owned(),
            name: "Cache-Control".to_owned(),
            value: directives.to_owned(),
        })
    }
}

/// Splits a pattern from its target. An expression may contain a `=`: it ends at the first one that a target follows.
fn pattern_and_target(text: &str) -> Result<(&str, &str), &'static str> {
    if !text.starts_with('~') {
        return pair(text);
    }
    let is_target = |to: &str| {
        ["/", "http://", "https://"]
            .iter()
            .any(|start| to.starts_with(start))
    };
    let mut ends = text.match_indices('=').map(|(at, _)| at);
    let end = ends
        .find(|&at| is_target(&text[at + 1..]))
        .ok_or("after an expression there must be =/ and a path, or =https:// and an address")?;
    Ok((&text[..end], &text[end + 1..]))
}

fn pair(text: &str) -> Result<(&str, &str), &'static str> {
    text.split_once('=').ok_or("a = is missing")
}

options! {
    /// Cross-origin requests (the Fetch standard).
    pub struct Cors {
        /// Let pages of this origin, or of all (*), read the files.
        ///
        /// An origin is written as `https://example.org`. Without this flag no page of another origin may read.
        #[arg(long = "cors", value_name = "ORIGIN", help_heading = "Access")]
        pub origins: Vec<String> = Vec::new(),
        /// Seconds that a browser may cache the response to a preflight request.
        #[arg(long = "cors-max-age", value_name = "SECONDS", help_heading = "Access")]
        pub max_age: u32 = 86_400,
    }
}

options! {
    /// Basic authentication (RFC 7617).
    pub struct Auth {
        /// Require names and passwords, from this file (made by `htpasswd -B`).
        ///
        /// It has a `name:hash` line for each user, with a hash of bcrypt or Argon2.
        #[arg(long = "auth", value_name = "FILE", help_heading = "Access")]
        pub users: Option<PathBuf> = None,
        /// Realm that browsers show.
        #[arg(long = "auth-realm", value_name = "TEXT", help_heading = "Access")]
        pub realm: String = "laio".to_owned(),
        /// Require passwords only for paths that match this glob.
        ///
        /// A path is protected if any interpretation of it matches a glob: in upper case, encoded twice, with
        /// parameters, and so on. A path that two programs could interpret differently, such as
        /// `/x/..%2fadmin`, is refused with 400. On upstreams the paths below a protected path are protected
        /// too.
        #[arg(long = "auth-path", value_name = "GLOB", help_heading = "Access")]
        pub paths: Vec<String> = Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_and_fields() {
        let redirect = |text: &str| text.parse::<Redirect>();
        let moved = redirect("/a=/b?c=d").unwrap();
        assert_eq!((moved.to.as_str(), moved.status.code()), ("/b?c=d", 301));
        let moved = redirect("/a=/b=308").unwrap();
        assert_eq!((moved.to.as_str(), moved.status.code()), ("/b", 308));
        let moved = redirect(r"~^/a=(.*)$=/b?c=$1=308").unwrap();
        assert_eq!(
            (&*moved.from, &*moved.to, moved.status.code()),
            ("~^/a=(.*)$", "/b?c=$1", 308)
        );
        assert!(redirect("~^/a=b").is_err());
        assert!(redirect("/a").is_err() && redirect("/a=/b=399").is_err());
        let rule: FieldRule = "*.css=X-A: b=c: d".parse().unwrap();
        assert_eq!((rule.name.as_str(), rule.value.as_str()), ("X-A", "b=c: d"));
        assert!("*.css=X-A".parse::<FieldRule>().is_err());
    }
}
