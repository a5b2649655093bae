//! A small deterministic random generator (xorshift64*), and a seed that a failing test prints.

use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of the variable that fixes the seed of [`Random::for_test`]; decimal, or hexadecimal after
/// `0x`.
pub const SEED: &str = "LAIO_TEST_SEED";

/// A random generator. The same seed gives the same sequence, everywhere and in every version.
///
/// ```
/// use laio_testing::Random;
///
/// let (mut a, mut b) = (Random::new(1), Random::new(1));
/// assert_eq!(a.bytes(10), b.bytes(10));
/// assert!(a.below(6) < 6);
/// ```
#[derive(Debug)]
pub struct Random {
    state: u64,
    seed: u64,
    announce: bool,
}

impl Random {
    /// Returns a generator with this seed; every value is a valid seed.
    pub fn new(seed: u64) -> Random {
        Random {
            state: spread(seed),
            seed,
            announce: false,
        }
    }

    /// Returns a generator for one test. Its seed is `LAIO_TEST_SEED`, or else new each time; a test that
    /// fails while the generator exists prints it.
    ///
    /// # Panics
    ///
    /// When `LAIO_TEST_SEED` is not a number.
    pub fn for_test() -> Random {
        let seed = match std::env::var(SEED) {
            Ok(text) => {
                parse_seed(&text).unwrap_or_else(|| panic!("{SEED}={text} is not a number"))
            }
            Err(_) => fresh_seed(),
        };
        Random {
            announce: true,
            ..Random::new(seed)
        }
    }

    /// Returns the seed of this generator.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number in `0..bound`.
    ///
    /// # Panics
    ///
    /// When `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "nothing is below 0");
        // The high half of the product: its bias is negligible for the small bounds of tests.
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// Returns a number of the range.
    ///
    /// # Panics
    ///
    /// When the range is empty.
    pub fn between(&mut self, range: Range<usize>) -> usize {
        range.start + self.below(range.end - range.start)
    }

    /// Returns true with probability `times / of`.
    pub fn chance(&mut self, times: usize, of: usize) -> bool {
        self.below(of) < times
    }

    /// Returns one of the choices.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Fills a buffer.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bits = self.bits().to_le_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
    }

    /// Returns `length` random bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.fill(&mut bytes);
        bytes
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if self.announce && std::thread::panicking() {
            eprintln!("the seed of this test: {SEED}={}", self.seed);
        }
    }
}

/// Mixes a seed so that similar seeds give different states, and none gives the state 0, a fixed point.
fn spread(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)).max(1)
}

fn parse_seed(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    // Short enough to type: it is mixed again before use.
    spread(now.as_nanos() as u64 ^ u64::from(std::process::id())) % 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_fixed() {
        let mut random = Random::new(0);
        let first: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        assert_eq!(
            first,
            [
                0x7bbc_b40d_5506_82d0,
                0xde7f_e413_d00c_c9fd,
                0xb3c6_3835_3c66_8c91
            ]
        );
    }

    #[test]
    fn numbers_stay_in_range_and_reach_its_ends() {
        let mut random = Random::new(5);
        let seen: std::collections::BTreeSet<usize> =
            (0..1000).map(|_| random.between(3..7)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
    }

    #[test]
    fn chances_are_about_right() {
        let mut random = Random::new(6);
        let hits = (0..10_000).filter(|_| random.chance(1, 4)).count();
        assert!((2_200..2_800).contains(&hits), "{hits} of 10000");
    }

    #[test]
    fn bytes_of_every_length() {
        for length in 0..20 {
            assert_eq!(Random::new(1).bytes(length).len(), length);
        }
        assert_eq!(Random::new(1).bytes(20)[..7], Random::new(1).bytes(7));
    }

    #[test]
    fn seeds_are_read_in_both_forms() {
        assert_eq!(parse_seed("12"), Some(12));
        assert_eq!(parse_seed("0xff"), Some(255));
        assert_eq!(parse_seed("x"), None);
    }
}
