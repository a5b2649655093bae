//! What a site has besides its root: the paths below a prefix are served from another directory, or a path is that of
//! another file.

use laio_rt::Descriptor;
use laio_serve_base::messages::print;
use laio_serve_base::options::{Alias, Limits};
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The aliases of a site, those with the longest paths first.
#[derive(Debug, Default)]
pub(crate) struct Aliases(Vec<OpenedAlias>);

#[derive(Debug)]
struct OpenedAlias {
    place: Place,
    /// The directory, or that of the file.
    path: PathBuf,
    descriptor: OwnedFd,
}

/// Which names an alias has.
#[derive(Clone, Debug)]
struct Place {
    /// The path without slashes around it.
    name: Vec<u8>,
    /// The name of the file, if the alias is one of a file.
    file: Option<Vec<u8>>,
}

impl Place {
    /// Returns the name below the directory that a name of the site means, if it is one of the alias.
    fn find<'n>(&'n self, name: &'n [u8]) -> Option<&'n [u8]> {
        match (name.strip_prefix(&*self.name)?, &self.file) {
            ([], Some(file)) => Some(file),
            ([], None) => Some(&[]),
            ([b'/', rest @ ..], None) => Some(rest),
            _ => None,
        }
    }
}

impl Aliases {
    /// Opens the directories.
    ///
    /// # Errors
    /// Names what cannot be opened, a path that occurs twice, or the limit on their number.
    pub(crate) fn open(aliases: &[Alias]) -> io::Result<Aliases> {
        if aliases.len() > Limits::ALIASES {
            let text = format!("a site can have at most {} --alias", Limits::ALIASES);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut all = Vec::<OpenedAlias>::new();
        for alias in aliases {
            let name = alias.path.as_bytes().to_vec();
            if all.iter().any(|other| other.place.name == name) {
                let text = format!("--alias has two targets for /{}", alias.path);
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::open(alias.directory(), flags, Mode::empty());
            let explain = |error: &io::Error| {
                let target = alias.target.display();
                format!("cannot serve {target} as /{}: {error}", alias.path)
            };
            let descriptor = match opened.map_err(io::Error::from) {
                // The other paths are still worth serving.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let text = explain(&error);
                    print(format_args!(
                        "{text}; its paths are 404 until the directory exists and the server reloads"
                    ));
                    super::no_directory()?
                }
                opened => opened.map_err(|error| io::Error::new(error.kind(), explain(&error)))?,
            };
            let file = alias.file().map(|file| file.as_encoded_bytes().to_vec());
            all.push(OpenedAlias {
                place: Place { name, file },
                path: std::path::absolute(alias.directory())?,
                descriptor,
            });
        }
        all.sort_by_key(|alias| std::cmp::Reverse(alias.place.name.len()));
        Ok(Aliases(all))
    }

    /// Returns the path of the directory that has a name of the site, and the name below it, if that is not the root.
    pub(crate) fn file_path<'n>(&'n self, name: &'n [u8]) -> Option<(&'n Path, &'n [u8])> {
        let mut all = self.0.iter();
        all.find_map(|alias| Some((&*alias.path, alias.place.find(name)?)))
    }

    /// Whether a name of the site is that of a file with an alias of its own.
    pub(crate) fn has_file(&self, name: &[u8]) -> bool {
        let mut places = self.0.iter().map(|alias| &alias.place);
        places.any(|place| place.file.is_some() && place.name == name)
    }

    /// Returns the descriptor of the directory that has a name of the site, and the name below it, if that is not the
    /// root.
    pub(super) fn place<'n>(&'n self, name: &'n [u8]) -> Option<(&'n OwnedFd, &'n [u8])> {
        let mut all = self.0.iter();
        all.find_map(|alias| Some((&alias.descriptor, alias.place.find(name)?)))
    }

    /// Returns a worker's copies of the descriptors.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub(super) fn descriptors(&self) -> io::Result<AliasDescriptors> {
        let all = self.0.iter().map(|alias| {
            let descriptor = Descriptor::from(alias.descriptor.try_clone()?);
            Ok((alias.place.clone(), descriptor))
        });
        all.collect::<io::Result<_>>().map(AliasDescriptors)
    }
}

/// The directories in one worker, in the same order.
pub(super) struct AliasDescriptors(Vec<(Place, Descriptor)>);

impl AliasDescriptors {
    /// Returns the directory that has a name of the site, and the name below it, if that is not the root.
    pub(super) fn find<'n>(&'n self, name: &'n [u8]) -> Option<(&'n Descriptor, &'n [u8])> {
        let mut all = self.0.iter();
        all.find_map(|(place, descriptor)| Some((descriptor, place.find(name)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_path_counts() {
        let alias = |path: &str, directory: &str| format!("{path}={directory}").parse().unwrap();
        let aliases = [
            alias("/a", "/proc"),
            alias("/a/b/", "/sys"),
            alias("/c", "/"),
        ];
        let aliases = Aliases::open(&aliases).unwrap();
        let find = |name: &'static str| {
            let (path, rest) = aliases.file_path(name.as_bytes())?;
            Some((path.to_str().unwrap(), std::str::from_utf8(rest).unwrap()))
        };
        assert_eq!(find("a"), Some(("/proc", "")));
        assert_eq!(find("a/self"), Some(("/proc", "self")));
        assert_eq!(find("a/b"), Some(("/sys", "")));
        assert_eq!(find("a/b/c"), Some(("/sys", "c")));
        assert_eq!(find("a/bc"), Some(("/proc", "bc")));
        assert_eq!(find("c/etc"), Some(("/", "etc")));
        for name in ["", "ab", "b", "A"] {
            assert_eq!(find(name), None, "{name}");
        }
    }

    #[test]
    fn a_file_has_one_name() {
        let alias = |text: &str| text.parse().unwrap();
        let aliases = [alias("/x/icon=/proc/self/status"), alias("/x=/sys")];
        let aliases = Aliases::open(&aliases).unwrap();
        let path = |name: &'static str| aliases.file_path(name.as_bytes()).unwrap();
        assert_eq!(path("x/icon"), (Path::new("/proc/self"), &b"status"[..]));
        assert_eq!(path("x/icon/y"), (Path::new("/sys"), &b"icon/y"[..]));
        assert_eq!(path("x/icons"), (Path::new("/sys"), &b"icons"[..]));
        assert!(aliases.has_file(b"x/icon") && !aliases.has_file(b"x"));
    }

    #[test]
    fn mistakes_are_named() {
        for bad in [
            "",
            "static=/srv",
            "/=/srv",
            "/a//b=/srv",
            "/a/../b=/srv",
            "/.=/srv",
            "/a",
            "/a=",
        ] {
            assert!(bad.parse::<Alias>().is_err(), "{bad}");
        }
        let error = |text: &[&str]| {
            let aliases: Vec<Alias> = text.iter().map(|it| it.parse().unwrap()).collect();
            Aliases::open(&aliases).unwrap_err().to_string()
        };
        assert!(error(&["/a=/dev/null"]).contains("cannot serve /dev/null as /a"));
        assert!(error(&["/a=/proc", "/a/=/sys"]).contains("two targets for /a"));
        let many: Vec<String> = (0..=Limits::ALIASES).map(|n| format!("/{n}=/")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(error(&many).contains("at most"));
    }
}
