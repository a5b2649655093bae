//! Tests that cannot run here say why, and can be made to fail instead.

use std::fmt;

/// Why something cannot be tested on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip(String);

impl Skip {
    /// A skip with its reason, in words that tell the reader what to change.
    pub fn because(reason: impl Into<String>) -> Skip {
        Skip(reason.into())
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skip {}

/// The name of the variable that turns every skip into a failure.
///
/// Set it where everything is known to be available: a continuous-integration job that skips
/// silently tests nothing.
pub const NO_SKIP: &str = "LAIO_TEST_NO_SKIP";

/// Unwraps what a test needs, or prints `skipped: REASON` and returns `None`.
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
/// When there is a reason to skip and the environment has `LAIO_TEST_NO_SKIP`.
pub fn or_skip<T>(needed: Result<T, Skip>) -> Option<T> {
    match needed {
        Ok(value) => Some(value),
        Err(skip) => {
            println!("skipped: {skip}");
            assert!(
                std::env::var_os(NO_SKIP).is_none(),
                "{NO_SKIP} is set, but: {skip}"
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_passes_and_a_reason_is_kept() {
        assert_eq!(or_skip(Ok(7)), Some(7));
        let skip = Skip::because("no such device");
        assert_eq!(skip.reason(), "no such device");
        assert_eq!(skip.to_string(), "no such device");
    }
}
