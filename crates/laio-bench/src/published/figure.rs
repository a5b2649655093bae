//! Tables and plots of a record, drawn from declarations.

use super::claim::{Claim, peak};
use crate::plot::{Axis, Bar, Bars, Group, Lines, Scale, Series, Style};
use crate::record::{Cache, Case, Cell, Record};
use crate::sheet::{Picture, Sheet, Table, caption, number};
use crate::statistics::Quartiles;

/// Everything that is shown of a record.
#[derive(Debug)]
pub(crate) struct Presentation {
    /// Published values, which are shown with the measured ones.
    pub(crate) published: &'static [Line],
    pub(crate) sections: &'static [Section],
    pub(crate) claims: &'static [Claim],
}

/// Published values of one subject: each with its position on the axis, 0 without an axis.
#[derive(Debug)]
pub(crate) struct Line {
    /// A measured subject, or a name that begins with the year.
    pub(crate) subject: &'static str,
    /// `None` for every workload.
    pub(crate) workload: Option<&'static str>,
    /// `None` for every state.
    pub(crate) cache: Option<Cache>,
    pub(crate) quantity: &'static str,
    pub(crate) values: &'static [(f64, f64)],
}

/// Cases that are shown in the same tables and plots.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) only: fn(&Case) -> bool,
    /// The title of a group: cases with the same title belong together. `{workload}`, `{cache}` and `{at}` stand
    /// for the parts of a case, here and below.
    pub(crate) group: &'static str,
    /// The name of a case in its group.
    pub(crate) case: &'static str,
    /// For each group.
    pub(crate) figures: &'static [Figure],
    /// A note below the last table.
    pub(crate) foot: &'static str,
}

/// A table or a plot.
#[derive(Debug)]
pub(crate) struct Figure {
    /// `{group}` stands for the title of the group, `{quantity}` for the first quantity, and `{name}` for the name of
    /// the benchmark.
    pub(crate) title: &'static str,
    /// What the lines (of a table), curves, or groups (of bars) are, and what the columns or bars are.
    pub(crate) layout: Layout,
    pub(crate) quantities: &'static [Quantity],
    pub(crate) draw: Draw,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Layout {
    /// The first quantity.
    SubjectsByCase,
    /// The same, transposed.
    CasesBySubject,
    /// Each subject in the case in which it has the most of the first quantity.
    SubjectsByQuantity,
}

#[derive(Debug)]
pub(crate) enum Draw {
    /// With the head of the column of names.
    Table(&'static str),
    Bars(Plot),
    /// Over the positions of the cases.
    Curves(Plot),
}

#[derive(Debug)]
pub(crate) struct Plot {
    /// The name of the file.
    pub(crate) file: &'static str,
    /// The horizontal axis.
    pub(crate) axis: &'static str,
    /// The scale of the values.
    pub(crate) scale: Scale,
    /// For bars, the numbers on the scale.
    pub(crate) ticks: &'static [f64],
    pub(crate) reference: Reference,
    /// Curves that are dashed, like the published ones.
    pub(crate) dashed: fn(&str) -> bool,
}

/// The value that a plot marks with a line.
pub(crate) type Reference = fn(&Record, &[Case]) -> Option<f64>;

/// A quantity of a record, and its name with the unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) shown: Shown,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shown {
    Value,
    /// The middle half of the rounds.
    MiddleHalf,
    /// The position of the case on the axis.
    Position,
    /// Relative to the peak of a subject.
    TimesPeak(&'static str),
    /// Relative to a measured subject. Published values are relative to the published subject, the second.
    Times(&'static str, &'static str),
    /// The same for times, inverted: how many times as fast.
    TimesAsFast(&'static str, &'static str),
}

impl Quantity {
    pub(crate) const fn new(name: &'static str, label: &'static str, shown: Shown) -> Quantity {
        Quantity { name, label, shown }
    }

    pub(crate) const fn value(name: &'static str, label: &'static str) -> Quantity {
        Quantity::new(name, label, Shown::Value)
    }

