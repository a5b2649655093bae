//! Messages about arguments that are no numbers.

use clap::error::{ContextKind, ContextValue};
use std::error::Error;
use std::num::{IntErrorKind, ParseIntError};

/// Returns the message about a value that should be a number. It says what to write, where the parser of the standard
/// library names only what it met. Returns none for other errors.
pub(crate) fn explained(error: &clap::Error) -> Option<String> {
    let wrong = error.source()?.downcast_ref::<ParseIntError>()?;
    let is_bytes = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.contains("BYTES"),
        _ => false,
    };
    let advice = match wrong.kind() {
        IntErrorKind::Zero => "it must be at least 1",
        IntErrorKind::PosOverflow => "it is too large",
        _ if is_bytes => "write a number of bytes in digits, without a unit, such as 1048576",
        _ => "write a whole number in digits, such as 16",
    };
    let text = error.render().to_string();
    Some(text.replace(&wrong.to_string(), advice))
}
