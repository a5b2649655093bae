//! The two programs, both called as `cp`, and the scratch directory.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use laio_testing::Skip;
use tempfile::TempDir;

/// One of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Gnu,
    Ours,
}

/// The UID of the ordinary user if root runs the tests. No user has it.
pub(crate) const USER: u32 = 54_321;

static SCRATCH: OnceLock<PathBuf> = OnceLock::new();
static GNU: OnceLock<Result<(), Skip>> = OnceLock::new();
static REACHED: OnceLock<Result<(), Skip>> = OnceLock::new();

#[derive(Debug)]
pub(crate) struct Programs(TempDir);

impl Programs {
    /// Creates the scratch directory, with a directory for each program in which it is called `cp`.
    pub(crate) fn find() -> Programs {
        let scratch = laio_testing::temp::scratch();
        let everybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(scratch.path(), everybody).expect("one's own directory");
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        let ours = variable("LAIO_TEST_CP").unwrap_or(env!("CARGO_BIN_EXE_laio").into());
        let gnu = variable("LAIO_TEST_GNU_CP").unwrap_or("/bin/cp".into());
        for (side, program) in [(Side::Gnu, gnu), (Side::Ours, ours)] {
            let directory = scratch.path().join(side.directory());
            std::fs::create_dir(&directory).expect("a directory");
            symlink(program, directory.join("cp")).expect("a symbolic link");
        }
        SCRATCH.get_or_init(|| scratch.path().to_owned());
        Programs(scratch)
    }

    /// Removes the scratch directory, including leftovers of failed scenarios.
    pub(crate) fn tidy(self) {
        drop(self.0);
    }
}

impl Side {
    pub(crate) const BOTH: [Side; 2] = [Side::Gnu, Side::Ours];

    fn directory(self) -> &'static str {
        match self {
            Side::Gnu => "gnu",
            Side::Ours => "ours",
        }
    }

    /// The directory in which this program is called `cp`.
    pub(crate) fn path(self) -> PathBuf {
        scratch().join(self.directory())
    }
}

pub(crate) fn scratch() -> &'static Path {
    SCRATCH.get().expect("main has made it")
}

/// Whether GNU cp is installed, in a version with the compared messages.
pub(crate) fn gnu() -> Result<(), Skip> {
    let look = || {
        let version = Command::new(Side::Gnu.path().join("cp"))
            .arg("--version")
            .output()
            .map_err(|e| Skip::because("gnu-cp", format!("GNU cp: {e}")))?;
        let text = String::from_utf8_lossy(&version.stdout).into_owned();
        let first = text.lines().next().unwrap_or_default();
        let number = first.strip_prefix("cp (GNU coreutils) ");
        let major = number.and_then(|n| n.split('.').next()?.parse().ok());
        match major {
            Some(9u32..) => Ok(()),
            _ => Err(Skip::because(
                "gnu-cp",
                format!("GNU cp 9 is needed to compare with, this is: {first}"),
            )),
        }
    };
    GNU.get_or_init(look).clone()
}

/// Whether the ordinary user can reach the scratch directory and the programs.
pub(crate) fn reached_by_user() -> Result<(), Skip> {
    let try_it = || {
        for side in Side::BOTH {
            let program = side.path().join("cp");
            let mut command = Command::new(&program);
            crate::run::as_user(&mut command);
            command.arg("--version").current_dir("/");
            let run = command.output();
            run.map_err(|e| {
                Skip::because("user", format!(
                    "an ordinary user cannot run {}: {e}; CARGO_TARGET_DIR can say where it is built",
                    program.display()
                ))
            })?;
        }
        Ok(())
    };
    REACHED.get_or_init(try_it).clone()
}
