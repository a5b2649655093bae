//! A scratch directory and a faulty FUSE file system, between which a program copies.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use laio_testing::{FaultFs, Skip};
use libtest_mimic::{Completion, Trial};

use crate::Verdict;
use crate::case::case;
use crate::compare::{fresh, skipped};
use crate::programs::Side;
use crate::run;
use crate::world::World;

/// The directories of a trial.
pub(crate) struct FaultyFixture {
    pub(crate) fs: FaultFs,
    pub(crate) world: World,
    side: Side,
}

impl FaultyFixture {
    pub(crate) fn make(side: Side, lines: &str) -> Result<FaultyFixture, Skip> {
        let fs = FaultFs::mount()?;
        let world = World::make(&fresh(side), lines, false)?;
        Ok(FaultyFixture { fs, world, side })
    }

    /// A path in the scratch directory.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.world.root.join(name)
    }

    /// Starts cp; `FS/` in the arguments is the file system.
    pub(crate) fn start(&self, arguments: &str) -> Child {
        run::start(&mut self.command(arguments), b"")
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let fs = self.fs.path().to_str().expect("a temporary name is text");
        let line = arguments.replace("FS/", &format!("{fs}/"));
        run::command(&case("", "", line), self.side, &self.world.root)
    }

    /// Replaces the path of the file system, which differs between runs, in a text.
    pub(crate) fn without_name(&self, text: &[u8]) -> Vec<u8> {
        let fs = self.fs.path().to_str().expect("a temporary name is text");
        String::from_utf8_lossy(text).replace(fs, "FS").into_bytes()
    }
}

/// A trial that asserts; it is skipped if this machine cannot run it.
pub(crate) fn trial(name: &str, body: impl FnOnce() -> Result<(), Skip> + Send + 'static) -> Trial {
    let test = name.to_owned();
    let verdict = move || -> Verdict {
        match body() {
            Ok(()) => Ok(Completion::Completed),
            Err(skip) => skipped(&test, &skip),
        }
    };
    Trial::ignorable_test(name, verdict)
}

/// The names in a directory; none if it does not exist.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        entry
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    };
    let mut names: Vec<String> = entries.map(name).collect();
    names.sort();
    names
}
