//! Creating directories with options.

use crate::run;
use laio::ops::{Mkdir, Name, StatPath};
use std::io;
use std::path::Path;

/// A builder for creating directories.
#[derive(Clone, Debug)]
pub struct DirBuilder {
    recursive: bool,
    mode: u32,
}

impl Default for DirBuilder {
    fn default() -> DirBuilder {
        DirBuilder::new()
    }
}

impl DirBuilder {
    /// Creates a new set of options with default mode and without recursion.
    pub fn new() -> DirBuilder {
        DirBuilder {
            recursive: false,
            mode: 0o777,
        }
    }

    /// Whether to create missing parents too, and to accept a directory that exists.
    pub fn recursive(&mut self, recursive: bool) -> &mut DirBuilder {
        self.recursive = recursive;
        self
    }

    /// Sets the mode of new directories, reduced by the umask. The default is 0o777.
    pub fn mode(&mut self, mode: u32) -> &mut DirBuilder {
        self.mode = mode;
        self
    }

    /// Creates the directory.
    ///
    /// # Errors
    /// `AlreadyExists` if the name exists; in recursive mode only if it is not a directory.
    pub async fn create(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        if !self.recursive {
            return self.create_one(path).await;
        }
        // Up to the first directory that exists, then down again.
        let mut missing = Vec::new();
        for ancestor in path.ancestors() {
            if ancestor.as_os_str().is_empty() {
                break;
            }
            match self.create_one(ancestor).await {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(ancestor),
                Err(error) => {
                    if is_dir(ancestor).await {
                        break;
                    } else {
                        return Err(error);
                    }
                }
            }
        }
        for directory in missing.into_iter().rev() {
            if let Err(error) = self.create_one(directory).await {
                // Another process may have just created it.
                if !is_dir(directory).await {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn create_one(&self, path: &Path) -> io::Result<()> {
        run(Mkdir::new(Name::from_path(path)?, self.mode)).await
    }
}

async fn is_dir(path: &Path) -> bool {
    let Ok(name) = Name::from_path(path) else {
        return false;
    };
    matches!(run(StatPath::new(name)).await, Ok(status) if status.is_dir())
}
