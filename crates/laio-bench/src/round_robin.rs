//! Measures subjects in turns, so that other load on the machine affects all alike.

use crate::error::Error;
use crate::record::{Cache, Case, Cell};
use crate::stop::Stop;
use std::collections::BTreeMap;

/// The results of one subject's turn, by name, with the unit at the end; or the reason why it is left out.
pub(crate) type Outcome = Result<Vec<(&'static str, f64)>, String>;

/// The subjects and the case of a comparison.
pub(crate) struct RoundRobin<'a> {
    /// The workload's name.
    pub(crate) workload: &'a str,
    pub(crate) cache: Cache,
    /// The subjects, in order, each with its position on the axis.
    pub(crate) subjects: &'a [(Option<usize>, &'a str)],
    pub(crate) rounds: u32,
    pub(crate) stop: &'a Stop,
}

impl RoundRobin<'_> {
    /// Calls `one` with the index of the subject and the round, for each turn. A subject that fails is left
    /// out from then on, with the reason; an error ends all.
    pub(crate) fn run(
        &self,
        one: &mut dyn FnMut(usize, u32) -> Result<Outcome, Error>,
    ) -> Result<Vec<Cell>, Error> {
        let count = self.subjects.len();
        let mut results = vec![Ok(BTreeMap::<&str, Vec<f64>>::new()); count];
        for round in 0..self.rounds {
            for turn in 0..count {
                self.stop.check()?;
                let index = (turn + round as usize) % count;
                let Ok(rounds) = &mut results[index] else {
                    continue;
                };
                match one(index, round)? {
                    Ok(figures) => {
                        for (name, value) in figures {
                            rounds.entry(name).or_default().push(value);
                        }
                    }
                    Err(reason) => results[index] = Err(reason),
                }
            }
        }
        // The failure may be a result of the request to stop.
        self.stop.check()?;
        let cells = self.subjects.iter().zip(results);
        Ok(cells
            .map(|((at, subject), rounds)| {
                let mut case = Case::new(self.workload, self.cache);
                case.at = at.map(|at| at as f64);
                Cell::new(&case, subject, rounds)
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_turns_and_who_fails_is_left_out() {
        let round_robin = RoundRobin {
            workload: "work",
            cache: Cache::Warm,
            subjects: &[(None, "one"), (None, "two"), (Some(10), "three")],
            rounds: 3,
            stop: &Stop::new(),
        };
        let mut order = Vec::new();
        let cells = round_robin.run(&mut |index, round| {
            order.push(index);
            match (index, round) {
                (1, 1) => Ok(Err("broken".to_owned())),
                _ => Ok(Ok(vec![("wall_s", f64::from(round))])),
            }
        });
        let cells = cells.unwrap();
        assert_eq!(order, [0, 1, 2, 1, 2, 0, 2, 0]);
        assert_eq!(cells[0].measured["wall_s"].rounds, [0.0, 1.0, 2.0]);
        assert_eq!(cells[1].left_out.as_deref(), Some("broken"));
        assert!(cells[1].measured.is_empty() && !cells[1].verified);
        assert_eq!(cells[2].case(), Case::new("work", Cache::Warm).at(10));
    }

    #[test]
    fn who_is_asked_to_stop_stops() {
        let stop = Stop::new();
        let round_robin = RoundRobin {
            workload: "work",
            cache: Cache::Warm,
            subjects: &[(None, "one")],
            rounds: 3,
            stop: &stop,
        };
        let mut count = 0;
        let ended = round_robin.run(&mut |_, _| {
            count += 1;
            stop.stop();
            Ok(Ok(Vec::new()))
        });
        assert!(ended.is_err());
        assert_eq!(count, 1);
    }
}
