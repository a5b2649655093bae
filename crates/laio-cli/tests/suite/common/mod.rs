//! What a command has said, and how it ended.

use std::process::Output;

pub(crate) fn text(output: &[u8]) -> &str {
    std::str::from_utf8(output).expect("text")
}

#[track_caller]
pub(crate) fn succeeded(output: &Output) {
    let (status, words) = (output.status, text(&output.stderr));
    assert!(status.success(), "{status}: {words}");
}
