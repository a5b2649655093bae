//! Statistics that are robust against a few disturbed rounds.

/// The median and the quartiles of a number of rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    /// The first quartile.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The third quartile.
    pub high: f64,
}

impl Quartiles {
    /// Computes the quartiles of rounds in any order; `None` without rounds.
    pub fn from_rounds(rounds: &[f64]) -> Option<Quartiles> {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        (!sorted.is_empty()).then(|| Quartiles {
            low: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            high: quantile(&sorted, 0.75),
        })
    }

    /// Returns the interquartile range as a fraction of the median. 0 for a single round.
    pub fn spread(&self) -> f64 {
        match self.median {
            0.0 => 0.0,
            median => (self.high - self.low) / median,
        }
    }

    /// Computes the quartiles of the ratios of corresponding rounds. A disturbance affects both sides of a
    /// round, so their median is more stable than the ratio of the medians.
    pub fn of_ratios(rounds: &[f64], reference: &[f64]) -> Option<Quartiles> {
        let pairs = rounds.iter().zip(reference);
        let quotients: Vec<f64> = pairs.map(|(round, reference)| round / reference).collect();
        Quartiles::from_rounds(&quotients)
    }
}

/// Returns a quantile of sorted values, interpolated linearly.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let position = part * (sorted.len() - 1) as f64;
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rounds: &[f64]) -> Quartiles {
        Quartiles::from_rounds(rounds).unwrap()
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(of(&[3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]).median, 2.5);
        let single = of(&[7.0]);
        assert_eq!((single.median, single.spread()), (7.0, 0.0));
        assert_eq!(Quartiles::from_rounds(&[]), None);
    }

    #[test]
    fn quartiles_bound_the_middle_half() {
        let found = of(&[5.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!((found.low, found.median, found.high), (2.0, 3.0, 4.0));
        assert_eq!(found.spread(), 2.0 / 3.0);
        assert_eq!(of(&[2.0; 9]).spread(), 0.0);
        assert_eq!(of(&[0.0; 3]).spread(), 0.0);
    }

    #[test]
    fn one_wild_round_moves_nothing() {
        let calm = of(&[10.0; 7]);
        let disturbed = of(&[10.0, 10.0, 900.0, 10.0, 10.0, 10.0, 10.0]);
        assert_eq!(calm, disturbed);
    }

    #[test]
    fn what_disturbs_both_leaves_the_ratio() {
        // The second and third round took three times as long for both.
        let (own, other) = ([20.0, 60.0, 60.0, 20.0], [10.0, 30.0, 30.0, 10.0]);
        let ratio = Quartiles::of_ratios(&own, &other);
        assert_eq!(ratio.unwrap().median, 2.0);
    }
}
