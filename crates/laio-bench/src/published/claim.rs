//! What was published or aimed at, and whether it holds in a record.

use crate::record::{Cache, Case, Record};
use crate::sheet::{Finding, number};

/// A relation between figures.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) claim: &'static str,
    /// What is compared: names of subjects, or of positions on the axis.
    pub(crate) of: &'static [&'static str],
    /// The subject with which they are compared, or the workload in which; empty for none.
    pub(crate) with: &'static str,
    /// Returns the figures that decide, none if they were not measured.
    pub(crate) values: fn(&Claim, &Record) -> Values,
    pub(crate) holds: Holds,
    /// The sentence about today: `{}` stands for the figures, `{of}` and `{with}` for the
    /// subjects, `{why}` for the reason.
    pub(crate) today: &'static str,
    pub(crate) why: Why,
}

/// Figures with their names.
pub(crate) type Values = Vec<(String, f64)>;

/// Whether the claim holds with the figures.
#[derive(Debug)]
pub(crate) enum Holds {
    /// The first decides. Without it there is no conclusion.
    First(fn(f64) -> bool),
    Lowest(fn(f64) -> bool),
    Highest(fn(f64) -> bool),
    Of(fn(&[f64]) -> bool),
}

/// The reason that follows the figures.
#[derive(Debug)]
pub(crate) enum Why {
    /// The sentence about today contains the reason.
    None,
    /// The first text if the claim holds, the second if it does not.
    Either(&'static str, &'static str),
    /// The sentence if the claim holds, and otherwise what follows from the record.
    Unless(&'static str, fn(&Claim, &Record) -> String),
    Of(fn(&Claim, &Record, &[f64]) -> String),
}

impl Claim {
    pub(crate) fn finding(&self, record: &Record) -> Finding {
        let mut values = (self.values)(self, record);
        if matches!(self.holds, Holds::First(_))
            && values.first().is_some_and(|value| value.0 != self.of[0])
        {
            values.clear();
        }
        let numbers: Vec<f64> = values.iter().map(|value| value.1).collect();
        let found = (!values.is_empty()).then(|| {
            let words: Vec<_> = values
                .iter()
                .map(|(name, value)| format!("{} ({name})", number(*value)))
                .collect();
            let holds = match self.holds {
                Holds::First(holds) => holds(numbers[0]),
                Holds::Lowest(holds) => {
                    holds(numbers.iter().copied().fold(f64::INFINITY, f64::min))
                }
                Holds::Highest(holds) => holds(numbers.iter().copied().fold(0.0, f64::max)),
                Holds::Of(holds) => holds(&numbers),
            };
            let why = match self.why {
                Why::None => String::new(),
                Why::Either(yes, no) => if holds { yes } else { no }.to_owned(),
                Why::Unless(why, _) if holds => why.to_owned(),
                Why::Unless(_, why) => why(self, record),
                Why::Of(why) => why(self, record, &numbers),
            };
            let today = self.today.replace("{of}", &self.of.join(", "));
            let today = today.replace("{with}", self.with);
            let today = today.replace("{}", &words.join(", "));
            (holds, today.replace("{why}", &why))
        });
        Finding::new(self.claim, found)
    }
}

/// Returns the geometric mean; `None` without values.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (logs / values.len() as f64).exp())
}

/// Returns a case with a position on the axis.
pub(crate) fn case(workload: &str, cache: Cache, at: usize) -> Case {
    Case::new(workload, cache).at(at)
}

/// Returns the median of one quantity of each subject.
pub(crate) fn medians(record: &Record, case: &Case, subjects: &[&str], quantity: &str) -> Values {
    named(subjects, |subject| record.median(case, subject, quantity))
}

/// Returns one quantity of each subject relative to another subject's.
pub(crate) fn relative(
    record: &Record,
    quantity: &str,
    case: &Case,
    subjects: &[&str],
    other: &str,
) -> Values {
    named(subjects, |subject| {
        let ratio = record.ratio((case, subject), (case, other), quantity)?;
        Some(ratio.median)
    })
}

/// Returns the value of each subject that has one.
pub(crate) fn named(subjects: &[&str], value: impl Fn(&str) -> Option<f64>) -> Values {
    let value = |subject: &&str| Some(((*subject).to_owned(), value(subject)?));
    subjects.iter().filter_map(value).collect()
}

/// Returns the value of each subject; nothing unless all have one.
pub(crate) fn all_named(subjects: &[&str], value: impl Fn(&str) -> Option<f64>) -> Values {
    let mut values = named(subjects, value);
    if values.len() < subjects.len() {
        values.clear();
    }
    values
}

/// Returns the case in which a subject has the most of a quantity.
pub(crate) fn peak<'a>(
    record: &Record,
    cases: &'a [Case],
    subject: &str,
    quantity: &str,
) -> Option<(&'a Case, f64)> {
    cases
        .iter()
        .filter_map(|case| Some((case, record.median(case, subject, quantity)?)))
        .max_by(|one, other| one.1.total_cmp(&other.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::published::Comparison;
    use crate::record::Cell;
    use crate::strategy::PLAIN;

    /// Returns whether the claim on the gain of threads holds with seconds of these subjects with 1
    /// and 100 requests in flight.
    fn gain_holds(subjects: &[(&str, [f64; 2])]) -> Option<bool> {
        let mut record = Record::begin("", Machine::with(&std::env::temp_dir()).unwrap());
        for (subject, times) in subjects {
            for (at, time) in [1, 100].into_iter().zip(times) {
                let case = case("open-stat-read", Cache::Cold, at);
                let rounds = [("each_us", vec![*time])].into();
                record.cells.push(Cell::new(&case, subject, Ok(rounds)));
            }
        }
        let comparison = Comparison::named("open-stat-read").unwrap();
        comparison.shown.claims[0].finding(&record).holds
    }

    #[test]
    fn a_claim_on_two_subjects_is_open_if_one_was_not_measured() {
        let (threads, plain) = (("threads", [2.0, 1.0]), (PLAIN, [1.0, 1.0]));
        assert_eq!(gain_holds(&[threads, plain]), Some(true));
        assert_eq!(gain_holds(&[plain]), None);
    }
}
