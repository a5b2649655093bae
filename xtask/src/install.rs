//! What goes where; putting it there and taking it away.
//!
//! An installation leaves a list of its files, and of the directories that it had to make, among its
//! documents. So it can be removed without a trace by any later version of this program.

use crate::files::{failure, replace};
use crate::library::{Library, file_name, soname};
use crate::program::{NAMES, Program};
use crate::{Failure, VERSION, capi, root};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Where things go: absolute paths, as programs will see them.
#[derive(Clone, Debug)]
pub struct Place {
    /// What is put before each path while installing, for those who make packages.
    pub destdir: Option<PathBuf>,
    /// What the others are below, usually.
    pub prefix: PathBuf,
    /// For the command.
    pub bindir: PathBuf,
    /// For the header.
    pub includedir: PathBuf,
    /// For the libraries; below it `pkgconfig`.
    pub libdir: PathBuf,
    /// For completions; each shell has its directory below it.
    pub datadir: PathBuf,
    /// For the manual pages.
    pub mandir: PathBuf,
    /// For documents.
    pub docdir: PathBuf,
}

impl Place {
    /// The usual directories below `prefix`.
    pub fn below(prefix: impl Into<PathBuf>) -> Place {
        let prefix = prefix.into();
        Place {
            destdir: None,
            bindir: prefix.join("bin"),
            includedir: prefix.join("include"),
            libdir: prefix.join("lib"),
            datadir: prefix.join("share"),
            mandir: prefix.join("share/man"),
            docdir: prefix.join("share/doc/laio"),
            prefix,
        }
    }

    /// The path where a file is while installing.
    fn staged(&self, path: &Path) -> PathBuf {
        match &self.destdir {
            Some(destdir) => destdir.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        }
    }

    fn list(&self) -> PathBuf {
        self.docdir.join("installed-files")
    }
}

/// A file to install.
struct Entry {
    path: PathBuf,
    content: Content,
}

enum Content {
    Copy(PathBuf),
    Program(PathBuf),
    Text(String),
    Link(String),
}

/// What is to be installed.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The C library, its header and manual pages.
    pub library: Option<&'a Library>,
    /// The command, its manual page and completions.
    pub program: Option<&'a Program>,
}

impl<'a> From<&'a Library> for Parts<'a> {
    fn from(library: &'a Library) -> Parts<'a> {
        Parts {
            library: Some(library),
            program: None,
        }
    }
}

/// Installs; returns the files, as programs will see them.
///
/// # Errors
/// A file cannot be read or written. Each file is then complete or as it was before, and [`uninstall`]
/// finds them all.
pub fn install<'a>(parts: impl Into<Parts<'a>>, place: &Place) -> Result<Vec<PathBuf>, Failure> {
    let entries = entries(parts.into(), place)?;
    let list_path = place.list();
    let files = entries.iter().map(|entry| &entry.path);
    let files: BTreeSet<PathBuf> = files.chain([&list_path]).cloned().collect();
    let missing: BTreeSet<PathBuf> = files
        .iter()
        .flat_map(|file| file.ancestors().skip(1))
        .filter(|directory| !place.staged(directory).exists())
        .map(Path::to_owned)
        .collect();

    // Sorted: what is in a directory comes after it.
    for directory in &missing {
        make_directory(&place.staged(directory))?;
    }
    let mut list = List::read(&place.staged(&list_path))?.unwrap_or_default();
    list.files.extend(files);
    if place.destdir.is_none() {
        list.directories.extend(missing);
    }
    // The list first, so that an installation that fails can be removed.
    list.write(&place.staged(&list_path))?;
    for entry in &entries {
        let path = place.staged(&entry.path);
        replace(&path, |beside| put(&entry.content, beside))?;
    }
    Ok(entries.into_iter().map(|entry| entry.path).collect())
}

/// Takes away what [`install`] put there; returns the files.
///
/// # Errors
/// There is no installation, or a file cannot be removed.
pub fn uninstall(place: &Place) -> Result<Vec<PathBuf>, Failure> {
    let list_path = place.list();
    let staged_list = place.staged(&list_path);
    let Some(mut list) = List::read(&staged_list)? else {
        let missing = staged_list.display();
        return Err(format!(
            "laio is not installed there: there is no {missing}\n\
             Give the options that `cargo xtask install` was given"
        )
        .into());
    };
    // The list last, so that what fails can be repeated.
    list.files.remove(&list_path);
    for file in &list.files {
        take_away(&place.staged(file), |path| fs::remove_file(path))?;
    }
    take_away(&staged_list, |path| fs::remove_file(path))?;
    if place.destdir.is_some() {
        // Whoever made the directories: a package's staging area needs none that is empty.
        let above = list.files.iter().flat_map(|file| file.ancestors().skip(1));
        let above = above.chain(list_path.ancestors().skip(1));
        let above = above.filter(|directory| directory.parent().is_some());
        list.directories = above.map(Path::to_owned).collect();
    }
    for directory in list.directories.iter().rev() {
        take_away(&place.staged(directory), |path| fs::remove_dir(path))?;
    }
    Ok(list.files.into_iter().collect())
}

fn make_directory(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path)
        // Whatever the umask is: a library is for all users.
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o755)))
        .map_err(|error| failure("make", path, &error))
}

