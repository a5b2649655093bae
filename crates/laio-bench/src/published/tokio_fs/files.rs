//! The files of `laio bench tokio`.

use crate::content::{Content, Random};
use crate::error::{Error, While};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

pub(super) struct Files {
    /// Of [`BIG`] bytes, cached.
    pub(super) big: PathBuf,
    /// Of [`PAGE`] bytes each.
    pub(super) small: Vec<PathBuf>,
    /// Ranges of it are read cold.
    pub(super) cold: PathBuf,
    pub(super) ranges: usize,
}

pub(super) const PAGE: usize = 4096;
pub(super) const BIG: usize = 4 << 20;
/// The length of a range, and of the gap behind it.
pub(super) const RANGE: usize = 64 << 10;
/// The ranges that are read, with the scale 1.
pub(super) const RANGES: f64 = 2048.0;
const SMALL: usize = 64;

impl Files {
    pub(super) fn make(directory: &Path, scale: f64) -> Result<Files, Error> {
        let at = |name: &str| directory.join(name);
        let files = Files {
            big: at("big"),
            small: (0..SMALL)
                .map(|index| at(&format!("small{index}")))
                .collect(),
            cold: at("cold"),
            ranges: ((RANGES * scale) as usize).max(2),
        };
        files.write().doing("cannot make files")?;
        Ok(files)
    }

    fn write(&self) -> io::Result<()> {
        for small in &self.small {
            std::fs::write(small, filled(PAGE))?;
        }
        std::fs::write(&self.big, filled(BIG))?;
        std::fs::write(&self.cold, filled(2 * RANGE * self.ranges))
    }

    /// Returns the ranges of the cold file in random order, the same for all.
    pub(super) fn scattered(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<_> = (0..self.ranges).map(|index| range(2 * index)).collect();
        let mut random = Random::new(1);
        for index in (1..ranges.len()).rev() {
            ranges.swap(index, random.below(index as u64 + 1) as usize);
        }
        ranges
    }
}

/// Returns the n-th range of a file that is all ranges.
pub(super) fn range(number: usize) -> Range<u64> {
    let start = (number * RANGE) as u64;
    start..start + RANGE as u64
}

/// Fails unless these are the bytes at the offset. Compares the first ones only, as a program that times reads should
/// not spend its time with comparisons.
pub(super) fn check(bytes: &[u8], length: usize, offset: u64) -> io::Result<()> {
    let is_short = bytes.len() != length;
    if is_short
        || Content::from_name("tokio")
            .differs(offset, &bytes[..8])
            .is_some()
    {
        Err(io::Error::other("it read other bytes than the file has"))
    } else {
        Ok(())
    }
}

pub(super) fn filled(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Content::from_name("tokio").fill(0, &mut bytes);
    bytes
}
