//! The distributions of popularity and sizes.

use crate::content::Random;
use std::fmt;

/// Zipf: the number of requests for the file of rank r is proportional to r to the power of minus `exponent`.
#[derive(Clone, Debug)]
pub struct Zipf {
    exponent: f64,
    /// For each rank, the fraction of all requests for it or a lower one.
    below: Vec<f64>,
}

impl Zipf {
    /// Returns the distribution over this many files, at least one.
    pub fn new(files: usize, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let weights = (1..=files.max(1)).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        let mut below: Vec<f64> = weights.collect();
        below.iter_mut().for_each(|part| *part /= sum);
        Zipf { exponent, below }
    }

    /// Returns a random rank, from 0.
    pub fn draw(&self, random: &mut Random) -> usize {
        let part = random.unit();
        let rank = self.below.partition_point(|below| *below <= part);
        rank.min(self.below.len() - 1)
    }

    /// Returns the fraction of all requests for a rank.
    pub fn share(&self, rank: usize) -> f64 {
        self.below[rank] - if rank == 0 { 0.0 } else { self.below[rank - 1] }
    }
}

impl fmt::Display for Zipf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "popularity: Zipf, exponent {}, over {} files",
            self.exponent,
            self.below.len()
        )
    }
}

/// The sizes of files on web sites: log-normal, with a Pareto tail (P. Barford, M. Crovella: Generating
/// representative web workloads, 1998).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// The mean of the logarithm of the body's sizes.
    pub mu: f64,
    /// The standard deviation of that logarithm.
    pub sigma: f64,
    /// The fraction of the files in the tail.
    pub tail: f64,
    /// The minimum size in the tail.
    pub least: f64,
    /// The tail's exponent: the fraction of the tail above x is proportional to x to the power of minus this.
    pub alpha: f64,
    /// The maximum size of a file in bytes.
    pub most: f64,
}

impl Sizes {
    /// The published parameters, with a maximum of 32 MiB.
    pub const WEB: Sizes = Sizes {
        mu: 9.357,
        sigma: 1.318,
        tail: 0.07,
        least: 133_000.0,
        alpha: 1.1,
        most: 33_554_432.0,
    };

    /// Returns a random size, at least one byte.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let size = if random.unit() < self.tail {
            self.least * (1.0 - random.unit()).powf(-1.0 / self.alpha)
        } else {
            // The body ends where the tail begins.
            (self.mu + self.sigma * random.normal())
                .exp()
                .min(self.least)
        };
        size.clamp(1.0, self.most) as u64
    }

    /// Returns the fraction of the files that are larger.
    pub fn above(&self, size: f64) -> f64 {
        if size >= self.most {
            return 0.0;
        }
        let tail = if size < self.least {
            1.0
        } else {
            (self.least / size).powf(self.alpha)
        };
        let body = if size < self.least {
            normal_above((size.ln() - self.mu) / self.sigma)
        } else {
            0.0
        };
        self.tail * tail + (1.0 - self.tail) * body
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sizes: log-normal (mu {}, sigma {}), {} % of them Pareto (alpha {}, from {} bytes), at most {} bytes",
            self.mu,
            self.sigma,
            (self.tail * 100.0).round(),
            self.alpha,
            self.least,
            self.most
        )
    }
}

/// Returns the fraction of a standard normal distribution above x, to 7 digits (Abramowitz and Stegun,
/// 26.2.17).
fn normal_above(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let terms = [
        0.319_381_530,
        -0.356_563_782,
        1.781_477_937,
        -1.821_255_978,
        1.330_274_429,
    ];
    let polynomial = terms.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    let above = (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial;
    if x >= 0.0 { above } else { 1.0 - above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rank_is_the_most_popular() {
        let zipf = Zipf::new(100, 1.0);
        let mut counts = [0; 100];
        let mut random = Random::new(5);
        for _ in 0..20_000 {
            counts[zipf.draw(&mut random)] += 1;
        }
        let expected = 20_000.0 * zipf.share(0);
        assert!(
            (f64::from(counts[0]) / expected - 1.0).abs() < 0.1,
            "{} of {expected}",
            counts[0]
        );
        assert!(counts[0] > counts[9] && counts[9] > counts[99]);
        assert!(((0..100).map(|rank| zipf.share(rank)).sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn sizes_follow_what_is_stated() {
        let mut random = Random::new(3);
        let sizes: Vec<u64> = (0..50_000).map(|_| Sizes::WEB.draw(&mut random)).collect();
        for limit in [1000.0, 11_000.0, 100_000.0, 500_000.0] {
            let found = sizes.iter().filter(|size| **size as f64 > limit).count() as f64 / 50_000.0;
            let stated = Sizes::WEB.above(limit);
            assert!(
                (found - stated).abs() < 0.01,
                "{found} and {stated} above {limit}"
            );
        }
        assert!((normal_above(1.0) - 0.158_655_25).abs() < 1e-6);
    }

    #[test]
    fn the_same_seed_gives_the_same_sizes() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [(); 4].map(|()| Sizes::WEB.draw(&mut random))
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
