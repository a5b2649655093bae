//! The contents of generated files: every byte follows from the file's name and the byte's offset.
//!
//! So a program that fetches or copies a file can check it without a reference copy. The bytes look random,
//! so no storage or network layer can skip, deduplicate or compress them.

/// The contents of one file, of any length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    seed: u64,
}

const WORD: usize = 8;

impl Content {
    /// Returns the contents of the file with this name.
    pub fn from_name(name: &str) -> Content {
        // FNV-1a: short, and the same on every machine and in every version.
        let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Content { seed }
    }

    /// Returns the eight bytes at offset `8 * index`.
    fn word(self, index: u64) -> [u8; WORD] {
        mix(self.seed.wrapping_add(index.wrapping_mul(GOLDEN))).to_le_bytes()
    }

    /// Fills a buffer with the contents at `offset`.
    pub fn fill(self, offset: u64, buffer: &mut [u8]) {
        let (head, words) = self.split(offset, buffer.len());
        let (first, rest) = buffer.split_at_mut(head);
        self.part(offset, first);
        for (index, chunk) in (words..).zip(rest.chunks_mut(WORD)) {
            let length = chunk.len();
            chunk.copy_from_slice(&self.word(index)[..length]);
        }
    }

    /// Returns the first offset at which bytes read at `offset` differ from the contents.
    pub fn differs(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let (head, words) = self.split(offset, bytes.len());
        let (first, rest) = bytes.split_at(head);
        let mut expected = [0; WORD];
        self.part(offset, &mut expected[..head]);
        let differing =
            |ours: &[u8], theirs: &[u8]| ours.iter().zip(theirs).position(|(a, b)| a != b);
        if let Some(at) = differing(&expected[..head], first) {
            return Some(offset + at as u64);
        }
        for (number, chunk) in rest.chunks(WORD).enumerate() {
            let word = self.word(words + number as u64);
            if word[..chunk.len()] != *chunk {
                let at = differing(&word, chunk).expect("they differ");
                return Some(offset + (head + number * WORD + at) as u64);
            }
        }
        None
    }

    /// Returns the number of bytes before the first whole word, and that word's index.
    fn split(self, offset: u64, length: usize) -> (usize, u64) {
        let head = (WORD - (offset % WORD as u64) as usize) % WORD;
        (head.min(length), offset.div_ceil(WORD as u64))
    }

    /// Returns the tail of a word that begins before `offset`.
    fn part(self, offset: u64, buffer: &mut [u8]) {
        let within = (offset % WORD as u64) as usize;
        let word = self.word(offset / WORD as u64);
        let length = buffer.len();
        buffer.copy_from_slice(&word[within..within + length]);
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64.
pub(crate) fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A random number generator that returns the same numbers for the same seed, on every machine and in every
/// version.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Returns a generator with this seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Returns a random word.
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Returns a number of at least 0 and below 1.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number below a bound, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a normally distributed number, with mean 0 and deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_part_of_the_whole() {
        let content = Content::from_name("dir0001/file0042.bin");
        let mut whole = vec![0; 100];
        content.fill(0, &mut whole);
        for start in 0..whole.len() {
            for end in start..whole.len() {
                let mut piece = vec![0; end - start];
                content.fill(start as u64, &mut piece);
                assert_eq!(piece, whole[start..end], "{start}..{end}");
                assert_eq!(
                    content.differs(start as u64, &piece),
                    None,
                    "{start}..{end}"
                );
            }
        }
    }

    #[test]
    fn a_wrong_byte_is_found_where_it_is() {
        let content = Content::from_name("a");
        let mut bytes = vec![0; 64];
        for offset in [0, 3, 8, 1 << 40] {
            for wrong in 0..bytes.len() {
                content.fill(offset, &mut bytes);
                bytes[wrong] ^= 1;
                assert_eq!(content.differs(offset, &bytes), Some(offset + wrong as u64));
            }
        }
    }

    #[test]
    fn contents_are_the_same_for_ever() {
        let mut bytes = [0; 8];
        Content::from_name("index.html").fill(0, &mut bytes);
        assert_eq!(bytes, Content::from_name("index.html").word(0));
        assert_ne!(
            Content::from_name("index.html").word(0),
            Content::from_name("index.htm").word(0)
        );
        assert_eq!(Random::new(1).word(), 0x910a_2dec_8902_5cc1);
    }

    #[test]
    fn random_numbers_stay_in_bounds() {
        let mut random = Random::new(7);
        let mut sum = 0.0;
        for _ in 0..10_000 {
            assert!((0.0..1.0).contains(&random.unit()));
            assert!(random.below(3) < 3);
            sum += random.normal();
        }
        assert!((sum / 10_000.0).abs() < 0.05, "{sum}");
    }
}
