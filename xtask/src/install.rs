//! Installs files, and removes them.
//!
//! An installation writes a list of its files, and of the directories that it created, to its documents
//! directory. With it any later version of this program can remove the installation completely.

use crate::files::{failure, replace};
use crate::library::{Library, file_name, soname};
use crate::program::{NAMES, Program};
use crate::repository::{Failure, VERSION, capi, root};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The installation directories: absolute paths, as programs will see them.
#[derive(Clone, Debug)]
pub struct Directories {
    /// The staging directory that is prepended to each path while installing, for making packages.
    pub destdir: Option<PathBuf>,
    /// The default parent of the others.
    pub prefix: PathBuf,
    /// The directory of the command.
    pub bindir: PathBuf,
    /// The directory of the header.
    pub includedir: PathBuf,
    /// The directory of the libraries, with `pkgconfig` below it.
    pub libdir: PathBuf,
    /// The directory of completions, with a directory for each shell below it.
    pub datadir: PathBuf,
    /// The directory of the manual pages.
    pub mandir: PathBuf,
    /// The directory of documents.
    pub docdir: PathBuf,
}

impl Directories {
    /// Returns the usual directories below `prefix`.
    pub fn below(prefix: impl Into<PathBuf>) -> Directories {
        let prefix = prefix.into();
        Directories {
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

    /// Returns the path of a file while installing.
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

/// The parts to install.
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

/// Installs the parts; returns the files, as programs will see them.
///
/// # Errors
/// If a file cannot be read or written. Each file is then complete or unchanged, and [`uninstall`] finds them
/// all.
pub fn install<'a>(
    parts: impl Into<Parts<'a>>,
    directories: &Directories,
) -> Result<Vec<PathBuf>, Failure> {
    let entries = entries(parts.into(), directories)?;
    let list_path = directories.list();
    let files = entries.iter().map(|entry| &entry.path);
    let files: BTreeSet<PathBuf> = files.chain([&list_path]).cloned().collect();
    let missing: BTreeSet<PathBuf> = files
        .iter()
        .flat_map(|file| file.ancestors().skip(1))
        .filter(|directory| !directories.staged(directory).exists())
        .map(Path::to_owned)
        .collect();

    // Sorted, so that a directory precedes its contents.
    for directory in &missing {
        make_directory(&directories.staged(directory))?;
    }
    let mut list = List::read(&directories.staged(&list_path))?.unwrap_or_default();
    list.files.extend(files);
    if directories.destdir.is_none() {
        list.directories.extend(missing);
    }
    // The list comes first, so that a failed installation can be removed.
    list.write(&directories.staged(&list_path))?;
    for entry in &entries {
        let path = directories.staged(&entry.path);
        replace(&path, |temporary| put(&entry.content, temporary))?;
    }
    Ok(entries.into_iter().map(|entry| entry.path).collect())
}

/// Removes the files of [`install`]; returns them.
///
/// # Errors
/// If there is no installation, or a file cannot be removed.
pub fn uninstall(directories: &Directories) -> Result<Vec<PathBuf>, Failure> {
    let list_path = directories.list();
    let staged_list = directories.staged(&list_path);
    let Some(mut list) = List::read(&staged_list)? else {
        let missing = staged_list.display();
        return Err(format!(
            "laio is not installed there: there is no {missing}\n\
             Give the options that `cargo xtask install` was given"
        )
        .into());
    };
    // The list goes last, so that a failed removal can be repeated.
    list.files.remove(&list_path);
    for file in &list.files {
        take_away(&directories.staged(file), |path| fs::remove_file(path))?;
    }
    take_away(&staged_list, |path| fs::remove_file(path))?;
    if directories.destdir.is_some() {
        // Also a directory that existed before: an empty one in a staging area is of no use.
        let above = list.files.iter().flat_map(|file| file.ancestors().skip(1));
        let above = above.chain(list_path.ancestors().skip(1));
        let above = above.filter(|directory| directory.parent().is_some());
        list.directories = above.map(Path::to_owned).collect();
    }
    for directory in list.directories.iter().rev() {
        take_away(&directories.staged(directory), |path| fs::remove_dir(path))?;
    }
    Ok(list.files.into_iter().collect())
}

fn make_directory(path: &Path) -> Result<(), Failure> {
    fs::create_dir_all(path)
        // Independent of the umask, because a library is for all users.
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

/// Removes a file, or an empty directory, if it exists.
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

/// The files and directories of an installation, as programs see them.
#[derive(Default)]
struct List {
    files: BTreeSet<PathBuf>,
    directories: BTreeSet<PathBuf>,
}

impl List {
    /// Reads the list, if it exists: a path in each line, with a slash at the end for directories.
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
        replace(path, |temporary| put(&Content::Text(text), temporary))
    }
}

fn entries(parts: Parts<'_>, directories: &Directories) -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    if let Some(program) = parts.program {
        add_program(&mut entries, program, directories)?;
    }
    if let Some(library) = parts.library {
        add_library(&mut entries, library, directories)?;
    }
    for document in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        entries.push(Entry {
            path: directories.docdir.join(document),
            content: Content::Copy(root().join(document)),
        });
    }
    Ok(entries)
}

