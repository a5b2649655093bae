//! Directory trees of generated files, for copying or serving.

use crate::content::Content;
use crate::error::{Error, While};
use crate::stop::Stop;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The shape of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Two directories in each directory, `depth` levels of them, with the same number of files in each: the
    /// trees of `workload.py`, which "Implementing cp -r with Linux AIO" (2014) copied.
    Binary {
        /// The number of levels, including the root.
        depth: u32,
        /// The number of files in each directory.
        files: u64,
        /// The size of each file in bytes.
        size: u64,
    },
    /// Files in one directory.
    Flat {
        /// The number of files.
        files: u64,
        /// The size of each file in bytes.
        size: u64,
    },
    /// One sparse file, like a disk image.
    Sparse {
        /// The size in bytes, including holes.
        size: u64,
        /// The number of data extents, at equal distances.
        pieces: u64,
        /// The size of each extent in bytes.
        piece: u64,
    },
}

/// The maximum number of levels of a binary tree, which bounds the number of directories.
pub const DEPTH_MAX: u32 = 20;

const BUFFER: usize = 1 << 20;

impl Shape {
    /// Returns the number of directories, including the root.
    pub fn directories(self) -> u64 {
        match self {
            Shape::Binary { depth, .. } => (1 << depth.min(DEPTH_MAX)) - 1,
            Shape::Flat { .. } | Shape::Sparse { .. } => 1,
        }
    }

    /// Returns the number of files.
    pub fn files(self) -> u64 {
        match self {
            Shape::Binary { files, .. } => files * self.directories(),
            Shape::Flat { files, .. } => files,
            Shape::Sparse { .. } => 1,
        }
    }

    /// Returns the size of its files in bytes, without holes.
    pub fn bytes(self) -> u64 {
        match self {
            Shape::Binary { size, .. } | Shape::Flat { size, .. } => size * self.files(),
            Shape::Sparse { pieces, piece, .. } => pieces * piece,
        }
    }

    /// Creates the tree in a new directory. The contents of each file follow from its name below that
    /// directory (see [`Content`]).
    ///
    /// # Errors
    /// If a file cannot be created, or `stop` is requested; the created files remain.
    pub fn make(self, at: &Path, stop: &Stop) -> Result<(), Error> {
        match self {
            Shape::Binary { depth, files, size } => {
                let mut level = vec![String::new()];
                for deeper in 1..=depth.clamp(1, DEPTH_MAX) {
                    let mut next = Vec::new();
                    for name in level {
                        fill_directory(at, &name, files, size, stop)?;
                        if deeper < depth {
                            next.extend([format!("{name}a/"), format!("{name}b/")]);
                        }
                    }
                    level = next;
                }
                Ok(())
            }
            Shape::Flat { files, size } => fill_directory(at, "", files, size, stop),
            Shape::Sparse {
                size,
                pieces,
                piece,
            } => {
                let path = at.join("image");
                std::fs::create_dir(at).doing(cannot_make(at))?;
                make_sparse(&path, size, pieces, piece, stop).doing(cannot_make(&path))
            }
        }
    }
}

fn cannot_make(path: &Path) -> String {
    format!("cannot make {}", path.display())
}

/// Creates a directory, whose name ends in a slash, and its files.
fn fill_directory(at: &Path, name: &str, files: u64, size: u64, stop: &Stop) -> Result<(), Error> {
    let directory = at.join(name);
    std::fs::create_dir(&directory).doing(cannot_make(&directory))?;
    let mut buffer = Vec::new();
    for number in 0..files {
        stop.check()?;
        let file = format!("{name}f{number:05}");
        make_file(
            &at.join(&file),
            Content::from_name(&file),
            size,
            &mut buffer,
        )?;
    }
    Ok(())
}

/// Creates one file; `buffer` is reused.
pub(crate) fn make_file(
    path: &Path,
    content: Content,
    size: u64,
    buffer: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut file = File::create_new(path).doing(cannot_make(path))?;
    let mut offset = 0;
    while offset < size {
        buffer.resize((size - offset).min(BUFFER as u64) as usize, 0);
        content.fill(offset, buffer);
        file.write_all(buffer).doing(cannot_make(path))?;
        offset += buffer.len() as u64;
    }
    Ok(())
}

fn make_sparse(
    path: &PathBuf,
    size: u64,
    pieces: u64,
    piece: u64,
    stop: &Stop,
) -> std::io::Result<()> {
    let mut file = File::create_new(path)?;
    file.set_len(size)?;
    let content = Content::from_name("image");
    let mut buffer = vec![0; piece as usize];
    for number in 0..pieces {
        if stop.is_asked() {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        // Whole pages, or there would be no holes between the extents.
        let offset = (size / pieces.max(1) * number) & !4095;
        content.fill(offset, &mut buffer);
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(&buffer)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn count(directory: &Path) -> (u64, u64) {
        let (mut directories, mut files) = (1, 0);
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                let below = count(&path);
                directories += below.0;
                files += below.1;
            } else {
                files += 1;
            }
        }
        (directories, files)
    }

    #[test]
    fn trees_have_what_they_say() {
        let scratch = tempfile::tempdir().unwrap();
        let binary = Shape::Binary {
            depth: 3,
            files: 2,
            size: 5000,
        };
        let at = scratch.path().join("binary");
        binary.make(&at, &Stop::new()).unwrap();
        assert_eq!(count(&at), (7, 14));
        assert_eq!(
            (binary.directories(), binary.files(), binary.bytes()),
            (7, 14, 70_000)
        );
        let bytes = std::fs::read(at.join("a/b/f00001")).unwrap();
        assert_eq!(bytes.len(), 5000);
        assert_eq!(Content::from_name("a/b/f00001").differs(0, &bytes), None);
        assert!(
            binary.make(&at, &Stop::new()).is_err(),
            "it is there already"
        );
    }

    #[test]
    fn an_image_has_holes() {
        let scratch = tempfile::tempdir().unwrap();
        let at = scratch.path().join("sparse");
        let sparse = Shape::Sparse {
            size: 64 << 20,
            pieces: 4,
            piece: 64 << 10,
        };
        sparse.make(&at, &Stop::new()).unwrap();
        let status = at.join("image").metadata().unwrap();
        assert_eq!(status.size(), 64 << 20);
        assert!(
            status.blocks() * 512 < 8 << 20,
            "{} blocks",
            status.blocks()
        );
    }

    #[test]
    fn making_stops_when_asked() {
        let scratch = tempfile::tempdir().unwrap();
        let stop = Stop::new();
        stop.stop();
        let flat = Shape::Flat { files: 9, size: 1 };
        assert!(flat.make(&scratch.path().join("flat"), &stop).is_err());
    }
}
