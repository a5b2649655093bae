//! The hash of a file's contents.

use sha2::{Digest as _, Sha256};
use std::fmt;

/// The SHA-256 of a file's contents, displayed as `sha256sum` does.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl Digest {
    /// The digest of the concatenated parts.
    pub(crate) fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Digest {
        let mut hashing = Hashing::default();
        parts.into_iter().for_each(|part| hashing.update(part));
        hashing.finish()
    }
}

/// An incremental hash of a file's bytes, with zeros for holes.
#[derive(Clone, Default)]
pub(crate) struct Hashing {
    hasher: Sha256,
    at: u64,
}

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

impl Hashing {
    /// The number of bytes hashed so far.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Hashes the next bytes.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.at += bytes.len() as u64;
    }

    /// Hashes some of the zeros of a hole that ends at `end`.
    pub(crate) fn update_zeros(&mut self, end: u64) {
        let left = end.saturating_sub(self.at);
        let count = usize::try_from(left).unwrap_or(usize::MAX);
        self.update(&ZEROS[..count.min(ZEROS.len())]);
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(self.hasher.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_hashed_as_zeros() {
        // Miri takes minutes to hash the larger one.
        let length: u32 = if cfg!(miri) { 2_000 } else { 200_000 };
        let mut hashing = Hashing::default();
        hashing.update(b"abc");
        while hashing.at() < length.into() {
            hashing.update_zeros(length.into());
        }
        hashing.update(b"d");
        let mut whole = vec![0; length as usize];
        whole[..3].copy_from_slice(b"abc");
        whole.push(b'd');
        assert_eq!(hashing.finish(), Digest::of([whole.as_slice()]));
    }

    #[test]
    fn a_digest_is_displayed_as_by_sha256sum() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of([]).to_string(), empty);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of([b"ab".as_slice(), b"c"]).to_string(), abc);
    }
}
