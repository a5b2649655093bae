//! Guarded paths, whatever their spelling.

use crate::readings::{self, fold};
use crate::{Mount, RequestPath};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A set of patterns for guarded paths. A path is guarded if any reading of it matches a pattern.
///
/// A pattern with a slash matches whole paths, one without matches names in every directory. `*`
/// and `?` match anything but a slash, `**` any directories. Letter case makes no difference.
///
/// Servers and programs read paths differently. [`RequestPath::new`] refuses paths whose readings
/// differ in their dot segments. The guard compares all other readings: with escapes decoded again,
/// encoded slashes and backslashes as slashes, parameters after a semicolon removed, capitals as
/// small letters, dots and spaces at the end of a name dropped, and combinations of these.
///
/// ```
/// use laio_http::{Guard, RequestPath};
///
/// let guard = Guard::new(["/admin/**"]).expect("a pattern");
/// for guarded in ["/admin", "/%61dmin/x", "//admin", "/Admin;x=1/y", "/admin%2fx", "/%2561dmin"] {
///     assert!(guard.guards_file(&RequestPath::new(guarded).expect("one reading of dots")), "{guarded}");
/// }
/// assert!(!guard.guards_file(&RequestPath::new("/administration").expect("plain")));
/// ```
#[derive(Clone, Debug)]
pub struct Guard {
    /// The patterns as configured, and in lower case.
    patterns: GlobSet,
    /// The same patterns, extended to everything below each match.
    behind: GlobSet,
}

impl Guard {
    /// Compiles the patterns.
    ///
    /// # Errors
    ///
    /// The first [`BadPattern`].
    pub fn new<'p>(patterns: impl IntoIterator<Item = &'p str>) -> Result<Guard, BadPattern> {
        let (mut exact, mut behind) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for text in patterns {
            let bad = |error: globset::Error| BadPattern::new(text, &error);
            let pattern = match text.strip_prefix('/') {
                Some(path) => path.to_owned(),
                None if text.contains('/') => text.to_owned(),
                None => format!("**/{text}"),
            };
            let folded = String::from_utf8_lossy(&fold(pattern.as_bytes())).into_owned();
            for pattern in [pattern, folded] {
                let glob = glob(&pattern).map_err(bad)?;
                exact.add(glob.clone());
                behind.add(glob);
                let below = format!("{}/**", pattern.trim_end_matches('/'));
                behind.add(self::glob(&below).map_err(bad)?);
            }
        }
        let bad = |error: globset::Error| BadPattern::new("all patterns together", &error);
        Ok(Guard {
            patterns: exact.build().map_err(bad)?,
            behind: behind.build().map_err(bad)?,
        })
    }

    /// Whether a path to a file or directory is guarded.
    #[must_use]
    pub fn guards_file(&self, path: &RequestPath<'_>) -> bool {
        is_guarded(&self.patterns, path.as_str().as_bytes())
    }

    /// Whether a file name relative to the root is guarded, such as that of an index.
    #[must_use]
    pub fn guards_name(&self, name: &[u8]) -> bool {
        is_guarded(&self.patterns, name)
    }

    /// Whether a path for an HTTP upstream is guarded. Everything below a guarded name is guarded
    /// too, because a program of that name gets the rest as its `PATH_INFO`. So is a guarded name
    /// with an extension, which some frameworks read as the format of the response.
    #[must_use]
    pub fn guards_upstream(&self, path: &RequestPath<'_>) -> bool {
        !self.behind.is_empty() && any(path.as_str().as_bytes(), |name| self.fits_behind(name))
    }

    /// Whether a path for a FastCGI program is guarded: as for an upstream, and also by the
    /// possible values of `PATH_INFO`, which names a file of the site in `PATH_TRANSLATED`.
    #[must_use]
    pub fn guards_program(&self, path: &RequestPath<'_>, mount: &Mount) -> bool {
        if self.behind.is_empty() {
            return false;
        }
        let fits = |reading: &[u8]| self.fits_behind(reading);
        let info = mount.program(path).encoded_info();
        self.guards_upstream(path)
            || any(info.as_bytes(), fits)
            || any(path.as_str().as_bytes(), |reading| {
                let mut infos = infos(reading);
                infos.by_ref().take(PROGRAMS).any(fits) || infos.next().is_some()
            })
    }

    fn fits_behind(&self, name: &[u8]) -> bool {
        let last = name.iter().rposition(|byte| matches!(byte, b'.' | b'/'));
        let extension = last.filter(|&at| name[at] == b'.');
        fits(&self.behind, name) || extension.is_some_and(|at| fits(&self.behind, &name[..at]))
    }
}

