//! Scripts, which a program executes, beside files that are sent.

use crate::RequestPath;
use crate::path;
use crate::readings::fold;
use percent_encoding::percent_decode_str;
use std::fmt;

/// The names of scripts, by their extensions.
///
/// A script is executed only if the name of an existing file ends in an extension, so
/// `/uploads/x.jpg/y.php` can never execute `x.jpg`. A file that may contain the text of a script is
/// [hidden](ScriptNames::hides): it must not be sent.
///
/// ```
/// use laio_http::ScriptNames;
///
/// let names = ScriptNames::new(["php"]).expect("an extension");
/// assert!(names.is_script(b"blog/index.php") && !names.is_script(b"x.php/y.jpg"));
/// assert!(names.hides(b"index.php") && names.hides(b"wp-config.php.bak"));
/// assert!(!names.hides(b"style.css") && !names.hides(b"a.phpx"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptNames(Vec<String>);

/// Extensions of files that contain PHP by convention, whether or not they are executed.
const HIDDEN: [&str; 11] = [
    "inc", "phar", "php3", "php4", "php5", "php7", "php8", "phps", "pht", "phtml", "phpt",
];

/// The path of a script, and the rest of the request path, `PATH_INFO`. Both are percent-encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptPath<'p> {
    script: &'p str,
    info: &'p str,
}

/// Maximum number of segments of a path that are taken for scripts.
const SCRIPTS: usize = 8;

impl ScriptNames {
    /// Returns the names with these extensions, which are written without a dot. Letter case makes
    /// no difference.
    ///
    /// # Errors
    ///
    /// The first [`BadExtension`].
    pub fn new<'e>(
        extensions: impl IntoIterator<Item = &'e str>,
    ) -> Result<ScriptNames, BadExtension> {
        let extension = |text: &str| {
            if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                Ok(text.to_ascii_lowercase())
            } else {
                Err(BadExtension(text.to_owned()))
            }
        };
        let extensions = extensions.into_iter().map(extension);
        extensions.collect::<Result<_, _>>().map(ScriptNames)
    }

    /// Whether the last component of a name ends in an extension.
    #[must_use]
    pub fn is_script(&self, name: &[u8]) -> bool {
        let last = last_component(name);
        let dot = last.iter().rposition(|&byte| byte == b'.');
        dot.is_some_and(|dot| {
            let extension = &last[dot + 1..];
            let mut own = self.0.iter();
            own.any(|own| extension.eq_ignore_ascii_case(own.as_bytes()))
        })
    }

    /// Whether a file of this name may contain the text of a script: a script itself, a copy that an
    /// editor or a person has made (`index.php~`, `index.php.bak`, `index.php_old`), a name that some
    /// file systems take for that of a script, or an extension that PHP files have by convention.
    #[must_use]
    pub fn hides(&self, name: &[u8]) -> bool {
        let last = fold(last_component(name));
        let own = self.0.iter().map(String::as_str);
        own.chain(HIDDEN)
            .any(|extension| contains_extension(&last, extension.as_bytes()))
    }

    /// Returns each way to split a path after a segment that ends in an extension, if more follows;
    /// the first for which there is a file is meant.
    pub fn splits<'p>(&self, path: &'p RequestPath<'_>) -> impl Iterator<Item = ScriptPath<'p>> {
        let whole = path.as_str();
        let ends = whole.match_indices('/').skip(1);
        let splits = ends.map(|(end, _)| ScriptPath {
            script: &whole[..end],
            info: &whole[end..],
        });
        let is_script = |split: &ScriptPath<'_>| {
            let last = split.script.rsplit('/').next().unwrap_or_default();
            self.is_script(&percent_decode_str(last).collect::<Vec<_>>())
        };
        splits.filter(is_script).take(SCRIPTS)
    }
}

impl ScriptPath<'_> {
    /// Writes the name of the script's file below the root to `out`. Returns false if no file has
    /// such a name, or one of its components is hidden.
    pub fn file_name(&self, out: &mut Vec<u8>) -> bool {
        path::normalize(self.script, out).is_ok_and(|normal| !normal.hidden)
    }

    /// Returns `PATH_INFO`.
    #[must_use]
    pub fn path_info(&self) -> Vec<u8> {
        percent_decode_str(self.info).collect()
    }
}

fn last_component(name: &[u8]) -> &[u8] {
    name.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// Whether a folded name has the extension, at its end or before something that is neither a letter
/// nor a digit.
fn contains_extension(name: &[u8], extension: &[u8]) -> bool {
    let dots = name.iter().enumerate().filter(|(_, byte)| **byte == b'.');
    dots.map(|(dot, _)| &name[dot + 1..]).any(|rest| {
        let behind = rest.strip_prefix(extension);
        behind.is_some_and(|behind| !behind.first().is_some_and(u8::is_ascii_alphanumeric))
    })
}

/// A malformed extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadExtension(String);

impl fmt::Display for BadExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not an extension of scripts: write letters and digits, such as php",
            self.0
        )
    }
}

impl std::error::Error for BadExtension {}

#[cfg(test)]
mod tests {
    use super::*;

    fn php() -> ScriptNames {
        ScriptNames::new(["PHP"]).unwrap()
    }

    #[test]
    fn names_of_scripts() {
        for script in ["a.php", "a/b.PHP", "a.b.php"] {
            assert!(php().is_script(script.as_bytes()), "{script}");
        }
        for other in ["", "a", "a.php/b", "a.php~", "a.phpx", "php", "a.php.jpg"] {
            assert!(!php().is_script(other.as_bytes()), "{other}");
        }
        for bad in ["", ".php", "p p", "*"] {
            assert!(ScriptNames::new([bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn hidden_names() {
        for hidden in [
            "a.php",
            "x/a.Php",
            "a.php~",
            "a.php.bak",
            "a.php_2",
            "a.php.gz",
            "#a.php#",
            "a.php ",
            "a.php.",
            "a.php::$DATA",
            "a.\u{ff50}hp",
            "a.php.jpg",
            "a.phtml",
            "db.inc",
            "a.php5",
        ] {
            assert!(php().hides(hidden.as_bytes()), "{hidden}");
        }
        for shown in [
            "a.css",
            "php.txt",
            "a.php/logo.png",
            "a.phpx",
            "a.income",
            "aphp",
        ] {
            assert!(!php().hides(shown.as_bytes()), "{shown}");
        }
    }

    #[test]
    fn splits_of_a_path() {
        let of = |text: &str| {
            let path = RequestPath::new(text).unwrap();
            let split = |split: ScriptPath<'_>| {
                let mut name = Vec::new();
                let name = split.file_name(&mut name).then_some(name);
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
                (name.map(text), text(split.path_info()))
            };
            php().splits(&path).map(split).collect::<Vec<_>>()
        };
        let one = |name: &str, info: &str| (Some(name.to_owned()), info.to_owned());
        assert_eq!(of("/index.php"), []);
        assert_eq!(of("/index.php/"), [one("index.php", "/")]);
        assert_eq!(of("/a//b.php/c%20d/"), [one("a/b.php", "/c d/")]);
        let both = [one("a.php", "/b.php/c"), one("a.php/b.php", "/c")];
        assert_eq!(of("/a.php/b.php/c"), both);
        assert_eq!(of("/x.jpg/y.txt"), []);
        assert_eq!(of("/.git/a.php/x"), [(None, "/x".to_owned())]);
        assert_eq!(of("/a%2Fb.php/x"), [(None, "/x".to_owned())]);
        assert_eq!(of(&"/a.php".repeat(20)).len(), SCRIPTS);
    }
}
