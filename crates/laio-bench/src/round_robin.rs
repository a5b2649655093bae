//! Measures subjects in turns, so that other load on the machine affects all alike.

use crate::error::Error;
use crate::record::{Cache, Cell, Measured};
use crate::stop::Stop;
use std::collections::BTreeMap;

/// The results of one subject's turn, by name, with the unit at the end.
pub(crate) type Figures = Vec<(&'static str, f64)>;

/// The subjects and the case of a comparison.
pub(crate) struct RoundRobin<'a> {
    /// The workload's name.
    pub(crate) workload: &'a str,
    pub(crate) cache: Cache,
    /// The subjects, in order, each with its position on the axis.
    pub(crate) subjects: &'a [(Option<f64>, &'a str)],
    pub(crate) rounds: u32,
    pub(crate) stop: &'a Stop,
}

impl RoundRobin<'_> {
    /// Calls `one` with the index of the subject and the round, for each turn. A subject that fails is left
    /// out from then on, with the reason.
    pub(crate) fn run(
        &self,
        one: &mut dyn FnMut(usize, u32) -> Result<Figures, String>,
    ) -> Result<Vec<Cell>, Error> {
        let count = self.subjects.len();
        let mut series: Vec<BTreeMap<String, Vec<f64>>> = vec![BTreeMap::new(); count];
        let mut left_out: Vec<Option<String>> = vec![None; count];
        for round in 0..self.rounds {
            for turn in 0..count {
                self.stop.check()?;
                let index = (turn + round as usize) % count;
                if left_out[index].is_some() {
                    continue;
                }
                match one(index, round) {
                    Ok(figures) => {
                        for (name, value) in figures {
                            series[index]
                                .entry(name.to_owned())
                                .or_default()
                                .push(value);
                        }
                    }
                    Err(reason) => left_out[index] = Some(reason),
                }
            }
        }
        // The failure may be a result of the request to stop.
        self.stop.check()?;
        let cells = series.into_iter().zip(left_out).enumerate();
        Ok(cells
            .map(|(index, (series, left_out))| self.cell(index, series, left_out))
            .collect())
    }

    fn cell(
        &self,
        index: usize,
        series: BTreeMap<String, Vec<f64>>,
        left_out: Option<String>,
    ) -> Cell {
        let measured = series
            .into_iter()
            .filter_map(|(name, rounds)| Some((name, Measured::of(rounds)?)));
        Cell {
            workload: self.workload.to_owned(),
            cache: self.cache,
            at: self.subjects[index].0,
            subject: self.subjects[index].1.to_owned(),
            command: Vec::new(),
            verified: left_out.is_none(),
            measured: if left_out.is_none() {
                measured.collect()
            } else {
                BTreeMap::new()
            },
            left_out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Case;

    #[test]
    fn each_has_its_turns_and_who_fails_is_left_out() {
        let round_robin = RoundRobin {
            workload: "work",
            cache: Cache::Warm,
            subjects: &[(None, "one"), (None, "two"), (Some(10.0), "three")],
            rounds: 3,
            stop: &Stop::new(),
        };
        let mut order = Vec::new();
        let cells = round_robin.run(&mut |index, round| {
            order.push(index);
            match (index, round) {
                (1, 1) => Err("broken".to_owned()),
                _ => Ok(vec![("wall_s", f64::from(round))]),
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
            Ok(Vec::new())
        });
        assert!(ended.is_err());
        assert_eq!(count, 1);
    }
}