    /// Returns the subject with which this subject is compared.
    fn reference(&self, subject: &str) -> Option<&'static str> {
        let (Shown::Times(today, then) | Shown::TimesAsFast(today, then)) = self.shown else {
            return None;
        };
        Some(if is_published(subject) { then } else { today })
    }
}

impl Figure {
    pub(crate) const fn table(
        title: &'static str,
        head: &'static str,
        layout: Layout,
        quantities: &'static [Quantity],
    ) -> Figure {
        Figure {
            title,
            layout,
            quantities,
            draw: Draw::Table(head),
        }
    }
}

impl Presentation {
    /// Adds everything to a sheet. `view` is the record, with cases as the sections name them.
    pub(crate) fn show(&self, sheet: &mut Sheet, view: &Record) {
        let shown = self.with_published(view);
        for section in self.sections {
            let tables = sheet.tables.len();
            for (title, mut cases) in groups(&shown, section.group) {
                cases.retain(section.only);
                let group = Cases {
                    record: &shown,
                    title,
                    name: section.case,
                    cases,
                };
                if !group.cases.is_empty() {
                    section
                        .figures
                        .iter()
                        .for_each(|figure| group.draw(figure, sheet));
                }
            }
            if sheet.tables.len() > tables
                && let Some(last) = sheet.tables.last_mut()
            {
                section.foot.clone_into(&mut last.foot);
            }
        }
        sheet.findings = self
            .claims
            .iter()
            .map(|claim| claim.finding(view))
            .collect();
    }

    fn with_published(&self, record: &Record) -> Record {
        let mut shown = record.clone();
        let mut cells = Vec::new();
        let mut workloads: Vec<Case> = Vec::new();
        for case in record.cases() {
            let workload = Case::new(&case.workload, case.cache);
            if !workloads.contains(&workload) {
                workloads.push(workload);
            }
        }
        for workload in workloads {
            for line in self.published.iter().filter(|line| line.is_of(&workload)) {
                for (at, value) in line.values {
                    let mut case = workload.clone();
                    case.at = (*at > 0.0).then_some(*at);
                    let rounds = [(line.quantity, vec![*value])].into();
                    let published = Cell::new(&case, line.subject, Ok(rounds));
                    let mut measured = shown.cells.iter_mut();
                    match measured.find(|cell| cell.subject == line.subject && cell.case() == case)
                    {
                        Some(cell) => cell.measured.extend(published.measured),
                        None => cells.push(published),
                    }
                }
            }
        }
        cells.append(&mut shown.cells);
        shown.cells = cells;
        shown
    }
}

impl Line {
    fn is_of(&self, case: &Case) -> bool {
        let is_workload = self.workload.is_none_or(|name| name == case.workload);
        is_workload && self.cache.is_none_or(|cache| cache == case.cache)
    }
}

/// Whether a name begins with a year, as those of published values.
fn is_published(subject: &str) -> bool {
    let year = subject.split_once(": ").map(|(year, _)| year);
    year.is_some_and(|year| year.len() == 4 && year.parse::<u32>().is_ok())
}

/// Cases that are shown together.
struct Cases<'a> {
    record: &'a Record,
    title: String,
    /// The name of a case, as a template.
    name: &'static str,
    cases: Vec<Case>,
}

/// Returns the cases with each title, in order.
pub(crate) fn groups(record: &Record, title: &str) -> Vec<(String, Vec<Case>)> {
    let mut groups: Vec<(String, Vec<Case>)> = Vec::new();
    for case in record.cases() {
        let title = filled(title, &case);
        match groups.iter_mut().find(|group| group.0 == title) {
            Some(group) => group.1.push(case),
            None => groups.push((title, vec![case])),
        }
    }
    groups
}

/// Replaces the names of the parts of a case.
pub(crate) fn filled(template: &str, case: &Case) -> String {
    let at = case.at.map_or(String::new(), |at| at.to_string());
    template
        .replace("{workload}", &case.workload)
        .replace("{cache}", case.cache.name())
        .replace("{at}", &at)
}

/// Returns the name of a file.
fn slug(name: &str) -> String {
    name.replace(", ", "-")
        .replace([' ', '/'], "-")
        .to_lowercase()
}

/// Lines and columns with a value for each pair; each line and each column has at least one.
struct Grid {
    lines: Vec<String>,
    columns: Vec<String>,
    values: Vec<Vec<Option<(Quartiles, Shown)>>>,
}

