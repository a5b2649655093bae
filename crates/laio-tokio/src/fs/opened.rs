//! An open file that is closed without waiting.

use crate::proactor;
use laio::ops::OpenFile;
use std::ops::Deref;

/// An open file. Dropping it closes it, in the background on a network or FUSE file system, which may answer
/// late ([`laio::Proactor::close`]).
pub(super) struct Opened(Option<OpenFile>);

impl From<OpenFile> for Opened {
    fn from(file: OpenFile) -> Opened {
        Opened(Some(file))
    }
}

impl Deref for Opened {
    type Target = OpenFile;

    fn deref(&self) -> &OpenFile {
        self.0.as_ref().expect("it is taken when dropped")
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let (Some(file), Ok(proactor)) = (self.0.take(), proactor()) {
            proactor.close(file);
        }
    }
}
