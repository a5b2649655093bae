//! The I/O scheduler of the device below a directory: lists the available ones, and changes it temporarily.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A device whose scheduler can be changed; dropping it restores the original scheduler.
pub(super) struct Schedulers {
    file: PathBuf,
    own: String,
    all: Vec<String>,
}

impl Schedulers {
    /// Returns the device of a directory, or the reason why its scheduler cannot be changed.
    pub(super) fn from_directory(directory: &Path) -> Result<Schedulers, String> {
        let device = std::fs::metadata(directory)
            .map_err(|error| error.to_string())?
            .dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let block = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        // A partition shares the queue of its disk.
        let candidates = [
            block.join("queue/scheduler"),
            block.join("../queue/scheduler"),
        ];
        let file = candidates.into_iter().find(|file| file.exists());
        let file = file.ok_or("the device has no queue of its own")?;
        let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
        let all: Vec<String> = text
            .split_whitespace()
            .map(|word| word.trim_matches(['[', ']']).to_owned())
            .collect();
        let own = text.split_whitespace().find(|word| word.starts_with('['));
        let own = own
            .ok_or("the device names no scheduler")?
            .trim_matches(['[', ']'])
            .to_owned();
        if all.len() < 2 {
            return Err(format!(
                "the kernel has no scheduler but {own} for this device"
            ));
        }
        if std::fs::write(&file, &own).is_err() {
            return Err("only root may change it".to_owned());
        }
        Ok(Schedulers { file, own, all })
    }

    /// Returns the available schedulers, the original one first.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = vec![self.own.clone()];
        names.extend(self.all.iter().filter(|name| **name != self.own).cloned());
        names
    }

    pub(super) fn choose(&self, name: &str) -> std::io::Result<()> {
        std::fs::write(&self.file, name)
    }
}

impl Drop for Schedulers {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.file, &self.own);
    }
}
