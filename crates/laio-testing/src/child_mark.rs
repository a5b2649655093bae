//! Whether this process is a child that [`run`](crate::child::run) has started, and for which test.

/// Marks a child process; its value identifies the body.
pub(crate) const CHILD: &str = "LAIO_TEST_CHILD";

/// Whether this process is a child of [`run`](crate::child::run).
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Returns the test for which this process was started, if it is a child.
pub(crate) fn test_of_child() -> Option<String> {
    let wanted = std::env::var(CHILD).ok()?;
    wanted.split(' ').next().map(str::to_owned)
}
