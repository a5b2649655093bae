//! The results, as a table and as JSON.

use super::Row;
use crate::text::columns;
use serde::Serialize;

/// The result of one variant in one row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// The row's name.
    pub call: String,
    /// The variant's name; `plain` is the plain call, and `bare-ring` io_uring without laio.
    pub backend: String,
    /// Nanoseconds per call: the median of the rounds.
    pub median_ns: f64,
    /// Nanoseconds per call: the mean of all rounds, including disturbed ones, for comparison with tools that
    /// only report a total.
    pub mean_ns: f64,
    /// Time relative to the plain call: the median of the rounds' ratios.
    pub ratio: f64,
    /// The interquartile range of the rounds, as a fraction of the median.
    pub spread: f64,
    /// Time relative to the bare ring, in the rows that it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_ring: Option<f64>,
    /// The fraction of calls that finished inline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<f64>,
    /// The number of rounds measured.
    pub rounds: usize,
}

/// All results.
#[derive(Clone, Debug)]
pub struct Report {
    machine: String,
    notes: Vec<String>,
    measurements: Vec<Measurement>,
}

impl Report {
    pub(super) fn new(machine: String) -> Report {
        Report {
            machine,
            notes: Vec::new(),
            measurements: Vec::new(),
        }
    }

    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    pub(super) fn notes(&mut self, notes: Vec<String>) {
        notes.into_iter().for_each(|note| self.note(note));
    }

    pub(super) fn add(&mut self, measurement: Measurement) {
        self.measurements.push(measurement);
    }

    /// Returns the results, row by row.
    pub fn measurements(&self) -> &[Measurement] {
        &self.measurements
    }

    /// Returns the results as a JSON array of objects.
    pub fn json(&self) -> String {
        let json = serde_json::to_string_pretty(&self.measurements);
        json.expect("numbers and names have a form in JSON") + "\n"
    }

    /// Returns the results as a table.
    pub fn table(&self) -> String {
        let mut text = format!("{}\n\n", self.machine);
        let head = [
            "call", "back end", "ns", "ratio", "spread", "to ring", "inline", "",
        ];
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        let mut call = "";
        for one in &self.measurements {
            let first = call != one.call;
            call = &one.call;
            let what = Row::all().find(|row| first && row.name == call);
            lines.push(vec![
                if first {
                    call.to_owned()
                } else {
                    String::new()
                },
                one.backend.clone(),
                nanoseconds(one.median_ns),
                format!("{:.2}", one.ratio),
                format!("{:.0} %", one.spread * 100.0),
                one.ratio_to_ring
                    .map_or(String::new(), |ratio| format!("{ratio:.2}")),
                one.inline
                    .map_or(String::new(), |part| format!("{:.0} %", part * 100.0)),
                what.map_or(String::new(), |row| row.what.to_owned()),
            ]);
        }
        text.push_str(&columns(&[0, 1, 7], &lines));
        text.push_str(LEGEND);
        for note in &self.notes {
            text.push_str(&format!("Note: {note}.\n"));
        }
        text
    }
}

const LEGEND: &str = "
ns: per call, median of the rounds. ratio: to the plain call, median of the rounds' ratios.
spread: interquartile range over median. to ring: to io_uring with nothing around it.
inline: calls that were done when they returned.
";

fn nanoseconds(number: f64) -> String {
    match number {
        small if small < 1000.0 => format!("{small:.1}"),
        large => format!("{large:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("a machine".into());
        for (backend, median_ns, ratio) in [("plain", 140.0, 1.0), ("lazy", 142.8, 1.02)] {
            report.add(Measurement {
                call: "getpid".into(),
                backend: backend.into(),
                median_ns,
                mean_ns: median_ns,
                ratio,
                spread: 0.01,
                ratio_to_ring: None,
                inline: None,
                rounds: 9,
            });
        }
        report.note("noisy".into());
        report.note("noisy".into());
        report
    }

    #[test]
    fn programs_get_an_array_of_rows() {
        let json: serde_json::Value = serde_json::from_str(&report().json()).unwrap();
        let lazy = &json.as_array().unwrap()[1];
        assert_eq!(lazy["call"], "getpid");
        assert_eq!(lazy["backend"], "lazy");
        assert_eq!(lazy["median_ns"], 142.8);
        assert_eq!(lazy["ratio"], 1.02);
        assert_eq!(lazy["spread"], 0.01);
        assert!(lazy.get("ratio_to_ring").is_none());
    }

    #[test]
    fn people_get_a_table() {
        let table = report().table();
        assert!(table.starts_with("a machine\n\ncall"), "{table}");
        assert!(
            table.contains("\n        lazy      142.8   1.02"),
            "{table}"
        );
        assert_eq!(table.matches("noisy").count(), 1);
    }
}