impl Cases<'_> {
    fn draw(&self, figure: &Figure, sheet: &mut Sheet) {
        let quantity = &figure.quantities[0];
        let title = self.filled(&figure.title.replace("{quantity}", quantity.label));
        let picture = |file: &str, svg| Picture {
            name: slug(&self.filled(&file.replace("{quantity}", quantity.name))),
            svg,
        };
        let caption = caption(self.record);
        match &figure.draw {
            Draw::Table(head) => sheet.tables.extend(self.grid(figure).table(title, head)),
            Draw::Bars(plot) => {
                let grid = self.grid(figure);
                let bars = Bars {
                    title,
                    caption,
                    x: Axis::new(plot.axis, plot.scale).at(plot.ticks),
                    groups: grid.bars(),
                    series: grid.columns,
                    reference: (plot.reference)(self.record, &self.cases),
                };
                if !bars.groups.is_empty() {
                    sheet.pictures.push(picture(plot.file, bars.svg()));
                }
            }
            Draw::Curves(plot) => {
                let ticks: Vec<f64> = self.cases.iter().filter_map(|case| case.at).collect();
                let lines = Lines {
                    title,
                    caption,
                    x: Axis::new(plot.axis, Scale::Log).at(&ticks),
                    y: Axis::new(quantity.label, plot.scale),
                    series: self.curves(quantity, plot.dashed),
                    reference: (plot.reference)(self.record, &self.cases),
                };
                if !lines.series.is_empty() {
                    sheet.pictures.push(picture(plot.file, lines.svg()));
                }
            }
        }
    }

    fn filled(&self, template: &str) -> String {
        let template = template
            .replace("{group}", &self.title)
            .replace("{name}", &self.record.benchmark);
        filled(&template, &self.cases[0])
    }

    /// Returns the subjects, in the order in which they were measured.
    fn subjects(&self) -> Vec<&str> {
        let mut subjects: Vec<&str> = Vec::new();
        for cell in &self.record.cells {
            let name = cell.subject.as_str();
            if !subjects.contains(&name) && self.cases.contains(&cell.case()) {
                subjects.push(name);
            }
        }
        subjects
    }

    /// Returns the value of a subject, in the case that `case_of` returns for a subject.
    fn value<'a>(
        &self,
        quantity: &Quantity,
        subject: &str,
        case_of: &dyn Fn(&str) -> &'a Case,
    ) -> Option<(Quartiles, Shown)> {
        let case = case_of(subject);
        let value = match (quantity.shown, quantity.reference(subject)) {
            (Shown::Times(..), Some(other)) => {
                let other = (case_of(other), other);
                self.record.ratio((case, subject), other, quantity.name)?
            }
            (Shown::TimesAsFast(..), Some(other)) => {
                let other = (case_of(other), other);
                self.record.ratio(other, (case, subject), quantity.name)?
            }
            (Shown::TimesPeak(other), _) => {
                let peak = |subject| self.record.median(case_of(subject), subject, quantity.name);
                Quartiles::from_rounds(&[peak(subject)? / peak(other)?])?
            }
            (Shown::Position, _) => Quartiles::from_rounds(&[case.at?])?,
            _ => {
                let cell = self.record.cell(case, subject)?;
                Quartiles::from_rounds(&cell.measured.get(quantity.name)?.rounds)?
            }
        };
        Some((value, quantity.shown))
    }

    /// Whether more than published values are known of a case.
    fn is_measured(&self, case: &Case) -> bool {
        let mut cells = self.record.cells.iter();
        cells.any(|cell| !is_published(&cell.subject) && cell.case() == *case)
    }

    fn grid(&self, figure: &Figure) -> Grid {
        let cases = || self.cases.iter().filter(|case| self.is_measured(case));
        let mut subjects = self.subjects();
        if matches!(figure.draw, Draw::Bars(_)) {
            // Next to published times on machines of their time the bars of today would be too short to compare.
            subjects.retain(|name| !is_published(name));
        }
        let names = subjects.iter().map(|name| (*name).to_owned()).collect();
        let first = &figure.quantities[0];
        let (columns, values) = match figure.layout {
            Layout::SubjectsByQuantity => {
                let labels = figure.quantities.iter().map(|one| one.label.to_owned());
                let case_of = |subject: &str| {
                    let peak = peak(self.record, &self.cases, subject, first.name);
                    peak.map_or(&self.cases[0], |(case, _)| case)
                };
                let line = |subject: &&str| {
                    let quantities = figure.quantities.iter();
                    quantities
                        .map(|quantity| self.value(quantity, subject, &case_of))
                        .collect()
                };
                (labels.collect(), subjects.iter().map(line).collect())
            }
            Layout::SubjectsByCase | Layout::CasesBySubject => {
                let labels = cases().map(|case| filled(self.name, case));
                let line = |subject: &&str| {
                    cases()
                        .map(|case| self.value(first, subject, &|_| case))
                        .collect()
                };
                (labels.collect(), subjects.iter().map(line).collect())
            }
        };
        let grid = Grid {
            lines: names,
            columns,
            values,
        };
        let grid = grid.without_empty_lines().transposed();
        let grid = grid.without_empty_lines();
        match figure.layout {
            Layout::CasesBySubject => grid,
            _ => grid.transposed(),
        }
    }

    fn curves(&self, quantity: &Quantity, dashed: fn(&str) -> bool) -> Vec<Series> {
        let curve = |subject: &str| {
            let found: Vec<_> = self
                .cases
                .iter()
                .filter_map(|case| {
                    let (value, _) = self.value(quantity, subject, &|_| case)?;
                    Some((case.at?, value))
                })
                .collect();
            let range = |value: &Quartiles| (value.low, value.high);
            let is_published = is_published(subject);
            Series {
                name: subject.to_owned(),
                points: found
                    .iter()
                    .map(|(at, value)| (*at, value.median))
                    .collect(),
                ranges: if is_published {
                    Vec::new()
                } else {
                    found.iter().map(|(_, value)| range(value)).collect()
                },
                style: if is_published || dashed(subject) {
                    Style::Dashed
                } else {
                    Style::Line
                },
            }
        };
        let subjects = self.subjects().into_iter();
        subjects
            // The reference of ratios is a line of the plot.
            .filter(|subject| quantity.reference(subject) != Some(subject))
            .map(curve)
            .filter(|curve| !curve.points.is_empty())
            .collect()
    }
}

