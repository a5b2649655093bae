//! The files that are measured on.

use super::cache::Cache;
use super::{Row, Settings};
use crate::error::{Error, While};
use laio::Place;
use laio::probe::Directory;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The directory and the files in it.
#[derive(Debug)]
pub(super) struct Ground {
    directory: Directory,
    /// Removed in the end.
    own: TempDir,
    /// A small file that stays in the cache.
    path: PathBuf,
    cold: Option<Cold>,
}

#[derive(Debug)]
struct Cold {
    file: File,
    cache: Cache,
}

/// Bytes of the small file: all that the cached rows read.
const CACHED: usize = 256 << 10;
/// Bytes written to the large file at a time.
const PIECE: usize = 1 << 20;

impl Ground {
    pub(super) fn prepare(settings: &Settings) -> Result<Ground, Error> {
        let directory = choose_directory(settings.directory.as_deref())?;
        let shown = directory.path.display();
        let own = tempfile::Builder::new()
            .prefix("laio-bench-")
            .tempdir_in(&directory.path);
        let own = own.doing(format_args!("cannot make a directory in {shown}"))?;
        let path = own.path().join("cached");
        let mut file = File::create(&path).doing("cannot make a file")?;
        file.write_all(&vec![1; CACHED])
            .doing("cannot write a file")?;
        // A page that is being written back would make some reads wait.
        file.sync_all().doing("cannot write a file")?;
        Ok(Ground {
            directory,
            own,
            path,
            cold: None,
        })
    }

    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The small file's name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The small file, open.
    pub(super) fn file(&self) -> Result<OwnedFd, Error> {
        let file = File::options().read(true).write(true).open(&self.path);
        Ok(file.doing("cannot open a file")?.into())
    }

    /// Makes or opens the file of the cold reads, once. A reason why nothing can be cold, if so.
    pub(super) fn prepare_cold(&mut self, settings: &Settings) -> Result<Option<String>, Error> {
        if self.cold.is_some() {
            return Ok(None);
        }
        let (file, place) = match &settings.file {
            Some(path) => {
                let shown = path.display();
                let file = File::open(path).doing(format_args!("cannot open {shown}"))?;
                let place = Directory::probe(path).doing(format_args!("cannot look at {shown}"))?;
                (file, place)
            }
            None => {
                if self.directory.place == Place::Memory {
                    let shown = self.directory.path.display();
                    return Ok(Some(format!(
                        "{shown} is in memory; name a --directory on disk"
                    )));
                }
                (self.make_cold(settings.file_size)?, self.directory.clone())
            }
        };
        if place.place == Place::Memory {
            return Ok(Some("the file is in memory".to_owned()));
        }
        let cache = Cache::new(&file, settings.drop_caches).doing("cannot prepare cold reads")?;
        self.cold = Some(Cold { file, cache });
        Ok(None)
    }

    /// A file without a name, so that it is gone in the end whatever happens.
    fn make_cold(&self, size: u64) -> Result<File, Error> {
        let shown = self.directory.path.display();
        let doing = format_args!("cannot make a file of {size} bytes in {shown}").to_string();
        let mut file = tempfile::tempfile_in(self.own.path()).doing(&doing)?;
        // Not zeros, which some storage does not store.
        let mut state = 1u64;
        let mut piece = vec![0; PIECE];
        let mut left = size;
        while left > 0 {
            for word in piece.chunks_exact_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                word.copy_from_slice(&state.to_ne_bytes());
            }
            let now = left.min(PIECE as u64);
            file.write_all(&piece[..now as usize]).doing(&doing)?;
            left -= now;
        }
        file.sync_all().doing(&doing)?;
        Ok(file)
    }

    /// The file of the cold reads.
    pub(super) fn cold_file(&self) -> Result<OwnedFd, Error> {
        let cold = self.cold.as_ref().expect("prepared before the row");
        Ok(cold
            .file
            .try_clone()
            .doing("cannot use the file of the cold reads")?
            .into())
    }

    /// What has to be done before a block of calls: cold reads need a cold file.
    pub(super) fn before_block(&mut self, row: &Row) {
        if let Some(cold) = &mut self.cold
            && row.is_cold()
        {
            cold.cache.drop_pages(&cold.file);
        }
    }

    /// What the reader must know of the files.
    pub(super) fn notes(&self) -> Vec<String> {
        self.cold
            .iter()
            .flat_map(|cold| cold.cache.notes())
            .collect()
    }
}

/// The one that was named, or the first usual one on a disk.
pub(crate) fn choose_directory(named: Option<&Path>) -> Result<Directory, Error> {
    if let Some(path) = named {
        return Directory::probe(path).doing(format_args!("cannot use {}", path.display()));
    }
    let usual = [std::env::temp_dir(), "/var/tmp".into(), ".".into()];
    let usual = usual.iter().filter_map(|path| Directory::probe(path).ok());
    let usual: Vec<_> = usual
        .filter(|directory| directory.writable.is_ok())
        .collect();
    let on_disk = usual
        .iter()
        .find(|directory| directory.place == Place::Local);
    let chosen = on_disk.or_else(|| usual.first()).cloned();
    let nothing = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    chosen
        .ok_or_else(nothing)
        .doing("no directory to make files in; name a --directory")
}
