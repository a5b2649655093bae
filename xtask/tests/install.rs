//! Installs and removes files, with small files instead of the libraries.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use xtask::advice::usage;
use xtask::install::{Directories, Parts, install, uninstall};
use xtask::library::{Library, file_name, soname};
use xtask::program::Program;

struct Scratch {
    directory: TempDir,
    library: Library,
}

impl Scratch {
    fn new() -> Scratch {
        let directory = tempfile::tempdir().expect("a directory");
        let (shared, archive) = (directory.path().join("so"), directory.path().join("a"));
        fs::write(&shared, "shared").expect("a file");
        fs::write(&archive, "archive").expect("a file");
        let needed = ["-lgcc_s", "-lm", "-lc"].map(str::to_owned).to_vec();
        Scratch {
            library: Library {
                shared: Some(shared),
                archive: Some(archive),
                needed,
            },
            directory,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Returns all paths below a directory.
fn below(directory: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("a type").is_dir() {
            all.extend(below(&entry.path()));
        }
        all.insert(entry.path());
    }
    all
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

#[test]
fn each_thing_is_in_its_place() {
    let scratch = Scratch::new();
    let directories = Directories::below(scratch.path("prefix"));
    let files = install(&scratch.library, &directories).expect("an installation");
    let lib = scratch.path("prefix/lib");
    assert_eq!(
        fs::read_to_string(lib.join("liblaio.so")).expect("a link"),
        "shared"
    );
    assert_eq!(
        fs::read_link(lib.join("liblaio.so")).expect("a link"),
        Path::new(&soname())
    );
    assert_eq!(
        fs::read_link(lib.join(soname())).expect("a link"),
        Path::new(&file_name())
    );
    assert_eq!(mode(&lib.join(file_name())), 0o755);
    assert_eq!(mode(&lib.join("liblaio.a")), 0o644);
    assert_eq!(mode(&lib), 0o755);
    for name in [
        "include/laio.h",
        "include/laio.hpp",
        "include/laio/task.hpp",
        "include/laio/uv.h",
        "share/man/man3/laio_poll.3",
        "share/man/man7/laio.7",
        "share/doc/laio/LICENSE-MIT",
    ] {
        let path = scratch.path("prefix").join(name);
        assert_eq!(mode(&path), 0o644);
        assert!(files.contains(&path));
    }
    let package = fs::read_to_string(lib.join("pkgconfig/laio.pc")).expect("laio.pc");
    assert!(package.starts_with(&format!("prefix={}\n", scratch.path("prefix").display())));
    assert!(package.contains("\nlibdir=${prefix}/lib\n"), "{package}");
    assert!(package.contains("\nLibs.private: -lm -lc\n"), "{package}");
    let is_hidden = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with('.')
    };
    let all = below(&scratch.path("prefix"));
    assert_eq!(all.iter().find(is_hidden), None, "an unfinished file");
}

#[test]
fn the_command_comes_with_its_page_and_completions() {
    let scratch = Scratch::new();
    let binaries = ["laio", "laio-cp"].map(|name| {
        let binary = scratch.path(name);
        fs::write(&binary, format!("command {name}")).expect("a file");
        binary
    });
    let program = Program {
        binaries: binaries.into(),
        completions: vec![("bash-completion/completions/laio", "complete".to_owned())],
    };
    let parts = Parts {
        library: None,
        program: Some(&program),
    };
    let staging = scratch.path("staging");
    let directories = Directories {
        destdir: Some(staging.clone()),
        bindir: PathBuf::from("/usr/sbin"),
        ..Directories::below("/usr")
    };
    let files = install(parts, &directories).expect("an installation");
    let text = |name: &str| fs::read_to_string(staging.join(name)).expect("a file");
    for name in ["laio", "laio-cp"] {
        let path = format!("usr/sbin/{name}");
        assert_eq!(text(&path), format!("command {name}"));
        assert_eq!(mode(&staging.join(&path)), 0o755);
    }
    assert_eq!(
        text("usr/share/bash-completion/completions/laio"),
        "complete"
    );
    assert!(text("usr/share/man/man1/laio.1").contains(".Nm laio"));
    let installed = |name: &str| files.contains(&PathBuf::from(name));
    assert!(installed("/usr/share/man/man1/laio.1"), "{files:?}");
    assert!(!installed("/usr/include/laio.h"), "{files:?}");
    // Two parts, installed one after the other, are one installation.
    install(&scratch.library, &directories).expect("an installation");
    let files = uninstall(&directories).expect("a removal");
    assert!(
        files.contains(&PathBuf::from("/usr/sbin/laio")),
        "{files:?}"
    );
    assert_eq!(below(&staging), BTreeSet::new());
}

#[test]
fn what_was_there_before_stays() {
    let scratch = Scratch::new();
    let prefix = scratch.path("prefix");
    fs::create_dir_all(prefix.join("include")).expect("a directory");
    fs::create_dir_all(prefix.join("lib/other")).expect("a directory");
    fs::write(prefix.join("lib/other/file"), "").expect("a file");
    let before = below(&prefix);
    let directories = Directories::below(&prefix);
    install(&scratch.library, &directories).expect("an installation");
    // A second, smaller installation keeps the files of the first in the list.
    let less = Library {
        shared: None,
        archive: scratch.library.archive.clone(),
        needed: Vec::new(),
    };
    install(&less, &directories).expect("an installation");
    uninstall(&directories).expect("a removal");
    assert_eq!(below(&prefix), before);
    let failure = uninstall(&directories)
        .expect_err("nothing is there")
        .to_string();
    assert!(
        failure.contains("share/doc/laio/installed-files"),
        "{failure}"
    );
}

#[test]
fn a_package_does_not_tell_where_it_was_made() {
    let scratch = Scratch::new();
    let staging = scratch.path("staging");
    let directories = Directories {
        destdir: Some(staging.clone()),
        libdir: PathBuf::from("/elsewhere/lib64"),
        ..Directories::below("/usr")
    };
    install(&scratch.library, &directories).expect("an installation");
    let staged = below(&staging);
    for name in ["usr/include/laio.h", "elsewhere/lib64/liblaio.a"] {
        assert!(staged.contains(&staging.join(name)), "{staged:?}");
    }
    for path in staged.iter().filter(|path| path.is_file()) {
        let text = fs::read(path).expect("a file");
        assert!(!String::from_utf8_lossy(&text).contains(&*staging.to_string_lossy()));
    }
    let package = staging.join("elsewhere/lib64/pkgconfig/laio.pc");
    let package = fs::read_to_string(package).expect("laio.pc");
    assert!(package.contains("\nlibdir=/elsewhere/lib64\n"), "{package}");
    uninstall(&directories).expect("a removal");
    assert_eq!(below(&staging), BTreeSet::new());
}

#[test]
fn a_failure_names_the_file_and_leaves_a_good_one() {
    let scratch = Scratch::new();
    let prefix = scratch.path("prefix");
    let directories = Directories::below(&prefix);
    install(&scratch.library, &directories).expect("an installation");
    fs::remove_file(scratch.path("so")).expect("a file");
    let failure = install(&scratch.library, &directories)
        .expect_err("the library is gone")
        .to_string();
    assert!(
        failure.contains(&*scratch.path("so").to_string_lossy()),
        "{failure}"
    );
    let shared = prefix.join("lib").join(file_name());
    assert_eq!(fs::read_to_string(shared).expect("the old file"), "shared");
    // A partial installation can be removed.
    uninstall(&directories).expect("a removal");
    assert!(!prefix.exists());

    fs::write(&prefix, "no directory").expect("a file");
    let failure = install(&scratch.library, &directories)
        .expect_err("no directory")
        .to_string();
    assert!(failure.contains(&*prefix.to_string_lossy()), "{failure}");
}

#[test]
fn the_usage_fits_the_place() {
    let scratch = Scratch::new();
    let home = Directories::below("/home/me/.local");
    let text = usage(&home, &scratch.library);
    assert!(
        text.contains("export LD_LIBRARY_PATH=/home/me/.local/lib\n"),
        "{text}"
    );
    assert!(text.contains("  cc program.c "), "{text}");
    let system = usage(&Directories::below("/usr/local"), &scratch.library);
    assert!(system.contains("ldconfig"), "{system}");
}
