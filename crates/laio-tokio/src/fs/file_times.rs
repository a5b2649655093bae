//! The times that [`super::File::set_times`] sets.

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

    pub(super) fn into_std(self) -> std::fs::FileTimes {
        let mut times = std::fs::FileTimes::new();
        if let Some(accessed) = self.accessed {
            times = times.set_accessed(accessed);
        }
        if let Some(modified) = self.modified {
            times = times.set_modified(modified);
        }
        times
    }
}
