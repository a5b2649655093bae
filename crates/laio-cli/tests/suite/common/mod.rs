//! Helpers of several tests: the output of a command, and running servers.

pub(crate) mod server;

use std::process::Output;

/// Returns the output as text.
pub(crate) fn text(output: &[u8]) -> &str {
    std::str::from_utf8(output).expect("text")
}

/// Asserts that the command succeeded; shows its messages otherwise.
#[track_caller]
pub(crate) fn succeeded(output: &Output) {
    let (status, messages) = (output.status, text(&output.stderr));
    assert!(status.success(), "{status}: {messages}");
}
