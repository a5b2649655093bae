//! The names of a file's extended attributes.

use std::ffi::{CStr, CString};

/// The names of the extended attributes to copy.
#[derive(Debug, Default)]
pub(crate) struct AttributeNames(pub(crate) Vec<CString>);

impl AttributeNames {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, name: &CStr) -> bool {
        self.0.iter().any(|known| known.as_c_str() == name)
    }
}
