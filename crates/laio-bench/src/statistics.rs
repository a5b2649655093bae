//! Statistics that a few disturbed rounds do not move.

/// The middle and the spread of a number of rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// The interquartile range as a part of the median: half of the rounds lie within it. 0 for a single
    /// round.
    pub spread: f64,
}

impl Summary {
    /// Of any number of rounds, in any order.
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
    /// A quarter of the rounds lies below.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// A quarter of the rounds lies above.
    pub high: f64,
}

impl Quartiles {
    /// Of any number of rounds, in any order; `None` of none.
    pub fn of(rounds: &[f64]) -> Option<Quartiles> {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        (!sorted.is_empty()).then(|| Quartiles {
            low: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            high: quantile(&sorted, 0.75),
        })
    }

    /// Of the quotients of corresponding rounds; see [`ratio`].
    pub fn of_ratios(rounds: &[f64], reference: &[f64]) -> Option<Quartiles> {
        let pairs = rounds.iter().zip(reference);
        let quotients: Vec<f64> = pairs.map(|(round, reference)| round / reference).collect();
        Quartiles::of(&quotients)
    }
}

/// The median of the quotients of corresponding rounds. What disturbs a round disturbs both, so this is
/// steadier than the quotient of the medians.
///
/// # Panics
/// If there are no rounds.
pub fn ratio(rounds: &[f64], reference: &[f64]) -> f64 {
    let quotients = Quartiles::of_ratios(rounds, reference);
    quotients.expect("at least one round").median
}

/// The value below which a part of the sorted values lies, linear between neighbours.
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
        // The second and third round were three times as slow for both.
        let ratio = ratio(&[20.0, 60.0, 60.0, 20.0], &[10.0, 30.0, 30.0, 10.0]);
        assert_eq!(ratio, 2.0);
    }
}