/// Maximum number of program names that a path is searched for; a path with more is guarded.
const PROGRAMS: usize = 8;

/// Returns the rests of a path after each name of a PHP program.
fn infos(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.windows(3).enumerate();
    let ends = ends.filter(|(_, three)| three.eq_ignore_ascii_case(b".ph"));
    ends.filter_map(|(at, _)| {
        let behind = &path[at..];
        let end = behind.iter().position(|&byte| byte == b'/')?;
        Some(&behind[end + 1..])
    })
}

fn is_guarded(patterns: &GlobSet, path: &[u8]) -> bool {
    !patterns.is_empty() && any(path, |reading| fits(patterns, reading))
}

fn any(path: &[u8], fits: impl FnMut(&[u8]) -> bool) -> bool {
    readings::any(path.strip_prefix(b"/").unwrap_or(path), fits)
}

/// Whether the name matches, as a file or as a directory.
fn fits(patterns: &GlobSet, name: &[u8]) -> bool {
    let is_match = |name: &[u8]| patterns.is_match(Path::new(OsStr::from_bytes(name)));
    is_match(name) || is_match(&[name, b"/"].concat())
}

fn glob(pattern: &str) -> Result<globset::Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(true).build()
}

/// A malformed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPattern(String);

impl BadPattern {
    fn new(pattern: &str, error: &globset::Error) -> BadPattern {
        let why = error.kind();
        BadPattern(format!("{pattern} is not a valid glob: {why}"))
    }
}

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadPattern {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_paths() {
        let file = |pattern: &str, path: &str| {
            let guard = Guard::new([pattern]).unwrap();
            guard.guards_file(&RequestPath::new(path).unwrap())
        };
        for (pattern, path) in [
            ("/admin/**", "/admin"),
            ("/admin/**", "/admin/"),
            ("/admin/**", "/ADMIN/x"),
            ("/Admin/**", "/admin/x"),
            ("/Admin/**", "/Admin/x"),
            ("*.php", "/a/b.PHP"),
            ("/x/*", "/x/a%2Fb"),
            ("**", "/"),
            ("/a b", "/a%20b"),
            ("/É*", "/%C3%A9x"),
        ] {
            assert!(file(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/admin/**", "/"),
            ("/admin/**", "/adminx"),
            ("/admin/**", "/x/admin/y"),
            ("/x/*", "/x/a/b"),
            ("/a.php", "/a.php/x"),
            ("*.html", "/a.txt"),
        ] {
            assert!(!file(pattern, path), "{pattern} {path}");
        }
        assert!(!Guard::new([]).unwrap().guards_name(b"a"));
        let bad = Guard::new(["/["]).unwrap_err().to_string();
        assert!(bad.starts_with("/[ is not a valid glob: "), "{bad}");
    }

    #[test]
    fn possible_path_infos_are_guarded() {
        let guard = Guard::new(["/a.php", "/admin/**"]).unwrap();
        let mount = Mount::new("/", None).unwrap();
        let program = |path: &str| guard.guards_program(&RequestPath::new(path).unwrap(), &mount);
        for path in [
            "/a.php",
            "/a.php/x",
            "/a.php;x/y",
            "/index.php/admin/x",
            "/index.php//Admin",
            "/index.php%2Fadmin/x",
            "/INDEX.PHP/admin/x",
            "/x/y.php5/admin/x",
            "/x.php/y.php/admin",
            "/1.php/2.php/3.php/4.php/5.php/6.php/7.php/8.php/9.php/x",
        ] {
            assert!(program(path), "{path}");
        }
        assert!(!program("/index.php/x") && !program("/a.phpx/x"));
        let upstream = |path: &str| guard.guards_upstream(&RequestPath::new(path).unwrap());
        assert!(upstream("/a.php/x") && !upstream("/index.php/admin/x"));
        assert!(
            upstream("/admin.json") && upstream("/Admin%2ejson;x") && !upstream("/admins.json")
        );
    }
}