fn put(content: &Content, path: &Path) -> Result<(), Failure> {
    let read = |path: &Path| fs::read(path).map_err(|error| failure("read", path, &error));
    let write = |bytes: &[u8], mode| {
        fs::write(path, bytes)
            .and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode)))
            .map_err(|error| failure("write", path, &error))
    };
    match content {
        Content::Copy(from) => write(&read(from)?, 0o644),
        Content::Program(from) => write(&read(from)?, 0o755),
        Content::Text(text) => write(text.as_bytes(), 0o644),
        Content::Link(to) => symlink(to, path).map_err(|error| failure("make", path, &error)),
    }
}

/// Removes something, if it is there and, being a directory, empty.
fn take_away(
    path: &Path,
    remove: impl FnOnce(&Path) -> std::io::Result<()>,
) -> Result<(), Failure> {
    match remove(path) {
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty | ErrorKind::ResourceBusy => Ok(()),
            _ => Err(failure("remove", path, &error)),
        },
        Ok(()) => Ok(()),
    }
}

/// What an installation has made, as programs see it.
#[derive(Default)]
struct List {
    files: BTreeSet<PathBuf>,
    directories: BTreeSet<PathBuf>,
}

impl List {
    /// The list in a file, if there is one: a path in each line, those of directories with a slash at the end.
    fn read(path: &Path) -> Result<Option<List>, Failure> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failure("read", path, &error)),
        };
        let mut list = List::default();
        for line in text.lines() {
            match line.strip_suffix('/') {
                Some(directory) => list.directories.insert(PathBuf::from(directory)),
                None => list.files.insert(PathBuf::from(line)),
            };
        }
        Ok(Some(list))
    }

    fn write(&self, path: &Path) -> Result<(), Failure> {
        let mut text = String::new();
        for file in &self.files {
            text += &format!("{}\n", file.display());
        }
        for directory in &self.directories {
            text += &format!("{}/\n", directory.display());
        }
        replace(path, |beside| put(&Content::Text(text), beside))
    }
}

fn entries(parts: Parts<'_>, place: &Place) -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    if let Some(program) = parts.program {
        add_program(&mut entries, program, place)?;
    }
    if let Some(library) = parts.library {
        add_library(&mut entries, library, place)?;
    }
    for document in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        entries.push(Entry {
            path: place.docdir.join(document),
            content: Content::Copy(root().join(document)),
        });
    }
    Ok(entries)
}

fn add_program(entries: &mut Vec<Entry>, program: &Program, place: &Place) -> Result<(), Failure> {
    for (name, binary) in NAMES.iter().zip(&program.binaries) {
        entries.push(Entry {
            path: place.bindir.join(name),
            content: Content::Program(binary.clone()),
        });
    }
    for (path, text) in &program.completions {
        entries.push(Entry {
            path: place.datadir.join(path),
            content: Content::Text(text.clone()),
        });
    }
    add_pages(entries, &root().join("man"), '1', place)
}

fn add_library(entries: &mut Vec<Entry>, library: &Library, place: &Place) -> Result<(), Failure> {
    let mut add = |directory: &Path, name: &str, content| {
        let path = directory.join(name);
        entries.push(Entry { path, content });
    };
    let header = capi().join("include/laio.h");
    add(&place.includedir, "laio.h", Content::Copy(header));
    if let Some(shared) = &library.shared {
        add(
            &place.libdir,
            &file_name(),
            Content::Program(shared.clone()),
        );
        add(&place.libdir, &soname(), Content::Link(file_name()));
        add(&place.libdir, "liblaio.so", Content::Link(soname()));
    }
    if let Some(archive) = &library.archive {
        add(&place.libdir, "liblaio.a", Content::Copy(archive.clone()));
    }
    let package = Content::Text(pkg_config(library, place)?);
    add(&place.libdir.join("pkgconfig"), "laio.pc", package);
    for section in ['3', '7'] {
        let directory = root().join(format!("man/man{section}"));
        add_pages(entries, &directory, section, place)?;
    }
    Ok(())
}

/// The manual pages of a section.
fn add_pages(
    entries: &mut Vec<Entry>,
    from: &Path,
    section: char,
    place: &Place,
) -> Result<(), Failure> {
    let cannot = |error| failure("read", from, &error);
    let mut pages = Vec::new();
    for entry in fs::read_dir(from).map_err(cannot)? {
        let page = entry.map_err(cannot)?.path();
        if page
            .extension()
            .is_some_and(|it| *it == *section.to_string())
        {
            pages.push(page);
        }
    }
    pages.sort();
    let directory = place.mandir.join(format!("man{section}"));
    entries.extend(pages.into_iter().map(|page| Entry {
        path: directory.join(page.file_name().unwrap_or_default()),
        content: Content::Copy(page),
    }));
    Ok(())
}

/// `laio.pc`.
fn pkg_config(library: &Library, place: &Place) -> Result<String, Failure> {
    let path = capi().join("laio.pc.in");
    let template = fs::read_to_string(&path).map_err(|error| failure("read", &path, &error))?;
    // Below the prefix relative to it, so that `pkg-config --define-prefix` works.
    let below = |directory: &Path| match directory.strip_prefix(&place.prefix) {
        Ok(rest) => format!("${{prefix}}/{}", rest.display()),
        Err(_) => directory.display().to_string(),
    };
    Ok(template
        .replace("@PREFIX@", &place.prefix.display().to_string())
        .replace("@INCLUDEDIR@", &below(&place.includedir))
        .replace("@LIBDIR@", &below(&place.libdir))
        .replace("@VERSION@", VERSION)
        .replace("@LIBS_PRIVATE@", &library.private().join(" ")))
}
