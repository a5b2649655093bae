//! The directories of a site besides its root: the paths below a prefix are served from another directory.

use crate::options::{Alias, Limits};
use laio_rt::Descriptor;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The opened directories of a site, those with the longest paths first.
#[derive(Debug, Default)]
pub(crate) struct Aliases(Vec<AliasDirectory>);

#[derive(Debug)]
struct AliasDirectory {
    /// The path without slashes around it.
    name: Vec<u8>,
    path: PathBuf,
    descriptor: OwnedFd,
}

impl Aliases {
    /// Opens the directories.
    ///
    /// # Errors
    /// Names a directory that cannot be opened, a path that occurs twice, or the limit on their number.
    pub(crate) fn open(aliases: &[Alias]) -> io::Result<Aliases> {
        if aliases.len() > Limits::ALIASES {
            let text = format!("a site can have at most {} --alias", Limits::ALIASES);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut all = Vec::<AliasDirectory>::new();
        for alias in aliases {
            let name = alias.path.as_bytes().to_vec();
            if all.iter().any(|other| other.name == name) {
                let text = format!("--alias has two directories for /{}", alias.path);
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::open(&alias.directory, flags, Mode::empty());
            let descriptor = opened.map_err(|errno| {
                let error = io::Error::from(errno);
                let directory = alias.directory.display();
                let text = format!("cannot serve {directory} as /{}: {error}", alias.path);
                io::Error::new(error.kind(), text)
            })?;
            let path = std::path::absolute(&alias.directory)?;
            all.push(AliasDirectory {
                name,
                path,
                descriptor,
            });
        }
        all.sort_by_key(|alias| std::cmp::Reverse(alias.name.len()));
        Ok(Aliases(all))
    }

    /// Returns the path of the directory that has a name of the site, and the name below it, if that is not the root.
    pub(crate) fn file_path<'n>(&self, name: &'n [u8]) -> Option<(&Path, &'n [u8])> {
        let mut all = self.0.iter();
        all.find_map(|alias| Some((&*alias.path, below(&alias.name, name)?)))
    }

    /// Returns a worker's copies of the descriptors.
    ///
    /// # Errors
    /// When no descriptors are left.
    pub(super) fn descriptors(&self) -> io::Result<AliasDescriptors> {
        let all = self.0.iter().map(|alias| {
            let descriptor = Descriptor::from(alias.descriptor.try_clone()?);
            Ok((alias.name.clone(), descriptor))
        });
        all.collect::<io::Result<_>>().map(AliasDescriptors)
    }
}

/// The directories in one worker, in the same order.
pub(super) struct AliasDescriptors(Vec<(Vec<u8>, Descriptor)>);

impl AliasDescriptors {
    /// Returns the directory that has a name of the site, and the name below it, if that is not the root.
    pub(super) fn find<'n>(&self, name: &'n [u8]) -> Option<(&Descriptor, &'n [u8])> {
        let mut all = self.0.iter();
        all.find_map(|(prefix, descriptor)| Some((descriptor, below(prefix, name)?)))
    }
}

/// Returns the rest of a name behind a prefix of whole names.
fn below<'n>(prefix: &[u8], name: &'n [u8]) -> Option<&'n [u8]> {
    match name.strip_prefix(prefix)? {
        [] => Some(&[]),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
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
        assert!(error(&["/a=/absent"]).contains("cannot serve /absent as /a"));
        assert!(error(&["/a=/proc", "/a/=/sys"]).contains("two directories for /a"));
        let many: Vec<String> = (0..=Limits::ALIASES).map(|n| format!("/{n}=/")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(error(&many).contains("at most"));
    }
}
