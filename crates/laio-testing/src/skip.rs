//! Skips of tests: printed, recorded, and failures if they are not allowed.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::child_mark::test_of_child;
use crate::needs;

/// The name of the variable that turns every skip into a failure, except those of [`MAY_SKIP`].
///
/// A run that skips silently tests nothing. `.ci/run` sets both.
pub const NO_SKIP: &str = "LAIO_TEST_NO_SKIP";

/// The name of the variable that lists the needs for which a test may be skipped nevertheless, separated by
/// commas.
pub const MAY_SKIP: &str = "LAIO_TEST_MAY_SKIP";

/// The name of the variable that names a file, to which each skip appends a line: test, need and reason,
/// separated by tabs.
///
/// `cargo xtask skips FILE` shows a summary.
pub const SKIPS: &str = "LAIO_TEST_SKIPS";

/// The need of a skip that no machine can avoid: the test is not applicable in this combination.
pub const INAPPLICABLE: &str = "inapplicable";

/// The reason why a test cannot run on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    need: String,
    reason: String,
}

impl Skip {
    /// Returns a skip, with the name of the missing need (one of [`needs::NEEDS`]) and a reason that says
    /// what to change.
    ///
    /// # Panics
    ///
    /// If the need is not in the list: `.ci/lacks` would not look for it.
    #[track_caller]
    pub fn because(need: &str, reason: impl Into<String>) -> Skip {
        assert!(
            need == INAPPLICABLE || needs::find(need).is_some(),
            "`{need}` is not among the needs: add it to laio_testing::needs"
        );
        Skip {
            need: need.to_owned(),
            reason: reason.into(),
        }
    }

    /// Checks that the machine has a need (one of [`needs::NEEDS`]).
    ///
    /// # Errors
    ///
    /// The skip, if it does not.
    ///
    /// # Panics
    ///
    /// If the need is not in the list.
    pub fn unless_there(need: &str) -> Result<(), Skip> {
        let known = needs::find(need).unwrap_or_else(|| panic!("`{need}` is not among the needs"));
        if known.is_there() {
            Ok(())
        } else {
            Err(Skip::because(need, format!("without {}", known.what)))
        }
    }

    /// Returns a skip that no machine can avoid: the test is not applicable in this combination.
    pub fn inapplicable(reason: impl Into<String>) -> Skip {
        Skip::because(INAPPLICABLE, reason)
    }

    /// Returns the name of the missing need.
    pub fn need(&self) -> &str {
        &self.need
    }

    /// Returns the reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Appends the skip to the file that the environment names, if any.
    ///
    /// # Errors
    ///
    /// With the message for the failing test, if this skip is not allowed.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn record(&self, test: &str) -> Result<(), String> {
        self.record_in(&Settings::of_environment(), test)
    }

    fn record_in(&self, settings: &Settings, test: &str) -> Result<(), String> {
        if let Some(file) = &settings.file {
            self.append(test, file).unwrap_or_else(|error| {
                panic!("{SKIPS}: cannot add a line to {}: {error}", file.display())
            });
        }
        if settings.allow(&self.need) {
            return Ok(());
        }
        Err(format!(
            "skipped, which {NO_SKIP} forbids: {self}. {MAY_SKIP}={} allows it",
            self.need
        ))
    }

    fn append(&self, test: &str, file: &Path) -> io::Result<()> {
        let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
        let reason = self.reason.replace(['\n', '\t'], " ");
        let line = format!("{package} {test}\t{}\t{reason}\n", self.need);
        // In one write, because test programs and their children write to the same file.
        let mut file = File::options().append(true).create(true).open(file)?;
        file.write_all(line.as_bytes())
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reason, self.need)
    }
}

impl std::error::Error for Skip {}

/// Records that the running test, or a part of it, is skipped, and why; the caller then returns.
///
/// ```
/// # fn is_root() -> bool { true }
/// fn test() {
///     if !is_root() {
///         return laio_testing::skip("root", "only root can become another user");
///     }
///     // ...
/// }
/// # test();
/// ```
///
/// # Panics
///
/// If this skip is not allowed: see [`NO_SKIP`].
#[track_caller]
pub fn skip(need: &str, reason: impl Into<String>) {
    take(&Skip::because(need, reason));
}

