//! The files on which calls are measured.

use super::cache::Cache;
use super::{Row, Settings};
use crate::error::{Error, While};
use crate::info::probe::Directory;
use laio::Place;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A temporary directory and the files in it.
#[derive(Debug)]
pub(super) struct Workspace {
    directory: Directory,
    /// Removed when dropped.
    own: TempDir,
    /// A small file that stays in the page cache.
    path: PathBuf,
    /// One of 4 KiB.
    page: PathBuf,
    cold: Option<Cold>,
}

#[derive(Debug)]
struct Cold {
    file: File,
    cache: Cache,
}

/// The size of the small file, which all cached rows read.
const CACHED: usize = 256 << 10;
/// The number of bytes written to the large file at a time.
const PIECE: usize = 1 << 20;

impl Workspace {
    pub(super) fn prepare(settings: &Settings) -> Result<Workspace, Error> {
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
        // Reads of a page under writeback could block.
        file.sync_all().doing("cannot write a file")?;
        let page = own.path().join("page");
        std::fs::write(&page, [1; 4096]).doing("cannot write a file")?;
        Ok(Workspace {
            directory,
            own,
            path,
            page,
            cold: None,
        })
    }

    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the name of the small file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the file of 4 KiB.
    pub(super) fn page(&self) -> &Path {
        &self.page
    }

    /// Opens the small file.
    pub(super) fn file(&self) -> Result<OwnedFd, Error> {
        let file = File::options().read(true).write(true).open(&self.path);
        Ok(file.doing("cannot open a file")?.into())
    }

    /// Creates or opens the file of the cold reads, once. Returns the reason if cold reads are impossible.
    pub(super) fn prepare_cold(&mut self, settings: &Settings) -> Result<Option<String>, Error> {
        if self.cold.is_some() {
            return Ok(None);
        }
        let (file, place) = match &settings.file {
            Some(path) => {
                let shown = path.display();
                let file = File::open(path).doing(format_args!("cannot open {shown}"))?;
                let place = Directory::probe(path).doing(format_args!("cannot probe {shown}"))?;
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

    /// Creates an unnamed file, which the kernel removes even if the program crashes.
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

    /// Returns the file of the cold reads.
    pub(super) fn cold_file(&self) -> Result<OwnedFd, Error> {
        let cold = self.cold.as_ref().expect("prepared before the row");
        Ok(cold
            .file
            .try_clone()
            .doing("cannot use the file of the cold reads")?
            .into())
    }

    /// Prepares a block of calls: drops the pages of the file before cold reads.
    pub(super) fn before_block(&mut self, row: &Row) {
        if let Some(cold) = &mut self.cold
            && row.is_cold()
        {
            cold.cache.drop_pages(&cold.file);
        }
    }

    /// Returns notes about the files for the reader of the results.
    pub(super) fn notes(&self) -> Vec<String> {
        self.cold
            .iter()
            .flat_map(|cold| cold.cache.notes())
            .collect()
    }
}

/// Returns the directory `named`, or the first usual one that is on a disk.
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
        .doing("no writable directory for files; name a --directory")
}