impl Grid {
    fn without_empty_lines(self) -> Grid {
        let lines = self.lines.into_iter().zip(self.values);
        let (lines, values) = lines
            .filter(|(_, values)| values.iter().any(Option::is_some))
            .unzip();
        Grid {
            lines,
            columns: self.columns,
            values,
        }
    }

    fn transposed(self) -> Grid {
        let column = |index: usize| self.values.iter().map(|line| line[index]).collect();
        Grid {
            values: (0..self.columns.len()).map(column).collect(),
            lines: self.columns,
            columns: self.lines,
        }
    }

    fn table(self, title: String, head: &str) -> Option<Table> {
        let text = |value: &Option<(Quartiles, Shown)>| match value {
            None => "-".to_owned(),
            Some((value, Shown::MiddleHalf)) => {
                format!("{} to {}", number(value.low), number(value.high))
            }
            Some((value, Shown::Position)) => value.median.to_string(),
            Some((value, _)) => number(value.median),
        };
        let with_name = |name: String, cells: Vec<String>| [vec![name], cells].concat();
        let lines = self.lines.into_iter().zip(&self.values);
        let lines: Vec<_> = lines
            .map(|(name, values)| with_name(name, values.iter().map(text).collect()))
            .collect();
        (!lines.is_empty()).then(|| Table {
            title,
            head: with_name(head.to_owned(), self.columns),
            lines,
            foot: String::new(),
        })
    }

    fn bars(&self) -> Vec<Group> {
        let bar = |(series, value): (usize, &Option<(Quartiles, Shown)>)| {
            let (value, _) = (*value)?;
            Some(Bar {
                series,
                value: value.median,
                range: (value.low < value.high).then_some((value.low, value.high)),
            })
        };
        let lines = self.lines.iter().zip(&self.values);
        lines
            .map(|(name, values)| Group {
                name: name.clone(),
                bars: values.iter().enumerate().filter_map(bar).collect(),
            })
            .collect()
    }
}
