//! The presentation of a benchmark: tables, plots, and whether the published claims hold today.

mod html;

pub(crate) use html::escaped;

use crate::record::Record;
use crate::text::columns;

/// The presentation of one benchmark.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// The title.
    pub title: String,
    /// The machine, the settings and the notes.
    pub about: Vec<String>,
    /// Today's figures next to the published ones.
    pub tables: Vec<Table>,
    /// Plots.
    pub pictures: Vec<Picture>,
    /// The conclusions.
    pub findings: Vec<Finding>,
}

/// A table; its first column contains names.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The title, with units.
    pub title: String,
    /// The names of the columns.
    pub head: Vec<String>,
    /// Each line has as many cells as the head.
    pub lines: Vec<Vec<String>>,
    /// A note for the reader.
    pub foot: String,
}

/// A plot.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The name of its file, without the extension.
    pub name: String,
    /// The plot as SVG.
    pub svg: String,
}

/// A published claim, and today's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The published claim, or the aim.
    pub claim: String,
    /// Whether it holds today; `None` if it was not measured.
    pub holds: Option<bool>,
    /// The figures, and an explanation.
    pub today: String,
}

impl Finding {
    /// Sets `holds` and `today` from the result, if it was measured.
    pub fn new(claim: &str, found: Option<(bool, String)>) -> Finding {
        let (holds, today) = match found {
            Some((holds, today)) => (Some(holds), today),
            None => (None, "not measured in this run".to_owned()),
        };
        Finding {
            claim: claim.to_owned(),
            holds,
            today,
        }
    }

    pub(crate) fn class(&self) -> &'static str {
        match self.holds {
            Some(true) => "yes",
            Some(false) => "no",
            None => "open",
        }
    }

    pub(crate) fn word(&self) -> &'static str {
        match self.holds {
            Some(true) => "holds",
            Some(false) => "does not hold",
            None => "open",
        }
    }
}

impl Sheet {
    /// Adds the machine, the settings and the notes of a record.
    pub fn from_record(record: &Record, title: &str) -> Sheet {
        let mut about = vec![record.machine.line()];
        let settings = record.settings.iter();
        about.extend(settings.map(|(name, what)| format!("{name}: {what}")));
        about.extend(record.notes.iter().map(|note| format!("note: {note}")));
        about.extend(busy(record));
        let mut left_out: Vec<String> = Vec::new();
        for cell in &record.cells {
            if let Some(reason) = &cell.left_out {
                let line = format!("left out: {}, {reason}", cell.subject);
                if !left_out.contains(&line) {
                    left_out.push(line);
                }
            }
        }
        about.extend(left_out);
        Sheet {
            title: title.to_owned(),
            about,
            ..Sheet::default()
        }
    }

    /// Returns the presentation as text.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for line in &self.about {
            text.push_str(&format!("{line}\n"));
        }
        for table in &self.tables {
            text.push_str(&format!("\n{}\n{}", table.title, table.text()));
        }
        if !self.findings.is_empty() {
            text.push('\n');
        }
        for finding in &self.findings {
            text.push_str(&format!(
                "{}: {}\n  today: {}\n",
                finding.word(),
                finding.claim,
                finding.today
            ));
        }
        text
    }
}

impl Table {
    fn text(&self) -> String {
        let lines: Vec<_> = std::iter::once(&self.head)
            .chain(&self.lines)
            .cloned()
            .collect();
        let mut text = columns(&[0], &lines);
        if !self.foot.is_empty() {
            text.push_str(&format!("{}\n", self.foot));
        }
        text
    }
}

/// The fraction of the processors that other programs may use without making the figures unreliable.
const QUIET: f64 = 0.1;

/// Returns a note if other programs used the processors, which makes the figures unreliable.
pub(crate) fn busy(record: &Record) -> Option<String> {
    let (machine, name) = (&record.machine, &record.benchmark);
    let (busy, processors) = (machine.busy?, machine.processors);
    (busy > QUIET * processors as f64).then(|| {
        format!("{name}: {busy:.1} of {processors} processors were busy with other work when it began, so its figures are unsteady")
    })
}

/// Returns the caption of a plot.
pub(crate) fn caption(record: &Record) -> String {
    let machine = &record.machine;
    let rounds = match record.settings.get("rounds").map_or("", String::as_str) {
        "1" => "one round".to_owned(),
        rounds => format!("medians of {rounds} rounds and the middle half"),
    };
    let (kernel, processors) = (&machine.kernel, machine.processors);
    let file_system = &machine.file_system;
    format!("{kernel}, {processors} CPUs, {file_system}; {rounds}")
}

/// Formats a number with three significant digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        large if large >= 100.0 => format!("{value:.0}"),
        some if some >= 10.0 => format!("{value:.1}"),
        few if few >= 1.0 => format!("{value:.2}"),
        small if small >= 0.1 => format!("{value:.3}"),
        small if small >= 0.01 => format!("{value:.4}"),
        _ => format!("{value:.5}"),
    }
}

/// Formats the number, or a dash if there is none.
pub(crate) fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_tells_all() {
        let sheet = Sheet {
            title: "getpid".to_owned(),
            about: vec!["Linux".to_owned()],
            tables: vec![Table {
                title: "seconds".to_owned(),
                head: vec!["way".to_owned(), "s".to_owned()],
                lines: vec![vec!["lazy <1>".to_owned(), number(0.1234)]],
                foot: "2005: others".to_owned(),
            }],
            findings: vec![
                Finding::new("7.6 times", Some((false, "60 times".to_owned()))),
                Finding::new("more", None),
            ],
            ..Sheet::default()
        };
        let text = sheet.text();
        for part in [
            "getpid\nLinux",
            "lazy <1>  0.123",
            "does not hold: 7.6 times\n  today: 60",
            "open: more",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let html = sheet.html("getpid");
        for part in [
            "lazy &lt;1&gt;",
            "<td>0.123",
            "does not hold",
            "id=\"getpid\"",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }

    #[test]
    fn numbers_have_three_digits() {
        let text = [1234.5, 12.345, 1.2345, 0.12345, 0.0, 0.000_123].map(number);
        assert_eq!(text, ["1234", "12.3", "1.23", "0.123", "0", "0.00012"]);
    }
}
