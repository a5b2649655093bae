//! The times that [`super::File::set_times`] sets.

use laio::ops::{OpenFile, SetTimes};
use std::time::SystemTime;

/// Times of a file to set; those that are not set stay as they are.
#[derive(Clone, Debug, Default)]
#[must_use = "must be applied to a file via `File::set_times` to have any effect"]
pub struct FileTimes {
    accessed: Option<SystemTime>,
    modified: Option<SystemTime>,
}

impl FileTimes {
    /// Sets no time.
    pub fn new() -> FileTimes {
        FileTimes::default()
    }

    /// Sets the time of the last access.
    pub fn set_accessed(mut self, t: SystemTime) -> FileTimes {
        self.accessed = Some(t);
        self
    }

    /// Sets the time of the last modification.
    pub fn set_modified(mut self, t: SystemTime) -> FileTimes {
        self.modified = Some(t);
        self
    }

    pub(super) fn set(&self, file: OpenFile) -> SetTimes<OpenFile> {
        let [accessed, modified] = [self.accessed, self.modified].map(|time| time.map(Into::into));
        SetTimes::new(file, accessed, modified)
    }
}