/// Whether the machine lacks a need (one of [`needs::NEEDS`]). Records a skip if it does; the caller then
/// returns.
///
/// # Panics
///
/// If this skip is not allowed: see [`NO_SKIP`].
#[track_caller]
pub fn lacks(need: &str) -> bool {
    or_skip(Skip::unless_there(need)).is_none()
}

/// Unwraps a resource that a test needs, or skips and returns `None`.
///
/// ```
/// use laio_testing::{FaultFs, or_skip};
///
/// fn test() {
///     let Some(fs) = or_skip(FaultFs::mount()) else { return };
///     assert!(fs.path().is_dir());
/// }
/// # test();
/// ```
///
/// # Panics
///
/// If this skip is not allowed: see [`NO_SKIP`].
#[track_caller]
pub fn or_skip<T>(needed: Result<T, Skip>) -> Option<T> {
    needed.inspect_err(take).ok()
}

#[track_caller]
fn take(skip: &Skip) {
    println!("skipped: {skip}");
    if let Err(message) = skip.record(&running_test()) {
        panic!("{message}");
    }
}

/// Returns the name of the running test: the harness names the thread after it, and a child process gets it
/// from its parent.
fn running_test() -> String {
    let thread = std::thread::current().name().map(str::to_owned);
    let program = || {
        let path = std::env::current_exe().ok()?;
        Some(path.file_stem()?.to_string_lossy().into_owned())
    };
    test_of_child()
        .or(thread.filter(|name| name != "main"))
        .or_else(program)
        .unwrap_or_default()
}

/// The environment variables about skips.
struct Settings {
    strict: bool,
    allowed: String,
    file: Option<PathBuf>,
}

impl Settings {
    fn of_environment() -> Settings {
        let strict = std::env::var(NO_SKIP).unwrap_or_default();
        Settings {
            strict: !strict.is_empty() && strict != "0",
            allowed: std::env::var(MAY_SKIP).unwrap_or_default(),
            file: std::env::var_os(SKIPS).map(PathBuf::from),
        }
    }

    fn allow(&self, need: &str) -> bool {
        let mut allowed = self.allowed.split(',').map(str::trim);
        !self.strict || need == INAPPLICABLE || allowed.any(|named| named == need)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(strict: bool, allowed: &str) -> Settings {
        Settings {
            strict,
            allowed: allowed.to_owned(),
            file: None,
        }
    }

    #[test]
    fn a_value_passes_and_a_reason_is_kept() {
        assert_eq!(or_skip(Ok(7)), Some(7));
        let skip = Skip::because("fuse", "no such device");
        assert_eq!((skip.need(), skip.reason()), ("fuse", "no such device"));
        assert_eq!(skip.to_string(), "no such device (fuse)");
    }

    #[test]
    #[should_panic(expected = "`fuze` is not among the needs")]
    fn a_need_is_one_that_is_looked_for() {
        let _ = Skip::because("fuze", "");
    }

    #[test]
    fn what_may_be_skipped() {
        assert!(settings(false, "").allow("fuse"));
        assert!(!settings(true, "").allow("fuse"));
        assert!(!settings(true, "root,fuse2").allow("fuse"));
        assert!(settings(true, "root, fuse").allow("fuse"));
        assert!(settings(true, "").allow(INAPPLICABLE));
    }

    #[test]
    fn a_skip_is_written_down_and_fails_where_it_may_not_be() {
        let directory = crate::temp::scratch();
        let file = directory.path().join("skips");
        let mut settings = settings(true, "root");
        settings.file = Some(file.clone());
        let allowed = Skip::because("root", "in\ntwo lines");
        assert_eq!(allowed.record_in(&settings, "a_test"), Ok(()));
        let message = Skip::because("fuse", "no device").record_in(&settings, "another");
        assert!(message.unwrap_err().contains("no device (fuse)"));
        let lines = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<Vec<&str>> = lines.lines().map(|l| l.split('\t').collect()).collect();
        assert_eq!(lines[0][1..], ["root", "in two lines"]);
        assert!(lines[0][0].ends_with(" a_test"));
        assert_eq!(lines[1][1..], ["fuse", "no device"]);
    }

    #[test]
    fn the_running_test_has_its_name() {
        let name = running_test();
        assert_eq!(name, "skip::tests::the_running_test_has_its_name");
    }
}
