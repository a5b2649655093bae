//! The library as programs find it: built and installed, once with the shared library and once with the
//! archive, so that `-llaio` links the intended one.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use xtask::Failure;
use xtask::compile::Compiler;
use xtask::install::{Directories, install};
use xtask::library::{Kinds, Library, Target, build};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Shared,
    Archive,
}

/// Two installations in the target directory.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) compiler: Compiler,
    pub(crate) library: Library,
    root: PathBuf,
}

/// The installations that all tests of a program share, made on first use.
///
/// # Errors
/// The library cannot be built or installed.
pub(crate) fn tree() -> Result<&'static Tree, String> {
    static TREE: OnceLock<Result<Tree, Failure>> = OnceLock::new();
    let tree = TREE.get_or_init(Tree::make).as_ref();
    tree.map_err(|failure| failure.to_string())
}

/// The target of the library: that of this test program.
pub(crate) fn target() -> Result<Target, Failure> {
    let c_library = if cfg!(target_env = "musl") {
        "musl"
    } else {
        "gnu"
    };
    Target::of_programs(std::env::consts::ARCH, c_library)
}

impl Tree {
    fn make() -> Result<Tree, Failure> {
        let target = target()?;
        let kinds = Kinds {
            shared: target.can_be_shared(),
            archive: true,
        };
        let tree = Tree {
            compiler: target.compiler(kinds)?,
            library: build(&target, kinds, true)?,
            root: Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME")),
        };
        let shared = kinds.shared.then_some(Kind::Shared);
        for kind in shared.into_iter().chain([Kind::Archive]) {
            let directories = Directories::below(tree.prefix(kind));
            install(&tree.only(kind), &directories)?;
        }
        Ok(tree)
    }

    /// The installation with this kind of library.
    fn only(&self, kind: Kind) -> Library {
        let is_shared = kind == Kind::Shared;
        let Library {
            shared,
            archive,
            needed,
        } = &self.library;
        Library {
            shared: shared.clone().filter(|_| is_shared),
            archive: archive.clone().filter(|_| !is_shared),
            needed: needed.clone(),
        }
    }

    /// The directory of the installation.
    pub(crate) fn prefix(&self, kind: Kind) -> PathBuf {
        self.root.join(match kind {
            Kind::Shared => "shared",
            Kind::Archive => "archive",
        })
    }

    /// The directory of `liblaio.so`.
    pub(crate) fn libdir(&self) -> PathBuf {
        self.prefix(Kind::Shared).join("lib")
    }

    /// The directory of `laio.pc`.
    pub(crate) fn packages(&self, kind: Kind) -> PathBuf {
        self.prefix(kind).join("lib/pkgconfig")
    }
}
