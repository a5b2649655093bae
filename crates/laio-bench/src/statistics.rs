//! Statistics that are robust against a few disturbed rounds.

/// The median and the spread of a number of rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// The interquartile range as a fraction of the median. 0 for a single round.
    pub spread: f64,
}

impl Summary {
    /// Computes the summary of rounds in any order.
    ///
    /// # Panics
    /// If there are none.
    pub fn of(rounds: &[f64]) -> Summary {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let median = quantile(&sorted, 0.5);
        let range = quantile(&sorted, 0.75) - quantile(&sorted, 0.25);
        Summary {
            median,
            spread: if median == 0.0 { 0.0 } else { range / median },
        }
    }
}

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
    pub fn of(rounds: &[f64]) -> Option<Quartiles> {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        (!sorted.is_empty()).then(|| Quartiles {
            low: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            high: quantile(&sorted, 0.75),
        })
    }

    /// Computes the quartiles of the ratios of corresponding rounds; see [`ratio`].
    pub fn of_ratios(rounds: &[f64], reference: &[f64]) -> Option<Quartiles> {
        let pairs = rounds.iter().zip(reference);
        let quotients: Vec<f64> = pairs.map(|(round, reference)| round / reference).collect();
        Quartiles::of(&quotients)
    }
}

/// Returns the median of the ratios of corresponding rounds. A disturbance affects both sides of a round, so
/// this is more stable than the ratio of the medians.
///
/// # Panics
/// If there are no rounds.
pub fn ratio(rounds: &[f64], reference: &[f64]) -> f64 {
    let quotients = Quartiles::of_ratios(rounds, reference);
    quotients.expect("at least one round").median
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

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Summary::of(&[3.0, 1.0, 2.0]).median, 2.0);
        assert_eq!(Summary::of(&[4.0, 1.0, 3.0, 2.0]).median, 2.5);
        let single = Summary::of(&[7.0]);
        assert_eq!((single.median, single.spread), (7.0, 0.0));
    }

    #[test]
    fn the_spread_is_the_middle_half() {
        let summary = Summary::of(&[5.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!((summary.median, summary.spread), (3.0, 2.0 / 3.0));
        assert_eq!(Summary::of(&[2.0; 9]).spread, 0.0);
        assert_eq!(Summary::of(&[0.0; 3]).spread, 0.0);
    }

    #[test]
    fn quartiles_bound_the_middle_half() {
        let found = Quartiles::of(&[5.0, 1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((found.low, found.median, found.high), (2.0, 3.0, 4.0));
        assert_eq!(Quartiles::of(&[]), None);
    }

    #[test]
    fn one_wild_round_moves_nothing() {
        let calm = Summary::of(&[10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0]);
        let disturbed = Summary::of(&[10.0, 10.0, 900.0, 10.0, 10.0, 10.0, 10.0]);
        assert_eq!(calm, disturbed);
    }

    #[test]
    fn what_disturbs_both_leaves_the_ratio() {
        // The second and third round took three times as long for both.
        let ratio = ratio(&[20.0, 60.0, 60.0, 20.0], &[10.0, 30.0, 30.0, 10.0]);
        assert_eq!(ratio, 2.0);
    }
}
