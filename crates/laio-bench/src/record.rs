//! The results of a benchmark, as saved in JSON: the values of every round, and the machine and settings.

use crate::error::{Error, While};
use crate::machine::Machine;
use crate::statistics::Quartiles;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// One run of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The subcommand of `laio bench`.
    pub benchmark: String,
    /// The version of laio.
    pub version: String,
    /// The start of the run, in seconds since 1970.
    pub began: u64,
    /// The machine.
    pub machine: Machine,
    /// The settings.
    pub settings: BTreeMap<String, String>,
    /// Notes for the reader: what was left out, and why.
    pub notes: Vec<String>,
    /// The results.
    pub cells: Vec<Cell>,
}

/// The result of one subject in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The workload's name.
    pub workload: String,
    /// The state of the page cache.
    pub cache: Cache,
    /// The position on the axis of a plot: clients, or calls in flight; `None` without such an axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
    /// The subject's name.
    #[serde(rename = "contestant")]
    pub subject: String,
    /// Its command line.
    pub command: Vec<String>,
    /// The reason why it was left out, if it was; it has no results then.
    pub left_out: Option<String>,
    /// Whether each result was compared with the expected one.
    pub verified: bool,
    /// By name, with the unit at the end: `wall_s`, `cpu_s`.
    pub measured: BTreeMap<String, Measured>,
}

/// A case in which subjects are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The workload's name.
    pub workload: String,
    /// The state of the page cache.
    pub cache: Cache,
    /// The position on the axis of a plot.
    pub at: Option<f64>,
}

impl Case {
    /// Returns a case without an axis.
    pub fn new(workload: &str, cache: Cache) -> Case {
        Case {
            workload: workload.to_owned(),
            cache,
            at: None,
        }
    }

    /// Returns the case at this position on the axis.
    pub fn at(mut self, at: usize) -> Case {
        self.at = Some(at as f64);
        self
    }
}

impl Cell {
    /// Returns the result of a subject: the rounds of each quantity, or the reason why it was left out.
    pub(crate) fn new<N: Into<String>>(
        case: &Case,
        subject: &str,
        rounds: Result<BTreeMap<N, Vec<f64>>, String>,
    ) -> Cell {
        let (rounds, left_out) = match rounds {
            Ok(rounds) => (rounds, None),
            Err(reason) => (BTreeMap::new(), Some(reason)),
        };
        let measured = rounds.into_iter();
        Cell {
            workload: case.workload.clone(),
            cache: case.cache,
            at: case.at,
            subject: subject.to_owned(),
            command: Vec::new(),
            verified: left_out.is_none(),
            left_out,
            measured: measured
                .filter_map(|(name, rounds)| Some((name.into(), Measured::from_rounds(rounds)?)))
                .collect(),
        }
    }

    /// Returns the case of the cell.
    pub fn case(&self) -> Case {
        Case {
            workload: self.workload.clone(),
            cache: self.cache,
            at: self.at,
        }
    }
}

/// The state of the page cache before a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// The system's caches were dropped before each round.
    Cold,
    /// All files were read before.
    Warm,
}

impl Cache {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Cache::Cold => "cold",
            Cache::Warm => "warm",
        }
    }
}

/// The values of one quantity in all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Median of the rounds.
    pub median: f64,
    /// The first quartile.
    pub low_quartile: f64,
    /// The third quartile.
    pub high_quartile: f64,
    /// The values, in order; in round N all subjects took turns.
    pub rounds: Vec<f64>,
}

impl Measured {
    /// Returns `None` without rounds.
    pub fn from_rounds(rounds: Vec<f64>) -> Option<Measured> {
        let quartiles = Quartiles::from_rounds(&rounds)?;
        Some(Measured {
            median: quartiles.median,
            low_quartile: quartiles.low,
            high_quartile: quartiles.high,
            rounds,
        })
    }
}

impl Record {
    /// Returns the record of a benchmark that starts now.
    pub fn begin(benchmark: &str, machine: Machine) -> Record {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Record {
            benchmark: benchmark.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            began: now.map_or(0, |since| since.as_secs()),
            machine,
            settings: BTreeMap::new(),
            notes: Vec::new(),
            cells: Vec::new(),
        }
    }

    /// Adds a note, unless it was added before.
    pub fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns the cell of one subject in one case.
    pub fn cell(&self, case: &Case, subject: &str) -> Option<&Cell> {
        let mut cells = self.cells.iter();
        cells.find(|cell| cell.subject == subject && cell.case() == *case)
    }

    /// Returns the cases, in the order in which they were measured.
    pub fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for cell in &self.cells {
            let case = cell.case();
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        cases
    }

    /// Returns the subjects, in the order in which they were measured.
    pub fn subjects(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !names.contains(&cell.subject.as_str()) {
                names.push(&cell.subject);
            }
        }
        names
    }

    /// Returns the median of one quantity.
    pub fn median(&self, case: &Case, subject: &str, quantity: &str) -> Option<f64> {
        let measured = self.cell(case, subject)?.measured.get(quantity)?;
        Some(measured.median)
    }

    /// Returns the ratios of one quantity of two subjects in their cases, for each round.
    pub fn ratio(
        &self,
        over: (&Case, &str),
        under: (&Case, &str),
        quantity: &str,
    ) -> Option<Quartiles> {
        let rounds = |(case, subject): (&Case, &str)| {
            let measured = self.cell(case, subject)?.measured.get(quantity)?;
            Some(&measured.rounds)
        };
        Quartiles::of_ratios(rounds(over)?, rounds(under)?)
    }

    /// Returns the record as JSON.
    pub fn json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.expect("numbers and names have a form in JSON") + "\n"
    }
}

/// Reads a saved record.
///
/// # Errors
/// If the file cannot be read, or is not a record.
pub fn load(path: &Path) -> Result<Record, Error> {
    let doing = || format!("cannot read {}", path.display());
    let text = std::fs::read_to_string(path).doing(doing())?;
    let record = serde_json::from_str(&text).map_err(std::io::Error::other);
    record.doing(doing())
}

/// Writes a file atomically.
///
/// # Errors
/// If the file cannot be written; its previous contents stay.
pub fn save(path: &Path, contents: &str) -> Result<(), Error> {
    let doing = || format!("cannot write {}", path.display());
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory).doing(doing())?;
    let mut file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(directory)
        .doing(doing())?;
    std::io::Write::write_all(&mut file, contents.as_bytes()).doing(doing())?;
    file.persist(path).doing(doing())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_can_be_read_again() {
        let machine = Machine::with(&std::env::temp_dir()).unwrap();
        let mut record = Record::begin("cp", machine);
        record.note("one".to_owned());
        record.note("one".to_owned());
        let rounds = [("wall_s", vec![3.0, 1.0, 2.0])].into();
        let case = Case::new("depth 2, 4 KiB", Cache::Cold);
        record.cells.push(Cell::new(&case, "cp", Ok(rounds)));
        let again: Record = serde_json::from_str(&record.json()).unwrap();
        assert_eq!(again, record);
        assert_eq!(again.notes, ["one"]);
        assert_eq!(again.cells[0].measured["wall_s"].median, 2.0);
    }

    #[test]
    fn results_are_saved_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/result.json");
        save(&path, "one").unwrap();
        save(&path, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1
        );
        assert!(save(Path::new("/proc/no/such"), "").is_err());
    }
}