fn add_program(
    entries: &mut Vec<Entry>,
    program: &Program,
    directories: &Directories,
) -> Result<(), Failure> {
    for (name, binary) in NAMES.iter().zip(&program.binaries) {
        entries.push(Entry {
            path: directories.bindir.join(name),
            content: Content::Program(binary.clone()),
        });
    }
    for (path, text) in &program.completions {
        entries.push(Entry {
            path: directories.datadir.join(path),
            content: Content::Text(text.clone()),
        });
    }
    add_pages(entries, &root().join("man"), '1', directories)
}

fn add_library(
    entries: &mut Vec<Entry>,
    library: &Library,
    directories: &Directories,
) -> Result<(), Failure> {
    let mut add = |directory: &Path, name: &str, content| {
        let path = directory.join(name);
        entries.push(Entry { path, content });
    };
    for header in headers()? {
        let from = capi().join("include").join(&header);
        add(&directories.includedir, &header, Content::Copy(from));
    }
    if let Some(shared) = &library.shared {
        add(
            &directories.libdir,
            &file_name(),
            Content::Program(shared.clone()),
        );
        add(&directories.libdir, &soname(), Content::Link(file_name()));
        add(&directories.libdir, "liblaio.so", Content::Link(soname()));
    }
    if let Some(archive) = &library.archive {
        add(
            &directories.libdir,
            "liblaio.a",
            Content::Copy(archive.clone()),
        );
    }
    let package = Content::Text(pkg_config(library, directories)?);
    add(&directories.libdir.join("pkgconfig"), "laio.pc", package);
    for section in ['3', '7'] {
        let directory = root().join(format!("man/man{section}"));
        add_pages(entries, &directory, section, directories)?;
    }
    Ok(())
}

/// Returns the names of the headers: `laio.h`, `laio.hpp`, and those in `laio`.
fn headers() -> Result<Vec<String>, Failure> {
    let directory = capi().join("include/laio");
    let cannot = |error| failure("read", &directory, &error);
    let mut names = vec!["laio.h".to_owned(), "laio.hpp".to_owned()];
    for entry in fs::read_dir(&directory).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        names.push(format!("laio/{}", name.to_string_lossy()));
    }
    names.sort();
    Ok(names)
}

/// Returns the manual pages of a section.
fn add_pages(
    entries: &mut Vec<Entry>,
    from: &Path,
    section: char,
    directories: &Directories,
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
    let directory = directories.mandir.join(format!("man{section}"));
    entries.extend(pages.into_iter().map(|page| Entry {
        path: directory.join(page.file_name().unwrap_or_default()),
        content: Content::Copy(page),
    }));
    Ok(())
}

/// Returns the contents of `laio.pc`.
fn pkg_config(library: &Library, directories: &Directories) -> Result<String, Failure> {
    let path = capi().join("laio.pc.in");
    let template = fs::read_to_string(&path).map_err(|error| failure("read", &path, &error))?;
    // Paths below the prefix are relative to it, so that `pkg-config --define-prefix` works.
    let below = |directory: &Path| match directory.strip_prefix(&directories.prefix) {
        Ok(rest) => format!("${{prefix}}/{}", rest.display()),
        Err(_) => directory.display().to_string(),
    };
    Ok(template
        .replace("@PREFIX@", &directories.prefix.display().to_string())
        .replace("@INCLUDEDIR@", &below(&directories.includedir))
        .replace("@LIBDIR@", &below(&directories.libdir))
        .replace("@VERSION@", VERSION)
        .replace("@LIBS_PRIVATE@", &library.private().join(" ")))
}
